"""Schemas, compared with what Spark makes of the same DDL and of the same texts."""

import json
import random
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from monedula.errors import ArgumentError, NoSchemaError
from monedula.formats.schemas import Inference, ddl_of, schema_of

from tests.spark._support.from_json import DDL, documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDLS = [
    DDL,
    "a int",
    "a: int, b: string",
    "struct<a: int, b struct<c: bigint not null>>",
    "A INT, a_1 Long COMMENT 'it''s', `x y` DECIMAL",
    "a byte, b short, c integer, d real, e dec(5), f numeric(5, 2), g timestamp_ltz, h timestamp_ntz",
    'a array<array<map<string, struct<b: date not null>>>> not null comment "x"',
    "struct struct<a: int>, array array<int>, date date, 1a int",
    "`a``b` int, `,<>` string",
    "a struct<>",
    "a\nint,\tb  string",
]


@pytest.mark.parametrize("ddl", DDLS)
def test_ddl_is_read_as_spark_reads_it(spark: "SparkSession", ddl: str) -> None:  # noqa: ARG001 - the parser is its JVM's
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    struct = StructType.fromDDL(ddl)
    expected = to_arrow_schema(struct, timezone="UTC")
    assert schema_of(ddl) == expected
    assert schema_of(struct) == expected
    assert schema_of(struct.json()) == expected
    assert StructType.fromDDL(ddl_of(expected)) == StructType.fromJson(_without_metadata(struct.jsonValue()))


def _without_metadata(value: object) -> object:
    if isinstance(value, dict):
        return {name: {} if name == "metadata" else _without_metadata(each) for name, each in value.items()}
    return [_without_metadata(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "ddl", ["a", "a int,", ",", "a int b", "a array<int", "a decimal(39,2)", "1 int", "a foo", "a int;"]
)
def test_ddl_that_spark_refuses_is_refused(spark: "SparkSession", ddl: str) -> None:  # noqa: ARG001
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    with pytest.raises(PySparkException):
        StructType.fromDDL(ddl)
    with pytest.raises(ArgumentError):
        schema_of(ddl)


TEXTS = [
    ['{"a":1}', '{"a":1.5}'],
    ['{"a":1}', '{"a":"x"}', '{"a":null}'],
    ['{"a":true}', '{"a":1}'],
    ['{"b":1,"a":2}', '{"c":{"y":1,"x":[]}}'],
    ['{"a":123456789012345678901}', '{"a":1}'],
    ['{"a":12345678901234567890123456789012345678901}'],
    ['{"a":9223372036854775807}', '{"b":9223372036854775808,"c":-9223372036854775808}'],
    ['{"a":1e400,"b":1e2,"c":-0,"d":0.1}'],
    ['{"a":123456789012345678901}', '{"a":1.5}'],
    ['{"a":[1,"x",null]}', '{"a":[]}', '{"b":[[],[1]]}'],
    ['{"a":[{"x":1},{"y":2.5}],"b":{}}', '{"a":null,"c":[{}]}'],
    ['{"a":{"x":1}}', '{"a":[1]}'],
    ['{"a":""}', '{"a":1}'],
    ['{"a":"","b":null}'],
    ['{"":1,"a":2}'],
    ['{"a":NaN,"b":"NaN"}'],
    ['{"é":1,"z":2,"😀":3,"\ufffd":4}'],
    ['[{"a":1},{"b":2}]', '{"c":3}'],
    ["{broken", '{"a":1}', "", " "],
    ['{"a":"1.5","b":"x","c":" 1","d":"1e3","e":"-12"}'],
    ['{"a":1.50,"b":0.001,"c":1e5,"d":1e-40}', '{"a":22.5}'],
]


@pytest.mark.parametrize("texts", TEXTS, ids=str)
@pytest.mark.parametrize("options", [{}, {"primitivesAsString": "true"}, {"prefersDecimal": "true"}], ids=str)
def test_schemas_are_inferred_as_spark_infers_them(
    spark: "SparkSession", texts: list[str], options: dict[str, str]
) -> None:
    if "prefersDecimal" in options and re.search(r":\d+e\d|:NaN", "".join(texts)):
        pytest.skip("Spark's inference ends with an error for numbers such as 1e5, and for NaN")
    assert ours(texts, options) == theirs(spark, texts, options)


@pytest.mark.parametrize("options", [{}, {"primitivesAsString": "true"}], ids=str)
def test_schemas_of_generated_texts_are_inferred_as_spark_infers_them(
    spark: "SparkSession", options: dict[str, str]
) -> None:
    texts = [text for text in map(bytes.decode, documents(seed=5, count=3_000)) if _is_json(text)]
    rng = random.Random(1)
    for count in (1, 1, 1, 1, 2, 2, 3, 5, 10, 100):
        some = rng.sample(texts, count)
        assert ours(some, options) == theirs(spark, some, options), some


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    names = [name for name, _ in json.loads(text, object_pairs_hook=lambda pairs: pairs)]
    # Spark keeps a field that occurs twice twice; halves of surrogate pairs are nothing that DDL can name.
    return len(names) == len(set(names)) and "\\ud" not in text


def ours(texts: list[str], options: dict[str, str]) -> str:
    inference = Inference(
        primitives_as_string="primitivesAsString" in options, prefers_decimal="prefersDecimal" in options
    )
    for text in texts:
        inference.add(text)
    try:
        return ddl_of(inference.schema())
    except NoSchemaError:
        return ""


def theirs(spark: "SparkSession", texts: list[str], options: dict[str, str]) -> str:
    from pyspark.sql.pandas.types import to_arrow_schema

    inferred = spark.read.options(**options).json(
        spark.createDataFrame([(text,) for text in texts], "value string").rdd.map(lambda row: row[0])
    )
    fields = [field for field in to_arrow_schema(inferred.schema, timezone="UTC") if field.name != "_corrupt_record"]
    return ddl_of(pa.schema(fields))
