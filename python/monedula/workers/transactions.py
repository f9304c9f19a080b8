"""`Rounds`: exactly once. Which finished records a run's next transaction has, and what is written for them.

A round is one transaction with the offsets of what is finished without a gap, and with the replies and dead letters of
just these records. What is written for a record behind a gap waits in memory for a later round: in an earlier one it
would be written again after a crash. Handlers run on while a round is committed. Nothing here waits.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import dropwhile
from time import monotonic
from typing import NamedTuple

from monedula._monedula import SendFuture, WorkGate
from monedula.errors import KafkaTimeoutError, TransactionAbortedError
from monedula.producer._send_queue import SendArguments
from monedula.producer._transactions import Consumer
from monedula.producer.aio import AsyncProducer
from monedula.producer.sync import Producer
from monedula.types.partitions import TopicPartition
from monedula.workers.dead_letters import LetterProducer
from monedula.workers.progress import PartitionProgress

ROUND_RECORDS = 1_000
"""Number of finished records after which a round is due."""

MAX_ABORTS = 3
"""Number of rounds that may be aborted one after the other, while no partition is lost."""


PositionOf = Callable[[TopicPartition], int | None]
"""Returns the position of an assigned partition; `None` while it is not known, or if it is not assigned."""


class Written:
    """A reply or dead letter of a round.

    Attributes:
        record: what is written.
        place: topic, partition and offset of the record that it is about.
        future: what becomes of it; `None` if it is not sent yet.
    """

    __slots__ = ("future", "place", "record")

    def __init__(self, record: SendArguments, place: str) -> None:
        self.record = record
        self.place = place
        self.future: SendFuture | None = None

    def send(self, producer: LetterProducer) -> None:
        """Send it in the transaction that is open."""
        try:
            self.future = producer._send_or_queue(*self.record, None)
        except Exception as error:
            self.annotate(error)
            raise

    def failure(self) -> BaseException | None:
        """The error of this record, if it is why the transaction was aborted."""
        failure = self.future.exception() if self.future is not None and self.future.done() else None
        return None if isinstance(failure, TransactionAbortedError) else failure

    def annotate(self, error: BaseException) -> None:
        """Add to the error which record could not be written."""
        error.add_note(f"monedula: raised while the reply to {self.place}, or its dead letter, was written")


class Round(NamedTuple):
    """What one transaction has."""

    offsets: dict[TopicPartition, int]
    written: list[Written]
    ends: list[tuple[PartitionProgress, int]]
    """The parts, and how many of their rows are committed then."""

    def add(
        self,
        place: TopicPartition,
        part: PartitionProgress,
        offset: int,
        end: int,
        written: list[tuple[SendArguments, int]],
    ) -> None:
        """Add a part: the offset to commit, the number of rows that are committed then, and what is written."""
        self.offsets[place] = offset
        self.written.extend(Written(each, f"{part.topic}-{part.partition} at offset {of}") for each, of in written)
        self.ends.append((part, end))

    def check_owned(self) -> None:
        """Raise if a partition was lost: its next owner handles the records again.

        Raises:
            TransactionAbortedError: in which case the transaction must not be committed.
        """
        for part, _ in self.ends:
            if part.is_lost():
                raise TransactionAbortedError(
                    f"{part.topic}-{part.partition} is not assigned to this consumer any more"
                )


class Rounds:
    """Finished records of a run that are in no committed transaction yet.

    Args:
        interval: seconds between rounds.
        patience: seconds to wait for a commit whose outcome is not known.
    """

    def __init__(self, interval: float, patience: float) -> None:
        self.patience = patience
        self.is_broken = False
        """True once a round has failed for good: its outcome may not even be known."""
        self._interval = interval
        self._last = monotonic()
        self._parts: dict[TopicPartition, deque[PartitionProgress]] = {}
        self._aborts = 0
        self._gaps: dict[TopicPartition, WorkGate] = {}
        """Partitions with a row that was given up: nothing behind it is committed while this consumer has them."""

    def add(self, part: PartitionProgress) -> None:
        """Add a part that is handled from now on."""
        part.is_transactional = True
        self._parts.setdefault(TopicPartition(part.topic, part.partition), deque()).append(part)

    def uncommitted(self) -> int:
        """Return how many rows are finished, and not committed."""
        return sum(part.uncommitted() for parts in self._parts.values() for part in parts)

    def is_due(self, *, is_urgent: bool) -> bool:
        """Return true if it is time for a round; `is_urgent` if a rebalance or the end of the run waits for it."""
        if is_urgent or monotonic() - self._last >= self._interval:
            return True
        return self.uncommitted() >= ROUND_RECORDS

    def take(self, position_of: PositionOf, *, is_last: bool) -> Round | None:
        """Return what is to be committed now; `None` if that is nothing.

        Args:
            position_of: returns the position of a partition.
            is_last: true if no handler is waited for any longer.
        """
        taken = Round({}, [], [])
        for place, parts in self._parts.items():
            for part in parts:
                if part.is_lost() or self._has_gap(place):
                    break
                if part.is_sought() and part.is_over():
                    continue
                if part.is_sought():
                    sought = None if part.in_flight and not is_last else _sought(part, parts, position_of(place))
                    if sought is None:
                        break
                    taken.add(place, part, sought, part.total, part.written_before(sought))
                    continue
                end = part.whole_frontier()
                if end > part.committed:
                    taken.add(place, part, part.offset_after(end), end, part.written(end))
                if end < part.total:
                    break
        if not taken.ends:
            self._last = monotonic()
            return None
        return taken

    def committed(self, taken: Round) -> list[PartitionProgress]:
        """The transaction was committed. Returns the parts to report to the consumer."""
        self._last = monotonic()
        self._aborts = 0
        for part, end in taken.ends:
            part.commit(end)
        return [part for part, _ in taken.ends]

    def aborted(self, error: TransactionAbortedError, taken: Round) -> None:
        """The transaction was aborted: its records are in the next one, but for those of partitions that are lost.

        Raises:
            TransactionAbortedError: if no transaction succeeds, or another would not write a record either.
        """
        self._last = monotonic()
        if any(part.is_lost() for parts in self._parts.values() for part in parts):
            self._aborts = 0
            return
        self._aborts += 1
        failed, failure = next(((each, why) for each in taken.written if (why := each.failure())), (None, None))
        is_final = failed is not None and not getattr(failure, "retriable", False)
        if self._aborts >= MAX_ABORTS:
            error.add_note(f"monedula: {MAX_ABORTS} transactions of run() were aborted one after the other")
        if self._aborts >= MAX_ABORTS or is_final:
            if failed is not None:
                failed.annotate(error)
            raise error

    def settled(self) -> list[PartitionProgress]:
        """Take the parts of which nothing more will be committed, to report them to the consumer."""
        over: list[PartitionProgress] = []
        for place, parts in list(self._parts.items()):
            while parts and self._is_over(place, parts[0]):
                part = parts.popleft()
                over.append(part)
                if part.is_left_behind:
                    self._aborts = 0  # a rebalance that takes the partition has the transaction aborted
                    if not part.is_lost():
                        self._gaps[place] = part.gate
            if not parts:
                del self._parts[place]
        return over

    def _is_over(self, place: TopicPartition, part: PartitionProgress) -> bool:
        return part.is_lost() or part.is_over() or (part.is_settled and self._has_gap(place))

    def _has_gap(self, place: TopicPartition) -> bool:
        gate = self._gaps.get(place)
        if gate is not None and gate.ask() is False:
            del self._gaps[place]  # it was assigned anew since, or sought
            return False
        return gate is not None

    def rest(self) -> list[PartitionProgress]:
        """Take all parts: the run ends."""
        over = [part for parts in self._parts.values() for part in parts]
        self._parts.clear()
        return over

    @contextmanager
    def transaction(
        self, producer: Producer, consumer: Consumer, taken: Round, deadline: float | None
    ) -> Iterator[None]:
        """Commit a transaction with the round's offsets, and with the records that the block sends.

        Args:
            producer: the producer of the run.
            consumer: its consumer.
            taken: the round.
            deadline: the monotonic time at which the run ends; `None` while it goes on.

        Raises:
            TransactionAbortedError: if it was aborted; the producer is ready for the next one.
            KafkaTimeoutError: if it is not known for `patience` seconds, or at the deadline, whether it was committed.
        """
        try:
            with producer._transaction_until(deadline) as transaction:
                yield
                taken.check_owned()
                transaction.send_offsets(consumer, taken.offsets, timeout=producer._seconds_until(deadline))
        except KafkaTimeoutError as error:
            until = monotonic() + self.patience if deadline is None else deadline
            while producer._left == "commit":
                try:
                    producer._end_what_was_left(producer._seconds_until(deadline))
                except KafkaTimeoutError:
                    if monotonic() >= until:
                        raise
                else:
                    return
            if producer._left == "abort":
                raise TransactionAbortedError(f"the transaction is not committed: {error}") from error
            raise

    @asynccontextmanager
    async def async_transaction(
        self, producer: AsyncProducer, consumer: Consumer, taken: Round, deadline: float | None
    ) -> AsyncIterator[None]:
        """The same for asyncio."""
        try:
            async with producer._transaction_until(deadline) as transaction:
                yield
                taken.check_owned()
                await transaction.send_offsets(consumer, taken.offsets, timeout=producer._seconds_until(deadline))
        except KafkaTimeoutError as error:
            until = monotonic() + self.patience if deadline is None else deadline
            while producer._left == "commit":
                try:
                    await producer._end_what_was_left(producer._seconds_until(deadline))
                except KafkaTimeoutError:
                    if monotonic() >= until:
                        raise
                else:
                    return
            if producer._left == "abort":
                raise TransactionAbortedError(f"the transaction is not committed: {error}") from error
            raise


def _sought(part: PartitionProgress, parts: Iterable[PartitionProgress], position: int | None) -> int | None:
    """Return the offset from which on records are handled again, after a seek away from a part; `None` if not known.

    The position has moved on since, if records were handed out: the first of these count.
    """
    later = list(dropwhile(lambda each: each is not part, parts))[1:]
    if position is None and not any(not each.is_sought() for each in later):
        return None
    firsts = [each.first_offset for each in later]
    return min(firsts if position is None else [*firsts, position])
