"""Reads a `FileDescriptorProto` in base64, which clients register in place of a text, and writes its text."""

import base64
import binascii
from collections.abc import Iterator

from monedula.testing.registry.protobuf.model import TYPES, Enum, Field, File, Message, ProtoError

_LABELS = ("optional", "required", "repeated")

Fields = dict[int, list[int | bytes]]


def from_base64(text: str) -> File | None:
    """The file of a descriptor in base64; `None` if the text is no base64 at all.

    Raises:
        ProtoError: it is base64 of something else.
    """
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    try:
        return _file(_fields(data))
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtoError(f"the base64 is that of no FileDescriptorProto: {error}") from None


def _fields(data: bytes) -> Fields:
    """The fields of a message by their numbers, as on the wire."""
    found: Fields = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise IndexError("a number is too long")

    while at < len(data):
        key = varint()
        value: int | bytes
        match key & 7:
            case 0:
                value = varint()
            case 1 | 5 as wire:
                at += 8 if wire == 1 else 4
                value = 0
            case 2:
                length = varint()
                value = data[at : at + length]
                at += length
            case wire:
                raise IndexError(f"a field of wire type {wire}")
        if at > len(data):
            raise IndexError("a field ends too late")
        found.setdefault(key >> 3, []).append(value)
    return found


def _file(fields: Fields) -> File:
    syntax = _text(fields, 12) or "proto2"
    names = list(_texts(fields, 3))
    public, weak = _numbers(fields, 10), _numbers(fields, 11)
    if syntax == "editions":
        raise ProtoError("descriptors of editions are not taken; register the text")
    kinds = ["public " if n in public else "weak " if n in weak else "" for n in range(len(names))]
    file = File(syntax, _text(fields, 2), list(zip(names, kinds, strict=True)))
    file.messages = [_message(each, syntax) for each in _messages(fields, 4)]
    file.enums = [_enum(each) for each in _messages(fields, 5)]
    if not file.messages and not file.enums and not fields.get(1):
        raise ProtoError("the base64 is that of no FileDescriptorProto")
    return file


def _message(fields: Fields, syntax: str) -> Message:
    message = Message(_text(fields, 1))
    entries = {}
    for nested in _messages(fields, 3):
        options = next(iter(_messages(nested, 7)), {})
        if options.get(7) == [1]:
            entries[_text(nested, 1)] = [_field(each, [], syntax) for each in _messages(nested, 2)]
        else:
            message.messages.append(_message(nested, syntax))
    message.enums = [_enum(each) for each in _messages(fields, 4)]
    oneofs = [_text(each, 1) for each in _messages(fields, 8)]
    for each in _messages(fields, 2):
        field = _field(each, oneofs, syntax)
        entry = entries.get(field.type.rpartition(".")[2]) if field.label == "repeated" else None
        if entry is not None and len(entry) == 2:
            field.key, field.type = entry[0].type, entry[1].type
        message.fields.append(field)
    for each in _messages(fields, 9):
        message.reserved.append(f"reserved {_range(each)}")
    for each in _messages(fields, 5):
        message.reserved.append(f"extensions {_range(each)}")
    message.reserved += [f'reserved "{name}"' for name in _texts(fields, 10)]
    return message


def _range(fields: Fields) -> str:
    begin, end = _number(fields, 1), _number(fields, 2) - 1
    last = "max" if end >= 2**29 - 1 else str(end)
    return str(begin) if begin == end else f"{begin} to {last}"


def _field(fields: Fields, oneofs: list[str], syntax: str) -> Field:
    kind = TYPES[_number(fields, 5) - 1]
    if kind == "group":
        raise ProtoError("descriptors with groups are not taken; register the text")
    label = _LABELS[max(_number(fields, 4), 1) - 1]
    is_optional = bool(_number(fields, 17))
    oneof = oneofs[_number(fields, 9)] if fields.get(9) and not is_optional else ""
    if label == "optional" and (oneof or (syntax == "proto3" and not is_optional)):
        label = ""
    name = _text(fields, 6) if kind in ("message", "enum") else kind
    return Field(_text(fields, 1), _number(fields, 3), name, label, "", oneof)


def _enum(fields: Fields) -> Enum:
    values = []
    for each in _messages(fields, 2):
        number = _number(each, 2)
        values.append((_text(each, 1), number - 2**64 if number >= 2**63 else number))
    return Enum(_text(fields, 1), values)


def _messages(fields: Fields, number: int) -> Iterator[Fields]:
    for value in fields.get(number, []):
        if isinstance(value, bytes):
            yield _fields(value)


def _texts(fields: Fields, number: int) -> Iterator[str]:
    for value in fields.get(number, []):
        if isinstance(value, bytes):
            yield value.decode()


def _text(fields: Fields, number: int) -> str:
    return next(_texts(fields, number), "")


def _numbers(fields: Fields, number: int) -> set[int]:
    return {value for value in fields.get(number, []) if isinstance(value, int)}


def _number(fields: Fields, number: int) -> int:
    found = [value for value in fields.get(number, []) if isinstance(value, int)]
    return found[-1] if found else 0


# Text


def text_of(file: File) -> str:
    """The text of a file. Options are left out: they change no value that is written."""
    lines = [f'syntax = "{file.syntax}";']
    if file.package:
        lines.append(f"package {file.package};")
    lines += [f'import {kind}"{name}";' for name, kind in file.imports]
    for message in file.messages:
        lines += _message_lines(message)
    for enum in file.enums:
        lines += _enum_lines(enum)
    return "\n".join(lines)


def _message_lines(message: Message) -> Iterator[str]:
    yield f"message {message.name} {{"
    for each in message.reserved:
        yield f"{each};"
    told: set[str] = set()
    for field in message.fields:
        if not field.oneof:
            yield _field_line(field)
        elif field.oneof not in told:
            told.add(field.oneof)
            yield f"oneof {field.oneof} {{"
            yield from (_field_line(each) for each in message.fields if each.oneof == field.oneof)
            yield "}"
    for nested in message.messages:
        yield from _message_lines(nested)
    for enum in message.enums:
        yield from _enum_lines(enum)
    yield "}"


def _field_line(field: Field) -> str:
    if field.key:
        return f"map<{field.key}, {field.type}> {field.name} = {field.number};"
    label = f"{field.label} " if field.label else ""
    return f"{label}{field.type} {field.name} = {field.number};"


def _enum_lines(enum: Enum) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    numbers = [number for _, number in enum.values]
    if len(set(numbers)) < len(numbers):
        yield "option allow_alias = true;"
    for name, number in enum.values:
        yield f"{name} = {number};"
    yield "}"
