"""From the core to an event loop; a module of its own, because importing asyncio costs more than all the rest."""

import asyncio
import inspect
import socket
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from monedula._monedula import Operation, new_holder
from monedula.errors import ArgumentError

_T = TypeVar("_T")
_O = TypeVar("_O")

_HOLDERS: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()


def holder() -> int:
    """Names the task that asks; 0 outside of any."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs
        return 0
    if task is None:
        return 0
    if task not in _HOLDERS:
        _HOLDERS[task] = new_holder()  # unlike id(), never used twice
    return _HOLDERS[task]


def when_task_ends(owner: "ref[_O]", holder: int, tell: Callable[[_O, int], object]) -> None:
    """Have an object told of the end of the task that asks, if the object is still there by then."""
    task = asyncio.current_task()

    def ended(_: asyncio.Task[Any]) -> None:
        there = owner()
        if there is not None:
            tell(there, holder)

    if task is not None:
        task.add_done_callback(ended)


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
        """The loop's clock."""
        return self._loop.time()

    async def run(self, start: Callable[[int], Operation]) -> Any:
        """Start an operation and await its result. A cancelled wait cancels the operation.

        Raises:
            ArgumentError: in another loop than the first: its sockets are watched there.
        """
        return await self._end(self._begin(start))

    def start(self, start: Callable[[int], Operation], convert: Callable[[Any], _T]) -> asyncio.Task[_T]:
        """Start an operation at once, whether its result is awaited or not.

        Raises:
            ArgumentError: as `run`.
        """
        operation = self._begin(start)

        async def end() -> _T:
            return convert(await self._end(operation))

        task = self._loop.create_task(end())
        self._tasks.add(task)  # a loop holds its tasks weakly
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
        """Free the sockets. Waits that are under way end with what their operations came to, or `ClosedError`."""
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
    """Runs rebalance callbacks, one at a time, each in a task of its own, which no cancelled wait cancels."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, call: Callable[[], object], ended: Callable[[bool], object]) -> None:
        """Start one; `ended` is called after it, with whether it failed."""
        self._task = asyncio.get_running_loop().create_task(self._run(call, ended))

    async def wait(self, until: float | None = None) -> None:
        """Wait for the one that runs, at most until then by the loop's clock, and raise what it raised."""
        while (task := self._task) is not None:
            left = None if until is None else max(until - asyncio.get_running_loop().time(), 0.0)
            done, _ = await asyncio.wait([task], timeout=left)
            if not done:
                return
            if self._task is task:  # of several that waited, the first gets what it raised
                self._task = None
                task.result()

    def cancel(self) -> None:
        """Cancel the one that runs, if any."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def is_current(self) -> bool:
        """Whether it is the one that runs who asks."""
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
