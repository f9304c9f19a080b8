"""`Protobuf`: keys or values of Protobuf that are decoded into typed columns while they are read."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Self

from monedula._arguments import as_text, truth
from monedula._monedula import ColumnSpec
from monedula.errors import ArgumentError
from monedula.formats._typed import (
    Mode,
    RegistryFraming,
    Typed,
    behaviour_of,
    check_framing,
    check_id_in_header,
    check_subject,
    framing_of_subject,
    is_of_topic,
    option_texts,
    schema_key,
)

_Source = bytes | list[tuple[str, str]]
"""Descriptors, or texts with the names of their files."""


class Protobuf(Typed):
    """Protobuf messages, decoded into a struct column: `Consumer(..., value=Protobuf(schema))`.

    Values become neither Python objects nor a binary column, as with `Json` and `Avro`, and neither `protoc` nor
    Google's package is needed. Fields are matched by number: those that the schema lacks are skipped, and those that a
    message lacks are null or their type's zero. So one schema reads values of older and newer ones.

    A schema is one of

    - the bytes of a `FileDescriptorSet`, as `protoc --include_imports --descriptor_set_out=FILE` writes it, or that
      message itself
    - the text of a `.proto` file, or a dict of several by the names that they are imported by, the last of which has
      the message: `{"common.proto": text, "order.proto": text}`; Google's own, such as that of `Timestamp`, can be left
      out
    - a class that `protoc` has generated, such as `order_pb2.Order`, or a module of them, such as `order_pb2`

    uint32 and uint64 are unsigned columns, an enum is a string (an unknown number its digits), `Timestamp` a timestamp
    in UTC, `Duration` a duration, both in microseconds, a wrapper such as `Int32Value` the value in it, `Any` a struct.
    Each member of a oneof is a field, and at most one of them is not null. Repeated fields and maps are never null. A
    recursive message is refused, unless `recursive.fields.max.depth` limits the depth of its columns.

    Values in Confluent's framing name their schema by an id. If the settings of the consumer or read have
    `schema.registry.url`, unknown schemas are requested there, as with `Avro`. Each must have a message of the same
    name, which the frame names by its index there, and must encode its fields as `schema` does: types may differ if
    they have the same encoding, such as int64 and int32.

    Args:
        schema: the schema, in one of these forms; or `subject`. Without both it is that of the topic's subject, as
            `subject="orders-value"` for values of the topic `orders`.
        message: the full name of the message, as `"shop.Order"`. Not needed for a class, or if the last file of the
            schema declares one message only.
        schemas: for values with a frame, the schemas that they were written with, by their ids or GUIDs in a registry.
            Without them and a registry, any id is accepted, and a frame must name the message by its index or name in
            `schema`. With them, other ids are refused, or requested if there is a registry, and the index is that of
            the message of the same name in the writer's schema.
        framing: how a value names its schema and message: `"bare"` not at all; `"confluent"` by a zero byte and the
            schema's id, or a one and its GUID, before the value or in the header `__value_schema_id` or
            `__key_schema_id`, and then by the message's index in its file; `"apicurio"` by an id as with `Avro`, and
            then by the message's name, or its name in the header `apicurio.protobuf.type`; `"glue"` as AWS Glue's
            serializers do, by the UUID of the schema's version and the message's index, compressed or not. Default
            confluent with `schemas` or `subject`, or if the client's settings have `schema.registry.url`; else bare.
        mode: treatment of records that cannot be decoded. `"fail"` raises `DecodeError`, and the position stays at the
            record. `"null"` keeps the record with nulls in all fields. `"drop"` leaves it out; `metrics()` counts such
            records in `records_dropped`.
        dead_letter: the topic to which such records are written, in place of a mode, as with `Json`.
        flatten: whether the fields are columns of their own, in place of one struct column; only for `value=`.
        options: options of Spark's `from_protobuf` by their names: `emit.default.values` (here `true`: a missing
            field of proto3 is zero, `""` or `false`, unless it is `optional`; with `false` it is null, as in Spark by
            default), `unwrap.primitive.wrapper.types` (here `true`), `enums.as.ints`, `upcast.unsigned.ints`,
            `recursive.fields.max.depth`, `retain.empty.message.types` (here `true`: a message without fields is a
            struct without fields); and `unsigned.as.signed` (of monedula alone): unsigned numbers become signed ones
            of the same bits, as in Spark by default, and are written from int32 and int64 of these bits.
        fields: the fields that become columns, as `["id", "items.price"]`, in this order; all by default. The others
            are skipped.
        subject: a subject of the registry, such as `"orders-value"`, in place of `schema`: the reader's schema is its
            latest version, or `version`, as with `Avro`. Together with `schema`, it only names the context of the ids.
        version: the number of a version of `subject`.
        id_in_header: for writing: whether the schema is named by its GUID in the header `__value_schema_id` or
            `__key_schema_id`, as by Confluent's `HeaderSchemaIdSerializer`, and not by its id before the value. The
            values are bare then. Readers find the GUID there by themselves.

    Raises:
        ArgumentError: if a schema cannot be read, the message is not in it, or arguments contradict each other.

    Examples:
        >>> Protobuf('syntax = "proto3"; message Order { int64 id = 1; optional string customer = 2; }')
        Protobuf(id: int64, customer: utf8)
    """

    _KIND = "PROTOBUF"

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
        id_in_header: bool = False,
    ) -> None:
        behaviour = behaviour_of(mode, dead_letter)
        check_id_in_header(id_in_header, framing)
        texts = option_texts(options)
        check_framing(framing)
        if message is not None and not isinstance(message, str):
            raise ArgumentError.of("message", message, "expected the full name of a message, such as 'shop.Order'")
        message = message and as_text("message", message)
        if subject is not None or version is not None:
            check_subject(subject, version, schema)
            framing = framing_of_subject(framing)
        of_topic = is_of_topic(framing, schema, subject, schemas)
        if of_topic:
            framing = framing_of_subject(framing)
        writers = _writers(schemas, framing)
        framing = framing or ("confluent" if writers else None)
        self._is_of_registry = of_topic or (schema is None and subject is not None)
        descriptors, own = (b"", None) if self._is_of_registry else _source("schema", schema)
        self._arguments: dict[str, Any] = {
            "message": message or own,
            "schemas": schemas and {key: _restorable(f"schemas[{key!r}]", each) for key, each in schemas.items()},
            "framing": framing,
            "mode": mode,
            "dead_letter": dead_letter,
            "flatten": truth("flatten", flatten),
            "options": texts,
            "fields": _fields(fields),
            "subject": subject,
            "version": version,
            "id_in_header": id_in_header,
        }
        self._given = None
        if self._is_of_registry:
            return
        self._given = _restorable("schema", schema)
        spec = ColumnSpec.protobuf(
            descriptors,
            message or own,
            writers,
            framing or "bare",
            behaviour,
            self.flatten,
            list(texts.items()),
            framing not in ("bare", "glue"),
            subject,
            self._arguments["fields"],
        )
        self.spec = self._written_in_header(spec)

    @property
    def source(self) -> bytes | dict[str, str]:
        """Schema: descriptors, or texts by the names of their files."""
        source: bytes | dict[str, str] = self._given
        return source

    def _with_schema(self, text: str, references: list[tuple[str, str]], number: int | None = None) -> Self:
        # Registries give no name to the schema itself, so use the subject's.
        texts = {**dict(references), self._arguments["subject"]: text}
        given = {**self._arguments, "version": None}
        if number is not None:
            given["schemas"] = {number: texts}
        return type(self)(texts, **given)


def _fields(fields: Any) -> tuple[str, ...]:
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not all(isinstance(each, str) for each in fields):
        raise ArgumentError.of("fields", fields, "expected the names of fields, such as ['id', 'items.price']")
    paths = tuple(fields)
    for path in paths:
        if part := next((each for each in paths if each.startswith(f"{path}.")), None):
            raise ArgumentError(f"{part!r} is in {path!r} already; give one of them", argument="fields")
    return paths


def _writers(schemas: Any, framing: object) -> list[tuple[int, bytes | None, _Source]]:
    if schemas is None:
        return []
    if framing == "bare":
        raise ArgumentError.of("framing", framing, "values have no ids", "schemas by id are for `framing='confluent'`")
    if not isinstance(schemas, Mapping):
        raise ArgumentError("expected {id: schema}", argument="schemas")
    if not schemas:
        raise ArgumentError("there are none: no value could be decoded", argument="schemas", value="{}")
    keyed = framing or "confluent"
    return [(*schema_key(key, keyed), _source(f"schemas[{key!r}]", each)[0]) for key, each in schemas.items()]


def _source(name: str, schema: Any) -> tuple[_Source, str | None]:
    """Convert a schema to a `FileDescriptorSet` or to texts, with the name of the message if a class was given."""
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
    """Return the bytes of a `FileDescriptorSet`, unless they are the text of a file."""
    # Descriptors contain lengths and tags, which are control characters.
    if b"{" in given and not any(byte < 0x20 and byte not in b"\t\n\v\f\r" for byte in given):
        raise ArgumentError(
            "these bytes are the text of a .proto file", argument=name, hint="`give it as str, as of read_text()`"
        )
    return given


def _read_descriptors(schema: Any) -> bytes | None:
    """Serialize a `FileDescriptorSet` or `FileDescriptorProto` to the bytes of a set; `None` for other objects."""
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
    source, _ = _source(name, schema)
    return source if isinstance(source, bytes) else dict(source)


def _descriptor_set(file: Any) -> bytes:
    """Serialize a file and all its imports, each after its own imports, as one `FileDescriptorSet`."""
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
