"""`PartitionProgress`: rows of one partition that were handed to a run, and the progress on them."""

from monedula._monedula import Batch, MemberCore, Record, WorkGate


class PartitionProgress:
    """One run of rows of a partition. Rows finish in any order; only those before the first unfinished one count.

    Not thread-safe: callers hold the lock of the run, except for `report`.

    Attributes:
        topic: the topic.
        partition: the partition.
        base: the number of the first row, among all rows of the partition in this run.
        rows: number of rows to handle; smaller than the batch's once the rest was given up.
        nbytes: the memory of its columns.
        gate: decides whether another row may be started.
        frontier: number of rows finished without a gap.
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
        """Return the rows as records."""
        return list(self._batch.records())

    def finish(self, row: int) -> None:
        """Mark a row as finished."""
        done = self._done
        done[row] = 1
        if row == self.frontier:
            # Find the next unfinished row.
            unfinished = done.find(0, row)
            self.frontier = len(done) if unfinished < 0 else unfinished

    def give_up(self, row: int) -> None:
        """Give up the rows from this one on."""
        self.rows = min(self.rows, row)

    @property
    def is_settled(self) -> bool:
        """True if no more rows will be finished."""
        return self.frontier >= self.rows

    @property
    def is_complete(self) -> bool:
        """True if all rows are finished."""
        return self.frontier == len(self._done)

    def report(self, member: MemberCore) -> None:
        """Report the progress to the consumer."""
        frontier = self.frontier
        if frontier == len(self._done):
            member.finish(self._batch)
        elif frontier > self._reported:
            member.finish_rows(self._batch, frontier)
        self._reported = frontier

    def abandon(self, member: MemberCore) -> None:
        """Report the progress to the consumer, and that the rest will never be finished."""
        self.report(member)
        if not self.is_complete:
            member.abandon(self._batch)
