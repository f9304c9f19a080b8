"""Transactions: their methods for both producers, and the `with` block that begins a transaction and ends it."""

from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from monedula._arguments import RawOffset, raw_commit, seconds
from monedula._asyncio.loop_client import LoopClient
from monedula._monedula import Batch, MemberCore, ProducerCore, TransactionCore
from monedula._process.signals import is_of_signal_handler
from monedula.errors import (
    ArgumentError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
)
from monedula.types.partitions import Offsets

if TYPE_CHECKING:
    from monedula._asyncio.pending_calls import PendingCall, PendingCalls

INTERRUPTED_SECONDS = 5.0
"""Time to wait for an abort after Ctrl-C."""

DECIDED_SECONDS = 1.0
"""Within this time the core answers whether a commit can still be aborted: it asks no broker for that."""


class Consumer(Protocol):
    """Part of a `monedula.Consumer` or `AsyncConsumer` that a transaction needs.

    Neither can be imported here: consumers have producers of their own, for dead letters.
    """

    _member: MemberCore

    def rewind(self) -> None:
        """Go back to the committed offsets."""


class TransactionBase(ProducerCore):
    """Base of `Transactions` and `AsyncTransactions`."""

    _core_of_transactions: TransactionCore | None = None
    _initialized = False
    _left: str | None = None
    """End of the last transaction, if the block was left before it was confirmed: "commit" or "abort"."""

    @property
    def _transactions(self) -> TransactionCore:
        if self._core_of_transactions is None:
            self._core_of_transactions = TransactionCore(self)
        return self._core_of_transactions

    def _seconds_until(self, deadline: float | None) -> float | None:
        """Time for a call that is to end by the deadline, a monotonic time; `None` for `max.block.ms`."""
        left = seconds_left(deadline)
        return None if left is None else min(left, self._max_block)

    def _abort_requested(self, consumer: Consumer | None, is_aborted: bool) -> None:
        """Follow the outcome of an abort: the consumer goes back, unless the transaction goes on committing."""
        if is_aborted:
            _read_again(consumer)
        else:
            self._left = "commit"


class Transaction:
    """An open transaction: the target of `with producer.transaction() as transaction:`."""

    def __init__(self, producer: "Transactions") -> None:
        self._producer = producer

    def send_offsets(
        self, consumer: Consumer, offsets: Batch | Offsets | None = None, *, timeout: float | None = None
    ) -> None:
        """As `Producer.send_offsets`."""
        self._producer.send_offsets(consumer, offsets, timeout=timeout)


class AsyncTransaction:
    """An open transaction: the target of `async with producer.transaction() as transaction:`."""

    def __init__(self, producer: "AsyncTransactions") -> None:
        self._producer = producer

    def send_offsets(
        self, consumer: Consumer, offsets: Batch | Offsets | None = None, *, timeout: float | None = None
    ) -> Coroutine[Any, Any, None]:
        """As `AsyncProducer.send_offsets`."""
        return self._producer.send_offsets(consumer, offsets, timeout=timeout)


