"""`PartitionProgress`: rows of one partition that were handed to a run, and the progress on them."""

from collections.abc import Iterator

from monedula._monedula import Batch, MemberCore, Record, WorkGate
from monedula.producer._send_queue import SendArguments


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
        is_transactional: true in a run with transactions: rows are reported once they are in a committed one.
        committed: number of rows that are.
        in_flight: number of rows whose handler is running.
    """

    __slots__ = (
        "_batch",
        "_done",
        "_offsets",
        "_reported",
        "_together",
        "_written",
        "base",
        "committed",
        "frontier",
        "gate",
        "in_flight",
        "is_transactional",
        "nbytes",
        "partition",
        "rows",
        "topic",
    )

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
        self.is_transactional = False
        self.committed = 0
        self.in_flight = 0
        self._offsets: list[int | None] = []
        self._written: dict[int, list[SendArguments]] = {}
        """What is written with a row once it is committed."""
        self._together: list[tuple[int, int]] = []
        """First and last rows of calls of the handler with several rows: these are committed together."""

    def records(self) -> list[Record]:
        """Return the rows as records."""
        records = list(self._batch.records())
        if self.is_transactional:
            self._offsets = [record.offset for record in records]
        return records

    @property
    def total(self) -> int:
        """Number of rows of the batch."""
        return len(self._done)

    def hold(self, rows: list[int], written: list[SendArguments]) -> None:
        """Keep what is to be written once these rows, of one call of the handler, are committed."""
        if written:
            self._written[rows[-1]] = written
        if len(rows) > 1:
            self._together.append((rows[0], rows[-1]))

    def whole_frontier(self) -> int:
        """Return how many rows may be committed: no call of the handler has rows before and after."""
        end = self.frontier
        while (cut := min((first for first, last in self._together if first < end <= last), default=end)) < end:
            end = cut
        return end

    def written(self, end: int) -> list[tuple[SendArguments, int]]:
        """Return what is written with the rows up to `end` that are not committed yet, in their order.

        Each with the offset of the record that it is about, the last one of a call with several.
        """
        return [written for _, written in self._uncommitted(end)]

    def written_before(self, offset: int) -> list[tuple[SendArguments, int]]:
        """Return what is written with the finished rows before an offset that are not committed yet.

        What belongs to a call with several rows is among it if the first of them is.
        """
        firsts = {last: first for first, last in self._together}
        return [
            written for row, written in self._uncommitted(self.total) if self._offset(firsts.get(row, row)) < offset
        ]

    def _uncommitted(self, end: int) -> Iterator[tuple[int, tuple[SendArguments, int]]]:
        rows = (row for row in sorted(self._written) if row < end)
        return ((row, (each, self._offset(row))) for row in rows for each in self._written[row])

    def commit(self, end: int) -> None:
        """The rows up to `end` are in a committed transaction."""
        self.committed = end
        self._written = {row: written for row, written in self._written.items() if row >= end}
        self._together = [(first, last) for first, last in self._together if last >= end]

    def uncommitted(self) -> int:
        """Return how many rows are finished, and not committed."""
        return self._done.count(1, self.committed)

    def offset_after(self, end: int) -> int:
        """Return the offset that follows the first rows."""
        (span,) = self._batch.spans
        return span.next_offset if end == len(self._done) else self._offset(end - 1) + 1

    @property
    def first_offset(self) -> int:
        """The offset of the first row."""
        return self._offset(0)

    def _offset(self, row: int) -> int:
        offset = self._offsets[row]
        assert offset is not None
        return offset

    def is_sought(self) -> bool:
        """True if reading goes on elsewhere, at a position that the user sought."""
        return self.gate.was_sought()

    def is_lost(self) -> bool:
        """True if the partition is not this consumer's any more."""
        return self.gate.ask() is False and not self.is_sought()

    def is_over(self) -> bool:
        """True if nothing more will be committed."""
        if self.is_sought():
            return self.committed == self.total
        return self.is_settled and self.committed == self.whole_frontier()

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
    def is_left_behind(self) -> bool:
        """True if rows are left that the consumer has to read again."""
        return (self.committed if self.is_transactional else self.frontier) < len(self._done)

    @property
    def is_complete(self) -> bool:
        """True if all rows are finished."""
        return self.frontier == len(self._done)

    def report(self, member: MemberCore) -> None:
        """Report the progress to the consumer."""
        frontier = self.committed if self.is_transactional else self.frontier
        if frontier == len(self._done):
            member.finish(self._batch)
        elif frontier > self._reported:
            member.finish_rows(self._batch, frontier)
        self._reported = frontier

    def abandon(self, member: MemberCore) -> None:
        """Report the progress to the consumer, and that the rest will never be finished."""
        self.report(member)
        if self._reported < len(self._done):
            member.abandon(self._batch)
