"""`await` of the core's futures and operations: one socket wakes a loop, for any number that are done by then."""

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import count
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from monedula._monedula import LoopWaker

_T_co = TypeVar("_T_co", covariant=True)


class Awaited(Protocol):
    """A future or an operation of the core, for which a loop can wait."""

    def done(self) -> bool:
        """Return true once the result is known."""

    def _wake(self, waker: LoopWaker, number: int) -> None: ...


class Future(Awaited, Protocol[_T_co]):
    """A future of the core: `SendFuture` or `BatchFuture`."""

    def result(self, timeout: float | None = None) -> _T_co:
        """The result."""


def waiting(future: Future[_T_co]) -> Generator[Any, None, _T_co]:
    """The implementation of `future.__await__()`."""
    if not future.done():
        yield from _waker().wait(future).__await__()
    return future.result()


async def wait(awaited: Awaited) -> None:
    """Wait until the result is known."""
    if not awaited.done():
        await _waker().wait(awaited)


def in_its_loop(future: object, callback: Callable[[Any], object]) -> Callable[[Any], object]:
    """Wrap a callback so that it is called in the loop that runs now; without a running loop, return it unchanged.

    `asyncio.wait` and similar functions take any object with `add_done_callback`, but expect the call in the thread of
    their loop: from another thread it would not wake the loop.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return callback
    given = _CalledInLoop(callback, loop)
    with suppress(TypeError):  # a callback without a hash cannot be removed
        _GIVEN[(id(future), callback)] = given
    return given


def forget(future: object, callback: Callable[[Any], object]) -> int:
    """Remove a callback that was added in a running loop. Returns 1, or 0 if there is none or it was called already."""
    given = _GIVEN.pop((id(future), callback), None)
    if given is None or not given.is_wanted:
        return 0
    given.is_wanted = False
    return 1


class _CalledInLoop:
    def __init__(self, callback: Callable[[Any], object], loop: asyncio.AbstractEventLoop) -> None:
        self.is_wanted = True
        self._callback = callback
        self._loop = loop

    def __call__(self, future: object) -> None:
        # RuntimeError: the loop is closed. The callback is dropped then, as those of asyncio's own futures are.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._call, future)

    def _call(self, future: object) -> None:
        if self.is_wanted:
            self.is_wanted = False
            self._callback(future)


_GIVEN: WeakValueDictionary[tuple[int, Callable[[Any], object]], _CalledInLoop] = WeakValueDictionary()
"""Wrapped callbacks by the id of their future, and callback.

The core keeps both the wrapper and the future until the call, so the id is not reused before the entry is gone.
"""


class _Waker:
    """Wakes one event loop when futures or operations of the core are done."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._core = LoopWaker()
        self._numbers = count()
        # No reference to the loop: _WAKERS has this object as the value for the loop, which would never be collected.
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._reads = False
        self._reader: asyncio.Task[None] | None = None
        try:
            loop.add_reader(self._core.fileno(), self._woken)
        except NotImplementedError:  # Windows' proactor loop watches sockets only by reading them
            self._reads = True

    async def wait(self, awaited: Awaited) -> None:
        loop = asyncio.get_running_loop()
        # Anew if it was cancelled: `asyncio.run` cancels all tasks, and makes further calls after that.
        if self._reads and self._reader is None:
            self._reader = loop.create_task(_read(self._core.fileno(), self._woken))
            self._reader.add_done_callback(self._forget_reader)
        done: asyncio.Future[None] = loop.create_future()
        number = next(self._numbers)
        self._waiting[number] = done
        try:
            awaited._wake(self._core, number)
            await done
        finally:
            self._waiting.pop(number, None)

    def _forget_reader(self, _: asyncio.Task[None]) -> None:
        self._reader = None

    def _woken(self) -> None:
        for number in self._core.take():
            done = self._waiting.pop(number, None)
            if done is not None and not done.done():
                done.set_result(None)


async def _read(descriptor: int, woken: Callable[[], None]) -> None:
    """Call `woken` for each byte at a socket that the core owns."""
    # A duplicate: a task that nobody ended is garbage together with its socket, which then closes its descriptor before
    # this coroutine can detach it, and the core closes the same number once more, which may be another file's by then.
    with socket.socket(fileno=socket.dup(descriptor)) as receiver:
        receiver.setblocking(False)
        while await asyncio.get_running_loop().sock_recv(receiver, 1):
            woken()


_WAKERS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waker] = WeakKeyDictionary()


def _waker() -> _Waker:
    loop = asyncio.get_running_loop()
    waker = _WAKERS.get(loop)
    if waker is None:
        waker = _WAKERS[loop] = _Waker(loop)
    return waker
