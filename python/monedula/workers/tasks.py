"""`TaskRun`: `AsyncConsumer.run`. The caller's task reads, others call the handler, all in one event loop."""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import Any, Literal, Protocol

from monedula._monedula import Batch, LaneWorker, Record, SendFuture
from monedula._process.signals import error_to_raise, is_of_signal_handler
from monedula.errors import InvalidRecordError, KafkaError, TransactionAbortedError, WakeupError
from monedula.producer._send_queue import SendArguments
from monedula.producer.aio import AsyncProducer
from monedula.workers.failures import Verdict
from monedula.workers.outputs import REFUSALS, Outputs
from monedula.workers.replies import refusal
from monedula.workers.runs import (
    COMMIT_SECONDS,
    FULL_SECONDS,
    POLL_SECONDS,
    Ending,
    Run,
    RunConsumer,
    first_error,
)

TASKS_AT_ONCE = 32
"""Number of calls of the handler after which a worker yields to others if it never suspends."""


class TaskConsumer(RunConsumer, Protocol):
    """Consumer of a run with tasks."""

    async def _next_of_run(self, max_rows: int, max_bytes: int, wait: float, holder: int, /) -> Batch | None:
        """Return a batch for the run; an empty one, or `None`, if none came in `wait` seconds."""

    async def _serve_run(self, holder: int, /) -> None:
        """Run callbacks, and tell what was decided, while the run takes no records."""

    async def _commit_finished(self, holder: int, timeout: float) -> None: ...


