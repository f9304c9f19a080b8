"""Decoding JSON into typed columns, compared with Spark's `from_json` on the same bytes."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from monedula._monedula import decode_json

from tests.spark._support.from_json import CORPUS, DDL, DIFFERENCES, documents, explained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def by_spark(
    spark: "SparkSession", values: Sequence[bytes], ddl: str = DDL, options: Mapping[str, str] | None = None
) -> list[Any]:
    from pyspark.sql import functions

    frame = spark.createDataFrame(pa.table({"value": pa.array(values, pa.binary())}))
    parsed = functions.from_json(frame["value"].cast("string"), ddl, dict(options or {}))
    return plain(frame.select(parsed.alias("value")).toArrow()["value"].combine_chunks())


def by_us(values: Sequence[bytes], ddl: str = DDL, options: Mapping[str, str] | None = None) -> list[Any]:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = to_arrow_schema(StructType.fromDDL(ddl), timezone="UTC")
    table = decode_json(schema, values, options=list((options or {}).items()))
    return plain(pa.table(table)["value"].combine_chunks())


def plain(array: Any) -> list[Any]:
    """The values as Python objects that compare by what they are: NaN too, and times beyond the years of Python."""
    kind = array.type
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        columns = [plain(array.field(index)) for index in range(kind.num_fields)]
        return [row if there else None for row, there in zip(zip(*columns, strict=True), valid, strict=True)]
    if pa.types.is_map(kind):
        children = list(zip(plain(array.keys), plain(array.items), strict=True))
    elif pa.types.is_list(kind):
        children = plain(array.values)
    elif pa.types.is_timestamp(kind):
        return plain(array.cast(pa.int64()))
    elif pa.types.is_date(kind):
        return plain(array.cast(pa.int32()))
    else:
        values = array.to_pylist()
        return [repr(value) for value in values] if pa.types.is_floating(kind) else values
    offsets = array.offsets.to_pylist()
    rows = [children[begin:end] for begin, end in pairwise(offsets)]
    return [row if there else None for row, there in zip(rows, valid, strict=True)]


def unexplained(
    values: Sequence[bytes], spark: "SparkSession", options: Mapping[str, str] | None = None
) -> list[tuple[bytes, Any, Any]]:
    """The values that we read in another way than Spark, without a reason in the list."""
    pairs = zip(values, by_spark(spark, values, DDL, options), by_us(values, DDL, options), strict=True)
    return [case for case in pairs if case[1] != case[2] and not explained(case[0].decode(), *case[1:])]


def test_corner_cases_are_read_as_spark_reads_them(spark: "SparkSession") -> None:
    assert unexplained([text.encode() for text in CORPUS], spark) == []


def test_generated_values_are_read_as_spark_reads_them(spark: "SparkSession") -> None:
    assert unexplained(list(documents(seed=1, count=5_000)), spark) == []


@pytest.mark.thorough
def test_a_hundred_thousand_values_are_read_as_spark_reads_them(spark: "SparkSession") -> None:
    assert unexplained(list(documents(seed=2, count=100_000)), spark) == []


def test_each_known_difference_is_one(spark: "SparkSession") -> None:
    examples = [each.example.encode() for each in DIFFERENCES]
    for each, theirs, ours in zip(DIFFERENCES, by_spark(spark, examples), by_us(examples), strict=True):
        assert theirs != ours, each.example
        assert each.applies(each.example, theirs, ours), each.example
        assert explained(each.example, theirs, ours), each.example


def test_bytes_that_are_no_text_are_a_bad_record(spark: "SparkSession") -> None:
    """Spark replaces them by U+FFFD, and goes on."""
    value = b'{"int":1,"text":"\xff"}'
    [theirs], [ours] = by_spark(spark, [value]), by_us([value])
    assert (theirs[3], theirs[9]) == (1, "\ufffd")
    assert {*ours[:-1]} <= {None, "None"}
    assert ours[-1] == value.decode(errors="replace")


def test_the_first_bad_value_is_named() -> None:
    schema = pa.schema([pa.field("a", pa.struct([pa.field("b", pa.int32())]))])
    with pytest.raises(ValueError, match=r"^row 1: a\.b: no JSON value for a field of type int32 \(byte 10\)$"):
        decode_json(schema, [b"{}", b'{"a":{"b":"x"}}'], fail_fast=True)
