"""What became of the rows of `send_batch`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from monedula.errors import KafkaError
from monedula.partitions import TopicPartition


class RowError(NamedTuple):
    """A row that was not delivered."""

    row: int
    """Its place in what was sent, from 0, counted over all batches of a table."""
    error: KafkaError


@dataclass(frozen=True)
class BatchReport:
    """What became of the rows that one `send_batch` sent.

    Attributes:
        num_rows: how many there were.
        acknowledged: how many the brokers have.
        failed: how many were given up.
        offsets: by partition, the first and last offset of each run of rows; empty with `acks=0`, which tells none.
        errors: why rows were given up; of very many the first ones, `failed` counts all.
    """

    num_rows: int
    acknowledged: int
    failed: int
    offsets: Mapping[TopicPartition, Sequence[tuple[int, int]]] = field(default_factory=dict)
    errors: Sequence[RowError] = ()

    def __repr__(self) -> str:
        """Counts only: the rest may be long."""
        return f"<monedula.BatchReport of {self.num_rows} rows: {self.acknowledged} acknowledged, {self.failed} failed>"


def report(
    num_rows: int,
    acknowledged: int,
    failed: int,
    offsets: Mapping[tuple[str, int], list[tuple[int, int]]],
    errors: list[tuple[int, KafkaError]],
) -> BatchReport:
    """What the core tells."""
    runs = {TopicPartition(*partition): found for partition, found in offsets.items()}
    return BatchReport(num_rows, acknowledged, failed, runs, [RowError(*error) for error in errors])
