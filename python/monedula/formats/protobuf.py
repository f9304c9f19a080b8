"""`Protobuf`: keys or values of Protobuf that are decoded into typed columns while they are read."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Self

from monedula._monedula import ColumnSpec
from monedula.errors import ArgumentError
from monedula.formats._typed import (
    Mode,
    RegistryFraming,
    Typed,
    behaviour_of,
    check_framing,
    check_subject,
    framing_of_subject,
    option_texts,
    schema_key,
)

_Source = bytes | list[tuple[str, str]]
"""Descriptors, or texts with the names of their files."""


class Protobuf(Typed):
    """Protobuf messages, decoded into a struct column: `Consumer(..., value=Protobuf(schema))`.

    As with `Json` and `Avro`, there is neither a Python object for a value nor a binary column, and neither `protoc`
    nor Google's package is needed. Fields are known by their numbers: those that the schema has not are skipped, and
    those that a message has not are null or their type's zero. So values of older and newer schemas are read by one.

    A schema is one of

    - the bytes of a `FileDescriptorSet`, as `protoc --include_imports --descriptor_set_out=FILE` writes it, or that
      message itself
    - the text of a `.proto` file, or several by the names that they import each other by, the last of which has the
      message: `{"common.proto": text, "order.proto": text}`; Google's own, as of `Timestamp`, need not be given
    - a class that `protoc` has generated, such as `order_pb2.Order`, or a module of them, such as `order_pb2`

    uint32 and uint64 are unsigned columns, an enum is a string (an unknown number its digits), `Timestamp` a
    timestamp in UTC, `Duration` a duration, both in microseconds, a wrapper such as `Int32Value` the value in it,
    `Any` a struct. Of a oneof, each member is a field, of which one at most is not null. Repeated fields and maps are
    never null. A message in itself is refused, unless `recursive.fields.max.depth` says how deep columns go.

    With Confluent's framing, and `schema.registry.url` in the settings of the consumer or read, the schemas that values
    were written with are asked for there, as with `Avro`. Each must have a message of the same name, which the frame
    names by its place there, and its fields must be written as `schema` has them: a type may be another one that is
    written alike, such as int64 for int32.

    Args:
        schema: the schema, in one of these forms; or `subject`.
        message: the full name of the message, as `"shop.Order"`. Not needed for a class, or if the last file of the
            schema declares one message only.
        schemas: for values with a frame, the schemas that they were written with, by their ids or GUIDs in a
            registry. Without it and a registry, any id will do, and a frame must name the message by the number or name
            that it has in `schema`. With it, other ids are refused, or asked for where there is a registry, and the
            number is that of the message of the same name there.
        framing: what stands before a message: `"bare"` is nothing, `"confluent"` a zero byte and the schema's id, or
            a one and its GUID, there or in the header `__value_schema_id` or `__key_schema_id`, and then the number
            of the message in its file; `"apicurio"` an id as with `Avro`, and then the name of the message, or the
            name in the header `apicurio.protobuf.type`; `"glue"` what AWS Glue's serializers write, with the UUID of
            the schema's version and the number of the message, compressed or not. Default confluent with `schemas` or
            `subject`, or if the client's settings have `schema.registry.url`; else bare.
        mode: what becomes of a record that cannot be decoded. `"fail"` raises `DecodeError`, and the position stays
            at the record. `"null"` keeps it with nulls in all fields. `"drop"` leaves it out; `metrics()` counts
            those in `records_dropped`.
        dead_letter: in place of a mode, the topic to which such records are written, as with `Json`.
        flatten: whether the fields are columns of their own, in place of one struct column; only for `value=`.
        options: options of Spark's `from_protobuf` by their names: `emit.default.values` (here `true`: a missing
            field of proto3 is zero, `""` or `false`, unless it is `optional`; with `false` it is null, as in Spark by
            default), `unwrap.primitive.wrapper.types` (here `true`), `enums.as.ints`, `upcast.unsigned.ints`,
            `recursive.fields.max.depth`, `retain.empty.message.types` (here `true`: a message without fields is a
            struct without fields); and `unsigned.as.signed` (of monedula alone): unsigned numbers become signed ones
            of the same bits, as in Spark by default, and are written from int32 and int64 of these bits.
        fields: the fields that become columns, as `["id", "items.price"]`, in this order; all if it is left out. The
            others are skipped.
        subject: a subject of the registry, such as `"orders-value"`, in place of `schema`: the reader's schema is its
            latest version, or `version`, as with `Avro`. Beside `schema` it says the context of the ids of values.
        version: the number of a version of `subject`.

    Raises:
        ArgumentError: if a schema cannot be read, the message is not in it, or arguments contradict each other.

    Examples:
        >>> Protobuf('syntax = "proto3"; message Order { int64 id = 1; optional string customer = 2; }')
        Protobuf(id: int64, customer: utf8)
    """

    _KIND = "PROTOBUF"
    _DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "framing": None,
        "mode": "fail",
        "dead_letter": None,
        "flatten": False,
        "options": {},
        "fields": (),
        "subject": None,
        "version": None,
    }

    def __init__(
        self,
        schema: Any = None,
        *,
        message: str | None = None,
        schemas: Mapping[int, Any] | Mapping[str, Any] | Mapping[int | str, Any] | None = None,
        framing: RegistryFraming | None = None,
        mode: Mode = "fail",
        dead_letter: str | None = None,
        flatten: bool = False,
        options: Mapping[str, str | bool | int] | None = None,
        fields: Sequence[str] = (),
        subject: str | None = None,
        version: int | None = None,
    ) -> None:
        behaviour = behaviour_of(mode, dead_letter)
        texts = option_texts(options)
        check_framing(framing)
        if message is not None and not isinstance(message, str):
            raise ArgumentError.of("message", message, "expected the full name of a message, such as 'shop.Order'")
        if subject is not None or version is not None:
            check_subject(subject, version, schema)
            framing = framing_of_subject(framing)
        writers = _writers(schemas, framing)
        framing = framing or ("confluent" if writers else None)
        self._is_of_registry = schema is None and subject is not None
        descriptors, own = (b"", None) if self._is_of_registry else _source("schema", schema)
        self._arguments: dict[str, Any] = {
            "message": message or own,
            "schemas": schemas and {key: _restorable(f"schemas[{key!r}]", each) for key, each in schemas.items()},
            "framing": framing,
            "mode": mode,
            "dead_letter": dead_letter,
            "flatten": flatten,
            "options": texts,
            "fields": _fields(fields),
            "subject": subject,
            "version": version,
        }
        self._given = None
        if self._is_of_registry:
            return
        self._given = _restorable("schema", schema)
        self.spec = ColumnSpec.protobuf(
            descriptors,
            message or own,
            writers,
            framing or "bare",
            behaviour,
            flatten,
            list(texts.items()),
            framing not in ("bare", "glue"),
            subject,
            self._arguments["fields"],
        )

    @property
    def source(self) -> bytes | dict[str, str]:
        """The schema: descriptors, or texts by the names of their files."""
        source: bytes | dict[str, str] = self._given
        return source

    def _with_schema(self, text: str, references: list[tuple[str, str]], number: int | None = None) -> Self:
        # The schema itself has no name in a registry.
        texts = {**dict(references), self._arguments["subject"]: text}
        given = {**self._arguments, "version": None}
        if number is not None:
            given["schemas"] = {number: texts}
        return type(self)(texts, **given)


def _fields(fields: Any) -> tuple[str, ...]:
    """The paths of the fields that become columns."""
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not all(isinstance(each, str) for each in fields):
        raise ArgumentError.of("fields", fields, "expected the names of fields, such as ['id', 'items.price']")
    paths = tuple(fields)
    for path in paths:
        if part := next((each for each in paths if each.startswith(f"{path}.")), None):
            raise ArgumentError(f"{part!r} is in {path!r} already; give one of them", argument="fields")
    return paths


def _writers(schemas: Any, framing: object) -> list[tuple[int, bytes | None, _Source]]:
    """The writers' schemas by their ids or GUIDs."""
    if schemas is None:
        return []
    if framing == "bare":
        raise ArgumentError.of("framing", framing, "values have no ids", "schemas by id are for `framing='confluent'`")
    if not isinstance(schemas, Mapping):
        raise ArgumentError("expected {id: schema}", argument="schemas")
    if not schemas:
        raise ArgumentError("no value could be decoded without one", argument="schemas", value="{}")
    keyed = framing or "confluent"
    return [(*schema_key(key, keyed), _source(f"schemas[{key!r}]", each)[0]) for key, each in schemas.items()]


