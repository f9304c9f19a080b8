"""Decoding Avro into typed columns, compared with Spark's `from_avro` on the same bytes."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from monedula import Avro

from tests.consumer.avro_values import EVOLUTION, Schema, field, record, rows, written
from tests.spark.test_from_json import plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def parsed(
    spark: "SparkSession", values: Sequence[bytes], writer: Schema, reader: Schema | None = None, **options: str
) -> "DataFrame":
    from pyspark.sql.avro.functions import from_avro

    if reader is not None:
        options["avroSchema"] = json.dumps(reader)
    frame = spark.createDataFrame(pa.table({"value": pa.array(values, pa.binary())}))
    return frame.select(from_avro(frame["value"], json.dumps(writer), options).alias("value"))


def by_spark(
    spark: "SparkSession", values: Sequence[bytes], writer: Schema, reader: Schema | None = None, **options: str
) -> Any:
    return parsed(spark, values, writer, reader, **options).toArrow()["value"].combine_chunks()


def by_us(values: Sequence[bytes], form: Avro) -> Any:
    return pa.table(form.spec.decode(values))["value"].combine_chunks()


def as_spark(array: Any, theirs: Any) -> list[Any]:
    return plain(_numbers(array, theirs.type))


def _numbers(array: Any, theirs: pa.DataType) -> Any:
    """The array with times of day as numbers where Spark has them as such."""
    kind = array.type
    mask = array.is_null()
    if pa.types.is_struct(kind):
        children = [
            _numbers(array.field(index), anything(theirs).field(index).type) for index in range(kind.num_fields)
        ]
        return pa.StructArray.from_arrays(children, names=[each.name for each in kind], mask=mask)
    if pa.types.is_map(kind):
        items = _numbers(array.items, anything(theirs).item_type)
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, mask=mask)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, _numbers(array.values, anything(theirs).value_type), mask=mask)
    return array.cast(theirs) if pa.types.is_time(kind) and pa.types.is_integer(theirs) else array


def _ordered(value: Any) -> Any:
    """With maps by their keys: Spark has them in the order of Java's hashes."""
    if isinstance(value, tuple):
        return tuple(map(_ordered, value))
    if not isinstance(value, list):
        return value
    values = [_ordered(each) for each in value]
    is_map = all(isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) for each in values)
    return sorted(values, key=lambda entry: entry[0]) if is_map else values


def anything(value: object) -> Any:
    """What a type checker knows too little of."""
    return value


@settings(max_examples=40, deadline=None, derandomize=True)
@given(schema_and_rows=rows())
def test_generated_values_are_read_as_spark_reads_them(
    spark: "SparkSession", schema_and_rows: tuple[Schema, list[Any]]
) -> None:
    # In a record: Spark reads a null that is not in one as zero or false.
    inner, some = schema_and_rows
    schema = record(field("value", inner), name="Top")
    values = [written(schema, {"value": each}) for each in some]
    theirs = by_spark(spark, values, schema, mode="FAILFAST", datetimeRebaseMode="CORRECTED")
    assert _ordered(as_spark(by_us(values, Avro(schema)), theirs)) == _ordered(plain(theirs))


@pytest.mark.parametrize("name", EVOLUTION)
def test_evolution_is_as_spark_has_it(spark: "SparkSession", name: str) -> None:
    writer, reader, value = EVOLUTION[name]
    values = [written(writer, value)]
    theirs = by_spark(spark, values, writer, reader, mode="FAILFAST")
    assert as_spark(by_us(values, Avro(reader, writer=writer)), theirs) == plain(theirs)


NODE = record(field("value", "int"), field("next", ["null", "Node"]), name="Node")
EITHER = record(field("a", ["int", "string", {"type": "array", "items": "long"}]))


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (NODE, {"recursiveFieldMaxDepth": "1"}),
        (NODE, {"recursiveFieldMaxDepth": "2"}),
        (NODE, {"recursiveFieldMaxDepth": "3"}),
        (EITHER, {}),
        (EITHER, {"enableStableIdentifiersForUnionType": "true"}),
        (EITHER, {"enableStableIdentifiersForUnionType": "true", "stableIdentifierPrefixForUnionType": "is_"}),
        (record(field("a", ["null", "long", "int"]), field("b", ["float", "double"])), {}),
    ],
)
def test_options_make_the_columns_that_spark_makes(
    spark: "SparkSession", schema: Schema, options: dict[str, str]
) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    samples: dict[int, list[Any]] = {
        id(NODE): [{"value": 1, "next": {"value": 2, "next": {"value": 3, "next": None}}}, {"value": 4, "next": None}],
        id(EITHER): [{"a": 1}, {"a": "x"}, {"a": [1, 2]}],
    }
    values = [
        written(schema, row) for row in samples.get(id(schema), [{"a": 1 << 40, "b": 0.5}, {"a": None, "b": 2.0}])
    ]
    theirs, ours = parsed(spark, values, schema, **options), by_us(values, Avro(schema, options=options))
    assert _names(ours.type) == _names(to_arrow_schema(theirs.schema).field("value").type)
    # Not by Arrow, which does not take nulls in what Spark says has none.
    assert [_tuples(row) for row in ours.to_pylist()] == [row[0] for row in theirs.collect()]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value.values())) if isinstance(value, dict) else value


def _names(kind: pa.DataType) -> Any:
    """The type with its fields, whatever they say about nulls."""
    if pa.types.is_struct(kind):
        return {each.name: _names(each.type) for each in kind}
    return [_names(kind.value_type)] if pa.types.is_list(kind) else str(kind)


def test_a_bad_value_is_a_struct_of_nulls(spark: "SparkSession") -> None:
    schema = record(field("a", "string"), field("b", ["null", "long"]))
    whole = written(schema, {"a": "text", "b": 1 << 40})
    values = [whole[:end] for end in range(1, len(whole) + 1)]
    theirs = by_spark(spark, values, schema, mode="PERMISSIVE")
    assert plain(by_us(values, Avro(schema, mode="null"))) == plain(theirs)
    assert plain(theirs) == [*[(None, None)] * (len(whole) - 1), ("text", 1 << 40)]
