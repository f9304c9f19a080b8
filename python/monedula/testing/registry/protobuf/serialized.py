"""A file as `FileDescriptorProto`, which clients ask for by `format=serialized` in place of the text.

Options, services and extensions are not in it, nor defaults of proto2: readers of messages do without.
"""

import base64
from collections.abc import Iterator

from monedula.testing.registry.protobuf.differences import Types
from monedula.testing.registry.protobuf.model import SCALARS, TYPES, Enum, Field, Message

_LABELS = {"": 1, "optional": 1, "required": 2, "repeated": 3}

# Numbers of fields of descriptors, as `google/protobuf/descriptor.proto` has them.
_MAP_ENTRY, _ALLOW_ALIAS = 7, 2


def serialized(types: Types) -> str | None:
    """The descriptor of a file in base64.

    Returns:
        `None` of editions, whose features would be lost, and if there are types of which only the name is known.
    """
    try:
        return None if types.file.syntax == "editions" else base64.b64encode(_file(types)).decode()
    except LookupError:
        return None


def _file(types: Types) -> bytes:
    file = types.file
    data = _text(1, "default") + _text(2, file.package)
    for name, _ in file.imports:
        data += _text(3, name)
    for place, (_, kind) in enumerate(file.imports):
        if kind in ("public ", "weak "):
            data += _number(10 if kind == "public " else 11, place)
    for message in file.messages:
        data += _bytes(4, _message(message, _joined(file.package, message.name), types))
    for enum in file.enums:
        data += _bytes(5, _enum(enum))
    return data + _text(12, file.syntax if file.syntax == "proto3" else "")


def _message(message: Message, scope: str, types: Types) -> bytes:
    data = _text(1, message.name)
    oneofs = list(dict.fromkeys(field.oneof for field in message.fields if field.oneof))
    # A field of proto3 that is optional is alone in a oneof of its own, behind the others.
    is_proto3 = types.file.syntax == "proto3"
    alone = [field for field in message.fields if is_proto3 and field.label == "optional"]
    places = {name: place for place, name in enumerate(oneofs)}
    for field in message.fields:
        place = len(oneofs) + alone.index(field) if field in alone else places.get(field.oneof)
        data += _bytes(2, _field(field, scope, types, place, is_alone=field in alone))
    for nested in message.messages:
        data += _bytes(3, _message(nested, _joined(scope, nested.name), types))
    for entry in _entries(message, scope, types):
        data += _bytes(3, entry)
    for enum in message.enums:
        data += _bytes(4, _enum(enum))
    for name in [*oneofs, *(f"_{field.name}" for field in alone)]:
        data += _bytes(8, _text(1, name))
    return data


def _entries(message: Message, scope: str, types: Types) -> Iterator[bytes]:
    """What a map is made of: messages of a key and a value."""
    for field in message.fields:
        if field.key:
            key, value = Field("key", 1, field.key), Field("value", 2, field.type)
            data = _text(1, _entry_name(field.name))
            for each in (key, value):
                data += _bytes(2, _field(each, scope, types, None, is_alone=False))
            yield data + _bytes(7, _number(_MAP_ENTRY, 1))


def _field(field: Field, scope: str, types: Types, oneof: int | None, *, is_alone: bool) -> bytes:
    data = _text(1, field.name) + _number(3, field.number) + _number(4, _LABELS[field.label])
    if field.key:
        data += _number(5, _type("message")) + _text(6, f".{scope}.{_entry_name(field.name)}")
    elif field.type in SCALARS:
        data += _number(5, _type(field.type))
    else:
        found = types.find(field.type, scope)
        if found is None:
            raise LookupError(field.type)
        kind = "group" if field.is_group else "enum" if isinstance(found[1], Enum) else "message"
        data += _number(5, _type(kind)) + _text(6, f".{found[0]}")
    if oneof is not None:
        data += _key(9, 0) + _varint(oneof)
    return data + (_number(17, 1) if is_alone else b"")


def _enum(enum: Enum) -> bytes:
    data = _text(1, enum.name)
    for name, number in enum.values:
        data += _bytes(2, _text(1, name) + _key(2, 0) + _varint(number & (2**64 - 1)))
    numbers = [number for _, number in enum.values]
    return data + (_bytes(3, _number(_ALLOW_ALIAS, 1)) if len(set(numbers)) < len(numbers) else b"")


def _entry_name(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _type(name: str) -> int:
    return TYPES.index(name) + 1


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


# The wire


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _number(number: int, value: int) -> bytes:
    return _key(number, 0) + _varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _key(number, 2) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode()) if value else b""
