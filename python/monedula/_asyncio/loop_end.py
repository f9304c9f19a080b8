"""`LoopEnd`: a coroutine that is awaited when an event loop ends."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TypeVar
from weakref import ref

_O = TypeVar("_O")


class LoopEnd:
    """Calls something when the running loop ends: `asyncio.run` closes the asynchronous generators of its loop last.

    Args:
        owner: what it is about; nothing is called once that was collected.
        call: gives the coroutine that is awaited then.
    """

    def __init__(self, owner: "ref[_O]", call: Callable[[_O], Awaitable[object]]) -> None:
        self._is_over = False
        self._waiting = self._wait(owner, call)
        # Run up to its yield, where nothing is awaited: a loop closes the generators that were begun in it.
        with suppress(StopIteration):
            self._waiting.asend(None).send(None)

    def cancel(self) -> None:
        self._is_over = True
        with suppress(StopIteration, RuntimeError):  # RuntimeError: it is just being closed
            self._waiting.aclose().send(None)

    async def _wait(self, owner: "ref[_O]", call: Callable[[_O], Awaitable[object]]) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            there = None if self._is_over else owner()
            if there is not None:
                await call(there)
