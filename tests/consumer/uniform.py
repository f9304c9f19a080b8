"""Both consumers behind one blocking face, so that one test proves the same verb of either."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import monedula


class Uniform:
    """A `Consumer` or an `AsyncConsumer`; what the latter awaits is awaited here, in a loop of its own."""

    def __init__(self, consumer: monedula.Consumer | monedula.AsyncConsumer, runner: asyncio.Runner | None) -> None:
        self.consumer = consumer
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.consumer, name)
        if not callable(attribute):
            return attribute
        return lambda *arguments, **keywords: self._settle(attribute(*arguments, **keywords))

    def take(self, count: int, timeout: float = 20.0) -> list[monedula.Record]:
        """At least `count` records, in the order in which they came; fails if none comes for `timeout` seconds."""
        records: list[monedula.Record] = []
        for batch in self.batches(timeout=timeout):
            records += batch.records()
            if len(records) >= count:
                return records
        raise AssertionError(f"{len(records)} of {count} records came: {records[-3:]}")

    def _settle(self, value: Any) -> Any:
        if self._runner is None:
            return value
        if inspect.isawaitable(value):
            return self._runner.run(_await(value))
        return self._steps(value) if hasattr(value, "__anext__") else value

    def _steps(self, iterator: AsyncIterator[Any]) -> Iterator[Any]:
        assert self._runner is not None
        while (step := self._runner.run(_next(iterator))) is not _END:
            yield step


_END = object()


async def _await(value: Any) -> Any:
    return await value


async def _next(iterator: AsyncIterator[Any]) -> Any:
    return await anext(iterator, _END)


def values(records: Iterable[monedula.Record]) -> list[bytes | None]:
    """The records' values."""
    return [record.value for record in records]
