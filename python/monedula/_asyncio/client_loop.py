"""`ClientLoop`: the event loop of an asynchronous client, in which operations of the core are awaited."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from monedula._asyncio.futures import wait
from monedula._monedula import Operation
from monedula.errors import ArgumentError

_T = TypeVar("_T")
_R = TypeVar("_R")


class ClientLoop:
    """The loop in which a client was used first. All its calls have to be made in that loop.

    Rebalance callbacks are tasks of this loop, and the end of it closes the client.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def check(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise ArgumentError("this client belongs to another event loop; make one in each loop")

    def time(self) -> float:
        """The time of the loop's clock, in seconds."""
        return self._loop.time()

    async def outcome(self, operation: "Operation[_T]") -> _T:
        """Await the result of an operation. A cancelled wait cancels the operation."""
        try:
            await wait(operation)
        except BaseException:
            operation.cancel()
            raise
        return operation.result()

    def task(self, operation: "Operation[_R]", convert: Callable[[_R], _T]) -> asyncio.Task[_T]:
        """A task with the converted result of an operation, which need not be awaited."""

        async def converted() -> _T:
            return convert(await self.outcome(operation))

        task = self._loop.create_task(converted())
        self._tasks.add(task)  # the event loop has only weak references to tasks
        task.add_done_callback(self._tasks.discard)
        return task
