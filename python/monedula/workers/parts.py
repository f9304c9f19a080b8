"""`Part`: rows of one partition that were handed over to a run, and how far they are finished."""

from monedula._monedula import Batch, MemberCore, Record, WorkGate


class Part:
    """One run of rows of a partition. Rows are finished in any order; those before the first unfinished one count.

    Not thread-safe: whoever calls its methods holds the lock of the run. `report` may be called without it.

    Attributes:
        topic: the topic.
        partition: the partition.
        base: the number of the first row, among all rows of the partition in this run.
        rows: how many rows are to be handled; fewer than there are once the rest was given up.
        nbytes: the memory of its columns.
        gate: says whether another row may be begun.
        frontier: how many rows are finished without a gap.
    """

    __slots__ = ("_batch", "_done", "_reported", "base", "frontier", "gate", "nbytes", "partition", "rows", "topic")

    def __init__(self, batch: Batch, gate: WorkGate, base: int) -> None:
        (span,) = batch.spans
        self._batch = batch
        self._done = bytearray(span.rows)
        self._reported = 0
        self.topic = span.topic
        self.partition = span.partition
        self.base = base
        self.rows = span.rows
        self.nbytes = batch.nbytes
        self.gate = gate
        self.frontier = 0

    def records(self) -> list[Record]:
        """Its rows."""
        return list(self._batch.records())

    def finish(self, row: int) -> None:
        """Mark a row as finished."""
        done = self._done
        done[row] = 1
        if row == self.frontier:
            # The next row that is not finished.
            unfinished = done.find(0, row)
            self.frontier = len(done) if unfinished < 0 else unfinished

    def give_up(self, row: int) -> None:
        """Rows from this one on will not be handled."""
        self.rows = min(self.rows, row)

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will be finished."""
        return self.frontier >= self.rows

    @property
    def is_complete(self) -> bool:
        """Whether all its rows are finished."""
        return self.frontier == len(self._done)

    def report(self, member: MemberCore) -> None:
        """Tell the consumer how far it is finished."""
        frontier = self.frontier
        if frontier == len(self._done):
            member.finish(self._batch)
        elif frontier > self._reported:
            member.finish_rows(self._batch, frontier)
        self._reported = frontier

    def abandon(self, member: MemberCore) -> None:
        """Tell the consumer how far it is finished, and that nobody will finish the rest."""
        self.report(member)
        if not self.is_complete:
            member.abandon(self._batch)
