"""Batches of our source side by side with those of Spark's own, over the same topics."""

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import CODECS, Record
from tests.spark._support.sources import JVM, OURS, SOURCES, load, options_for, rows_of, same_rows

FIRST_MS = 1_700_000_000_000
KEPT = {"retention.ms": -1}  # the records are older than what a broker keeps

VARIED: list[Record] = [
    {"key": "k", "value": "v", "timestamp": FIRST_MS},
    {"key": None, "value": "null key", "timestamp": FIRST_MS + 1},
    {"key": "tombstone", "value": None, "timestamp": FIRST_MS + 2},
    {"key": "", "value": "", "timestamp": 0},
    {"key": bytes(range(256)), "value": b"\xff\xfe\0", "timestamp": FIRST_MS + 999},
    {"key": "h", "value": "one", "headers": [("a", "1")], "timestamp": FIRST_MS + 3},
    {"key": "h", "value": "twice", "headers": [("a", "1"), ("b", None), ("a", ""), ("", b"\x80")], "timestamp": 5},
    {"key": "long", "value": "x" * 100_000, "timestamp": FIRST_MS + 4},
]


@pytest.fixture(scope="module")
def spread(kafka: KafkaCluster) -> str:
    """A topic of three partitions with 40, 10 and 0 records; record `n` of each has the time `FIRST_MS + 1000 * n`."""
    name = "spark-batch-spread"
    kafka.helper.create_topic(name, partitions=3, config=KEPT)
    for partition, count in ((0, 40), (1, 10)):
        records: list[Record] = [
            {"value": f"{partition}:{n}", "partition": partition, "timestamp": FIRST_MS + 1000 * n}
            for n in range(count)
        ]
        kafka.helper.produce(name, records)
    return name


