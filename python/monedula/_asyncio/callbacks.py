"""`Callbacks`: rebalance callbacks in tasks of their own."""

import asyncio
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

_CALLBACK: ContextVar[asyncio.Task[Any] | None] = ContextVar("monedula_callback", default=None)
"""The task of the rebalance callback that runs, also in the tasks and threads that the callback starts."""


class Callbacks:
    """Runs rebalance callbacks one at a time, each in a task of its own, which a cancelled wait does not cancel."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, call: Callable[[], object], ended: Callable[[bool], object]) -> None:
        """Start a callback; `ended` is called after it, with whether it failed."""
        self._task = asyncio.get_running_loop().create_task(self._run(call, ended))

    async def wait(self, until: float | None = None) -> None:
        """Wait for the running callback, at most until `until` of the loop's clock, and raise its exception."""
        while (task := self._task) is not None:
            left = None if until is None else max(until - asyncio.get_running_loop().time(), 0.0)
            done, _ = await asyncio.wait([task], timeout=left)
            if not done:
                return
            if self._task is task:  # of several waiters, only the first raises the callback's exception
                self._task = None
                task.result()

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def is_current(self) -> bool:
        return self._task is not None and asyncio.current_task() is self._task

    def has_started_this(self) -> bool:
        """Return true if the running callback has started this task or thread, as `asyncio.wait_for` does."""
        return self._task is not None and not self._task.done() and _CALLBACK.get() is self._task

    async def _run(self, call: Callable[[], object], ended: Callable[[bool], object]) -> None:
        failed = True
        _CALLBACK.set(asyncio.current_task())
        try:
            result = call()
            if inspect.isawaitable(result):
                await result
            failed = False
        finally:
            ended(failed)
