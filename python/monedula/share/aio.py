"""`AsyncShareConsumer`, the consumer of a share group for asyncio: the methods of `ShareConsumer`, awaited."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

from monedula._arguments import seconds
from monedula._asyncio.loop_client import HoldingClient, current_holder
from monedula._migration_hints import tells
from monedula._monedula import Batch, Record
from monedula.config import RawSettings, Settings
from monedula.errors import ClosedError, WakeupError
from monedula.producer.aio import AsyncProducer
from monedula.share._base import (
    MAX_BYTES,
    MAX_ROWS,
    UNREADABLE,
    Rows,
    ShareConsumerBase,
    UnreadRows,
    acknowledged,
    batch_to_commit,
    renewed,
)
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    import asyncio

    from monedula.workers import Retry
    from monedula.workers.failures import OnError


@tells
class AsyncShareConsumer(ShareConsumerBase, HoldingClient):
    """Reads Kafka topics as a queue in an event loop, as a member of a share group (KIP-932).

    Arguments as `ShareConsumer`. Cancelling a task that waits loses no records: the wait takes none. Where the
    docstrings of `ShareConsumer` say thread, read task. A consumer belongs to one event loop.

    Examples:
        async with AsyncShareConsumer({"bootstrap.servers": "localhost:9092", "group.id": "workers"}, ["jobs"]) as jobs:
            async for batch in jobs.batches():
                ...
    """

    def __aiter__(self) -> NoReturn:
        message = "use `async for record in consumer.records()`, or `async for batch in consumer.batches()`"
        raise TypeError(f"{type(self).__name__!r} object is not iterable; here: {message}")

    async def __aenter__(self) -> Self:
        if self._core.is_closed():
            raise ClosedError("the consumer is closed")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def batches(
        self, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES, timeout: float | None = None
    ) -> AsyncIterator[Batch]:
        """Yield batches of records; arguments, end and errors as `ShareConsumer.batches`.

        After a cancelled step (`asyncio.wait_for(anext(batches), 1)`) the iteration can go on.
        """
        return _Batches(self, max_rows, max_bytes, timeout)

    # Not a coroutine function: the holder of the batch is the task that calls this, not a task that is created around
    # the coroutine, as asyncio.wait_for() does in Python 3.11.
    def poll(
        self, timeout: float = 1.0, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
    ) -> Coroutine[Any, Any, Batch]:
        """Return the records that are available, or the first ones that arrive; as `ShareConsumer.poll`."""
        return self._poll(self._holder(), timeout, max_rows, max_bytes)

    def records(self, timeout: float | None = None) -> AsyncIterator[Record]:
        """Yield records one by one; as `ShareConsumer.records`."""
        return self._records(self.batches(timeout=timeout))

    async def renew(self, what: Batch | Record, rows: Rows = None, *, timeout: float | None = None) -> float | None:
        """Lock undecided rows anew; as `ShareConsumer.renew`."""
        return renewed(await self._loop().outcome(self._core.renew(what, rows, timeout)))

    def commit(
        self, what: Batch | None = None, *, timeout: float | None = None
    ) -> Coroutine[Any, Any, dict[TopicPartition, int]]:
        """Tell the brokers what was decided, and wait for the outcomes; as `ShareConsumer.commit`.

        Cancelling the wait does not cancel the decisions.
        """
        return self._commit(batch_to_commit(what), timeout, current_holder())

    def commit_async(
        self, what: Batch | None = None, *, timeout: float | None = None
    ) -> "asyncio.Task[dict[TopicPartition, int]]":
        """Tell the brokers what was decided, without waiting; the returned task may be awaited. As `commit`."""
        return self._loop().task(self._core.commit(batch_to_commit(what), timeout, current_holder()), acknowledged)

    async def run(
        self,
        handler: Callable[[Any], object],
        *,
        concurrency: int = 32,
        batch_size: int | None = None,
        retries: "int | Retry" = 0,
        dead_letter: str | None = None,
        reply_topic: str | None = None,
        producer: AsyncProducer | None = None,
        on_error: "OnError | None" = None,
        max_queued_records: int = 500,
        max_queued_bytes: int = 64 << 20,
        grace: float = 30.0,
        timeout: float | None = None,
    ) -> None:
        """Call `handler` for each record, many at a time and in any order; arguments and end as `ShareConsumer.run`.

        Handlers are called in tasks of this loop; `handler` and `on_error` may be coroutine functions. Cancelling the
        call cancels the handlers that run: their records are released, and those that wait. A handler that runs for
        longer than `grace` seconds at the end is cancelled, too.
        """
        from monedula.share._run_setup import under_way
        from monedula.workers.plans import as_plan
        from monedula.workers.tasks import TaskRun

        plan = as_plan(
            handler=handler,
            concurrency=concurrency,
            order="none",
            batch_size=batch_size,
            retries=retries,
            dead_letter=dead_letter,
            reply_topic=reply_topic,
            producer=producer,
            transaction=None,
            commit_interval=0.0,
            on_error=on_error,
            max_queued_records=max_queued_records,
            max_queued_bytes=max_queued_bytes,
            grace=grace,
            timeout=timeout,
            until=None,
        )
        with under_way(self, plan, awaits=True, holder=current_holder()) as (run, outputs):
            await TaskRun(self, run, outputs).run()

    async def close(self, timeout: float = 5.0) -> None:
        """Tell what was decided, release the rest, leave the group; as `ShareConsumer.close`. May be called again."""
        seconds("timeout", timeout)
        await self._loop().outcome(self._core.close(timeout))
        self._tell()

    @staticmethod
    def _open_producer(settings: RawSettings) -> AsyncProducer:
        return AsyncProducer(cast("Settings", settings))

    async def _next_of_run(self, _max_rows: int, max_bytes: int, wait: float, holder: int, /) -> Batch | None:
        try:
            # All that was acquired: the locks of rows in hand are renewed, and those of others are not.
            return await self._step(holder, MAX_ROWS, max_bytes, wait)
        except UNREADABLE as error:
            self._pass_unreadable(error)
            return None

    async def _serve_run(self, _holder: int, /) -> None:
        self._core.send_decided()
        self._tell()
        self._core.check_ended()

    async def _commit_finished(self, holder: int, timeout: float) -> None:
        # The log has what failed, as during the run.
        await self._loop().outcome(self._core.commit(None, timeout, holder))

    def _holder_ended(self, holder: int, /) -> None:
        # Explicit decisions are made by whoever has the batch, whichever task took it.
        if self._core.is_implicit:
            self._core.holder_ended(holder)

    async def _commit(self, what: Batch | None, timeout: float | None, holder: int) -> dict[TopicPartition, int]:
        return await self._loop().task(self._core.commit(what, timeout, holder), acknowledged)

    async def _poll(self, holder: int, timeout: float, max_rows: int, max_bytes: int) -> Batch:
        batch = await self._step(holder, max_rows, max_bytes, timeout)
        if not batch:
            self._check_failing(timeout, is_end=False)
        return batch

    async def _step(self, holder: int, max_rows: int, max_bytes: int, timeout: float | None) -> Batch:
        loop = self._loop()
        left = None if timeout is None else seconds("timeout", timeout)
        self._check_subscribed()
        while True:
            began = loop.time()
            # The wait takes no records, so a cancelled wait loses none; next_batch() takes them and does not wait.
            self._tell()
            await loop.outcome(self._core.ready(self._slice(left), holder))
            batch = self._core.next_batch(max_rows, max_bytes, 0.0, holder)
            left = None if left is None else left - (loop.time() - began)
            if batch or (left is not None and left <= 0.0):
                return batch

    async def _records(self, batches: AsyncIterator[Batch]) -> AsyncIterator[Record]:
        async for batch in batches:
            rows = UnreadRows(self._core, batch, self._core.is_implicit)
            try:
                while (record := rows.take()) is not None:
                    yield record
            except WakeupError:
                return
            finally:
                rows.release()


class _Batches:
    """The iterator of batches. It is no generator, which a cancelled step would end."""

    def __init__(self, consumer: AsyncShareConsumer, max_rows: int, max_bytes: int, timeout: float | None) -> None:
        self._consumer = consumer
        self._limits = max_rows, max_bytes
        self._timeout = timeout
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Batch]:
        return self._next(self._consumer._holder())

    async def _next(self, holder: int) -> Batch:
        if self._is_over:
            raise StopAsyncIteration
        try:
            batch = await self._consumer._step(holder, *self._limits, self._timeout)
        except WakeupError:
            self._is_over = True
            raise StopAsyncIteration from None
        if not batch:
            self._is_over = True
            if self._timeout is not None:
                self._consumer._check_failing(self._timeout, is_end=True)
            raise StopAsyncIteration
        return batch