def test_columns_of_every_codec_are_equal(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    names = {codec: topic(1, config=KEPT) for codec in CODECS}
    for codec, name in names.items():
        kafka.helper.produce(name, VARIED, codec=codec)
    options = options_for(kafka, subscribe=",".join(names.values()), includeHeaders="true")
    rows = same_rows(spark, options)
    assert len(rows) == len(CODECS) * len(VARIED)
    assert {row.headers is None for row in rows} == {True, False}


def test_log_append_time_is_equal(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(1, config={"message.timestamp.type": "LogAppendTime"})
    kafka.helper.produce(name, VARIED)
    rows = same_rows(spark, options_for(kafka, subscribe=name))
    assert {row.timestampType for row in rows} == {1}


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_are_equal(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, isolation: str) -> None:
    name = topic(2)

    def both(text: str) -> list[Record]:
        return [{"value": text, "partition": partition} for partition in (0, 1)]

    kafka.helper.produce(name, both("plain"))
    kafka.helper.produce(name, both("committed"), transaction="commit")
    kafka.helper.produce(name, both("aborted"), transaction="abort")
    kafka.helper.produce(name, both("committed"), transaction="commit")
    # Until the transaction ends, the last stable offset hides the committed records behind it.
    transactional_id = f"open-{name}"
    kafka.helper.produce(name, both("open"), transaction="open", transactional_id=transactional_id)
    kafka.helper.produce(name, both("behind"))
    rows = same_rows(spark, options_for(kafka, subscribe=name, kafka_isolation_level=isolation))
    kafka.helper.end_transaction(transactional_id, "abort")
    values = [bytes(row.value).decode() for row in rows if row.partition == 0]
    hidden = isolation == "read_committed"
    assert values == ["plain", "committed", *([] if hidden else ["aborted"]), "committed"] + (
        [] if hidden else ["open", "behind"]
    )


def test_a_topic_that_ends_in_an_aborted_transaction_is_equal(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(1)
    kafka.helper.produce(name, [{"value": "kept"}])
    kafka.helper.produce(name, [{"value": "dropped"}] * 5, transaction="abort")
    rows = same_rows(spark, options_for(kafka, subscribe=name, kafka_isolation_level="read_committed"))
    assert [row.offset for row in rows] == [0]


@pytest.mark.thorough
@pytest.mark.jvm
def test_a_topic_with_gaps_is_equal(spark: SparkSession, topic: TopicFactory) -> None:
    settings = {"segment.ms": 100, "min.cleanable.dirty.ratio": 0.01, "max.compaction.lag.ms": 100}
    with KafkaCluster(config={"log.cleaner.backoff.ms": 100}) as cleaning:
        name = topic(1, cluster=cleaning, config={"cleanup.policy": "compact", "segment.bytes": 1 << 20, **settings})
        for turn in range(4):
            cleaning.helper.produce(name, [{"key": str(key), "value": f"{turn}:{key}"} for key in range(20)])
        options = options_for(cleaning, subscribe=name)
        # Each append may roll the segment before it, which alone can be cleaned.
        for _ in range(100):
            cleaning.helper.produce(name, [{"key": "roll", "value": "x"}])
            found = load(spark, OURS, options).select("offset").collect()
            if len(found) < cleaning.helper.offsets(name)[0][1] // 2:
                break
        # The log is cleaned meanwhile. A fixed end offset and the last value of each key do not change by that.
        options["endingOffsets"] = json.dumps({name: {"0": cleaning.helper.offsets(name)[0][1]}})
        latest = [_last_by_key(rows_of(load(spark, source, options))) for source in SOURCES]
        assert latest[0] == latest[1]
        assert latest[0].items() >= {str(key): f"3:{key}" for key in range(20)}.items()
        # A range within a gap has no rows, and ends.
        options["endingOffsets"] = json.dumps({name: {"0": 10}})
        assert rows_of(load(spark, OURS, options)) == []


def _last_by_key(rows: list[Row]) -> dict[str, str]:
    return {bytes(row.key).decode(): bytes(row.value).decode() for row in rows}


@pytest.mark.parametrize("headers", ["true", "false"])
def test_the_schema_is_equal(spark: SparkSession, kafka: KafkaCluster, spread: str, headers: str) -> None:
    options = options_for(kafka, subscribe=spread, includeHeaders=headers)
    jvm, ours = (load(spark, source, options).schema for source in SOURCES)
    assert ours == jvm
    assert ("headers" in ours.fieldNames()) == (headers == "true")


LATEST = {"startingOffsetsByTimestampStrategy": "latest"}
# Options, objects by partition, and how many records of partitions 0 and 1 they select.
BOUNDS: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "earliest to latest": ({"startingOffsets": "earliest", "endingOffsets": "latest"}, (40, 10)),
    "offsets": ({"startingOffsets": {0: 5, 1: 3, 2: 0}, "endingOffsets": {0: 12, 1: 4, 2: 0}}, (7, 1)),
    "offsets by name": ({"startingOffsets": {0: -2, 1: 3, 2: -2}, "endingOffsets": {0: -1, 1: 4, 2: -1}}, (40, 1)),
    "one empty": ({"startingOffsets": {0: 5, 1: 3, 2: 0}, "endingOffsets": {0: 5, 1: 4, 2: 0}}, (0, 1)),
    "one time": ({"startingTimestamp": FIRST_MS + 4500, "endingTimestamp": FIRST_MS + 8000, **LATEST}, (3, 3)),
    "times": (
        {"startingOffsetsByTimestamp": {0: FIRST_MS + 39_000, 1: FIRST_MS, 2: FIRST_MS}, **LATEST},
        (1, 10),
    ),
    "times behind the end": (
        {"endingOffsetsByTimestamp": {0: FIRST_MS + 5000, 1: FIRST_MS + 10**9, 2: FIRST_MS}},
        (5, 10),
    ),
    "a time before an offset": (
        {"startingTimestamp": FIRST_MS + 35_000, "startingOffsets": "earliest", **LATEST},
        (5, 0),
    ),
    "times before a time": (
        {
            "startingOffsetsByTimestamp": {0: FIRST_MS, 1: FIRST_MS, 2: FIRST_MS},
            "endingTimestamp": FIRST_MS + 2000,
            **LATEST,
        },
        (2, 2),
    ),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_bounds_are_read_equally(spark: SparkSession, kafka: KafkaCluster, spread: str, case: str) -> None:
    bounds, counts = BOUNDS[case]
    written = {key: json.dumps({spread: value}) if isinstance(value, dict) else value for key, value in bounds.items()}
    rows = same_rows(spark, options_for(kafka, subscribe=spread, **written))
    assert tuple(sum(row.partition == partition for row in rows) for partition in (0, 1)) == counts


def test_selections_read_the_same_topics(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    names = [topic(2) for _ in range(2)]
    for name in names:
        kafka.helper.produce(name, [{"value": name, "partition": partition} for partition in (0, 1)])
    stem = names[0].rsplit("-", 1)[0]
    assigned = json.dumps({names[0]: [1], names[1]: [0, 1]})
    for selection, count in (
        ({"subscribe": f" {names[0]} ,{names[1]}"}, 4),
        ({"subscribePattern": f"{stem}-\\d+"}, 4),
        ({"subscribePattern": f"^{stem[1:]}"}, 0),
        ({"subscribePattern": stem[1:]}, 4),
        ({"assign": assigned}, 3),
    ):
        rows = same_rows(spark, options_for(kafka, **selection))
        assert len(rows) == count, selection


@pytest.mark.parametrize(
    "limits",
    [
        {"minPartitions": 4},
        {"minPartitions": 7},
        {"minPartitions": 20},
        {"minPartitions": 5, "maxRecordsPerPartition": 9},
    ],
    ids=str,
)
def test_ranges_are_split_equally(
    spark: SparkSession, kafka: KafkaCluster, spread: str, limits: dict[str, int]
) -> None:
    options = options_for(kafka, subscribe=spread, **limits)
    jvm, ours = (_ranges(load(spark, source, options)) for source in SOURCES)
    assert ours == jvm
    assert len(ours) > 3


def test_no_task_has_more_records_than_allowed(spark: SparkSession, kafka: KafkaCluster, spread: str) -> None:
    # Batches of Spark's own source obey this only together with minPartitions.
    ranges = _ranges(load(spark, OURS, options_for(kafka, subscribe=spread, maxRecordsPerPartition=7)))
    assert len(ranges) == 8
    assert max(last - first + 1 for _, first, last in ranges) <= 7


def test_small_partitions_are_put_together(spark: SparkSession, kafka: KafkaCluster, spread: str) -> None:
    frame = load(spark, OURS, options_for(kafka, subscribe=spread, maxPartitions=1))
    assert frame.rdd.getNumPartitions() == 1
    assert frame.count() == 50


def _ranges(frame: DataFrame) -> list[tuple[int, int, int]]:
    """Partition, first and last offset of each task that had rows."""
    by_task = frame.groupBy(f.spark_partition_id(), "partition").agg(f.min("offset"), f.max("offset"))
    return sorted((partition, first, last) for _, partition, first, last in by_task.collect())


@pytest.mark.parametrize(
    "schema",
    ["value binary", "offset long, key binary", "timestampType int, timestamp timestamp, topic string, partition int"],
)
def test_a_schema_projects(spark: SparkSession, kafka: KafkaCluster, spread: str, schema: str) -> None:
    options = options_for(kafka, subscribe=spread)
    ours = spark.read.format(OURS).options(**options).schema(schema).load()
    jvm = load(spark, JVM, options).select(*ours.columns)
    assert ours.schema == jvm.schema
    assert sorted(ours.collect()) == sorted(jvm.collect())


def test_the_option_columns_projects(spark: SparkSession, kafka: KafkaCluster, spread: str) -> None:
    frame = load(spark, OURS, options_for(kafka, subscribe=spread, columns="value,offset"))
    assert sorted(frame.columns) == ["offset", "value"]
    jvm = load(spark, JVM, options_for(kafka, subscribe=spread)).select(*frame.columns)
    assert sorted(frame.collect()) == sorted(jvm.collect())


def test_the_option_columns_and_include_headers_add_up(spark: SparkSession, kafka: KafkaCluster, spread: str) -> None:
    frame = load(spark, OURS, options_for(kafka, subscribe=spread, columns="value", includeHeaders="true"))
    assert frame.columns == ["value", "headers"]
    assert frame.limit(1).collect()[0].asDict().keys() == {"value", "headers"}


def test_headers_can_be_projected_without_the_option(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(1, config=KEPT)
    kafka.helper.produce(name, VARIED)
    jvm = load(spark, JVM, options_for(kafka, subscribe=name, includeHeaders="true")).select("offset", "headers")
    reader = spark.read.format(OURS).options(**options_for(kafka, subscribe=name))
    ours = reader.schema("offset long, headers array<struct<key:string,value:binary>>").load()
    assert sorted(ours.collect()) == sorted(jvm.collect())


def test_a_limit_and_a_filter_are_sparks(spark: SparkSession, kafka: KafkaCluster, spread: str) -> None:
    frame = load(spark, OURS, options_for(kafka, subscribe=spread))
    assert len(frame.limit(3).collect()) == 3
    assert [row.offset for row in frame.where("partition = 1 and offset >= 8").orderBy("offset").collect()] == [8, 9]
    # Tasks that a limit ends early leave their workers usable for the next query.
    assert frame.count() == 50


def test_more_rows_than_one_arrow_batch(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(2)
    for partition in (0, 1):
        kafka.helper.produce(name, [{"value": str(n), "partition": partition} for n in range(70_000)], codec="lz4")
    frame = load(spark, OURS, options_for(kafka, subscribe=name))
    assert tuple(frame.selectExpr("count(*)", "sum(offset)", "sum(int(string(value)))").first() or ()) == (
        140_000,
        2 * 69_999 * 35_000,
        2 * 69_999 * 35_000,
    )


def test_records_that_are_gone_fail_the_query_or_are_left_out(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(1)
    kafka.helper.produce(name, [{"value": str(n)} for n in range(10)])
    kafka.helper.delete_records(name, {0: 4})
    options = options_for(kafka, subscribe=name, startingOffsets=json.dumps({name: {"0": 1}}))
    for source in SOURCES:
        with pytest.raises(Exception, match=r"[Ss]ome data may have been lost"):
            load(spark, source, options).collect()
    assert [row.offset for row in same_rows(spark, {**options, "failOnDataLoss": "false"})] == [4, 5, 6, 7, 8, 9]
