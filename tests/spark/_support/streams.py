"""Streaming queries whose micro-batches are collected, for tests to look into."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming import StreamingQuery

POSITION = ("topic", "partition", "offset")
QUERY_TIMEOUT_SECONDS = 90


@dataclass
class MicroBatch:
    """One call of foreachBatch."""

    batch_id: int
    rows: "list[Row]"


@dataclass
class Running:
    """A query and what it has handed out so far."""

    query: "StreamingQuery"
    batches: list[MicroBatch] = field(default_factory=list)

    @property
    def rows(self) -> "list[Row]":
        """Of all batches."""
        return [row for batch in self.batches for row in batch.rows]


@contextmanager
def streaming(
    frame: "DataFrame", checkpoint: Path, columns: Sequence[str] = POSITION, **trigger: Any
) -> Iterator[Running]:
    """Run a query into memory until the block ends.

    Args:
        frame: of `spark.readStream`.
        checkpoint: its directory.
        columns: what to collect.
        trigger: as for `DataStreamWriter.trigger`; by default each batch follows the one before.
    """
    running = Running.__new__(Running)
    running.batches = []
    lock = threading.Lock()

    def collect(batch: "DataFrame", batch_id: int) -> None:
        rows = batch.select(*columns).collect()
        with lock:
            running.batches.append(MicroBatch(batch_id, rows))

    writer = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
    running.query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        yield running
    finally:
        running.query.stop()


def run_stream(
    frame: "DataFrame", checkpoint: Path, columns: Sequence[str] = POSITION, **trigger: Any
) -> list[MicroBatch]:
    """Run a query to its end (AvailableNow by default), and return its batches.

    Raises:
        StreamingQueryException: it failed.
    """
    with streaming(frame, checkpoint, columns, **(trigger or {"availableNow": True})) as running:
        if not running.query.awaitTermination(QUERY_TIMEOUT_SECONDS):
            raise AssertionError(f"the query is not through after {QUERY_TIMEOUT_SECONDS} s: {running.query.status}")
        return running.batches


def logged_offsets(checkpoint: Path) -> dict[int, Any]:
    """What the offset log of a checkpoint with one source holds: the parsed offset by batch id."""
    logged = {}
    for path in (checkpoint / "offsets").iterdir():
        if path.name.isdecimal():
            # A version, the batch's metadata, and a line for each source.
            logged[int(path.name)] = json.loads(path.read_text().splitlines()[2])
    return logged


def committed_batches(checkpoint: Path) -> list[int]:
    """The ids of the batches that the commit log of a checkpoint names."""
    return sorted(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())


def forget_commits(checkpoint: Path, first: int) -> None:
    """Leave a checkpoint as a crash would while batch `first` ran: planned, and not committed."""
    for log, kept in (("offsets", first), ("commits", first - 1)):
        for path in (checkpoint / log).iterdir():
            number = path.name.removeprefix(".").removesuffix(".crc")
            if number.isdecimal() and int(number) > kept:
                path.unlink()
