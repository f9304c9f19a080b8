"""The reader's schema of Avro or Protobuf for a column of Spark, which travels to the tasks.

It is given, or that of a subject, which the driver asks a registry for.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from monedula.config import RawSettings
from monedula.formats._schemas_by_id import schemas_by_id
from monedula.formats._typed import Mode
from monedula.formats.avro import Avro
from monedula.formats.protobuf import Protobuf
from monedula.spark.options.columns import Options, Source, avro_text, protobuf_source

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class Reader(ABC):
    """The reader's schema of a column, and what is said about it. It is part of what identifies a client."""

    NAME: ClassVar[str]

    schema: str | None = None
    """As the option has it; `None` if a registry has it."""
    subject: str | None = None
    version: int | None = None
    options: Options = ()
    framing: str | None = None
    schemas: str | None = None
    writers: tuple[tuple[int | str | None, Any], ...] | None = None
    """The writers' schemas by their ids, once they are known; those of a list have none."""

    @abstractmethod
    def pinned(self, settings: RawSettings) -> Self:
        """The same with the schema of its subject, or of its file."""

    @abstractmethod
    def narrowed(self, wanted: "DataType | None" = None) -> Self:
        """The same with what a query wants of the schema."""

    @abstractmethod
    def decoder(self, mode: Mode = "fail", flatten: bool = False) -> Avro | Protobuf:
        """The decoder of values."""

    def data_type(self) -> "DataType":
        """The column's type in Spark."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_type

        rows = pa.table(self.narrowed().decoder().spec.decode([]))
        kind: DataType = from_arrow_type(rows.schema.field("value").type, prefer_timestamp_ntz=True)
        return kind

    def _framed(self) -> dict[str, Any]:
        framing = self.framing or (None if self.subject is None else "confluent")
        given: dict[str, Any] = {"framing": framing}
        if self.writers is not None:
            schemas = [(key, dict(each) if isinstance(each, tuple) else each) for key, each in self.writers]
            is_list = any(key is None for key, _ in schemas)
            given["schemas"] = [each for _, each in schemas] if is_list else dict(schemas)
        return given


def _writers(given: str | None, read: Callable[[str], Any]) -> tuple[tuple[int | str | None, Any], ...] | None:
    """The writers' schemas of an option, in a form that is compared and sent to tasks."""
    if given is None:
        return None
    schemas = schemas_by_id(given, read)
    if isinstance(schemas, list):
        return tuple((None, _plain(each)) for each in schemas)
    return tuple((key, _plain(each)) for key, each in schemas.items())


def _plain(schema: Any) -> Any:
    if isinstance(schema, dict) and schema and all(name.endswith(".proto") for name in schema):
        return tuple(schema.items())
    return schema if isinstance(schema, str | bytes | tuple) else json.dumps(schema)


@dataclass(frozen=True)
class AvroReader(Reader):
    """A reader's schema of Avro."""

    NAME = "Avro"

    text: str = ""
    references: tuple[str, ...] = ()

    def pinned(self, settings: RawSettings) -> Self:
        """The same with the schema of its subject, or of its file."""
        self = replace(self, writers=_writers(self.schemas, avro_text))
        if self.schema is not None:
            return replace(self, text=avro_text(self.schema, "schema"))
        if self.subject is None:
            return replace(self, text=Avro(**self._framed()).reader)
        avro = Avro(subject=self.subject, version=self.version, options=dict(self.options)).pinned(settings)
        return replace(self, text=avro.reader, references=avro.references)

    def narrowed(self, wanted: "DataType | None" = None) -> Self:
        """The same with what a query wants of the schema."""
        from monedula.spark.source.avro_schema import narrowed

        return replace(self, text=narrowed(self.text, self.references, wanted), references=())

    def decoder(self, mode: Mode = "fail", flatten: bool = False) -> Avro:
        """The decoder of values."""
        return Avro(
            self.text,
            references=self.references,
            mode=mode,
            flatten=flatten,
            options=dict(self.options),
            subject=self.subject,
            **self._framed(),
        )


_AS_FROM_PROTOBUF = {
    "emit.default.values": "false",
    "unwrap.primitive.wrapper.types": "false",
    "unsigned.as.signed": "true",
    "retain.empty.message.types": "false",
}
"""The defaults of Spark's `from_protobuf`, which has no unsigned types, where ours are others."""


@dataclass(frozen=True)
class ProtobufReader(Reader):
    """A reader's schema of Protobuf."""

    NAME = "Protobuf"

    message: str | None = None
    source: Source = b""
    """Once it is known."""
    fields: tuple[str, ...] = ()
    """The paths of those that a query wants; all if it is empty."""

    def pinned(self, settings: RawSettings) -> Self:
        """The same with the schema of its subject, or of its file."""
        if self.schema is not None:
            source = protobuf_source(self.schema)
        else:
            given = Protobuf(subject=self.subject, version=self.version, message=self.message)
            found = given.pinned(settings).source
            source = found if isinstance(found, bytes) else tuple(found.items())
        return replace(self, source=source, writers=_writers(self.schemas, protobuf_source))

    def narrowed(self, wanted: "DataType | None" = None) -> Self:
        """The same with what a query wants of the schema."""
        return self if wanted is None else replace(self, fields=tuple(_paths(wanted)))

    def decoder(self, mode: Mode = "fail", flatten: bool = False) -> Protobuf:
        """The decoder of values."""
        return Protobuf(
            self.source if isinstance(self.source, bytes) else dict(self.source),
            message=self.message,
            mode=mode,
            flatten=flatten,
            options={**_AS_FROM_PROTOBUF, **dict(self.options)},
            fields=self.fields,
            subject=self.subject,
            **self._framed(),
        )


def _paths(kind: "DataType", before: str = "") -> Iterator[str]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        yield from _paths(kind.elementType, before)
    elif isinstance(kind, MapType):
        yield from _paths(kind.valueType, before)
    elif isinstance(kind, StructType) and kind.fields:
        for field in kind.fields:
            yield from _paths(field.dataType, f"{before}.{field.name}" if before else field.name)
    elif before:
        yield before
