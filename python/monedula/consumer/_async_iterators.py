"""The iterators of `AsyncConsumer`. None is a generator: a cancelled step would end a generator."""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Self

from monedula._migration_hints import asynchronous
from monedula._monedula import Batch, ConsumerCore, Record
from monedula.consumer._read_until import UntilLoop
from monedula.consumer._record_cursor import RowCursor
from monedula.errors import KafkaError, WakeupError


class Steps:
    """The steps of a loop, with its `timeout` and its `until`. The first empty batch ends it."""

    def __init__(
        self,
        step: Callable[..., Awaitable[Batch]],
        timeout: float | None,
        bound: UntilLoop | None,
        check_drained: Callable[[], None],
    ) -> None:
        self._step = step
        self._check_drained = check_drained
        self._timeout = timeout
        self._bound = bound

    async def __call__(self, holder: int) -> Batch:
        if self._bound is None:
            batch = await self._step(holder, timeout=self._timeout)
            if not batch:
                self._check_drained()
            return batch
        try:
            batch = await self._next(self._bound, holder)
        except WakeupError:
            self._bound.end()
            raise
        if not batch:
            try:
                self._check_drained()
            finally:
                self._bound.end()
        return batch

    async def _next(self, bound: UntilLoop, holder: int) -> Batch:
        slices = bound.slices(self._timeout)
        while True:
            batch = await self._step(holder, timeout=slices.next())
            if batch or slices.is_over():
                return batch

    def __del__(self) -> None:
        if self._bound is not None:
            with suppress(KafkaError):  # the consumer is closed, or this is a forked child
                self._bound.end()


@asynchronous
class AsyncBatches:
    """The iterator of `AsyncConsumer.batches()`."""

    def __init__(self, holder: Callable[[], int], step: Callable[[int], Awaitable[Batch]]) -> None:
        self._holder = holder
        self._step = step

    def __aiter__(self) -> Self:
        return self

    # Not a coroutine function, for the reason given at `AsyncConsumer.poll`.
    def __anext__(self) -> Coroutine[Any, Any, Batch]:
        return _taken(self._step, self._holder())


@asynchronous
class AsyncRecords:
    """The iterator of `AsyncConsumer.records()`. When it is collected, it gives back the records read ahead."""

    def __init__(self, core: ConsumerCore, holder: Callable[[], int], step: Callable[[int], Awaitable[Batch]]) -> None:
        self._rows = RowCursor(core, 0)
        self._holder = holder
        self._step = step

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Record]:
        return self._record(self._holder())

    async def _record(self, holder: int) -> Record:
        self._rows.holder = holder
        while (record := self._rows.take()) is None:
            self._rows.load(await _taken(self._step, holder))
        return record

    def __del__(self) -> None:
        self._rows.give_back()


async def _taken(step: Callable[[int], Awaitable[Batch]], holder: int) -> Batch:
    try:
        batch = await step(holder)
    except WakeupError:
        raise StopAsyncIteration from None
    if not batch:
        raise StopAsyncIteration
    return batch
