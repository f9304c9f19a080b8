"""What ends in the middle of a write: no row is lost, and a row may be there twice only where something ran twice."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import monedula
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.spark._support import paced, processes, session
from tests.spark._support.driver import Driver
from tests.spark._support.paced import paced_numbers
from tests.spark._support.programs import stream_of_numbers
from tests.spark._support.sinks import to, write
from tests.spark._support.sources import OURS
from tests.spark.test_mistakes import said

WAIT_SECONDS = 100.0
ROWS_PER_BATCH = 2000


def wait_for_rows(kafka: KafkaCluster, topic: str, count: int) -> None:
    """Until a topic holds so many records at least."""
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(end for _, end in kafka.helper.offsets(topic).values()) < count:
        assert time.monotonic() < deadline, kafka.helper.offsets(topic)
        time.sleep(0.02)


def run_until(query: StreamingQuery, batch_id: int) -> None:
    """Until a micro-batch is committed; then stop."""
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while query.lastProgress is None or query.lastProgress["batchId"] < batch_id:
            failure = query.exception()
            if failure is not None:
                raise failure
            assert time.monotonic() < deadline, query.status
            time.sleep(0.05)
    finally:
        query.stop()


def numbers_in(kafka: KafkaCluster, topic: str) -> list[int]:
    table = pa.table(monedula.read({"bootstrap.servers": kafka.bootstrap}, topic, columns=["value"]))
    values: list[Any] = table["value"].to_pylist()
    return sorted(int(value.rstrip(b".")) for value in values)


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """A session that hands `paced_numbers` on as they come."""
    before = {name: spark.conf.get(name) for name in paced.CONF}
    for name, value in paced.CONF.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.thorough
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("small_batches")
def test_a_broker_that_restarts_while_a_batch_is_written_has_each_row_once(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    """No task is run again for it, and an idempotent producer repeats nothing. The tasks wait for room meanwhile."""
    name = topic(2)
    go = checkpoint / "go"

    def restart() -> None:
        try:
            wait_for_rows(kafka, name, 1)
            kafka.restart(1)
        finally:
            go.touch()

    restarting = threading.Thread(target=restart)
    restarting.start()
    # The write must run in this thread: in another, Spark does not find a Python data source by its name.
    write(paced_numbers(spark, go, tasks=2, rows_per_task=15_000), OURS, to(kafka, name, kafka_buffer_memory=1 << 20))
    restarting.join(WAIT_SECONDS)
    assert not restarting.is_alive()
    assert numbers_in(kafka, name) == list(range(30_000))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_broker_that_restarts_while_a_stream_is_written_has_each_row_once(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name = topic(2)
    query = stream_of_numbers(spark, ROWS_PER_BATCH, OURS, to(kafka, name), str(checkpoint))
    try:
        wait_for_rows(kafka, name, 1)
        kafka.restart(1)
        under_way = last_planned(checkpoint)
        run_until(query, under_way + 1)
    finally:
        query.stop()
    found = numbers_in(kafka, name)
    assert len(found) == len(set(found))
    assert set(found) >= set(range((under_way + 2) * ROWS_PER_BATCH))


def last_planned(checkpoint: Path) -> int:
    """The id of the newest micro-batch in the offset log."""
    return max(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal())


def test_a_worker_that_is_killed_while_it_writes(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    """In local mode a task is not run again: the query fails, and the next one begins where the checkpoint says."""
    name = topic(2)

    def start() -> StreamingQuery:
        return stream_of_numbers(spark, ROWS_PER_BATCH, OURS, to(kafka, name), str(checkpoint))

    query = start()
    try:
        wait_for_rows(kafka, name, ROWS_PER_BATCH)
        # A task waits for acknowledgements of a frozen broker until it goes on.
        kafka.pause(1)
        try:
            wait_for_tasks(spark)
            with pytest.raises(StreamingQueryException):
                kill_workers_until_it_ends(spark, query)
        finally:
            kafka.resume(1)
    finally:
        query.stop()
    again = last_planned(checkpoint)
    run_until(start(), again + 1)
    assert set(numbers_in(kafka, name)) >= set(range((again + 2) * ROWS_PER_BATCH))


def kill_workers_until_it_ends(spark: SparkSession, query: StreamingQuery) -> None:
    """A task counts as active before it has a worker: what is killed then was idle, and is replaced in silence."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        processes.kill(processes.workers(session.jvm_pid(spark)))
        if query.awaitTermination(1):
            return


def wait_for_tasks(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage and stage.numActiveTasks for stage in stages):
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.thorough
def test_a_driver_that_is_killed_while_it_writes(
    spark: SparkSession,
    driver: Callable[..., Driver],
    kafka: KafkaCluster,
    topic: TopicFactory,
    checkpoint: Path,
) -> None:
    name = topic(2)
    arguments = {"sink": OURS, "options": to(kafka, name), "checkpoint": str(checkpoint)}
    other = driver("stream_numbers", {**arguments, "rows_per_batch": ROWS_PER_BATCH})
    wait_for_rows(kafka, name, 2 * ROWS_PER_BATCH)
    other.kill()
    query = stream_of_numbers(spark, ROWS_PER_BATCH, OURS, to(kafka, name), str(checkpoint))
    run_until(query, 5)
    assert set(numbers_in(kafka, name)) >= set(range(6 * ROWS_PER_BATCH))


def test_a_row_that_the_broker_refuses_fails_the_query_and_is_named(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(1, config={"max.message.bytes": 10_000})
    frame = spark.range(0, 50, numPartitions=1).selectExpr("repeat('x', IF(id = 30, 20000, 10)) AS value")
    kind, words = said(lambda: write(frame, OURS, to(kafka, name)))
    assert kind == "BatchSendError"
    assert words.startswith("1 of 50 rows were not written to Kafka. The first is row 30 of the task")
    assert f"{name}-0" in words
    assert "RecordTooLargeError" in words


def test_a_topic_that_does_not_exist_is_named_and_what_to_do_about_it(spark: SparkSession, kafka: KafkaCluster) -> None:
    frame = spark.range(0, 3, numPartitions=1).selectExpr("CAST(id AS STRING) AS value")
    kind, words = said(lambda: write(frame, OURS, to(kafka, "nowhere")))
    assert kind == "BatchSendError"
    assert "UnknownTopicError: the topic nowhere does not exist" in words
    assert "create it, or set kafka.allow.auto.create.topics=true" in words
