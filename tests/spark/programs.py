"""What runs in a driver of its own; see `tests.spark.driver`. Each is told what to do and tells what happened."""

from collections.abc import Mapping
from typing import Any, Protocol

from pyspark.sql import SparkSession


class Tell(Protocol):
    """Sends an event to the test."""

    def __call__(self, event: str, **fields: Any) -> None: ...


def read_batch(spark: SparkSession, tell: Tell, source: str, options: Mapping[str, str]) -> dict[str, int]:
    """Count a topic's records, and sum their offsets."""
    tell("started")
    frame = spark.read.format(source).options(**options).load()
    count, total = frame.selectExpr("count(*)", "sum(offset)").first()
    return {"count": count, "sum": total}
