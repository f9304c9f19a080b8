"""Connects the core to an event loop. A module of its own, because importing asyncio takes longer than all of monedula.

`Bridge` awaits operations of the core, `Callbacks` runs rebalance callbacks, `holder` identifies tasks to the core.
"""

import asyncio
import inspect
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from monedula._monedula import Operation, new_holder
from monedula.errors import ArgumentError

_T = TypeVar("_T")
_O = TypeVar("_O")

_HOLDERS: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()


def holder() -> int:
    """The number by which the core knows the current task as a holder of batches; 0 outside of a task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs
        return 0
    if task is None:
        return 0
    if task not in _HOLDERS:
        _HOLDERS[task] = new_holder()  # unlike id(), a number is never used twice
    return _HOLDERS[task]


def when_task_ends(owner: "ref[_O]", holder: int, call: Callable[[_O, int], object]) -> None:
    """Call `call(owner, holder)` when the current task ends, unless the owner was collected before."""
    task = asyncio.current_task()

    def ended(_: asyncio.Task[Any]) -> None:
        there = owner()
        if there is not None:
            call(there, holder)

    if task is not None:
        task.add_done_callback(ended)


class LoopEnd:
    """Calls something when the running loop ends: `asyncio.run` closes the asynchronous generators of its loop last.

    Args:
        owner: what it is about; nothing is called once that was collected.
        call: gives the coroutine that is awaited then.
    """

    def __init__(self, owner: "ref[_O]", call: Callable[[_O], Awaitable[object]]) -> None:
        self._is_over = False
        self._waiting = self._wait(owner, call)
        # Up to its yield, where nothing is awaited: a loop knows those generators that were begun in it.
        with suppress(StopIteration):
            self._waiting.asend(None).send(None)

    def cancel(self) -> None:
        """Call nothing."""
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


class Bridge:
    """Wakes a loop when an operation of the core is done: the core writes a byte to a socket that the loop watches."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[asyncio.Future[None], Operation] = {}
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        try:
            self._loop.add_reader(self._receiver, self._woken)
        except NotImplementedError:  # Windows' proactor loop watches sockets only by reading them
            self._task = self._loop.create_task(self._read())

    def time(self) -> float:
        """The time of the loop's clock, in seconds."""
        return self._loop.time()

    async def run(self, start: Callable[[int], Operation]) -> Any:
        """Start an operation and await its result. A cancelled wait cancels the operation.

        Raises:
            ArgumentError: in another loop than the one in which this bridge was created, which watches its socket.
        """
        return await self._end(self._begin(start))

    def start(self, start: Callable[[int], Operation], convert: Callable[[Any], _T]) -> asyncio.Task[_T]:
        """Start an operation at once, and return a task with its converted result, which need not be awaited.

        Raises:
            ArgumentError: as `run`.
        """
        operation = self._begin(start)

        async def end() -> _T:
            return convert(await self._end(operation))

        task = self._loop.create_task(end())
        self._tasks.add(task)  # the event loop has only weak references to tasks
        task.add_done_callback(self._tasks.discard)
        return task

    def _begin(self, start: Callable[[int], Operation]) -> Operation:
        if asyncio.get_running_loop() is not self._loop:
            raise ArgumentError("this client belongs to another event loop; make one in each loop")
        return start(self._sender.fileno())

    async def _end(self, operation: Operation) -> Any:
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting[done] = operation
        try:
            if not operation.done():
                await done
        except BaseException:
            operation.cancel()
            raise
        finally:
            self._waiting.pop(done, None)
        return operation.result()

    def close(self) -> None:
        """Close the sockets. Current waits end with the result of their operation, or with `ClosedError`."""
        for done in self._waiting:
            if not done.done():
                done.set_result(None)
        if self._task is None:
            self._loop.remove_reader(self._receiver)
        else:
            self._task.cancel()
        self._receiver.close()
        self._sender.close()

    def _woken(self) -> None:
        try:
            self._receiver.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        self._finish()

    async def _read(self) -> None:
        while await self._loop.sock_recv(self._receiver, 4096):
            self._finish()

    def _finish(self) -> None:
        for done, operation in list(self._waiting.items()):
            if operation.done() and not done.done():
                done.set_result(None)


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
        """Cancel the running callback, if there is one."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def is_current(self) -> bool:
        """Whether the current task is that of the running callback."""
        return self._task is not None and asyncio.current_task() is self._task

    async def _run(self, call: Callable[[], object], ended: Callable[[bool], object]) -> None:
        failed = True
        try:
            result = call()
            if inspect.isawaitable(result):
                await result
            failed = False
        finally:
            ended(failed)
