"""What ends in the middle, and the restart from the checkpoint: each row exactly once in a sink keyed by batch id."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record
from tests.spark._support import processes, session
from tests.spark._support.driver import Driver
from tests.spark._support.sink import Position, Sink
from tests.spark._support.sources import OURS, options_for
from tests.spark._support.streams import committed_batches, logged_offsets
from tests.spark.test_stream import fill

QUERY_TIMEOUT_SECONDS = 80


@pytest.fixture
def sink(checkpoint: Path) -> Sink:
    return Sink(checkpoint / "sink")


def run(
    spark: SparkSession,
    options: dict[str, str],
    checkpoint: Path,
    sink: Sink,
    before: Callable[[int], None] | None = None,
) -> None:
    """Stream into the sink with AvailableNow; `before` gets each batch's id, planned and not yet read."""

    def write(batch: DataFrame, batch_id: int) -> None:
        if before is not None:
            before(batch_id)
        sink.write(batch, batch_id)

    frame = spark.readStream.format(OURS).options(**options).load()
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint / "query"))
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(QUERY_TIMEOUT_SECONDS), query.status
    finally:
        query.stop()


def everything(topic: str, counts: dict[int, int]) -> list[Position]:
    return sorted((topic, partition, offset) for partition, count in counts.items() for offset in range(count))


def test_a_worker_that_is_killed_while_it_reads(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, sink: Sink
) -> None:
    name = topic(2)
    fill(kafka, name, {0: 60, 1: 60})
    options = options_for(kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=40)
    killers: list[threading.Thread] = []

    def kill_one(batch_id: int) -> None:
        if batch_id == 1 and not killers:
            # Tasks that read from a frozen broker wait until it goes on.
            kafka.pause(1)
            killers.append(threading.Thread(target=_kill_readers, args=(spark, kafka)))
            killers[0].start()

    # In local mode a task is not run again: its query fails, and the next one begins where the checkpoint says.
    with pytest.raises(StreamingQueryException):
        run(spark, options, checkpoint, sink, kill_one)
    killers[0].join(60)
    assert list(sink.batches()) == [0]
    run(spark, options, checkpoint, sink)
    assert sink.positions() == everything(name, {0: 60, 1: 60})


def _kill_readers(spark: SparkSession, kafka: KafkaCluster) -> None:
    tracker = spark.sparkContext.statusTracker()
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage and stage.numActiveTasks for stage in stages):
                processes.kill(processes.workers(session.jvm_pid(spark)))
                return
            time.sleep(0.05)
    finally:
        kafka.resume(1)


def test_a_broker_that_restarts_between_plan_and_read(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, sink: Sink
) -> None:
    name = topic(2)
    fill(kafka, name, {0: 60, 1: 60})

    def restart(batch_id: int) -> None:
        if batch_id == 1:
            kafka.restart(1)

    options = options_for(kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=40)
    run(spark, options, checkpoint, sink, restart)
    assert sink.positions() == everything(name, {0: 60, 1: 60})


@pytest.mark.thorough  # tests/spark/test_worker.py has the same of one task
def test_a_leader_that_moves_between_plan_and_read(
    spark: SparkSession, kafka3: KafkaCluster, topic: TopicFactory, checkpoint: Path, sink: Sink
) -> None:
    name = topic(cluster=kafka3, assignment={0: [1, 2, 3], 1: [2, 3, 1]})
    fill(kafka3, name, {0: 60, 1: 60})

    def move(batch_id: int) -> None:
        if batch_id == 1:
            kafka3.helper.move_leader(name, 0, 2)
        if batch_id == 2:
            kafka3.kill(2)

    options = options_for(kafka3, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=40)
    try:
        run(spark, options, checkpoint, sink, move)
    finally:
        if kafka3.nodes[2].pid is None:
            kafka3.start(2)
    assert sink.positions() == everything(name, {0: 60, 1: 60})


def killed_in(driver: Callable[..., Driver], options: dict[str, str], checkpoint: Path, batch_id: int) -> None:
    """Run a driver in another process and kill it when it has written a batch that Spark has not committed."""
    arguments = {"source": OURS, "options": options, "checkpoint": str(checkpoint / "query")}
    other = driver("stream", {**arguments, "sink": str(checkpoint / "sink"), "hold_at": batch_id})
    other.wait_for("holding")
    other.kill()
    assert max(logged_offsets(checkpoint / "query")) == batch_id
    assert batch_id not in committed_batches(checkpoint / "query")


