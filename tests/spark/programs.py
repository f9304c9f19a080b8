"""What runs in a driver of its own; see `tests.spark.driver`. Each is told what to do and tells what happened."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from tests.spark.sink import Sink


class Tell(Protocol):
    """Sends an event to the test."""

    def __call__(self, event: str, **fields: Any) -> None: ...


def read_batch(spark: SparkSession, tell: Tell, source: str, options: Mapping[str, str]) -> dict[str, int]:
    """Count a topic's records, and sum their offsets and the lengths of their values."""
    tell("started")
    frame = spark.read.format(source).options(**options).load()
    count, total, length = frame.selectExpr("count(*)", "sum(offset)", "sum(length(value))").collect()[0]
    return {"count": count, "sum": total, "length": length}


def stream(
    spark: SparkSession,
    tell: Tell,
    source: str,
    options: Mapping[str, str],
    checkpoint: str,
    sink: str,
    hold_at: int | None = None,
) -> None:
    """Stream a topic into a `Sink` with AvailableNow.

    Tells `planned` before each batch is read and `written` after, with its id. Batch `hold_at` is written and never
    finished: `holding`.
    """
    into = Sink(Path(sink))

    def write(batch: DataFrame, batch_id: int) -> None:
        tell("planned", batch=batch_id)
        into.write(batch, batch_id)
        tell("written", batch=batch_id)
        if batch_id == hold_at:
            tell("holding")
            threading.Event().wait()

    frame = spark.readStream.format(source).options(**options).load()
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
