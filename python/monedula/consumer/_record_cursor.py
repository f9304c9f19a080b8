"""`RowCursor`: reads batches record by record, and gives unread records back to the consumer."""

from collections.abc import Iterator

from monedula._monedula import Batch, ConsumerCore, Record
from monedula.errors import KafkaError

MAX_ROWS = 10_000
"""Rows read ahead: so many that the cost of a batch per record is negligible, and few enough to give back."""


class RowCursor:
    """The rows of one batch after another. Rows that were not taken can be given back to the consumer.

    Args:
        core: the consumer of the batches.
        holder: the holder number that takes the rows; that of the current thread if left out.
    """

    def __init__(self, core: ConsumerCore, holder: int | None = None) -> None:
        self._core = core
        self.holder = holder
        self._batch: Batch | None = None
        self._rows: Iterator[Record] = iter(())

    def load(self, batch: Batch) -> None:
        # The core counts the rows as they are taken. So it knows which are finished, and ends the iterator if the
        # partition was revoked, lost, paused or sought since.
        self._batch, self._rows = batch, self._core.rows(batch, self.holder)

    def take(self) -> Record | None:
        """The next record; `None` at the end of the batch, or if its other rows must not be returned any more."""
        record = next(self._rows, None)
        if record is None:
            self.give_back()
        return record

    def give_back(self) -> None:
        """Give the rows that were not taken back to the consumer, which returns them again.

        Not rows of partitions that were sought or lost since. The row that was taken last may still be in use: it
        becomes finished when the holder takes the next record or batch.
        """
        batch, self._batch, self._rows = self._batch, None, iter(())
        if batch is None:
            return
        try:
            self._core.give_back(batch, self.holder)
        except KafkaError:
            return  # the consumer is closed, or this is a forked child: the rows cannot be given back
