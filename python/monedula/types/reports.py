"""`BatchReport` and `RowError`: the result of a `send_batch` or `send_many` call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from monedula.errors import KafkaError
from monedula.types.partitions import TopicPartition


class RowError(NamedTuple):
    """A row that was not delivered."""

    row: int
    """The index of the row in the data that was sent, from 0, counted over all batches of a table."""
    error: KafkaError


@dataclass(frozen=True)
class BatchReport:
    """The result of one `send_batch` or `send_many` call.

    Attributes:
        num_rows: the number of rows that were sent.
        acknowledged: the number of rows that the brokers acknowledged.
        failed: the number of rows that failed.
        offsets: by partition, the first and last offset of each run of rows; empty with `acks=0`, which returns none.
        errors: the failed rows with their errors; if there are very many, only the first ones (`failed` counts all).
    """

    num_rows: int
    acknowledged: int
    failed: int
    offsets: Mapping[TopicPartition, Sequence[tuple[int, int]]] = field(default_factory=dict)
    errors: Sequence[RowError] = ()

    def __repr__(self) -> str:
        """The counts only; `offsets` and `errors` may be long."""
        rows = "1 row" if self.num_rows == 1 else f"{self.num_rows} rows"
        return f"<monedula.BatchReport of {rows}: {self.acknowledged} acknowledged, {self.failed} failed>"


def report(
    num_rows: int,
    acknowledged: int,
    failed: int,
    offsets: Mapping[tuple[str, int], list[tuple[int, int]]],
    errors: list[tuple[int, KafkaError]],
) -> BatchReport:
    """The report for the core's result of a `send_batch` call; the core calls this."""
    runs = {TopicPartition(*partition): found for partition, found in offsets.items()}
    return BatchReport(num_rows, acknowledged, failed, runs, [RowError(*error) for error in errors])
