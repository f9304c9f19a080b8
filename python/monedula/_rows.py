"""Reading record by record over batches, without losing what was read ahead."""

from collections.abc import Iterator
from time import monotonic

from monedula._monedula import Batch, ConsumerCore, Record
from monedula.errors import KafkaError

MAX_ROWS = 10_000
"""Rows read ahead: enough that a batch costs nothing a record, few enough to give back."""

LOOK_EVERY = 0.05
"""Seconds after which the core is asked whether the partitions are still there: at each row it would cost as much as
the row. A process that was stopped meanwhile asks before its first row."""


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
        self._taken = 0
        self._look_at = 0.0

    def load(self, batch: Batch) -> None:
        """Go on with this batch."""
        # The core counts the rows as they are asked for: so it knows what is finished, whoever commits it.
        self._batch, self._rows, self._taken = batch, self._core.rows(batch, self.holder), 0
        self._look_at = monotonic() + LOOK_EVERY

    def take(self) -> Record | None:
        """The next record, `None` if the batch is used up, or may not be handed out any more."""
        if monotonic() >= self._look_at and not self._may_go_on():
            self.give_back()
            return None
        record = next(self._rows, None)
        if record is None:
            self._batch = None
        self._taken += 1
        return record

    def give_back(self) -> None:
        """Let the consumer hand out again what was not taken, except where it was moved or lost the partition since.

        The row taken last may still be in the user's hands: it is finished when the user comes back.
        """
        batch, self._batch, self._rows = self._batch, None, iter(())
        if batch is None:
            return
        try:
            self._core.give_back(batch, self._taken, self.holder)
        except KafkaError:
            return  # closed or forked: there is nobody to give it back to

    def _may_go_on(self) -> bool:
        self._look_at = monotonic() + LOOK_EVERY
        return self._batch is None or self._core.may_go_on(self._batch)
