"""Connects the core to an event loop. A module of its own, because importing asyncio takes longer than all of monedula.

`Bridge` awaits operations of the core, `Callbacks` runs rebalance callbacks, `holder` identifies tasks to the core.
"""

import asyncio
import inspect
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from monedula._monedula import Operation, new_holder
from monedula.errors import ArgumentError, ClosedError

_T = TypeVar("_T")
_O = TypeVar("_O")

_HOLDERS: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()

_CALLBACK: ContextVar[asyncio.Task[Any] | None] = ContextVar("monedula_callback", default=None)
"""The task of the rebalance callback that runs, also in the tasks and threads that the callback starts."""


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


class _Watched:
    """What a loop watches for a bridge. It holds the bridge only while something waits there.

    The loop holds what it watches, and would keep the sockets of a client that nobody has any more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, bridge: "Bridge", receiver: socket.socket) -> None:
        self.used: Bridge | None = None
        self._bridge = ref(bridge)
        self._loop = loop
        self._receiver = receiver
        self._task: asyncio.Task[None] | None = None
        try:
            loop.add_reader(receiver, self._woken)
        except NotImplementedError:  # Windows' proactor loop watches sockets only by reading them
            self._task = loop.create_task(self._read())

    def end(self) -> None:
        """Watch no more; in the thread of the loop."""
        if self._task is not None:
            self._task.cancel()
        elif not self._loop.is_closed():
            self._loop.remove_reader(self._receiver)
        self._receiver.close()

    def end_later(self) -> None:
        """Watch no more, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self.end)
        except RuntimeError:  # the loop is closed, and watches nothing
            self._receiver.close()

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
        bridge = self._bridge()
        if bridge is not None:
            bridge.finish()


class Bridge:
    """Wakes a loop when an operation of the core is done: the core writes a byte to a socket that the loop watches."""

    _is_closed = True
    """Until its sockets are open, and once they are closed."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[asyncio.Future[None], Operation] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        receiver, self._sender = socket.socketpair()
        receiver.setblocking(False)
        self._sender.setblocking(False)
        self._watched = _Watched(self._loop, self, receiver)
        self._is_closed = False

    def __del__(self) -> None:
        if not self._is_closed:
            self._sender.close()
            self._watched.end_later()

    def time(self) -> float:
        """The time of the loop's clock, in seconds."""
        return self._loop.time()

    async def run(self, start: Callable[[int], Operation]) -> Any:
        """Start an operation and await its result. A cancelled wait cancels the operation.

        Raises:
            ArgumentError: in another loop than the one in which this bridge was created, which watches its socket.
            ClosedError: if the bridge is closed.
        """
        return await self._end(self._begin(start))

    def start(self, start: Callable[[int], Operation], convert: Callable[[Any], _T]) -> asyncio.Task[_T]:
        """Start an operation at once, and return a task with its converted result, which need not be awaited.

        Raises:
            ArgumentError, ClosedError: as `run`.
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
        if self._is_closed:  # by another task, while this one waited for something else
            raise ClosedError("the client is closed")
        return start(self._sender.fileno())

    async def _end(self, operation: Operation) -> Any:
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting[done] = operation
        self._watched.used = self
        try:
            if not operation.done():
                await done
        except BaseException:
            operation.cancel()
            raise
        finally:
            self._waiting.pop(done, None)
            if not self._waiting:
                self._watched.used = None
        return operation.result()

    def finish(self) -> None:
        """Wake the waits whose operation is done."""
        for done, operation in list(self._waiting.items()):
            if operation.done() and not done.done():
                done.set_result(None)

    def close(self) -> None:
        """Close the sockets. Current waits end with the result of their operation, or with `ClosedError`."""
        self._is_closed = True
        for done in self._waiting:
            if not done.done():
                done.set_result(None)
        self._watched.end()
        self._sender.close()


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

    def has_started_this(self) -> bool:
        """Whether the running callback has started this task or thread, as `asyncio.wait_for` and `gather` do."""
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