class Transactions(TransactionBase):
    """The transaction methods of `Producer`."""

    def flush(self, timeout: float | None = None) -> None:
        """See `Producer.flush`."""
        raise NotImplementedError

    @contextmanager
    def transaction(self, consumer: Consumer | None = None) -> Iterator[Transaction]:
        """Begin a transaction, and commit it at the end of the `with` block.

        Consumers with `isolation.level=read_committed` see all records that are sent in the block, or none. If the
        block raises, the transaction is aborted, and the exception is raised again. The first block also calls
        `init_transactions`.

        Args:
            consumer: the consumer whose records the block processes. At the end of the block its offsets are sent with
                the transaction; if the transaction is aborted, the consumer goes back to its committed offsets. It
                needs a `group.id` and `enable.auto.commit=false`.

        Returns:
            A context manager, which gives the transaction.

        Raises:
            ProducerFencedError: if another producer with this `transactional.id` has taken over.
            TransactionAbortedError: if a part of the transaction failed; it is aborted, and another may begin.
            KafkaTimeoutError: if the outcome of the commit is unknown after `max.block.ms`. It may be committed: call
                `commit_transaction` again.
            TransactionError: without a `transactional.id`, or while a transaction is open.
            ArgumentError: at the end of the block, if another thread or task than this one took the records of the
                consumer: their offsets would be missing. The transaction is aborted.

        Examples:
            for batch in consumer.batches():
                with producer.transaction(consumer):
                    producer.send_batch(transformed(batch), "output")
        """
        with self._transaction_until(None, consumer) as transaction:
            yield transaction

    @contextmanager
    def _transaction_until(self, deadline: float | None, consumer: Consumer | None = None) -> Iterator[Transaction]:
        """As `transaction`. After the deadline, a monotonic time, nothing but an abort is waited for, and shortly."""
        if consumer is not None:
            member_of(consumer)
        try:
            self._end_what_was_left(self._seconds_until(deadline))
            if not self._initialized:
                self.init_transactions(self._seconds_until(deadline))
            self._begin()
        except BaseException:
            _read_again(consumer)
            raise
        try:
            yield Transaction(self)
        except BaseException as error:
            self._abort_for(error, consumer, deadline=deadline)
            raise
        commits = False
        try:
            if consumer is not None:
                self.send_offsets(consumer, timeout=self._seconds_until(deadline))
            commits = True
            self.commit_transaction(self._seconds_until(deadline))
        except BaseException as error:
            is_aborted = self._abort_for(error, consumer, commits=commits, deadline=deadline)
            if is_aborted and isinstance(error, KafkaTimeoutError):
                raise TransactionAbortedError(f"the transaction was aborted: {error}") from error
            raise

    def init_transactions(self, timeout: float | None = None) -> None:
        """Take over the `transactional.id`: older producers with it are fenced, and their open transactions are ended.

        Required before the first transaction; `transaction()` calls it by itself.

        Args:
            timeout: seconds to wait; `max.block.ms` if left out. It continues in the background after a timeout: call
                it again to wait for the result.

        Raises:
            KafkaTimeoutError: after `timeout`.
            TransactionError: without a `transactional.id`, or if this client is not authorized to use it.
        """
        self._transactions.run("init", timeout).outcome()
        self._initialized = True

    def begin_transaction(self) -> None:
        """Begin a transaction: records that are sent from now on belong to it.

        Raises:
            TransactionError: before `init_transactions`, or while a transaction is open.
            ProducerFencedError: if another producer has taken over.
        """
        self._transactions.run("begin", None).outcome()
        self._left = None

    def send_offsets(
        self, consumer: Consumer, offsets: Batch | Offsets | None = None, *, timeout: float | None = None
    ) -> None:
        """Commit a consumer's offsets as part of the transaction (KIP-447).

        Args:
            consumer: the consumer of the offsets; its `enable.auto.commit` has to be false.
            offsets: what to commit, as `Consumer.commit` takes it. If left out, the batches that this thread holds
                become finished, and all finished offsets are sent.
            timeout: seconds to wait; `max.block.ms` if left out.

        Raises:
            TransactionAbortedError: if the consumer is no longer a member of its group, or a partition was revoked
                whose records may be in the transaction: the transaction can only be aborted.
            KafkaTimeoutError: if the offsets were not acknowledged within `timeout`. The commit of the transaction
                waits for them.
            ArgumentError: if the consumer has no `group.id`, or commits automatically; without `offsets`, also if this
                thread never asked the consumer for records while another thread holds some.
        """
        member = member_of(consumer)
        self._transactions.send_offsets(member, raw_commit(offsets), None, timeout).outcome()

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records, and commit the transaction.

        Args:
            timeout: seconds to wait; `max.block.ms` if left out. It continues in the background after a timeout: call
                it again to wait for the result.

        Raises:
            TransactionAbortedError: if a part of the transaction failed: it can only be aborted.
            ProducerFencedError: if another producer has taken over.
            KafkaTimeoutError: after `timeout`. The transaction may be committed; no other one can begin before the
                outcome is known.
            TransactionError: if no transaction is open.
        """
        # If a record has failed already, do not wait for the others.
        self._transactions.check_commit()
        deadline = deadline_of(timeout)
        self.flush(self._max_block if timeout is None else timeout)
        self._transactions.run("commit", seconds_left(deadline)).outcome()
        self._left = None

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: consumers with `isolation.level=read_committed` see none of its records.

        Args:
            timeout: as in `commit_transaction`.

        Raises:
            ProducerFencedError: if another producer has taken over.
            KafkaTimeoutError: after `timeout`.
            TransactionError: if no transaction is open.
        """
        self._transactions.run("abort", timeout).outcome()
        self._left = None

    def _begin(self) -> None:
        try:
            self.begin_transaction()
        except BaseException as error:
            if isinstance(error, Exception) and not is_of_signal_handler(error):
                raise
            # The transaction may have begun. Another attempt is answered after the first one, and asks no broker.
            with suppress(KafkaError):
                self._transactions.run("begin", None).outcome()
            self._abort_for(error, None)
            raise

    def _end_what_was_left(self, timeout: float | None = None) -> None:
        """Wait until the last transaction has ended, if that was not confirmed: no other one begins before."""
        if self._left is None:
            return
        try:
            self._transactions.run(self._left, timeout).outcome()
        except TransactionAbortedError:
            self._transactions.run("abort", timeout).outcome()
            self._left = None
            raise
        except ProducerFencedError:
            raise
        except TransactionError:
            pass  # it has ended
        self._left = None

    def _abort_for(
        self, error: BaseException, consumer: Consumer | None, *, commits: bool = False, deadline: float | None = None
    ) -> bool:
        """Abort because of `error`. False if the transaction may be committed: its commit cannot be taken back."""
        self._left, aborts = "abort", True
        try:
            self.abort_transaction(_seconds_to_abort(error, deadline))
        except ProducerFencedError as fenced:
            raise fenced from error
        except KafkaError as failure:
            error.add_note(f"the transaction was not aborted: {failure}")
            aborts = not (commits and _is_refused(failure))
        except BaseException:
            # Ctrl-C again, before it was known whether the commit can still be aborted. The core says so at once.
            aborts = not (commits and _is_refused(self._failure_of_abort()))
            raise
        finally:
            self._abort_requested(consumer, aborts)
        return aborts

    def _failure_of_abort(self) -> KafkaError | None:
        try:
            self._transactions.run("abort", DECIDED_SECONDS).outcome()
        except KafkaError as failure:
            return failure
        return None