def test_a_driver_killed_between_offset_log_and_commit_log(
    spark: SparkSession,
    driver: Callable[..., Driver],
    kafka: KafkaCluster,
    topic: TopicFactory,
    checkpoint: Path,
    sink: Sink,
) -> None:
    name = topic(2)
    fill(kafka, name, {0: 60, 1: 60})
    options = options_for(kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=40)
    killed_in(driver, options, checkpoint, 1)
    before = sink.batches()
    fill(kafka, name, {0: 10})
    run(spark, options, checkpoint, sink)
    assert {number: sink.batches()[number] for number in before} == before
    found = sink.positions()
    assert found == everything(name, {0: 70, 1: 60})
    assert (len(found), sum(offset for _, _, offset in found)) == (130, 69 * 35 + 59 * 30)


@pytest.mark.thorough
def test_the_first_batch_of_a_killed_driver_is_read_again_from_the_same_start(
    spark: SparkSession,
    driver: Callable[..., Driver],
    kafka: KafkaCluster,
    topic: TopicFactory,
    checkpoint: Path,
    sink: Sink,
) -> None:
    """Looked up again, the start of partition 1 would lie behind what came meanwhile: that would be lost."""
    name = topic(2, config={"retention.ms": -1})
    now_ms = time.time_ns() // 1_000_000
    late: list[Record] = [{"value": "x", "partition": 0, "timestamp": now_ms + n} for n in range(5)]
    kafka.helper.produce(name, [{"value": "x", "partition": 1, "timestamp": 1000}, *late])
    options = options_for(kafka, subscribe=name, startingTimestamp=now_ms, startingOffsetsByTimestampStrategy="latest")
    killed_in(driver, options, checkpoint, 0)
    assert sink.batches() == {0: [(name, 0, offset) for offset in range(5)]}
    more: list[Record] = [{"value": "x", "partition": partition, "timestamp": 1000} for partition in (0, 1, 1)]
    kafka.helper.produce(name, more)
    run(spark, options, checkpoint, sink)
    assert sink.batches() == {
        0: [(name, 0, offset) for offset in range(5)],
        1: [(name, 0, 5), (name, 1, 1), (name, 1, 2)],
    }


@pytest.mark.thorough
def test_a_query_from_latest_that_was_killed_in_its_first_batch_misses_nothing(
    spark: SparkSession,
    driver: Callable[..., Driver],
    kafka: KafkaCluster,
    topic: TopicFactory,
    checkpoint: Path,
    sink: Sink,
) -> None:
    name = topic(2)
    fill(kafka, name, {0: 3, 1: 3})
    options = options_for(kafka, subscribe=name, startingOffsets="latest")
    killed_in(driver, options, checkpoint, 0)
    assert json.dumps(logged_offsets(checkpoint / "query")[0]["$start"]) == json.dumps({name: {"0": 3, "1": 3}})
    fill(kafka, name, {0: 2, 1: 1})
    run(spark, options, checkpoint, sink)
    assert sink.positions() == [(name, 0, 3), (name, 0, 4), (name, 1, 3)]


@pytest.mark.parametrize("batches", [25, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
@pytest.mark.thorough
def test_a_long_run_with_restarts(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, sink: Sink, batches: int
) -> None:
    name = topic(3)
    counts = {0: batches * 6, 1: batches * 3, 2: batches}
    fill(kafka, name, counts)
    options = options_for(kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    stops = set(range(7, batches, 7))

    class Stopped(Exception):
        pass

    def stop(batch_id: int) -> None:
        if batch_id in stops:
            stops.remove(batch_id)
            raise Stopped

    for _ in range(len(stops)):
        with pytest.raises(StreamingQueryException, match="Stopped"):
            run(spark, options, checkpoint, sink, stop)
    run(spark, options, checkpoint, sink, stop)
    assert len(sink.batches()) >= batches
    assert sink.positions() == everything(name, counts)