class TaskRun:
    """A run whose handlers are called in tasks."""

    def __init__(self, consumer: TaskConsumer, run: Run, outputs: Outputs | None) -> None:
        self._consumer = consumer
        self._run = run
        self._outputs = outputs
        self._idle: deque[asyncio.Future[None]] = deque()
        """Futures of workers that wait for a record."""
        self._reader: asyncio.Future[None] | None = None
        """Future of the caller's task, while it waits for room or for the end."""
        self._ended = False
        self._ending: Ending | None = None
        self._cancels = False
        """True while the run itself cancels the tasks of handlers."""
        self._cut: RuntimeError | None = None
        """Failure of the run, if other code cancelled one of its tasks."""

    async def run(self) -> None:
        """Read until the end, and wait for the handlers.

        Raises:
            Exception: an exception of a handler that is not retried, with a note; errors of reading and committing.
        """
        loop = asyncio.get_running_loop()
        workers: list[asyncio.Task[None]] = []
        error: BaseException | None = None
        try:
            await self._begin_transactions()
            workers += [loop.create_task(self._work(number)) for number in range(self._run.plan.concurrency)]
            await self._read()
        except BaseException as raised:
            error = raised
        if error is not None and not isinstance(error, Exception):
            self._cancels = True
            for worker in workers:
                worker.cancel()
        try:
            await self._finish(error)
        except BaseException as raised:
            error = first_error(error, raised)
        finally:
            error = await self._close(error, workers)
        failure = self._run.failure
        is_cancelled = failure is self._cut and isinstance(error, asyncio.CancelledError)
        is_interrupted = error is not None and is_of_signal_handler(error)
        if failure is not None and not is_cancelled and not is_interrupted:
            raise failure
        if error is not None and not isinstance(error, WakeupError):
            raise error

    @property
    def _sender(self) -> AsyncProducer:
        assert self._outputs is not None
        assert isinstance(self._outputs.producer, AsyncProducer)
        return self._outputs.producer

    async def _begin_transactions(self) -> None:
        """Take over the `transactional.id`: what a killed process left open is aborted before its records are read."""
        rounds = self._run.rounds
        if rounds is None:
            return
        sender = self._sender
        await sender._end_what_was_left()
        if not sender._initialized:
            await sender.init_transactions()
        rounds.rewind()

    async def _commit_round(self, *, is_last: bool = False, deadline: float | None = None) -> bool:
        """Commit a transaction, if one is due. Returns false if there is nothing to commit.

        Until the deadline, a monotonic time, its outcome is waited for; `None` for as long as the settings say.
        """
        run, rounds = self._run, self._run.rounds
        taken = run.next_round(is_last=is_last)
        if rounds is None or taken is None:
            return False
        try:
            async with rounds.async_transaction(self._sender, taken, deadline):
                for each in taken.written:
                    each.send(self._sender)
        except TransactionAbortedError as error:
            rounds.aborted(error, taken)
            if is_last and deadline is not None and monotonic() >= deadline:
                raise
            return True
        except BaseException:
            rounds.is_broken = True
            raise
        rounds.committed(taken)
        return True

    async def _read(self) -> None:
        run, consumer = self._run, self._consumer
        heard = monotonic()
        while run.failure is None:
            # Idleness is checked before: errors held back until the last records are reported come with the next call.
            was_idle = run.lanes.is_idle()
            self._look_after()
            await self._commit_round()
            room = run.lanes.room()
            if not room:
                heard = monotonic()
                await self._wait("room", lambda: run.lanes.room() > 0)
                await consumer._serve_run(run.holder)
                continue
            is_over = run.is_read()
            wait = 0.0 if is_over else POLL_SECONDS
            batch = await consumer._next_of_run(room, run.room_bytes(), wait, run.holder)
            if batch:
                heard = monotonic()
                self._wake(run.add(batch))
                # Yield to the handlers: taking a batch that was already there suspends no task.
                await asyncio.sleep(0)
            elif was_idle and run.is_over(is_over, monotonic() - heard):
                consumer._check_drained(run.plan.timeout, run.bound)
                return

    async def _finish(self, error: BaseException | None) -> None:
        """Wait until the started records are finished; without an error, all records taken."""
        run = self._run
        ending = self._ending = Ending(run, error)
        failure: BaseException | None = None
        while not run.lanes.is_idle():
            if ending.is_over():
                break
            self._look_after()
            if not ending.is_cut:
                await self._commit_round(deadline=ending.commit_deadline())
            await self._wait("idle", run.lanes.is_idle)
            try:
                if ending.serves:
                    await self._consumer._serve_run(run.holder)
            except Exception as raised:
                if not isinstance(raised, KafkaError):
                    failure = error_to_raise(failure, raised)
                ending.interrupted()
        if failure is not None:
            raise failure

    async def _close(self, error: BaseException | None, workers: "list[asyncio.Task[None]]") -> BaseException | None:
        run, member = self._run, self._run.member
        self._ended = True
        if run.end():
            self._cancels = True
            for worker in workers:
                worker.cancel()
        self._wake(len(workers))
        if run.bound is not None:
            run.bound.end()
        try:
            self._look_after()
            if run.rounds is None:
                member.holder_ended(run.holder)
                await self._consumer._commit_finished(run.holder, self._seconds_left())
            else:
                await self._end_transactions()
            if run.left_behind:
                member.rewind()
        except KafkaError as raised:
            error = first_error(error, raised)
        if self._outputs is not None and self._outputs.is_own:
            await self._sender.close(self._seconds_left())
            self._outputs.forget_failures()
        return error

    async def _end_transactions(self) -> None:
        """Commit what is finished, and leave the rest to the next run, which begins at what is committed."""
        try:
            ending = self._ending
            deadline = monotonic() + COMMIT_SECONDS if ending is None else ending.last_deadline()
            while await self._commit_round(is_last=True, deadline=deadline):
                pass
        finally:
            self._run.tell_rest()
            self._run.member.holder_ended(self._run.holder)
            if self._sender._left == "commit":
                # Not known to be committed: the next run finds out, and only then goes back.
                self._run.left_behind = False

    def _seconds_left(self) -> float:
        return self._run.plan.grace if self._ending is None else self._ending.seconds_left()

    def _look_after(self) -> None:
        run = self._run
        run.look_after(run.member.rebalance_wanted())
        run.tell()
        if run.lanes.next_due() == 0.0:
            self._wake(1)

    async def _wait(self, until: Literal["room", "idle"], is_so: Callable[[], bool]) -> None:
        if is_so():
            return
        self._reader = asyncio.get_running_loop().create_future()
        self._run.lanes.set_reader_waits(until)
        try:
            await asyncio.wait([self._reader], timeout=FULL_SECONDS)
        finally:
            self._reader = None
            self._run.lanes.set_reader_waits(None)

    def _wake(self, count: int) -> None:
        while count > 0 and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    async def _available(self, seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._idle.append(waiter)
        timer = None if seconds is None else loop.call_later(seconds, _finish, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()

    async def _work(self, number: int) -> None:
        try:
            await self._handle_all(number)
        except asyncio.CancelledError as error:
            if not self._cancels and not self._ended:
                self._cut_off(error)
            raise

    def _cut_off(
        self, error: asyncio.CancelledError, worker: LaneWorker | None = None, records: Sequence[Record] = ()
    ) -> None:
        """End the run because other code cancelled one of its tasks, which handles nothing any more."""
        failure = RuntimeError("a task in which run() calls handlers was cancelled, by a handler or by other code")
        failure.__cause__ = error
        if worker is not None:
            self._run.stop(failure, worker, records)
        elif self._run.failure is None:
            self._run.fail(failure)
        if self._run.failure is failure:
            self._cut = failure
        if self._reader is not None:
            _finish(self._reader)

    async def _handle_all(self, number: int) -> None:
        lanes = self._run.lanes
        worker = lanes.worker(number, TASKS_AT_ONCE)
        while True:
            try:
                await self._handle_ready(worker)
            except MemoryError as error:
                self._run.stop(error, worker, [])  # there was none for the records
            finally:
                # The iterator ends also when there is work for the caller's task.
                if self._reader is not None:
                    _finish(self._reader)
            if lanes.is_ready_for():
                await asyncio.sleep(0)
            elif self._ended:
                return
            else:
                await self._available(lanes.next_due())

    async def _handle_ready(self, worker: LaneWorker) -> None:
        """Call the handler until there is nothing to do now, or others are to have a turn."""
        run, outputs = self._run, self._outputs
        handler, is_list = run.plan.handler, run.plan.batch_size is not None
        # Asking for the next records says that those before were handled, unless their task was ended otherwise.
        for given in worker:
            try:
                result = handler(given)
                if type(result) is CoroutineType or inspect.isawaitable(result):
                    result = await result
                if (refused := refusal(result)) is not None:
                    run.stop(refused, worker, given if is_list else [given])
                    continue
                replies = [] if outputs is None else await self._replies(outputs, given if is_list else [given], result)
            except BaseException as error:
                await self._raised(worker, given, given if is_list else [given], error)
            else:
                if replies:
                    records = given if is_list else [given]
                    await self._written(replies, worker, records, partial(self._failed, worker, given, records))

    async def _raised(self, worker: LaneWorker, given: Any, records: Sequence[Record], error: BaseException) -> None:
        """A handler has raised this."""
        run = self._run
        if isinstance(error, asyncio.CancelledError):
            self._refuse_cancelled(error, worker, records)
            # Awaited work of the handler was cancelled. Raised as it is, this would end the caller's task without an
            # error.
            failure = RuntimeError("something that the handler waited for was cancelled")
            failure.__cause__ = error
            await self._failed(worker, given, records, failure)
        elif isinstance(error, Exception) and not is_of_signal_handler(error):
            await self._failed(worker, given, records, error)
        else:
            run.stop(error, worker, records)

    async def _replies(self, outputs: Outputs, records: Sequence[Record], returned: object) -> list[SendArguments]:
        replies = outputs.replies(records, returned)
        return [outputs.checked(await self._sender._encoded_later(each)) for each in replies]

    async def _written(
        self,
        written: list[SendArguments],
        worker: LaneWorker,
        records: Sequence[Record],
        refused: Callable[[Exception], Awaitable[None]] | None = None,
    ) -> bool:
        """Write records, or leave them to the transaction of the task. Returns false if that failed.

        `refused` is called if a broker refuses a record for what it is; otherwise a failure ends the run.
        """
        outputs = self._outputs
        assert outputs is not None
        if outputs.is_transactional:
            worker.hold(written)
            return True
        try:
            for each, sent in [(each, outputs.send(each)) for each in written]:
                while (error := await _failure(sent)) is not None:
                    sent = outputs.send_again(each, error)
        except BaseException as raised:
            self._refuse_cancelled(raised, worker, records)
            if refused is not None and isinstance(raised, REFUSALS):
                await refused(raised)
            else:
                self._run.unwritten(raised, worker, records)
            return False
        return True

    async def _failed(self, worker: LaneWorker, given: Any, records: Sequence[Record], error: Exception) -> None:
        run = self._run
        try:
            said = None if run.plan.on_error is None else run.plan.on_error(given, error, worker.attempts)
            if inspect.isawaitable(said):
                said = await said
            verdict: Verdict = run.failures.verdict(worker.attempts, error, said)
        except BaseException as raised:
            self._refuse_cancelled(raised, worker, records)
            run.stop(raised, worker, records)
            return
        if verdict == "dead_letter" and self._outputs is not None:
            letters = self._outputs.letters(records, error, worker.attempts)
            if not await self._written(letters, worker, records):
                return
        run.decided(verdict, error, worker, records)

    def _refuse_cancelled(self, raised: BaseException, worker: LaneWorker, records: Sequence[Record]) -> None:
        """Raise the error again if it says that the current task was cancelled: the task handles nothing any more."""
        if self._cancels:
            worker.forget()
            raise raised
        if isinstance(raised, asyncio.CancelledError) and _is_cancelled():
            self._cut_off(raised, worker, records)
            raise raised


async def _failure(sent: SendFuture) -> BaseException | None:
    try:
        await sent
    except InvalidRecordError as error:
        return error
    return None


def _is_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _finish(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
