"""The schema of Spark's own Kafka source, and the check of a schema that a query requests."""

from collections.abc import Collection

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from monedula.errors import ConfigError

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


def source_schema(columns: Collection[str]) -> StructType:
    """The schema of Spark's own Kafka source, including nullability, reduced to `columns`."""
    return StructType([field for field in _FIELDS if field.name in columns])


def check_projection(requested: StructType) -> tuple[str, ...]:
    """The names of the columns that `.schema(...)` requests: any columns of the source, in any order, with their types.

    Raises:
        ConfigError: if a column does not exist, is requested twice, with another type, or as NOT NULL.
    """
    known = {field.name: field for field in _FIELDS}
    for field in requested.fields:
        if field.name not in known:
            raise ConfigError(f"schema: there is no column {field.name!r}; the columns are {', '.join(known)}")
        actual = known[field.name]
        if field.dataType != actual.dataType:
            wanted, has = field.dataType.simpleString(), actual.dataType.simpleString()
            raise ConfigError(
                f"schema: column {field.name!r} is {has}, not {wanted}; ask for it as {has} and convert it after "
                f"load(), for example with .withColumn({field.name!r}, col({field.name!r}).cast({wanted!r}))"
            )
        if not field.nullable:
            raise ConfigError(
                f"schema: column {field.name!r} cannot be NOT NULL: every column of the source is nullable"
            )
    names = tuple(requested.fieldNames())
    if len(set(names)) < len(names) or not names:
        raise ConfigError(f"schema: expected at least one column, each once, of {', '.join(known)}; got {list(names)}")
    return names