class AsyncTransactions(TransactionBase, LoopClient):
    """The transaction methods of `AsyncProducer`; each does what the method of `Producer` does."""

    _pending_calls: "PendingCalls | None" = None

    async def flush(self, timeout: float | None = None) -> None:
        """See `AsyncProducer.flush`."""
        raise NotImplementedError

    @asynccontextmanager
    async def transaction(self, consumer: Consumer | None = None) -> AsyncIterator[AsyncTransaction]:
        """Begin a transaction, and commit it at the end of the `async with` block; as `Producer.transaction`.

        The transaction is also aborted if a call in the block was never awaited, such as `producer.send_batch(...)`.
        """
        async with self._transaction_until(None, consumer) as transaction:
            yield transaction

    @asynccontextmanager
    async def _transaction_until(
        self, deadline: float | None, consumer: Consumer | None = None
    ) -> AsyncIterator[AsyncTransaction]:
        """As `transaction`. After the deadline, a monotonic time, nothing but an abort is waited for, and shortly."""
        if consumer is not None:
            member_of(consumer)
        try:
            await self._end_what_was_left(self._seconds_until(deadline))
            if not self._initialized:
                await self.init_transactions(self._seconds_until(deadline))
            await self._begin()
        except BaseException:
            _read_again(consumer)
            raise
        try:
            yield AsyncTransaction(self)
        except BaseException as error:
            await self._abort_for(error, consumer, deadline=deadline)
            raise
        commits = False
        try:
            if consumer is not None:
                await self.send_offsets(consumer, timeout=self._seconds_until(deadline))
            commits = True
            await self.commit_transaction(self._seconds_until(deadline))
        except BaseException as error:
            is_aborted = await self._abort_for(error, consumer, commits=commits, deadline=deadline)
            if is_aborted and isinstance(error, KafkaTimeoutError):
                raise TransactionAbortedError(f"the transaction was aborted: {error}") from error
            raise

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Take over the `transactional.id`; as `Producer.init_transactions`."""
        await self._run("init", timeout)
        self._initialized = True

    async def begin_transaction(self) -> None:
        """Begin a transaction; as `Producer.begin_transaction`."""
        from monedula._asyncio.pending_calls import PendingCalls

        await self._run("begin", None)
        self._is_over()
        self._pending_calls = PendingCalls()

    # Not coroutine functions: the holder of the offsets is the calling task, and a call that is never awaited is known.
    def send_offsets(
        self, consumer: Consumer, offsets: Batch | Offsets | None = None, *, timeout: float | None = None
    ) -> Coroutine[Any, Any, None]:
        """Commit a consumer's offsets as part of the transaction; as `Producer.send_offsets`."""
        from monedula._asyncio.holders import holder

        member, raw = member_of(consumer), raw_commit(offsets)
        return self._send_offsets(self._call("send_offsets"), member, raw, holder(), timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records, and commit the transaction; as `Producer.commit_transaction`.

        Raises:
            TransactionAbortedError: also if a call in the transaction was never awaited.
        """
        deadline = deadline_of(timeout)
        self._transactions.check_commit()
        if self._pending_calls is not None:
            await self._pending_calls.finished(self._max_block if timeout is None else timeout)
        await self.flush(self._max_block if deadline is None else seconds_left(deadline))
        await self._run("commit", seconds_left(deadline))
        self._is_over()

    def abort_transaction(self, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """Abort the transaction; as `Producer.abort_transaction`."""
        self._call("abort_transaction")
        return self._abort_transaction(timeout)

    def _call(self, name: str) -> "PendingCall | None":
        return None if self._pending_calls is None else self._pending_calls.add(name)

    async def _send_offsets(
        self,
        call: "PendingCall | None",
        member: MemberCore,
        raw: Batch | list[RawOffset] | None,
        holder: int,
        timeout: float | None,
    ) -> None:
        if call is not None:
            call.begin()
        await self._loop().outcome(self._transactions.send_offsets(member, raw, holder, timeout))

    _send_offsets.__qualname__ = "AsyncProducer.send_offsets"  # what Python names in its warning if it is never awaited

    async def _abort_transaction(self, timeout: float | None) -> None:
        if self._pending_calls is not None:
            self._pending_calls.end()
        await self._run("abort", timeout)
        self._is_over()

    _abort_transaction.__qualname__ = "AsyncProducer.abort_transaction"

    def _is_over(self) -> None:
        self._left = None
        if self._pending_calls is not None:
            self._pending_calls.end()
            self._pending_calls = None

    async def _run(self, verb: str, timeout: float | None) -> None:
        await self._loop().outcome(self._transactions.run(verb, timeout))

    async def _begin(self) -> None:
        try:
            await self.begin_transaction()
        except BaseException as error:
            if isinstance(error, Exception) and not is_of_signal_handler(error):
                raise
            # The transaction may have begun. Another attempt is answered after the first one, and asks no broker.
            with suppress(KafkaError):
                self._transactions.run("begin", None).outcome()
            await self._abort_for(error, None)
            raise

    async def _end_what_was_left(self, timeout: float | None = None) -> None:
        """Wait until the last transaction has ended, if that was not confirmed: no other one begins before."""
        if self._left is None:
            return
        try:
            await self._run(self._left, timeout)
        except TransactionAbortedError:
            await self._run("abort", timeout)
            self._left = None
            raise
        except ProducerFencedError:
            raise
        except TransactionError:
            pass  # it has ended
        self._left = None

    async def _abort_for(
        self, error: BaseException, consumer: Consumer | None, *, commits: bool = False, deadline: float | None = None
    ) -> bool:
        """Abort because of an error. Returns `False` if a commit was requested before, and cannot be aborted."""
        import asyncio  # only here: if it is not in use, its import costs more than everything else

        from monedula._asyncio.pending_calls import uncancelled

        self._left, aborts = "abort", True
        aborting = self.abort_transaction(_seconds_to_abort(error, deadline))
        cancelled = None
        try:
            if not commits:
                # Awaited without a task: one that is cancelled before it starts would not request the abort.
                await aborting
                return aborts
            abort = asyncio.ensure_future(aborting)
            try:
                await asyncio.shield(abort)
            except asyncio.CancelledError as once_more:
                if abort.cancelled():
                    raise
                # Until it is known whether the commit can still be aborted, the consumer may neither read on nor go
                # back. If it cannot, the core says so at once.
                cancelled = once_more
                await uncancelled(abort, DECIDED_SECONDS)
                if abort.done():
                    abort.result()
        except ProducerFencedError as fenced:
            raise fenced from error
        except KafkaError as failure:
            error.add_note(f"the transaction was not aborted: {failure}")
            aborts = not (commits and _is_refused(failure))
        finally:
            self._abort_requested(consumer, aborts)
        if cancelled is not None:
            raise cancelled
        return aborts


def _seconds_to_abort(error: BaseException, deadline: float | None) -> float | None:
    """Time for an abort because of `error`; `None` for as long as any other call."""
    is_interrupted = not isinstance(error, Exception) or is_of_signal_handler(error)
    allowed = INTERRUPTED_SECONDS if is_interrupted else None
    left = seconds_left(deadline)
    if left is None:
        return allowed
    left = max(left, DECIDED_SECONDS)
    return left if allowed is None else min(left, allowed)


def deadline_of(timeout: float | None) -> float | None:
    """The monotonic time in `timeout` seconds."""
    return None if timeout is None else monotonic() + seconds("timeout", timeout)


def seconds_left(deadline: float | None) -> float | None:
    """The seconds until `deadline`; 0 if it has passed."""
    return None if deadline is None else max(deadline - monotonic(), 0.0)


def _is_refused(failure: KafkaError | None) -> bool:
    return isinstance(failure, TransactionError) and not isinstance(failure, ProducerFencedError)


def _read_again(consumer: Consumer | None) -> None:
    """Have the consumer go back to its committed offsets: records returned since are in no transaction."""
    # A consumer that cannot go back, because it is closed for example, returns no records either.
    with suppress(KafkaError):
        if consumer is not None:
            consumer.rewind()


def member_of(consumer: object) -> MemberCore:
    member = getattr(consumer, "_member", None)
    if not isinstance(member, MemberCore):
        raise ArgumentError(f"{consumer!r} is no consumer of monedula's")
    return member
