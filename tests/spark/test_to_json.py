"""JSON that is written of columns, compared with Spark's `to_json` of the same columns."""

import json
import random
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from monedula import Json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INNER = pa.struct([("a", pa.int32()), ("b", pa.string())])
_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tiny": pa.int8(),
    "small": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal": pa.decimal128(12, 9),
    "wide": pa.decimal128(38, 2),
    "text": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "list": pa.list_(pa.int32()),
    "structs": pa.list_(INNER),
    "nested": pa.struct([("inner", INNER), ("days", pa.list_(pa.date32()))]),
    "map": pa.map_(pa.string(), pa.float64()),
    "by number": pa.map_(pa.int32(), INNER),
}
SCHEMA = pa.schema(_TYPES)


def rows(seed: int, count: int) -> pa.Table:
    """Rows with random values, in each field null too."""
    chance = random.Random(seed)

    def integer(bits: int) -> int:
        most: int = 2 ** (bits - 1) - 1
        return chance.choice([0, -most - 1, most, chance.randrange(-100, 100)])

    def double() -> float:
        of_bits: float = struct.unpack("<d", chance.randbytes(8))[0]
        return chance.choice([0.0, -0.0, 1e7, 0.001, float("nan"), float("-inf"), chance.random() * 1e4, of_bits])

    def single() -> float:
        of_bits: float = struct.unpack("<f", chance.randbytes(4))[0]
        return chance.choice([0.5, -3.25, 1e10, float("inf"), of_bits])

    def text() -> str:
        return "".join(chance.choices("ab \"\\/\n\t\x00\x1f\x7f\u2028é𝄞<&'", k=chance.randrange(6)))

    def day() -> date:
        return date(chance.choice([1, 1582, 1970, 2026, 9999]), chance.randint(1, 12), chance.randint(1, 28))

    def moment() -> datetime:
        # Spark writes milliseconds, and cuts what is below: see the test about that. Before 1900 offsets have seconds.
        return datetime(1900, 1, 2, tzinfo=UTC) + timedelta(milliseconds=chance.randrange(200 * 365 * 86_400_000))

    def inner() -> dict[str, Any]:
        return {"a": maybe(integer(32)), "b": maybe(text())}

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    def several(make: Any) -> list[Any]:
        return [maybe(make()) for _ in range(chance.randrange(3))]

    made = []
    for _ in range(count):
        row = {
            "boolean": chance.random() < 0.5,
            "tiny": integer(8),
            "small": integer(16),
            "int": integer(32),
            "long": integer(64),
            "float": single(),
            "double": double(),
            "decimal": Decimal(chance.choice([0, 1, 12, -123_456_789_012])).scaleb(-9),
            "wide": Decimal(chance.randrange(-(10**30), 10**30)).scaleb(-2),
            "text": text(),
            "binary": chance.randbytes(chance.randrange(6)),
            "date": day(),
            "timestamp": moment(),
            "local": moment().replace(tzinfo=None),
            "list": several(lambda: integer(32)),
            "structs": several(inner),
            "nested": {"inner": maybe(inner()), "days": maybe(several(day))},
            "map": [(text(), maybe(double()))],
            "by number": [(integer(32), maybe(inner()))],
        }
        made.append({name: maybe(value) for name, value in row.items()})
    return pa.Table.from_pylist(made, SCHEMA)


def in_spark(spark: "SparkSession", table: pa.Table) -> "DataFrame":
    """The same rows. Spark takes times without a zone for those of the session's."""
    frame = spark.createDataFrame(table)
    local = [name for name in table.column_names if name == "local"]
    return frame.withColumns({name: frame[name].cast("timestamp_ntz") for name in local})


def by_spark(spark: "SparkSession", table: pa.Table, options: Mapping[str, str]) -> list[str]:
    from pyspark.sql import functions

    frame = in_spark(spark, table)
    texts = frame.select(functions.to_json(functions.struct(*frame.columns), dict(options)).alias("value"))
    return list(texts.toArrow()["value"].to_pylist())


def by_us(table: pa.Table, options: Mapping[str, str]) -> list[str]:
    made = Json(options=dict(options)).spec.encode(pa.table({"value": table.to_struct_array()}))
    return [(value or b"").decode() for value in made]


def tokens(text: str) -> Any:
    """The parsed text, in the order of its fields. A floating number counts as what it reads as.

    Java before 19 writes some with more digits than they need. All other numbers are compared as they are written.
    """

    def number(digits: str) -> Any:
        return repr(float(digits)) if "E" in digits or len(digits) > 6 else digits

    return json.loads(text, object_pairs_hook=list, parse_float=number)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ignoreNullFields": "false", "timeZone": "Europe/Prague"},
        {
            "timestampFormat": "dd.MM.yyyy HH:mm:ss.SSS xxx",
            "timestampNTZFormat": "yyyyMMdd'T'HHmmss[ XXX]",
            "dateFormat": "d MMMM yyyy",
            "timeZone": "America/New_York",
        },
        {"timestampFormat": "yy-M-d h:m:s a VV", "dateFormat": "D yyyy[ HH]", "timeZone": "+05:30"},
        {"timestampFormat": 'k K [Z][X][XX][XXXXX] " SSSSSS'},
    ],
)
def test_texts_are_those_of_spark(spark: "SparkSession", options: dict[str, str]) -> None:
    options = {"timeZone": "UTC", **options}
    table = rows(seed=1, count=2_000).drop(["float"])
    theirs, ours = by_spark(spark, table, options), by_us(table, options)
    assert [case for case in zip(theirs, ours, strict=True) if tokens(case[0]) != tokens(case[1])] == []
    # What is no number has the same text to the last byte.
    plain = table.drop(["double", "map"])
    assert by_us(plain, options) == by_spark(spark, plain, options)


def test_floats_read_as_those_of_spark(spark: "SparkSession") -> None:
    table = rows(seed=2, count=2_000).select(["float"])

    def read(texts: list[str]) -> list[Any]:
        values = [json.loads(text).get("float") for text in texts]
        return [value if isinstance(value, str) or value is None else struct.pack("<f", value) for value in values]

    assert read(by_us(table, {})) == read(by_spark(spark, table, {}))


def test_microseconds_are_kept_where_spark_cuts_them(spark: "SparkSession") -> None:
    table = pa.table({"at": pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC"))})
    assert by_spark(spark, table, {"timeZone": "UTC"}) == ['{"at":"2023-11-14T22:13:20.123Z"}']
    assert by_us(table, {}) == ['{"at":"2023-11-14T22:13:20.123456Z"}']


def test_spark_reads_what_is_written(spark: "SparkSession") -> None:
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema

    table = rows(seed=3, count=1_000).drop(["by number"])
    texts = spark.createDataFrame(pa.table({"value": by_us(table, {})}))
    parsed = texts.select(
        functions.from_json(
            "value", from_arrow_schema(table.schema, prefer_timestamp_ntz=True), {"timeZone": "UTC"}
        ).alias("row")
    )
    back = parsed.select("row.*").toArrow()
    assert [*map(repr, back.to_pylist())] == [*map(repr, in_spark(spark, table).toArrow().to_pylist())]
