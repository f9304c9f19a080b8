"""What a user is told after a mistake: the last line of Python's that Spark shows, and what Spark's log has."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.spark._support.streams import run_stream

LOG_SECONDS = 60
# The name of an exception and its text, up to where Spark goes on.
LAST_ERROR = re.compile(r"(?:^|: )(?:\w+\.)*(\w+(?:Error|Exception)): (.*?)\s*(?:SQLSTATE|$)", re.MULTILINE)


@pytest.fixture(scope="module")
def mistaken(kafka: KafkaCluster) -> KafkaCluster:
    """With a topic of two partitions."""
    kafka.helper.create_topic("mistaken", partitions=2)
    return kafka


def options_of(kafka: KafkaCluster, **options: Any) -> dict[str, str]:
    servers = {"kafka.bootstrap.servers": kafka.bootstrap}
    return {**servers, **{name.replace("_", "."): str(value) for name, value in options.items()}}


def said(do: Callable[[], object]) -> tuple[str, str]:
    """The last exception in what Spark raises: its name, and its text."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's types vary, what is said is looked at)
        do()
    *_, (kind, words) = LAST_ERROR.findall(str(caught.value))
    return kind, words


def batch_says(spark: SparkSession, options: dict[str, str], path: str | None = None) -> tuple[str, str]:
    return said(lambda: spark.read.format("monedula").options(**options).load(path).collect())


def stream_says(
    spark: SparkSession, options: dict[str, str], checkpoint: Path, schema: str | None = None
) -> tuple[str, str]:
    reader = spark.readStream.format("monedula").options(**options)
    return said(lambda: run_stream((reader.schema(schema) if schema else reader).load(), checkpoint))


def wait_for_log(log: Callable[[], str], words: str) -> None:
    deadline = time.monotonic() + LOG_SECONDS
    while words not in log():
        assert time.monotonic() < deadline, log()
        time.sleep(0.05)


def test_servers_without_their_prefix(spark: SparkSession) -> None:
    kind, words = batch_says(spark, {"bootstrap.servers": "localhost:9092", "subscribe": "orders"})
    assert kind == "ConfigError"
    assert words.startswith("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    assert "'bootstrap.servers' was given without it" in words


def test_servers_that_are_misspelt(spark: SparkSession) -> None:
    kind, words = batch_says(spark, {"kafka.bootstrap.server": "localhost:9092", "subscribe": "orders"})
    assert kind == "ConfigError"
    assert words.endswith("'kafka.bootstrap.server' is none: did you mean 'kafka.bootstrap.servers'?")


def test_the_option_of_the_sink_given_to_the_source(spark: SparkSession, kafka: KafkaCluster) -> None:
    kind, words = batch_says(spark, options_of(kafka, topic="orders"))
    assert kind == "ConfigError"
    assert words.endswith("topic is an option of the sink: to read it, use option('subscribe', 'orders').")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets: starting offset can't be latest for batch queries on Kafka"),
        ({"startingTimestamp": "2026-11-01"}, "startingTimestamp: Expected a single long value, got 2026-11-01"),
    ],
)
def test_an_error_of_a_batch_query_begins_with_what_is_wrong(
    spark: SparkSession, kafka: KafkaCluster, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=re.escape(f"monedula.errors.ConfigError: {words}")) as caught:
        spark.read.format("monedula").options(**options_of(kafka, subscribe="orders"), **options).load().collect()
    assert "Traceback" not in str(caught.value).split("JVM stacktrace")[0]


def test_a_topic_given_to_load(spark: SparkSession, kafka: KafkaCluster) -> None:
    kind, words = batch_says(spark, options_of(kafka), "orders")
    assert kind == "ConfigError"
    assert words.endswith("load() has no use for a path: name topics by the option subscribe.")


def test_brokers_that_cannot_be_reached(spark: SparkSession, kafka: KafkaCluster) -> None:
    options = options_of(kafka, subscribe="orders", kafka_bootstrap_timeout_ms=200, fetchOffset_retryIntervalMs=1)
    kind, words = batch_says(spark, {**options, "kafka.bootstrap.servers": "localhost:1"})
    assert kind == "BrokerConnectionError"
    assert words.startswith("no broker of the cluster can be reached after 2")
    assert "localhost:1: Connection refused" in words
    assert words.endswith("Check bootstrap.servers and that the brokers run and listen there")


def test_a_misspelt_setting_of_kafka(spark: SparkSession, kafka: KafkaCluster) -> None:
    kind, words = batch_says(spark, options_of(kafka, subscribe="orders", kafka_isolaton_level="read_committed"))
    assert kind == "ConfigError"
    assert words.endswith("did you mean isolation.level?")


