"""What ends in the middle of a write: no row is lost, and a row may be there twice only where something ran twice."""

import time
from collections.abc import Callable
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
from tests.spark import processes, session
from tests.spark.driver import Driver
from tests.spark.programs import stream_of_numbers
from tests.spark.sinks import to
from tests.spark.sources import OURS

WAIT_SECONDS = 80.0
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
        # Frozen, the broker holds a task where it waits for acknowledgements.
        kafka.pause(1)
        try:
            wait_for_tasks(spark)
            processes.kill(processes.workers(session.jvm_pid(spark)))
        finally:
            kafka.resume(1)
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(int(WAIT_SECONDS))
    finally:
        query.stop()
    again = int(max(path.name for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal()))
    run_until(start(), again + 1)
    assert set(numbers_in(kafka, name)) >= set(range((again + 2) * ROWS_PER_BATCH))


def wait_for_tasks(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage and stage.numActiveTasks for stage in stages):
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


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
