"""Our sink beside Spark's own, in one session: the same rows in Kafka, the same words where it refuses."""

import re
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import CODECS
from tests.spark._support.sinks import records_in, rows_in, to, values_in, write
from tests.spark._support.sources import JVM, OURS
from tests.spark._support.streams import QUERY_TIMEOUT_SECONDS
from tests.spark.test_mistakes import said

HEADER = "named_struct('key', 'h', 'value', CAST(CAST({} AS STRING) AS BINARY))"
HEADERS = (
    f"IF(id % 3 = 0, NULL, IF(id % 3 = 1, array({HEADER.format('id')}, {HEADER.format('NULL')}), array())) AS headers"
)
KEY = "IF(id % 7 = 0, NULL, concat('key ', id % 50)) AS key"
VALUE = "IF(id % 11 = 0, NULL, concat('value ', id)) AS value"


def both(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, frame: DataFrame, partitions: int = 3
) -> tuple[str, str]:
    """Two topics that hold the same, one by each sink."""
    theirs, ours = topic(partitions), topic(partitions)
    write(frame, JVM, to(kafka, theirs))
    write(frame, OURS, to(kafka, ours))
    assert records_in(spark, kafka, ours) == records_in(spark, kafka, theirs)
    return theirs, ours


@pytest.mark.parametrize("type_", ["STRING", pytest.param("BINARY", marks=pytest.mark.thorough)])
def test_rows_are_those_of_sparks_own_sink(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, type_: str
) -> None:
    frame = spark.range(0, 500, numPartitions=3).selectExpr(KEY, VALUE, HEADERS, "CAST(id % 3 AS INT) AS partition")
    frame = frame.selectExpr(f"CAST(key AS {type_})", f"CAST(value AS {type_})", "headers", "partition")
    _, ours = both(spark, kafka, topic, frame)
    assert len(rows_in(spark, kafka, ours)) == 500


