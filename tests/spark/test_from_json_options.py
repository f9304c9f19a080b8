"""Decoding JSON under the options of Spark's `from_json`, compared with `from_json` itself."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from monedula._monedula import decode_json

from tests.spark._support.from_json import CORPUS, documents, explained
from tests.spark._support.from_json_options import (
    DATED_DDL,
    LENIENT,
    PARTIAL,
    PATTERNS,
    REFUSED,
    SYNTAX,
    ZONES,
    dated,
    zoned,
)
from tests.spark.test_from_json import by_spark, by_us, unexplained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def setting(spark: "SparkSession", name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def differing(spark: "SparkSession", values: list[bytes], options: dict[str, str]) -> list[tuple[bytes, Any, Any]]:
    pairs = zip(values, by_spark(spark, values, DATED_DDL, options), by_us(values, DATED_DDL, options), strict=True)
    return [case for case in pairs if case[1] != case[2]]


def formats(pattern: str) -> dict[str, str]:
    return {"dateFormat": pattern, "timestampFormat": pattern, "timestampNTZFormat": pattern}


# A number right behind the year takes its digits; two fractions have to be the same, and so do two ways to name a day.
SUITED_BY_NOTHING = ("yyyyMMddHHmmssSSS", "yyyy-MM-dd HH:mm:ss.SSS.SSS", "yyyy-MM-dd DDD", "")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_are_read_by_a_pattern_as_spark_reads_them(spark: "SparkSession", pattern: str) -> None:
    values = list(dated(seed=1, pattern=pattern, count=1000))
    options = {**formats(pattern), "timeZone": "Europe/Prague"}
    assert differing(spark, values, options) == []
    read = Counter(row[0] is not None for row in by_us(values, DATED_DDL, options))
    assert read[True] > 3 or pattern in SUITED_BY_NOTHING, "the texts hardly suit the pattern"


def test_what_a_pattern_does_not_fit_is_read_without_it_if_that_is_wanted(spark: "SparkSession") -> None:
    values = [text.encode() for text in CORPUS]
    options = {**formats("dd.MM.yyyy"), "enableDateTimeParsingFallback": "true"}
    assert unexplained(values, spark, options) == []


@pytest.mark.parametrize("pattern", REFUSED)
def test_other_patterns_are_refused_by_name(pattern: str) -> None:
    with pytest.raises(ValueError, match="option timestampFormat: pattern "):
        decode_json(pa.schema([]), [], options=[("timestampFormat", pattern)])


@pytest.mark.parametrize("zone", ZONES)
def test_timestamps_are_in_the_zone_of_the_option(spark: "SparkSession", zone: str) -> None:
    values = list(zoned(seed=1, count=1000))
    assert differing(spark, values, {"timeZone": zone}) == []


@pytest.mark.parametrize("option", LENIENT, ids=lambda option: option[0])
def test_syntax_beyond_json_is_taken_as_spark_takes_it(spark: "SparkSession", option: tuple[str, str]) -> None:
    values = [text.encode() for text in [*SYNTAX, *CORPUS]]
    assert unexplained(values, spark, dict([option])) == []


def test_all_syntax_beyond_json_together(spark: "SparkSession") -> None:
    values = [text.encode() for text in [*SYNTAX, *CORPUS]]
    options = {name: "true" for name, _ in LENIENT}
    assert unexplained(values, spark, options) == []


def test_without_partial_results_spark_goes_on_where_its_parser_stands(spark: "SparkSession") -> None:
    values = [*(text.encode() for text in [*PARTIAL, *CORPUS]), *documents(seed=3, count=5_000)]
    with setting(spark, "spark.sql.json.enablePartialResults", "false"):
        theirs = by_spark(spark, values)
    ours = by_us(values, options={"enablePartialResults": "false"})
    pairs = zip(values, theirs, ours, strict=True)
    assert [case for case in pairs if case[1] != case[2] and not explained(case[0].decode(), *case[1:])] == []


def test_options_of_the_inference_change_nothing_for_a_given_schema(spark: "SparkSession") -> None:
    values = [text.encode() for text in CORPUS]
    assert unexplained(values, spark, {"primitivesAsString": "true", "prefersDecimal": "true"}) == []


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("mode", "DROPMALFORMED", "use PERMISSIVE or FAILFAST"),
        ("timeZone", "Europe/Praha", 'no "Europe/Praha"'),
        ("locale", "cs-CZ", "only en-US is supported"),
        ("multiLine", "true", "is an option for files or for writing"),
        ("maxNumLen", "5", "is not supported"),
        ("allowComments", "yes", '"yes" is neither true nor false'),
        ("timestamp_format", "yyyy", "there is no such option of from_json"),
    ],
)
def test_other_options_are_refused_by_name(name: str, value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"option {name}: .*{reason}"):
        decode_json(pa.schema([]), [], options=[(name, value)])


@pytest.mark.thorough
def test_a_hundred_thousand_texts_of_dates_are_read_as_spark_reads_them(spark: "SparkSession") -> None:
    for seed, pattern in enumerate(PATTERNS):
        values = list(dated(seed=seed + 100, pattern=pattern, count=2_000))
        assert differing(spark, values, formats(pattern)) == []