# PySpark hides what is raised while a stream's reader is made behind an error of its own.
STREAM_MISTAKES = {
    "an end": ({"endingOffsets": "latest"}, None, "endingOffsets: ending offset not valid in streaming queries"),
    "a string": ({}, "value string", "schema: column 'value' is binary, not string; ask for it as binary"),
    "nothing at a time": ({"maxOffsetsPerTrigger": "0"}, None, "maxOffsetsPerTrigger must be positive"),
    "no offset of a partition": (
        {"startingOffsets": '{"mistaken":{"0":3}}'},
        None,
        "Partitions specified for Kafka start offsets don't match what are assigned.",
    ),
}


@pytest.mark.parametrize("case", STREAM_MISTAKES)
def test_options_of_a_stream(spark: SparkSession, mistaken: KafkaCluster, checkpoint: Path, case: str) -> None:
    given, schema, wanted = STREAM_MISTAKES[case]
    kind, words = stream_says(spark, {**options_of(mistaken, subscribe="mistaken"), **given}, checkpoint, schema)
    assert (kind, words[: len(wanted)]) == ("ConfigError", wanted)


def test_a_topic_that_is_not_there(spark: SparkSession, kafka: KafkaCluster, checkpoint: Path) -> None:
    options = options_of(kafka, subscribe="ordres", fetchOffset_retryIntervalMs=1)
    assert stream_says(spark, options, checkpoint) == (
        "UnknownTopicError",
        "ordres: the cluster does not know this topic; check its name, or create it",
    )


def test_the_checkpoint_of_a_query_over_files(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "one.txt").write_text("a line\n")
    run_stream(spark.readStream.format("text").load(str(tmp_path)), checkpoint, ["value"])
    kind, words = stream_says(spark, options_of(kafka, subscribe=topic()), checkpoint)
    assert kind == "ConfigError"
    assert words.startswith("the checkpoint's offset is not one of a Kafka source")
    assert words.endswith("Give the query a checkpoint of its own")


def test_the_checkpoint_of_a_query_over_another_topic(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    first, other = topic(), topic()
    kafka.helper.produce(first, [{"value": "x"}])
    options = options_of(kafka, startingOffsets="earliest", fetchOffset_retryIntervalMs=1)
    run_stream(spark.readStream.format("monedula").options(**options, subscribe=first).load(), checkpoint)
    kind, words = stream_says(spark, {**options, "subscribe": other}, checkpoint)
    assert kind == "DataLossError"
    assert f"Reason: Partitions {first}-0 have been deleted. If they exist, the options no longer select them" in words


def test_records_that_aged_out_are_reported_with_what_is_left(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "x"}] * 5)
    options = options_of(kafka, subscribe=name, startingOffsets="earliest")
    run_stream(spark.readStream.format("monedula").options(**options).load(), checkpoint)
    kafka.helper.produce(name, [{"value": "x"}] * 5)
    kafka.helper.delete_records(name, {0: 8})
    kind, words = stream_says(spark, options, checkpoint)
    assert kind == "DataLossError"
    assert words.endswith(f"Could not read records in offset [5, 8) for topic partition {name}-0: the log holds 8..10")


def test_writing_to_a_topic_that_is_not_there(spark: SparkSession, kafka: KafkaCluster) -> None:
    frame = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    writer = frame.write.format("monedula").options(**options_of(kafka, topic="not-there")).mode("append")
    kind, words = said(writer.save)
    assert (kind, words[:35]) == ("BatchSendError", "1 of 1 rows were not written to Kaf")


def test_rows_of_a_partition_that_the_target_lacks(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    target = topic(1)
    frame = spark.range(1).selectExpr("CAST(id AS STRING) AS value", "7 AS partition")
    writer = frame.write.format("monedula").options(**options_of(kafka, topic=target)).mode("append")
    kind, words = said(writer.save)
    assert kind == "BatchSendError"
    assert words.endswith("The column partition says so: without it, .drop('partition'), the key chooses the partition")
    frame.drop("partition").write.format("monedula").options(**options_of(kafka, topic=target)).mode("append").save()


def test_options_that_nobody_knows_are_reported_in_sparks_log(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, spark_log: Callable[[], str]
) -> None:
    options = options_of(kafka, subscribe=topic(), somethingElse=1)
    assert spark.read.format("monedula").options(**options).load().collect() == []
    wait_for_log(spark_log, "WARNING monedula.spark: options that are not known are ignored: somethingelse")
