"""`SizeEstimate`: how many files, of how many bytes, a landing job is about to write, by a sample of the records."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monedula.landing.columns import DAY, KAFKA, Columns
from monedula.types.partitions import TopicPartition

_SAMPLED = 10_000
"""The most records that are read, half of them from the beginnings of what is to be read, half from the ends."""

Ranges = Mapping[TopicPartition, tuple[int, int]]


class SizeEstimate(NamedTuple):
    """An estimate; records that compaction or transactions leave out are counted as such that are there."""

    size: int
    """The bytes of the files."""
    files: int

    @classmethod
    def of(
        cls,
        sample: Callable[[Ranges], Any],
        columns: Columns,
        partition_by: str | None,
        ranges: Ranges,
        max_bytes: int,
    ) -> Self:
        """Read a sample, and extrapolate.

        Args:
            sample: reads records of ranges, as a stream of batches.
            columns: makes rows of them.
            partition_by: what the table is partitioned by.
            ranges: what is to be read.
            max_bytes: the bytes of files after which the job commits.
        """
        offsets = sum(end - start for start, end in ranges.values())
        if not offsets:
            return cls(0, 0)
        count = max(_SAMPLED // 2 // len(ranges), 1)
        firsts = {each: (start, min(start + count, end)) for each, (start, end) in ranges.items()}
        lasts = {each: (max(end - count, firsts[each][1]), end) for each, (_, end) in ranges.items()}
        batches = [columns.rows(batch) for part in (firsts, lasts) for batch in sample(_not_empty(part))]
        rows = pa.Table.from_batches([batch.select(columns.schema.names) for batch in batches], columns.schema)
        sampled = sum(end - start for part in (firsts, lasts) for start, end in part.values())
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd", store_schema=False)
        size = sink.tell() * offsets // sampled
        commits = -(-size // max_bytes)
        if partition_by is None:
            return cls(size, commits)
        if partition_by != DAY:
            column: Any = rows.column(partition_by)
            return cls(size, commits * max(len(pc.unique(column)), 1))
        # Each commit has few days of a log, which is by and large in the order of time.
        extremes: Any = pc.min_max(pc.struct_field(rows.column(KAFKA), "timestamp")).as_py()
        days = 1 if extremes["min"] is None else (extremes["max"].date() - extremes["min"].date()).days + 1
        return cls(size, commits + days - 1)


def _not_empty(ranges: Ranges) -> Ranges:
    return {each: (start, end) for each, (start, end) in ranges.items() if start < end}
