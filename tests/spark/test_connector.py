"""Spark's own Kafka source in the fixture, which ours is compared with."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record
from tests.spark._support.driver import Driver
from tests.spark._support.streams import committed_batches, logged_offsets, run_stream

RECORDS: list[Record] = [{"key": f"k{n}", "value": f"v{n}", "partition": n % 2} for n in range(10)]


def test_reads_a_topic(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(2)
    kafka.helper.produce(name, RECORDS)
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name}
    rows = spark.read.format("kafka").options(**options).load().orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset, bytes(row.value)) for row in rows] == [
        (partition, offset, f"v{2 * offset + partition}".encode()) for partition in range(2) for offset in range(5)
    ]


def test_streams_a_topic(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path) -> None:
    name = topic(2)
    kafka.helper.produce(name, RECORDS)
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, "startingOffsets": "earliest"}
    frame = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger="6").load()
    batches = run_stream(frame, checkpoint)
    assert [(batch.batch_id, len(batch.rows)) for batch in batches] == [(0, 6), (1, 4)]
    assert logged_offsets(checkpoint) == {0: {name: {"0": 3, "1": 3}}, 1: {name: {"0": 5, "1": 5}}}
    assert committed_batches(checkpoint) == [0, 1]


def test_runs_in_a_driver_of_its_own(driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(2)
    kafka.helper.produce(name, RECORDS)
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name}
    other = driver("read_batch", {"source": "kafka", "options": options})
    other.wait_for("started")
    assert other.finish() == {"count": 10, "sum": 20, "length": 20}
