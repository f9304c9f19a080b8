"""Reading record by record over batches, without losing what was read ahead."""

from collections.abc import Iterator

from monedula._monedula import Batch, ConsumerCore, Record, Span
from monedula.errors import KafkaError

MAX_ROWS = 10_000
"""Rows read ahead: enough that a batch costs nothing a record, few enough to give back."""


class RowCursor:
    """The rows of one batch after another. Who leaves early gives back the rows not taken."""

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core
        self._batch: Batch | None = None
        self._rows: Iterator[Record] = iter(())
        self._taken = 0

    def load(self, batch: Batch) -> None:
        """Go on with this batch."""
        self._batch, self._rows, self._taken = batch, batch.records(), 0

    def take(self) -> Record | None:
        """The next record, `None` if the batch is used up."""
        record = next(self._rows, None)
        if record is None:
            self._batch = None
        self._taken += 1
        return record

    def give_back(self) -> None:
        """Let the consumer hand out again what was not taken, except where it was moved or lost the partition since."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        taken = self._taken
        unread: dict[tuple[str, int], tuple[int, int]] = {}
        for span in batch.spans:
            first, taken = min(taken, span.rows), max(taken - span.rows, 0)
            if first < span.rows:
                partition = (span.topic, span.partition)
                offset, _ = unread.get(partition) or (self._offset(span, first), 0)
                unread[partition] = (offset, span.next_offset)
        for partition, (offset, expected) in unread.items():
            try:
                if self._core.status(partition)["position"] == expected:
                    self._core.seek(partition, ("offset", offset))
            except KafkaError:
                continue  # closed, forked or unassigned: there is nobody to give it back to

    def _offset(self, span: Span, row: int) -> int:
        if row == 0:
            return span.first_offset
        following = next(self._rows, None)
        if following is not None and following.offset is not None:
            return following.offset
        # Without an offset column, the lowest that it can be: over a gap this repeats records, but loses none.
        return span.first_offset + row