def _source(name: str, schema: Any) -> tuple[_Source, str | None]:
    """A schema as a `FileDescriptorSet` or as texts, and the name of the message if it is one's."""
    if schema is None:
        raise ArgumentError("give descriptors, .proto text, a class or module of protoc's, or subject=", argument=name)
    if isinstance(schema, str):
        if not any(sign in schema for sign in "{;"):
            reason = f"is not the text of a .proto file, but {schema[:60]!r}"
            raise ArgumentError(reason, argument=name, hint="`that of a file is Path(...).read_text()`")
        return [("schema.proto", schema)], None
    if isinstance(schema, Mapping):
        for file_name, text in schema.items():
            if not isinstance(file_name, str) or not isinstance(text, str):
                raise ArgumentError(f"expected texts by the names of their files, and not {file_name!r}", argument=name)
        return list(schema.items()), None
    if isinstance(schema, bytes | bytearray | memoryview):
        return _descriptors(name, bytes(schema)), None
    if (read := _read_descriptors(schema)) is not None:
        return read, None
    descriptor = getattr(schema, "DESCRIPTOR", schema)
    file = getattr(descriptor, "file", descriptor)
    if isinstance(getattr(file, "serialized_pb", None), bytes):
        full_name = None if file is descriptor else descriptor.full_name
        return _descriptor_set(file), full_name
    kind, hint = f"{type(schema).__module__}.{type(schema).__name__}".removeprefix("builtins."), None
    if isinstance(schema, PathLike):
        hint = "its read_text() is the text, or its read_bytes() the descriptors"
    raise ArgumentError(
        f"expected descriptors as bytes, .proto text, or a class or module of protoc's, and not {kind}",
        argument=name,
        hint=hint,
    )


