"""The unfinished calls of a transaction of `AsyncProducer`.

A call returns a coroutine; if that is never awaited, its records are not sent. The commit then has to fail.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from monedula.errors import KafkaTimeoutError, TransactionAbortedError


class Call:
    """A call that was made while a transaction was open. Its coroutine may never be started."""

    __slots__ = ("_asked", "handing", "name")

    def __init__(self, asked: "Asked", name: str) -> None:
        self._asked = asked
        self.name = name
        self.handing: asyncio.Future[Any] | None = None
        """The work of the call in a thread; `None` until its coroutine runs."""

    def begin(self) -> None:
        """Record that the coroutine runs: the commit waits for nothing else of this call.

        Raises:
            TransactionAbortedError: if the transaction is over.
        """
        self._asked.check(self)
        self._asked.discard(self)

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread; the commit waits for its end. Cancelling the wait does not cancel the function.

        Raises:
            TransactionAbortedError: if the transaction is over.
        """
        self._asked.check(self)

        def do() -> Any:
            self._asked.check(self)  # again, for the transaction may have ended before a thread was free
            return call(*arguments)

        self.handing = asyncio.get_running_loop().run_in_executor(None, do)
        self.handing.add_done_callback(self._handed)
        return await asyncio.shield(self.handing)

    def _handed(self, handing: "asyncio.Future[Any]") -> None:
        # Retrieve the exception: else asyncio logs "exception was never retrieved" if the wait was cancelled.
        if not handing.cancelled():
            handing.exception()
        self._asked.discard(self)


class Asked:
    """The calls of one transaction whose work has not been passed to the core yet."""

    def __init__(self) -> None:
        self._calls: dict[Call, None] = {}
        self._is_over = False

    def add(self, name: str) -> Call:
        """Add a call of the method `name`."""
        call = Call(self, name)
        self._calls[call] = None
        return call

    def check(self, call: Call) -> None:
        """Refuse a call whose transaction is over: its records would become part of the next transaction.

        Raises:
            TransactionAbortedError: if the transaction is over.
        """
        if self._is_over:
            raise TransactionAbortedError(f"the transaction in which {call.name}() was called is over: call it anew")

    def discard(self, call: Call) -> None:
        """Remove a call."""
        self._calls.pop(call, None)

    def end(self) -> None:
        """Mark the transaction as over."""
        self._is_over = True
        self._calls.clear()

    async def handed(self, timeout: float) -> None:
        """Wait until the work of all calls has been passed to the core: then the transaction may be committed.

        Raises:
            TransactionAbortedError: if a coroutine was never started, or a call failed in its thread.
            KafkaTimeoutError: after `timeout` seconds.
        """
        if self._calls:
            await asyncio.sleep(0)  # lets tasks that were created just now run their first step
        never = sorted({call.name for call in self._calls if call.handing is None})
        if never:
            names = " and ".join(f"{name}()" for name in never)
            message = "called in it and never awaited, so nothing came of it. Await it before the transaction ends"
            raise TransactionAbortedError(f"the transaction cannot be committed: {names} was {message}")
        deadline = monotonic() + timeout
        for call in list(self._calls):
            await _ended(call, max(deadline - monotonic(), 0.0), timeout)


async def _ended(call: Call, seconds: float, timeout: float) -> None:
    assert call.handing is not None
    done, _ = await asyncio.wait([call.handing], timeout=seconds)
    if not done:
        raise KafkaTimeoutError(f"{call.name}() has not handed its rows over within {timeout} s", retriable=True)
    error = call.handing.exception()
    if error is not None:
        raise TransactionAbortedError(f"the transaction cannot be committed: {call.name}(): {error}") from error


async def over(task: "asyncio.Future[None]", timeout: float) -> None:
    """Wait at most `timeout` seconds for the end of a task, ignoring cancellations of the current task."""
    deadline = monotonic() + timeout
    # Retrieve the exception: else asyncio logs it if the task ends after this wait.
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    while not task.done() and (left := deadline - monotonic()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=left)
