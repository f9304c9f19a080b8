"""Unfinished calls of a transaction in coroutines: one that is never awaited must not be missing unnoticed."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import Any

from monedula._process.threads import in_executor
from monedula.errors import KafkaTimeoutError, TransactionAbortedError


class PendingCall:
    """A call that was made while a transaction was open. Its coroutine may never start."""

    __slots__ = ("_pending", "in_executor", "name")

    def __init__(self, pending: "PendingCalls", name: str) -> None:
        self._pending = pending
        self.name = name
        self.in_executor: asyncio.Future[Any] | None = None
        """Future of the thread's work, once the coroutine has started."""

    def begin(self) -> None:
        """Note that the coroutine has started, which is all that the transaction waits for."""
        self._pending.check(self)
        self._pending.discard(self)

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Run `call` in a thread, for whose end the transaction waits. A wait that is cancelled does not end it."""
        self._pending.check(self)

        def run() -> Any:
            self._pending.check(self)  # the transaction may have ended before a thread was free
            return call(*arguments)

        # Runs in the caller's context, as asyncio.to_thread() does: tracing finds the current span there.
        self.in_executor = in_executor(partial(copy_context().run, run))
        self.in_executor.add_done_callback(self._done)
        return await asyncio.shield(self.in_executor)

    def _done(self, in_executor: "asyncio.Future[Any]") -> None:
        # Retrieved, so that asyncio does not log the exception if the wait for it was cancelled.
        if not in_executor.cancelled():
            in_executor.exception()
        self._pending.discard(self)


class PendingCalls:
    """The calls of one transaction that are not finished."""

    def __init__(self) -> None:
        self._calls: dict[PendingCall, None] = {}
        self._has_ended = False

    def add(self, name: str) -> PendingCall:
        call = PendingCall(self, name)
        self._calls[call] = None
        return call

    def check(self, call: PendingCall) -> None:
        """Refuse a call that would otherwise become part of the next transaction."""
        if self._has_ended:
            raise TransactionAbortedError(f"the transaction in which {call.name}() was called is over: call it anew")

    def discard(self, call: PendingCall) -> None:
        self._calls.pop(call, None)

    def end(self) -> None:
        self._has_ended = True
        self._calls.clear()

    async def finished(self, timeout: float) -> None:
        """Wait until all calls are finished, so that the transaction may be committed.

        Raises:
            TransactionAbortedError: if a call was never awaited, or failed after the block.
            KafkaTimeoutError: past `timeout`.
        """
        if self._calls:
            await asyncio.sleep(0)  # tasks that were created last have not started yet
        never = sorted({call.name for call in self._calls if call.in_executor is None})
        if never:
            names = " and ".join(f"{name}()" for name in never)
            message = "called in it and never awaited, so nothing came of it. Await it before the transaction ends"
            raise TransactionAbortedError(f"the transaction cannot be committed: {names} was {message}")
        deadline = monotonic() + timeout
        for call in list(self._calls):
            await _finished(call, max(deadline - monotonic(), 0.0), timeout)


async def _finished(call: PendingCall, seconds: float, timeout: float) -> None:
    assert call.in_executor is not None
    done, _ = await asyncio.wait([call.in_executor], timeout=seconds)
    if not done:
        raise KafkaTimeoutError(f"{call.name}() has not handed its rows over within {timeout} s", retriable=True)
    error = call.in_executor.exception()
    if error is not None:
        raise TransactionAbortedError(f"the transaction cannot be committed: {call.name}(): {error}") from error


async def uncancelled(task: "asyncio.Future[None]", timeout: float) -> None:
    """Wait for the end of a task, also while the caller is cancelled."""
    deadline = monotonic() + timeout
    task.add_done_callback(lambda task: task.cancelled() or task.exception())  # which may not be retrieved any more
    while not task.done() and (left := deadline - monotonic()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=left)
