"""`LagListener` on real queries, with a real group."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from monedula import OffsetAndMetadata, TopicPartition
from monedula.spark.listener import LagListener, LagReport, PartitionLag
from pyspark.sql import SparkSession

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record
from tests.real.reading import committed
from tests.spark._support.streams import run_stream, streaming

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import QueryTerminatedEvent

WAIT_SECONDS = 90.0
RECORDS: list[Record] = [{"value": f"v{n}", "partition": n % 2} for n in range(10)]


class Told:
    """What a listener was told, for a test to wait for."""

    def __init__(self) -> None:
        self.reports: list[LagReport] = []
        self._more = threading.Condition()

    def __call__(self, report: LagReport) -> None:
        with self._more:
            self.reports.append(report)
            self._more.notify_all()

    def wait_for(self, condition: Callable[[list[LagReport]], object]) -> None:
        with self._more:
            assert self._more.wait_for(lambda: condition(self.reports), WAIT_SECONDS), self.reports


class Listener(LagListener):
    """One that knows when Spark has told it of the end of a query: later than the query's own methods do."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.ended = threading.Event()

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        super().onQueryTerminated(event)
        self.ended.set()


@contextmanager
def listening(spark: SparkSession, listener: LagListener) -> Iterator[None]:
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        spark.streams.removeListener(listener)
        listener.close(WAIT_SECONDS)


@pytest.mark.parametrize("source", ["monedula", "kafka"])
def test_a_query_tells_its_lag_and_commits_to_a_group(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, source: str
) -> None:
    name, group, told = topic(2), f"lag-of-{source}", Told()
    kafka.helper.produce(name, RECORDS)
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, "startingOffsets": "earliest"}
    frame = spark.readStream.format(source).options(**options, maxOffsetsPerTrigger="4").load()
    listener = Listener(told, commit_to={"kafka.bootstrap.servers": kafka.bootstrap}, group_id=group)
    with listening(spark, listener):
        run_stream(frame, checkpoint)
        told.wait_for(lambda reports: len(reports) >= 3)
        assert listener.ended.wait(WAIT_SECONDS)
        assert listener.flush(WAIT_SECONDS)
    partitions = [TopicPartition(name, 0), TopicPartition(name, 1)]
    assert [(report.batch_id, report.lag) for report in told.reports] == [(0, 6), (1, 2), (2, 0)]
    assert told.reports[0].partitions == dict.fromkeys(partitions, PartitionLag(2, 5))
    assert listener.reports == {}, "the query has ended"
    assert committed(kafka.bootstrap, group) == dict.fromkeys(partitions, OffsetAndMetadata(5))
    assert listener.failures == {}


def test_the_end_of_a_query_commits_its_last_batch(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name, told = topic(), Told()
    kafka.helper.produce(name, [{"value": "x"}])
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, "startingOffsets": "earliest"}
    frame = spark.readStream.format("monedula").options(**options).load()
    listener = Listener(
        told,
        commit_to={"bootstrap.servers": kafka.bootstrap},
        group_id=lambda report: f"group-of-{report.name}",
        flush_timeout=WAIT_SECONDS,
    )
    with listening(spark, listener):
        query = frame.writeStream.format("noop").queryName("last").option("checkpointLocation", str(checkpoint)).start()
        try:
            told.wait_for(lambda reports: reports and reports[-1].end_offsets == {TopicPartition(name, 0): 1})
        finally:
            query.stop()
        assert listener.ended.wait(WAIT_SECONDS)
    assert committed(kafka.bootstrap, "group-of-last") == {(name, 0): OffsetAndMetadata(1)}
    assert {report.name for report in told.reports} == {"last"}


def test_a_listener_that_fails_harms_no_query(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "a"}])
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, "startingOffsets": "earliest"}
    frame = spark.readStream.format("monedula").options(**options).load()
    failed = threading.Event()

    def fail(report: LagReport) -> None:
        failed.set()
        raise RuntimeError(f"no use for {report}")

    # Nothing listens on this port: commits never come to an end.
    listener = LagListener(
        fail, commit_to={"bootstrap.servers": "127.0.0.1:1"}, group_id="unreachable", flush_timeout=0.1
    )
    with listening(spark, listener), streaming(frame, checkpoint) as running:
        assert failed.wait(WAIT_SECONDS)
        kafka.helper.produce(name, [{"value": "b"}])
        running.query.processAllAvailable()
        listener.close(0.1)
    assert [row.offset for row in running.rows] == [0, 1]
    assert listener.failures["on_lag: RuntimeError"] >= 1
