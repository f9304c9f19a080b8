"""What a transaction asked for in coroutines: one that nobody awaits must not be missing from it unnoticed."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from monedula.errors import KafkaTimeoutError, TransactionAbortedError


class Call:
    """A call that was made while a transaction was open. Its coroutine may never begin."""

    __slots__ = ("_asked", "handing", "name")

    def __init__(self, asked: "Asked", name: str) -> None:
        self._asked = asked
        self.name = name
        self.handing: asyncio.Future[Any] | None = None
        """What a thread does of it, once its coroutine runs."""

    def begin(self) -> None:
        """Say that its coroutine runs, which is all that the transaction waits for.

        Raises:
            TransactionAbortedError: if the transaction is over.
        """
        self._asked.check(self)
        self._asked.discard(self)

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Do this in a thread; the transaction waits for it. A wait that is cancelled does not end it.

        Raises:
            TransactionAbortedError: if the transaction is over.
        """
        self._asked.check(self)

        def do() -> Any:
            self._asked.check(self)  # it may have been long until a thread was free
            return call(*arguments)

        self.handing = asyncio.get_running_loop().run_in_executor(None, do)
        self.handing.add_done_callback(self._handed)
        return await asyncio.shield(self.handing)

    def _handed(self, handing: "asyncio.Future[Any]") -> None:
        # Looked at, so that asyncio does not tell of it where the wait for it was cancelled.
        if not handing.cancelled():
            handing.exception()
        self._asked.discard(self)


class Asked:
    """What one transaction asked for and does not have yet."""

    def __init__(self) -> None:
        self._calls: dict[Call, None] = {}
        self._is_over = False

    def add(self, name: str) -> Call:
        """A call of this verb."""
        call = Call(self, name)
        self._calls[call] = None
        return call

    def check(self, call: Call) -> None:
        """Refuse what would else be part of the next transaction.

        Raises:
            TransactionAbortedError: if the transaction is over.
        """
        if self._is_over:
            raise TransactionAbortedError(f"the transaction in which {call.name}() was called is over: call it anew")

    def discard(self, call: Call) -> None:
        """Forget a call."""
        self._calls.pop(call, None)

    def end(self) -> None:
        """Say that the transaction is over."""
        self._is_over = True
        self._calls.clear()

    async def handed(self, timeout: float) -> None:
        """Wait until the transaction has all that was asked for: it may be committed then.

        Raises:
            TransactionAbortedError: if something never began, or failed after the block.
            KafkaTimeoutError: past `timeout`.
        """
        if self._calls:
            await asyncio.sleep(0)  # tasks that were made last have not begun yet
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
    """Wait for the end of a task, and be cancelled by nobody meanwhile."""
    deadline = monotonic() + timeout
    task.add_done_callback(lambda task: task.cancelled() or task.exception())  # which nobody may ask for any more
    while not task.done() and (left := deadline - monotonic()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=left)
