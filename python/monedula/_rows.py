"""Reading record by record over batches, without losing what was read ahead."""

from collections.abc import Iterator

from monedula._monedula import Batch, ConsumerCore, Record
from monedula.errors import KafkaError

MAX_ROWS = 10_000
"""Rows read ahead: enough that a batch costs nothing a record, few enough to give back."""


class RowCursor:
    """The rows of one batch after another. Who leaves early gives back the rows not taken.

    Args:
        core: whose batches they are.
        holder: who asks for rows; the thread if left out.
    """

    def __init__(self, core: ConsumerCore, holder: int | None = None) -> None:
        self._core = core
        self.holder = holder
        self._batch: Batch | None = None
        self._rows: Iterator[Record] = iter(())

    def load(self, batch: Batch) -> None:
        """Go on with this batch."""
        # The core counts the rows as they are asked for: so it knows what is finished, whoever commits it, and lets
        # none through that may not be handed out any more.
        self._batch, self._rows = batch, self._core.rows(batch, self.holder)

    def take(self) -> Record | None:
        """The next record, `None` if the batch is used up, or may not be handed out any more."""
        record = next(self._rows, None)
        if record is None:
            self.give_back()
        return record

    def give_back(self) -> None:
        """Let the consumer hand out again what was not taken, except where it was moved or lost the partition since.

        The row taken last may still be in the user's hands: it is finished when the user comes back.
        """
        batch, self._batch, self._rows = self._batch, None, iter(())
        if batch is None:
            return
        try:
            self._core.give_back(batch, self.holder)
        except KafkaError:
            return  # closed or forked: there is nobody to give it back to
