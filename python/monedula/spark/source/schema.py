"""The schema of Spark's own Kafka source, and the check of a schema that a query requests."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from monedula.errors import ConfigError
from monedula.spark.source.typed import TypedColumn

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

_FIELDS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
    StructField("headers", ArrayType(_HEADER)),
]


_NAMES = frozenset(field.name for field in _FIELDS)


def source_schema(columns: Collection[str], typed: Sequence[TypedColumn] = ()) -> StructType:
    """The schema of Spark's Kafka source, with its nullability, reduced to `columns`, and the decoded ones."""
    fields = {field.name: [field] for field in _FIELDS if field.name in columns}
    for each in typed:
        if each.reader is None or each.column not in fields:
            continue
        kind = each.reader.data_type()
        if each.flatten:
            if not isinstance(kind, StructType):
                raise ConfigError(
                    f"value.flatten: the {each.format} schema is {kind.simpleString()}, which has no fields"
                )
            if clash := _NAMES.intersection(kind.names):
                name = min(clash)
                raise ConfigError(
                    f"value.flatten: the {each.format} schema has a field {name!r}, and so has Kafka; without "
                    f"value.flatten it is value.{name}"
                )
            fields["value"] = [StructField(field.name, field.dataType) for field in kind.fields]
        else:
            fields[each.column] = [StructField(each.column, kind)]
    return StructType([field for several in fields.values() for field in several])


class Projection(NamedTuple):
    """The columns that a query requests.

    Attributes:
        columns: Kafka's columns.
        output: the columns of the rows, in their order, if the fields of the value are among them.
        typed: the columns that are decoded, with their schema.
    """

    columns: tuple[str, ...]
    output: tuple[str, ...] = ()
    typed: tuple[TypedColumn, ...] = ()


def check_projection(requested: StructType, typed: Sequence[TypedColumn] = ()) -> Projection:
    """The request of `.schema(...)`: any columns of the source, in any order, with their types.

    A column that is decoded is a struct of any fields; with `flatten`, every column that the source does not have is a
    field of the value.
    """
    _check_fields(requested, {each.column: each for each in typed}, any(each.flatten for each in typed))
    names = tuple(requested.fieldNames())
    if len(set(names)) < len(names) or not names:
        known = ", ".join(field.name for field in _FIELDS)
        raise ConfigError(f"schema: expected at least one column, each once, of {known}; got {list(names)}")
    columns, decoded = [name for name in names if name in _NAMES], []
    for each in typed:
        if each.flatten:
            fields = StructType([field for field in requested.fields if field.name not in _NAMES])
            if not fields.fields:
                continue
            columns.append(each.column)
        elif each.column in names:
            fields = requested[each.column].dataType
        else:
            continue
        decoded.append(each.with_type(fields))
    return Projection(tuple(columns), names, tuple(decoded))


def _check_fields(requested: StructType, decoded: Mapping[str, TypedColumn], flatten: bool) -> None:
    known = {field.name: field for field in _FIELDS}
    for field in requested.fields:
        if flatten and field.name not in known:
            _refuse_not_null(field.name, field)
            continue
        if field.name in decoded and not (flatten and field.name == "value"):
            _refuse_not_null(field.name, field)
            if decoded[field.name].reader is None and not isinstance(field.dataType, StructType):
                has = field.dataType.simpleString()
                raise ConfigError(
                    f"schema: column {field.name!r} is decoded from JSON, so it is a struct, not {has}: "
                    f".schema('{field.name} struct<id: bigint, user: string>')"
                )
            continue
        if flatten and field.name == "value":
            raise ConfigError("schema: with value.flatten the fields of the value are columns, and there is no 'value'")
        if field.name not in known:
            raise ConfigError(
                f"schema: there is no column {field.name!r}; the columns are {', '.join(known)}. {_hint(decoded)}"
            )
        actual = known[field.name]
        if field.dataType != actual.dataType:
            wanted, has = field.dataType.simpleString(), actual.dataType.simpleString()
            if isinstance(field.dataType, StructType) and field.name in ("key", "value"):
                raise ConfigError(
                    f"schema: column {field.name!r} is {has}, not {wanted}; to decode JSON into it, add "
                    f".option('{field.name}.format', 'json')"
                )
            raise ConfigError(
                f"schema: column {field.name!r} is {has}, not {wanted}; ask for it as {has} and convert it after "
                f"load(), for example with .withColumn({field.name!r}, col({field.name!r}).cast({wanted!r}))"
            )
        _refuse_not_null(field.name, field)


def _hint(decoded: Collection[str]) -> str:
    if "value" in decoded:
        return "Fields of the value stand in 'value struct<...>', or are columns with .option('value.flatten', 'true')"
    return "Fields of JSON come with .option('value.format', 'json') and 'value struct<...>'"


def _refuse_not_null(path: str, field: StructField) -> None:
    if not field.nullable:
        raise ConfigError(f"schema: column {path!r} cannot be NOT NULL: every column of the source is nullable")
    _refuse_not_null_in(path, field.dataType)


def _refuse_not_null_in(path: str, kind: DataType) -> None:
    # Spark would not look for nulls where there are some: any field may be missing from a value.
    if isinstance(kind, StructType):
        for field in kind.fields:
            _refuse_not_null(f"{path}.{field.name}", field)
    elif isinstance(kind, ArrayType):
        _refuse_not_null(f"{path}[]", StructField("element", kind.elementType, kind.containsNull))
    elif isinstance(kind, MapType):
        _refuse_not_null(f"{path}{{}}", StructField("value", kind.valueType, kind.valueContainsNull))
