"""Streaming queries, on whichever Spark this is."""

import queue
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from monedula import TopicPartition
from monedula.spark.listener import LagListener, LagReport
from pyspark.sql import DataFrame, SparkSession

from tests.spark._support.streams import committed_batches, logged_offsets, run_stream, streaming
from tests.spark.versions.conftest import HAS_ADMISSION_CONTROL, numbers

WAIT_SECONDS = 60
WARNING = "are ignored: data sources in Python have no admission control"


def stream(spark: SparkSession, options: dict[str, str], **more: str) -> DataFrame:
    return spark.readStream.format("monedula").options(**{"startingOffsets": "earliest", **options, **more}).load()


def test_available_now_reads_what_is_there_and_goes_on_from_the_checkpoint(
    spark: SparkSession, orders: dict[str, str], more: Callable[[range], None], checkpoint: Path
) -> None:
    first = run_stream(stream(spark, orders), checkpoint)
    assert numbers(row for batch in first for row in batch.rows) == list(range(10))
    more(range(10, 17))
    second = run_stream(stream(spark, orders), checkpoint)
    assert numbers(row for batch in second for row in batch.rows) == list(range(10, 17))
    offsets = logged_offsets(checkpoint)
    assert offsets[max(offsets)] == {orders["subscribe"]: {"0": 9, "1": 8}}


def test_nothing_new_is_no_batch(spark: SparkSession, orders: dict[str, str], checkpoint: Path) -> None:
    run_stream(stream(spark, orders), checkpoint)
    before = committed_batches(checkpoint)
    assert run_stream(stream(spark, orders), checkpoint) == []
    assert committed_batches(checkpoint) == before


def test_a_running_query_reads_what_comes_and_goes_on_from_the_checkpoint(
    spark: SparkSession, orders: dict[str, str], more: Callable[[range], None], checkpoint: Path
) -> None:
    with streaming(stream(spark, orders), checkpoint, processingTime="100 milliseconds") as running:
        running.query.processAllAvailable()
        assert numbers(running.rows) == list(range(10))
        more(range(10, 16))
        running.query.processAllAvailable()
        assert numbers(running.rows) == list(range(16))
    more(range(16, 20))
    with streaming(stream(spark, orders), checkpoint, processingTime="100 milliseconds") as running:
        running.query.processAllAvailable()
        assert numbers(running.rows) == [16, 17, 18, 19]


def test_a_query_from_the_latest_offsets_reads_what_comes_after_its_start(
    spark: SparkSession, orders: dict[str, str], more: Callable[[range], None], checkpoint: Path
) -> None:
    with streaming(stream(spark, orders, startingOffsets="latest"), checkpoint) as running:
        running.query.processAllAvailable()
        assert running.rows == []
        more(range(10, 14))
        running.query.processAllAvailable()
        assert numbers(running.rows) == [10, 11, 12, 13]


@pytest.mark.parametrize("bound", ["earliest", "latest"])
def test_a_crash_before_the_first_commit_reads_the_same_offsets_again(
    spark: SparkSession, orders: dict[str, str], more: Callable[[range], None], checkpoint: Path, bound: str
) -> None:
    first = run_stream(stream(spark, orders, startingOffsets=bound), checkpoint)
    # As if the driver had been killed in the first batch: it is planned and not committed.
    shutil.rmtree(checkpoint / "commits")
    for path in (checkpoint / "offsets").iterdir():
        if path.name not in ("0", ".0.crc"):
            path.unlink()
    more(range(10, 20))
    # Not AvailableNow: before Spark 4.2 that ends after the batch that it found.
    with streaming(stream(spark, orders, startingOffsets=bound), checkpoint) as running:
        running.query.processAllAvailable()
    again, *after = running.batches
    assert (again.batch_id, numbers(again.rows)) == (0, numbers(row for batch in first for row in batch.rows))
    assert numbers(row for batch in after for row in batch.rows) == list(range(10, 20))


def test_a_new_partition_is_read_from_its_beginning(
    spark: SparkSession, kafka: Any, orders: dict[str, str], checkpoint: Path
) -> None:
    name = orders["subscribe"]
    options = {**orders, "kafka.metadata.max.age.ms": "100"}
    with streaming(stream(spark, options), checkpoint) as running:
        running.query.processAllAvailable()
        kafka.helper.add_partitions(name, 3)
        kafka.helper.produce(name, [{"value": "new", "partition": 2}] * 3)
        while not any(row.partition == 2 for row in running.rows):
            running.query.processAllAvailable()
    assert sorted(row.offset for row in running.rows if row.partition == 2) == [0, 1, 2]
    assert len(running.rows) == 13
    again = run_stream(stream(spark, options), checkpoint)
    assert [row for batch in again for row in batch.rows] == []


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}], ids=["now", "time"])
def test_limits_count_from_spark_4_2_and_are_told_to_be_ignored_before(
    spark: SparkSession,
    spark_log: Callable[[], str],
    orders: dict[str, str],
    checkpoint: Path,
    trigger: dict[str, Any],
) -> None:
    with streaming(stream(spark, orders, maxOffsetsPerTrigger="4"), checkpoint, **trigger) as running:
        running.query.processAllAvailable()
    sizes = [len(batch.rows) for batch in running.batches if batch.rows]
    assert sizes == ([4, 4, 2] if HAS_ADMISSION_CONTROL else [10])
    assert numbers(running.rows) == list(range(10))
    assert spark_log().count(WARNING) == (0 if HAS_ADMISSION_CONTROL else 1)


def test_wrong_options_are_named(spark: SparkSession, orders: dict[str, str], checkpoint: Path) -> None:
    # Valid for a batch query, so that load() does not refuse it.
    with pytest.raises(Exception, match=r"(?s)ConfigError.*ending offset not valid"):
        run_stream(stream(spark, orders, endingOffsets="latest"), checkpoint)


def test_the_lag_is_reported(spark: SparkSession, orders: dict[str, str], checkpoint: Path) -> None:
    reports: queue.Queue[LagReport] = queue.Queue()
    listener = LagListener(reports.put)
    spark.streams.addListener(listener)
    try:
        run_stream(stream(spark, orders), checkpoint)
        report = reports.get(timeout=WAIT_SECONDS)
    finally:
        spark.streams.removeListener(listener)
    assert listener.failures == {}
    assert report.end_offsets == {TopicPartition(orders["subscribe"], each): 5 for each in range(2)}
    assert report.lag == 0
