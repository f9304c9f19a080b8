"""`Rounds`: exactly once. Which finished records a run's next transaction has, and what is written for them.

A round is one transaction with the offsets of what is finished without a gap, and with the replies and dead letters of
just these records. What is written for a record behind a gap waits in memory for a later round: in an earlier one it
would be written again after a crash. Handlers run on while a round is committed. Nothing here waits.
"""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic
from typing import NamedTuple, Protocol

from monedula._monedula import ConsumerCore, LaneRound, Lanes, SendFuture
from monedula.errors import ArgumentError, ClosedError, KafkaTimeoutError, TransactionAbortedError
from monedula.producer._dead_letters import LetterProducer
from monedula.producer._send_queue import SendArguments
from monedula.producer._transactions import Consumer
from monedula.producer.aio import AsyncProducer
from monedula.producer.sync import Producer
from monedula.types.partitions import TopicPartition

ROUND_RECORDS = 1_000
"""Number of finished records after which a round is due."""

MAX_ABORTS = 3
"""Number of rounds that may be aborted one after the other, while no partition is lost."""


class RoundConsumer(Consumer, Protocol):
    """Consumer of a run with transactions."""

    _core: ConsumerCore


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

    rows: LaneRound
    offsets: dict[TopicPartition, int]
    written: list[Written]

    def check_owned(self) -> None:
        """Raise if a partition was lost: its next owner handles the records again.

        Raises:
            TransactionAbortedError: in which case the transaction must not be committed.
        """
        if (lost := self.rows.lost_partition()) is not None:
            topic, partition = lost
            raise TransactionAbortedError(f"{topic}-{partition} is not assigned to this consumer any more")


class Rounds:
    """Finished records of a run that are in no committed transaction yet.

    Args:
        consumer: the consumer of the run.
        lanes: the records of the run.
        interval: seconds between rounds.
        patience: seconds to wait for a commit whose outcome is not known.
    """

    def __init__(self, consumer: RoundConsumer, lanes: Lanes, interval: float, patience: float) -> None:
        self.patience = patience
        self.is_broken = False
        """True once a round has failed for good: its outcome may not even be known."""
        self._consumer = consumer
        self._lanes = lanes
        self._interval = interval
        self._last = monotonic()
        self._aborts = 0
        # Re-entrant: a signal handler may seek. Held while a round is taken, so that no seek sees half of one.
        self._lock = threading.RLock()
        self._is_under_way = False
        """True from the taking of a round until its outcome is known."""
        self._seeks: list[Callable[[], None]] = []
        """Seeks that wait for that outcome, in their order."""

    def seek(self, seek: Callable[[], None], *, to_committed: bool) -> bool:
        """Call `seek` now, or after the round that is under way: what is committed is not known before.

        Seeks keep their order. If the outcome of a round is never known, those that wait are dropped: the run ends, and
        the next one begins at what is committed.

        Args:
            seek: seeks in the consumer.
            to_committed: true if it depends on what is committed.

        Returns:
            False if it waits.
        """
        with self._lock:
            if self._is_under_way and (to_committed or self._seeks):
                self._seeks.append(seek)
                return False
            seek()
            return True

    def _end(self) -> None:
        """The outcome of the round is known: seek as was asked meanwhile."""
        with self._lock:
            self._is_under_way = False
            while self._seeks:
                # A partition that was lost meanwhile is read by its next owner.
                with suppress(ArgumentError, ClosedError):
                    self._seeks.pop(0)()

    def is_due(self, *, is_urgent: bool) -> bool:
        """Return true if it is time for a round; `is_urgent` if a rebalance or the end of the run waits for it."""
        if is_urgent or monotonic() - self._last >= self._interval:
            return True
        return self._lanes.uncommitted >= ROUND_RECORDS

    def take(self, *, is_last: bool) -> Round | None:
        """Return what is to be committed now; `None` if that is nothing.

        Args:
            is_last: true if no handler is waited for any longer.
        """
        with self._lock:
            self._is_under_way = True
            rows = self._lanes.round(self._consumer._core, is_last)
            if rows is None:
                self._last = monotonic()
                self._end()
                return None
        offsets = {TopicPartition(*place): offset for place, offset in rows.offsets.items()}
        return Round(rows, offsets, [Written(each, place) for written, place in rows.written for each in written])

    def rewind(self) -> None:
        """Go back to the committed offsets: what an earlier process has left open is handled again."""
        self._consumer.rewind()

    def committed(self, taken: Round) -> None:
        """The transaction was committed: report it to the consumer."""
        self._last = monotonic()
        self._aborts = 0
        self._lanes.commit(self._consumer._member, taken.rows)
        self._end()

    def forget_aborts(self) -> None:
        """Records were left behind: a rebalance that takes a partition has the transaction aborted."""
        self._aborts = 0

    def aborted(self, error: TransactionAbortedError, taken: Round) -> None:
        """The transaction was aborted: its records are in the next one, but for those of partitions that are lost.

        Raises:
            TransactionAbortedError: if no transaction succeeds, or another would not write a record either.
        """
        self._last = monotonic()
        self._end()
        if self._lanes.has_lost():
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

    @contextmanager
    def transaction(self, producer: Producer, taken: Round, deadline: float | None) -> Iterator[None]:
        """Commit a transaction with the round's offsets, and with the records that the block sends.

        Args:
            producer: the producer of the run.
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
                transaction.send_offsets(self._consumer, taken.offsets, timeout=producer._seconds_until(deadline))
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
        self, producer: AsyncProducer, taken: Round, deadline: float | None
    ) -> AsyncIterator[None]:
        """The same for asyncio."""
        try:
            async with producer._transaction_until(deadline) as transaction:
                yield
                taken.check_owned()
                await transaction.send_offsets(self._consumer, taken.offsets, timeout=producer._seconds_until(deadline))
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
