"""Numbers to write that come slowly until a file is there: what a test does meanwhile happens inside of a task."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PORTION = 100
VALUE_BYTES = 1000
"""Spark hands nothing over before it has 64 KiB: a portion is more."""
CONF = {"spark.sql.execution.arrow.maxRecordsPerBatch": PORTION}
"""What a session needs for it: Spark collects rows into batches of this size."""
PACE_SECONDS = 0.05
WAIT_SECONDS = 100.0


def paced_numbers(spark: "SparkSession", go: Path, tasks: int, rows_per_task: int) -> "DataFrame":
    """Numbers from 0 on as values, padded with dots, the same ones in each run of a task.

    Args:
        spark: a session.
        go: the file; before it is there, a portion comes now and then, and the last of each task not at all.
        tasks: how many.
        rows_per_task: how many numbers each has.
    """

    def portions(batches: "Iterator[Any]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for batch in batches:
            for task in batch.column("id").to_pylist():
                first, end = task * rows_per_task, (task + 1) * rows_per_task
                for start in range(first, end, PORTION):
                    stop = min(start + PORTION, end)
                    numbers = [str(number).ljust(VALUE_BYTES, ".") for number in range(start, stop)]
                    _wait(go, WAIT_SECONDS if stop == end else PACE_SECONDS)
                    yield pa.RecordBatch.from_arrays([pa.array(numbers)], names=["value"])

    return spark.range(0, tasks, numPartitions=tasks).mapInArrow(portions, "value string")


def _wait(go: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not go.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
