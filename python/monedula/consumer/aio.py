"""`AsyncConsumer`, the consumer for asyncio: the methods of `Consumer`, awaited."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from functools import partial
from sys import exception
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast
from weakref import ref

from monedula._arguments import RawOffset, seconds
from monedula._asyncio.loop_client import HoldingClient, current_holder
from monedula._health import patience
from monedula._migration_hints import tells
from monedula._monedula import Batch, PendingCallback, Record
from monedula._process.signals import error_to_raise, is_of_signal_handler
from monedula.config import RawSettings, Settings
from monedula.consumer._async_iterators import AsyncBatches, AsyncRecords, Steps
from monedula.consumer._base import (
    MAX_BYTES,
    MAX_ROWS,
    ConsumerBase,
    as_offsets,
    as_times,
    chosen,
    named,
    raw_times,
)
from monedula.consumer._commits import as_committed, committed_offsets, of_owned
from monedula.consumer._dead_letters import WaitingBatch
from monedula.consumer._read_until import UntilLoop
from monedula.consumer._record_cursor import MAX_ROWS as ROWS_AHEAD
from monedula.errors import ArgumentError
from monedula.producer.aio import AsyncProducer
from monedula.types.partitions import OffsetAndMetadata, OffsetAndTimestamp, Offsets, TopicPartition, Until

if TYPE_CHECKING:
    import asyncio

    from monedula._asyncio.callbacks import Callbacks
    from monedula._asyncio.client_loop import ClientLoop
    from monedula._asyncio.loop_end import LoopEnd
    from monedula.workers import Retry
    from monedula.workers.failures import OnError
    from monedula.workers.plans import Order


@tells
class AsyncConsumer(ConsumerBase, HoldingClient):
    """Reads Kafka as Arrow batches in an event loop.

    Arguments as `Consumer`. Cancelling a task that waits loses no records: the wait takes none, and a batch is taken
    only once its records are available. Taking a batch builds its columns in the loop's thread, without the GIL, which
    takes milliseconds; a smaller `max_rows` makes that shorter. A consumer belongs to one event loop.

    Rebalance callbacks may be coroutine functions. Each runs in a task of its own, which a cancelled wait does not
    cancel; the next call that waits raises its exception. Where the docstrings of `Consumer` say thread, read task:
    taking the next batch marks the previous batch of this task as finished.

    Examples:
        async with AsyncConsumer({"bootstrap.servers": "localhost:9092"}) as consumer:
            consumer.assign("orders")
            async for batch in consumer.batches():
                ...
    """

    _calling: "Callbacks | None" = None
    _loop_end: "LoopEnd | None" = None
    _outlived_its_loop = False
    _awaits = True

    def __aiter__(self) -> NoReturn:
        message = "use `async for record in consumer.records()`, or `async for batch in consumer.batches()`"
        raise TypeError(f"{type(self).__name__!r} object is not iterable; here: {message}")

    async def __aenter__(self) -> Self:
        self._core.assignment()  # raises ClosedError if the consumer is closed
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._member.finish_held(current_holder())
        await self.close()

    def batches(
        self,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
        max_wait: float = 0.1,
        timeout: float | None = None,
        until: Until | None = None,
    ) -> AsyncIterator[Batch]:
        """Yield batches of records; arguments, end and errors as `Consumer.batches`.

        After a cancelled step (`asyncio.wait_for(anext(batches), 1)`) the iteration can go on.
        """
        step = partial(self._step, max_rows=max_rows, max_bytes=max_bytes, max_wait=max_wait)
        return AsyncBatches(self._holder, self._bounded(step, timeout, until))

    # Not a coroutine function: the holder of the batch is the task that calls this, not a task that is created around
    # the coroutine, as asyncio.wait_for() does in Python 3.11.
    def poll(
        self, timeout: float = 1.0, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
    ) -> Coroutine[Any, Any, Batch]:
        """Return the records that are available, or the first ones that arrive; as `Consumer.poll`."""
        return self._poll(self._holder(), timeout, max_rows, max_bytes)

    def records(self, timeout: float | None = None, until: Until | None = None) -> AsyncIterator[Record]:
        """Yield records one by one; as `Consumer.records`."""
        step = partial(self._step, max_rows=ROWS_AHEAD, max_bytes=MAX_BYTES, max_wait=0.0)
        return AsyncRecords(self._core, self._holder, self._bounded(step, timeout, until))

    async def run(
        self,
        handler: Callable[[Any], object],
        *,
        concurrency: int = 32,
        order: "Order" = "key",
        batch_size: int | None = None,
        retries: "int | Retry" = 0,
        dead_letter: str | None = None,
        reply_topic: str | None = None,
        producer: AsyncProducer | None = None,
        transaction: AsyncProducer | None = None,
        commit_interval: float = 0.1,
        on_error: "OnError | None" = None,
        max_queued_records: int = 10_000,
        max_queued_bytes: int = 64 << 20,
        grace: float = 30.0,
        timeout: float | None = None,
        until: Until | None = None,
    ) -> None:
        """Call `handler` for each record, many at a time and in order by key; arguments and end as `Consumer.run`.

        Handlers are called in tasks of this loop; `handler` and `on_error` may be coroutine functions. Cancelling the
        call cancels the handlers that run; what is finished is committed, and the other records are read again. A
        handler that runs for longer than `grace` seconds at the end is cancelled, too.
        """
        from monedula.consumer._run_setup import under_way
        from monedula.workers.plans import as_plan
        from monedula.workers.tasks import TaskRun

        plan = as_plan(
            handler=handler,
            concurrency=concurrency,
            order=order,
            batch_size=batch_size,
            retries=retries,
            dead_letter=dead_letter,
            reply_topic=reply_topic,
            producer=producer,
            transaction=transaction,
            commit_interval=commit_interval,
            on_error=on_error,
            max_queued_records=max_queued_records,
            max_queued_bytes=max_queued_bytes,
            grace=grace,
            timeout=timeout,
            until=until,
        )
        if self._reading is not None:
            self._reading.begins()
        with under_way(self, plan) as (run, outputs):
            await TaskRun(self, run, outputs).run()

    def commit(
        self, what: Batch | Offsets | None = None, *, timeout: float | None = None
    ) -> Coroutine[Any, Any, dict[TopicPartition, int]]:
        """Commit offsets for the group; as `Consumer.commit`. Cancelling the wait does not cancel the commit."""
        return self._commit(self._to_commit(what), current_holder(), timeout)

    def commit_async(
        self, what: Batch | Offsets | None = None, *, timeout: float | None = None
    ) -> "asyncio.Task[dict[TopicPartition, int]]":
        """Commit offsets without waiting; the returned task may be awaited. As `Consumer.commit_async`."""
        return self._start_commit(self._to_commit(what), current_holder(), timeout)

    def hand_over(self, batch: Batch) -> list[Batch]:
        """Split a batch into one part for each partition, for other tasks to finish; as `Consumer.hand_over`."""
        return self._split(batch, current_holder())

    async def committed(
        self, partitions: Iterable[tuple[str, int]] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; as `Consumer.committed`."""
        raw = chosen(partitions)
        return as_committed(await self._loop().outcome(self._member.committed(raw, timeout)))

    async def unsubscribe(self, timeout: float = 5.0) -> None:
        """Leave the group; as `Consumer.unsubscribe`."""
        self._refuse_in_callback("unsubscribe")
        until = self._loop().time() + seconds("timeout", timeout)
        self._report_run()
        self._member.begin_unsubscribe()
        self._named = set()
        await self._leave(until)

    async def beginning_offsets(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """The smallest offset of each partition; as `Consumer.beginning_offsets`."""
        raw = chosen(partitions)
        return as_offsets(await self._loop().outcome(self._core.list_offsets("beginning", raw, timeout)))

    async def end_offsets(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition; as `Consumer.end_offsets`."""
        raw = chosen(partitions)
        return as_offsets(await self._loop().outcome(self._core.list_offsets("end", raw, timeout)))

    async def offsets_for_times(
        self,
        times: Mapping[tuple[str, int], datetime | int | str],
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition at or after a given time; as `Consumer.offsets_for_times`."""
        raw = raw_times(times)
        return as_times(await self._loop().outcome(self._core.offsets_for_times(raw, timeout)))

    async def partitions_of(self, *topics: str, timeout: float | None = None) -> list[TopicPartition]:
        """All partitions of the topics; as `Consumer.partitions_of`."""
        found = await self._loop().outcome(self._core.partitions_of(named(topics), timeout))
        return [TopicPartition(*partition) for partition in found]

    async def close(self, timeout: float = 5.0) -> None:
        """Commit finished offsets, leave the group, close the connections; as `Consumer.close`. May be called again.

        `on_revoked` is called, and cancelled if it does not end within `timeout`; waits of other tasks end with
        `ClosedError`.
        """
        self._refuse_in_callback("close")
        until = self._loop().time() + seconds("timeout", timeout)
        self._refused.clear()
        if exception() is None:
            self._member.finish_held(current_holder())
        self._report_run()
        try:
            self._member.begin_close(timeout)
            await self._leave(until)
        finally:
            try:
                await self._close_core(max(until - self._loop().time(), 0.0))
            finally:
                if self._loop_end is not None:
                    self._loop_end.cancel()

    async def _close_core(self, left: float) -> None:
        await self._loop().outcome(self._core.close_in_thread(left))
        if self._refused.producer is not None:
            await cast(AsyncProducer, self._refused.producer).close(left)
            self._refused.forget_failures()
        self._callbacks().cancel()

    async def _close_last(self) -> None:
        """Close a consumer whose loop ends: nobody can use it any more, and it would hold up its group."""
        from monedula._logging import warn

        warn("groups", "an AsyncConsumer was not closed before its event loop ended, and is closed now: use async with")
        self._outlived_its_loop = True
        try:
            await self.close()
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            warn("groups", f"an AsyncConsumer was closed at the end of its event loop with an error: {error}")

    async def _step(self, holder: int, max_rows: int, max_bytes: int, max_wait: float, timeout: float | None) -> Batch:
        # A wait for records waits for the callback first, which must not wait for it in turn.
        if self._calling is not None and self._calling.has_started_this():
            self._refuse("poll")
        if self._outlived_its_loop:
            raise ArgumentError("this client was closed at the end of another event loop; make one in each loop")
        loop = self._loop()
        left = None if timeout is None else seconds("timeout", timeout)
        max_wait = seconds("max_wait", max_wait)
        while True:
            await self._callbacks().wait()
            self._tell_events()
            # `timeout` limits the wait for records; the time that callbacks take does not count.
            began = loop.time()
            # The wait takes no records, so a cancelled wait loses none; next_step() takes them and does not wait.
            step: Batch | PendingCallback | None = None
            waiting = self._refused.take()
            if waiting is None:
                wait = left if self._reading is None else self._reading.wait(left)
                await loop.outcome(self._core.ready(max_rows, max_bytes, max_wait, wait, holder))
                step = self._core.next_step(max_rows, max_bytes, 0.0, 0.0, holder)
                if isinstance(step, Batch) and step._refused() is not None:
                    waiting, step = WaitingBatch(step), None
            if waiting is not None:
                step = await self._put_aside(waiting, left, holder)
            if isinstance(step, Batch):
                if self._reading is not None:
                    self._reading.look(bool(step))
                if step or (left is not None and loop.time() - began >= left):
                    return step
            elif step is not None:
                self._call_back(step)
            left = None if left is None else max(left - (loop.time() - began), 0.0)

    async def _put_aside(
        self, waiting: WaitingBatch, timeout: float | None, holder: int
    ) -> Batch | PendingCallback | None:
        """Write the records of a batch that cannot be decoded. Returns the outcome of the wait."""
        from asyncio import sleep
        from asyncio import wait as wait_for_any

        with self._refused.wait(waiting, timeout, holder) as wait:
            while wait.goes_on():
                if wait.future is None:
                    await sleep(wait.slice_seconds)
                else:
                    await wait_for_any({wait.future}, timeout=wait.slice_seconds)  # type: ignore[type-var]
        return wait.outcome

    async def _poll(self, holder: int, timeout: float, max_rows: int, max_bytes: int) -> Batch:
        batch = await self._step(holder, max_rows, max_bytes, 0.0, timeout)
        if not batch:
            self._core.check_failing(patience(timeout, is_end=False))
        return batch

    def _bounded(self, step: Callable[..., Awaitable[Batch]], timeout: float | None, until: Until | None) -> Steps:
        bound = None if until is None else UntilLoop(self._core, self._refused, until)
        return Steps(step, timeout, bound, lambda: self._check_drained(timeout, bound))

    def _holder(self) -> int:
        if self._reading is not None:
            self._reading.begins()
        return super()._holder()

    def _holder_ended(self, holder: int, /) -> None:
        # Batches that the task holds stay unfinished; the core warns, and lets a rebalance go on without them.
        self._member.holder_ended(holder)

    async def _leave(self, until: float) -> None:
        failure: BaseException | None = None
        while True:
            try:
                await self._callbacks().wait(until)
            except Exception as error:
                failure = error_to_raise(failure, error)
            left = max(until - self._loop().time(), 0.0)
            pending = await self._loop().outcome(self._member.leaving_in_thread(left))
            if pending is None:
                break
            self._call_back(pending)
        self._tell_events()
        if failure is not None:
            raise failure

    async def _commit(
        self, raw: Batch | list[RawOffset] | None, holder: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        return await self._start_commit(raw, holder, timeout)

    @staticmethod
    def _open_producer(settings: RawSettings) -> AsyncProducer:
        return AsyncProducer(cast("Settings", settings))

    async def _next_of_run(self, max_rows: int, max_bytes: int, wait: float, holder: int, /) -> Batch:
        return await self._step(holder, max_rows, max_bytes, 0.0, wait)

    async def _serve_run(self, holder: int, /) -> None:
        await self._callbacks().wait()
        pending = self._core.poll_callbacks(0.0, holder)
        self._tell_events()
        if pending is not None:
            self._call_back(pending)
            await self._callbacks().wait()

    async def _commit_finished(self, holder: int, timeout: float) -> None:
        operation = self._member.commit(None, holder, timeout)
        await self._loop().task(operation, lambda outcome: committed_offsets(of_owned(outcome)))

    def _start_commit(
        self, raw: Batch | list[RawOffset] | None, holder: int, timeout: float | None
    ) -> "asyncio.Task[dict[TopicPartition, int]]":
        return self._loop().task(self._member.commit(raw, holder, timeout), committed_offsets)

    def _call_back(self, pending: PendingCallback) -> None:
        self._callbacks().start(self._listeners.of(pending), partial(self._member.called_back, pending.ticket))

    def _callbacks(self) -> "Callbacks":
        if self._calling is None:
            from monedula._asyncio.callbacks import Callbacks

            self._calling = Callbacks()
        return self._calling

    def _is_calling_back(self) -> bool:
        return self._calling is not None and self._calling.is_current()

    def _loop(self) -> "ClientLoop":
        loop = super()._loop()
        if self._loop_end is None:
            from monedula._asyncio.loop_end import LoopEnd

            self._loop_end = LoopEnd(ref(self), AsyncConsumer._close_last)
        return loop