def _descriptors(name: str, given: bytes) -> bytes:
    """The bytes of a `FileDescriptorSet`, unless they are the text of a file."""
    # Descriptors have lengths and tags in them, which are no letters.
    if b"{" in given and not any(byte < 0x20 and byte not in b"\t\n\v\f\r" for byte in given):
        raise ArgumentError(
            "these bytes are the text of a .proto file", argument=name, hint="`give it as str, as of read_text()`"
        )
    return given


def _read_descriptors(schema: Any) -> bytes | None:
    """The bytes of a `FileDescriptorSet`, or of one with a `FileDescriptorProto`, if the schema is such a message."""
    if isinstance(schema, type):
        return None
    full_name = getattr(getattr(schema, "DESCRIPTOR", None), "full_name", None)
    if full_name == "google.protobuf.FileDescriptorSet":
        return bytes(schema.SerializeToString())
    if full_name == "google.protobuf.FileDescriptorProto":
        text = bytes(schema.SerializeToString())
        return b"\x0a" + _varint(len(text)) + text
    return None


def _restorable(name: str, schema: Any) -> Any:
    """A schema in a form that can be pickled and given again."""
    source, _ = _source(name, schema)
    return source if isinstance(source, bytes) else dict(source)


def _descriptor_set(file: Any) -> bytes:
    """A file and all that it imports, each behind its own imports, as one `FileDescriptorSet`."""
    texts: dict[str, bytes] = {}

    def add(each: Any) -> None:
        if each.name not in texts:
            for imported in each.dependencies:
                add(imported)
            texts[each.name] = each.serialized_pb

    add(file)
    return b"".join(b"\x0a" + _varint(len(text)) + text for text in texts.values())


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
