"""The asyncio consumer: the same verbs, awaited."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from monedula._monedula import Batch, ConsumerCore, Operation, Record
from monedula._rows import MAX_ROWS as ROWS_AHEAD
from monedula._rows import RowCursor
from monedula.consumer import MAX_BYTES, MAX_ROWS, ConsumerBase, as_offsets, as_times, chosen
from monedula.errors import WakeupError
from monedula.partitions import (
    OffsetAndTimestamp,
    TopicPartition,
    raw_partition,
    timestamp_ms,
)

if TYPE_CHECKING:
    from monedula._bridge import Bridge


class AsyncConsumer(ConsumerBase):
    """Reads Kafka as Arrow batches in an event loop.

    Arguments as `Consumer`. A task that is cancelled while it waits loses nothing: records are taken only once they are
    there, by the task that gets them. Taking a batch builds its columns in the loop's thread, for milliseconds and
    without the GIL; smaller `max_rows` make that shorter. One event loop a consumer.

    Examples:
        async with AsyncConsumer({"bootstrap.servers": "localhost:9092"}) as consumer:
            consumer.assign("orders")
            async for batch in consumer.batches():
                ...
    """

    _bridge: "Bridge | None" = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def batches(
        self,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
        max_wait: float = 0.1,
        timeout: float | None = None,
    ) -> AsyncIterator[Batch]:
        """Batches of records; arguments, end and errors as `Consumer.batches`.

        A step that is cancelled (`asyncio.wait_for(anext(batches), 1)`) may be tried again.
        """
        return _Batches(partial(self._next, max_rows, max_bytes, max_wait, timeout))

    async def poll(self, timeout: float = 1.0, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> Batch:
        """What is there now, or comes first within `timeout` seconds; as `Consumer.poll`."""
        return await self._next(max_rows, max_bytes, 0.0, timeout)

    def records(self, timeout: float | None = None) -> AsyncIterator[Record]:
        """Records one by one; as `Consumer.records`."""
        return _Records(self._core, self.batches(max_rows=ROWS_AHEAD, max_wait=0.0, timeout=timeout))

    async def beginning_offsets(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """The smallest offset of each partition; as `Consumer.beginning_offsets`."""
        raw = chosen(partitions)
        return as_offsets(await self._run(lambda fd: self._core.start_list_offsets(fd, "beginning", raw, timeout)))

    async def end_offsets(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition; as `Consumer.end_offsets`."""
        raw = chosen(partitions)
        return as_offsets(await self._run(lambda fd: self._core.start_list_offsets(fd, "end", raw, timeout)))

    async def offsets_for_times(
        self,
        times: Mapping[tuple[str, int], datetime | int],
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is at least as young as asked; as `Consumer.offsets_for_times`."""
        raw = [(raw_partition(partition), timestamp_ms(time)) for partition, time in times.items()]
        return as_times(await self._run(lambda fd: self._core.start_offsets_for_times(fd, raw, timeout)))

    async def partitions_of(self, *topics: str, timeout: float | None = None) -> list[TopicPartition]:
        """Every partition of the topics; as `Consumer.partitions_of`."""
        found = await self._run(lambda fd: self._core.start_partitions_of(fd, list(topics), timeout))
        return [TopicPartition(*partition) for partition in found]

    async def close(self, timeout: float = 5.0) -> None:
        """Close the connections; waits of other tasks end with `ClosedError`. May be called again."""
        await self._run(lambda fd: self._core.start_close(fd, timeout))
        if self._bridge is not None:
            self._bridge.close()
            self._bridge = None

    async def _next(self, max_rows: int, max_bytes: int, max_wait: float, timeout: float | None) -> Batch:
        bridge = self._loop()
        deadline = None if timeout is None else bridge.time() + timeout
        left = timeout
        while True:
            # Waiting takes nothing, so a cancelled wait loses nothing; taking does not wait.
            await bridge.run(partial(self._start_ready, max_rows, max_bytes, max_wait, left))
            batch = self._core.next_batch(max_rows, max_bytes, 0.0, 0.0)
            if batch or (deadline is not None and bridge.time() >= deadline):
                return batch
            left = None if deadline is None else max(deadline - bridge.time(), 0.0)

    def _start_ready(
        self, max_rows: int, max_bytes: int, max_wait: float, timeout: float | None, descriptor: int
    ) -> Operation:
        return self._core.start_ready(descriptor, max_rows, max_bytes, max_wait, timeout)

    async def _run(self, start: Callable[[int], Operation]) -> Any:
        return await self._loop().run(start)

    def _loop(self) -> "Bridge":
        if self._bridge is None:
            from monedula._bridge import Bridge

            self._bridge = Bridge()
        return self._bridge


class _Batches:
    """An iterator, not a generator: a generator is over once a step of it was cancelled."""

    def __init__(self, step: Callable[[], Awaitable[Batch]]) -> None:
        self._step = step

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        try:
            batch = await self._step()
        except WakeupError:
            raise StopAsyncIteration from None
        if not batch:
            raise StopAsyncIteration
        return batch


class _Records:
    """Records over batches; whoever drops it gives back what was read ahead."""

    def __init__(self, core: ConsumerCore, batches: AsyncIterator[Batch]) -> None:
        self._rows = RowCursor(core)
        self._batches = batches

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        while (record := self._rows.take()) is None:
            self._rows.load(await anext(self._batches))
        return record

    def __del__(self) -> None:
        self._rows.give_back()