def test_keys_go_to_the_same_partitions(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    frame = spark.range(0, 300, numPartitions=2).selectExpr("concat('key ', id) AS key", "'x' AS value")
    _, ours = both(spark, kafka, topic, frame, partitions=7)
    assert {row.partition for row in rows_in(spark, kafka, ours)} == set(range(7))


def test_a_task_keeps_the_order_of_its_rows_in_a_partition(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(2)
    write(spark.range(0, 25_000, numPartitions=1).selectExpr("CAST(id AS STRING) AS value"), OURS, to(kafka, name))
    rows = rows_in(spark, kafka, name)
    assert len(rows) == 25_000
    for partition in range(2):
        numbers = [int(row.value) for row in rows if row.partition == partition]
        assert numbers == sorted(numbers)


def test_the_column_topic_sends_rows_to_several_and_the_option_goes_before_it(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    even, odd, every = topic(), topic(), topic()
    frame = spark.range(20).selectExpr(f"IF(id % 2 = 0, '{even}', '{odd}') AS topic", "CAST(id AS STRING) AS value")
    write(frame, OURS, to(kafka))
    assert values_in(spark, kafka, even) == sorted(str(n) for n in range(0, 20, 2))
    assert values_in(spark, kafka, odd) == sorted(str(n) for n in range(1, 20, 2))
    write(frame, OURS, to(kafka, every))
    assert len(values_in(spark, kafka, every)) == 20


def test_what_was_read_can_be_written(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    """Columns of the source that a sink has no place for are left out."""
    theirs, copy = topic(3), topic(3)
    write(spark.range(50).selectExpr(KEY, VALUE, HEADERS), JVM, to(kafka, theirs))
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": theirs, "includeHeaders": "true"}
    write(spark.read.format(OURS).options(**options).load(), OURS, {**options, "topic": copy})
    assert records_in(spark, kafka, copy) == records_in(spark, kafka, theirs)


def test_no_rows_are_no_error(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    write(spark.range(0).selectExpr("CAST(id AS STRING) AS value"), OURS, to(kafka, name))
    assert kafka.helper.offsets(name) == {0: (0, 0)}


@pytest.mark.parametrize("codec", CODECS)
def test_settings_of_kafka_reach_the_producer(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, codec: str
) -> None:
    name = topic()
    acks = {"none": "0", "gzip": "1"}.get(codec, "all")
    idempotence = str(acks == "all").lower()
    options = to(kafka, name, kafka_compression_type=codec, kafka_acks=acks, kafka_enable_idempotence=idempotence)
    write(spark.range(1000).selectExpr("concat('value ', id) AS value"), OURS, options)
    # With acks=0 the query ends before the broker has the last records.
    deadline = time.monotonic() + QUERY_TIMEOUT_SECONDS
    while kafka.helper.offsets(name)[0][1] < 1000:
        assert time.monotonic() < deadline
    assert values_in(spark, kafka, name) == sorted(f"value {n}" for n in range(1000))
    batch = (kafka.nodes[1].directory / "data" / f"{name}-0" / "00000000000000000000.log").read_bytes()
    # Bytes 21 and 22 are a batch's attributes, 43 to 50 its producer id, which is -1 without idempotence.
    assert batch[22] & 7 == CODECS.index(codec)
    assert (int.from_bytes(batch[43:51], "big", signed=True) >= 0) == (acks == "all")


REFUSED: dict[str, tuple[str, dict[str, str | None]]] = {
    "no value": ("'a' AS key", {}),
    "a value of another case": ("'a' AS Value", {}),
    "a value of another type": ("1 AS value", {}),
    "a value of no type": ("NULL AS value", {}),
    "a key of another type": ("1 AS key, 'a' AS value", {}),
    "no topic": ("'a' AS value", {"topic": None}),
    "a topic of another type": ("'a' AS value, 1 AS topic", {"topic": None}),
    "a partition of another type": ("'a' AS value, 1L AS partition", {}),
    "headers of another type": ("'a' AS value, array('x') AS headers", {}),
    "headers as a map": ("'a' AS value, map('x', CAST('y' AS BINARY)) AS headers", {}),
    "headers with other names": (
        "'a' AS value, array(named_struct('k', 'x', 'v', CAST('y' AS BINARY))) AS headers",
        {},
    ),
    "a serializer of keys": ("'a' AS value", {"kafka.key.serializer": "x"}),
    "a serializer of values": ("'a' AS value", {"kafka.value.serializer": "x"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_spark_refuses_is_refused_in_its_words(spark: SparkSession, kafka: KafkaCluster, case: str) -> None:
    columns, more = REFUSED[case]
    given: dict[str, str | None] = {**to(kafka, "unused"), **more}
    options = {name: value for name, value in given.items() if value is not None}
    frame = spark.sql(f"SELECT {columns}")
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (Spark's types vary, what is said is looked at)
        write(frame, JVM, options)
    kind, words = said(lambda: write(frame, OURS, options))
    assert kind == "ConfigError"
    assert words == str(theirs.value).splitlines()[0]


def test_a_null_topic_fails_the_task_in_sparks_words(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic()
    frame = spark.range(10).selectExpr(f"IF(id = 7, NULL, '{name}') AS topic", "'x' AS value")
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (as above)
        write(frame, JVM, to(kafka))
    kind, words = said(lambda: write(frame, OURS, to(kafka)))
    assert kind == "ArgumentError"
    assert re.search(r"contains a null topic\. Use the `topic` option for setting a default topic\.", words)
    assert words in str(theirs.value)


@pytest.mark.parametrize("mode", ["overwrite", "error", "ignore"])
def test_modes_that_make_no_sense_for_a_log_are_refused(spark: SparkSession, kafka: KafkaCluster, mode: str) -> None:
    frame = spark.sql("SELECT 'a' AS value")
    with pytest.raises(Exception, match=r"not allowed for Kafka|cannot be written in the"):
        frame.write.format(OURS).options(**to(kafka, "unused")).mode(mode).save()


def streamed(frame: DataFrame, options: dict[str, str], checkpoint: Path, mode: str = "append") -> StreamingQuery:
    """Run a query into our sink to its end, with AvailableNow."""
    writer = frame.writeStream.format(OURS).options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.outputMode(mode).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(QUERY_TIMEOUT_SECONDS), query.status
    finally:
        query.stop()
    return query


def source(spark: SparkSession, kafka: KafkaCluster, topic: str, **options: str) -> DataFrame:
    read = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    return spark.readStream.format(OURS).options(**read).load()


def numbered(kafka: KafkaCluster, topic: str, numbers: range) -> None:
    kafka.helper.produce(topic, [{"value": str(n), "partition": n % 2} for n in numbers])


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    begin, end = topic(2), topic(3)
    for numbers in (range(60), range(60, 90)):
        numbered(kafka, begin, numbers)
        query = streamed(source(spark, kafka, begin, maxOffsetsPerTrigger="20"), to(kafka, end), checkpoint)
        assert sum(each["sink"]["numOutputRows"] for each in query.recentProgress) == len(numbers)
    assert values_in(spark, kafka, end) == sorted(str(n) for n in range(90))


def test_output_mode_complete_writes_the_whole_result_again(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    begin, end = topic(2), topic()
    numbered(kafka, begin, range(40))
    counted = source(spark, kafka, begin, maxOffsetsPerTrigger="20").groupBy("partition").count()
    frame = counted.selectExpr("CAST(partition AS STRING) AS key", "CAST(count AS STRING) AS value")
    streamed(frame, to(kafka, end), checkpoint, "complete")
    rows = [(row.key.decode(), row.value.decode()) for row in rows_in(spark, kafka, end)]
    assert sorted(rows) == [("0", "10"), ("0", "20"), ("1", "10"), ("1", "20")]


def test_a_stream_says_what_is_wrong_with_its_sink(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    begin = topic(2)
    numbered(kafka, begin, range(4))
    frame = source(spark, kafka, begin).selectExpr("partition AS value")
    kind, words = said(lambda: streamed(frame, to(kafka, begin), checkpoint))
    assert (kind, words) == ("ConfigError", "value attribute unsupported type int. value must be a(n) string or binary")
