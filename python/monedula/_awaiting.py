"""`await` of the core's futures; a module of its own, because the import of asyncio costs more than all the rest."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import count
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from monedula._monedula import LoopWaker

_T_co = TypeVar("_T_co", covariant=True)


class Awaited(Protocol[_T_co]):
    """A future of the core."""

    def done(self) -> bool:
        """Whether the outcome is known."""

    def result(self, timeout: float | None = None) -> _T_co:
        """The outcome."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Call `callback` with this future once the outcome is known."""

    def _wake(self, waker: LoopWaker, number: int) -> None: ...


def waiting(future: Awaited[_T_co]) -> Generator[Any, None, _T_co]:
    """The iterator of `future.__await__()`."""
    if not future.done():
        yield from _waker().wait(future)
    return future.result()


def in_its_loop(future: Awaited[Any], callback: Callable[[Any], object]) -> Callable[[Any], object]:
    """The function to call in place of a callback: in a running loop, one that calls it there.

    `asyncio.wait` and similar functions take any object with `add_done_callback`, and expect calls in their own loop:
    called in another thread, they would not wake it.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return callback
    given = _CalledInLoop(callback, loop)
    with suppress(TypeError):  # one that has no hash cannot be taken back
        _GIVEN[(id(future), callback)] = given
    return given


def forget(future: Awaited[Any], callback: Callable[[Any], object]) -> int:
    """Take back a callback that was given in a running loop, if it was not called yet. Returns how many there were."""
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

    def __call__(self, future: Awaited[Any]) -> None:
        # The loop may be closed by now: then the callback is dropped, as with asyncio's own futures.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._call, future)

    def _call(self, future: Awaited[Any]) -> None:
        if self.is_wanted:
            self.is_wanted = False
            self._callback(future)


_GIVEN: WeakValueDictionary[tuple[int, Callable[[Any], object]], _CalledInLoop] = WeakValueDictionary()
"""By future and callback. The core keeps each one, with its future, until it is called."""


class _Waker:
    """The waker of one loop. Of a thousand futures that are done, only the first one wakes the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._core = LoopWaker()
        self._numbers = count()
        # Does not refer to the loop itself, which would then never be collected.
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._watched = True
        try:
            loop.add_reader(self._core.fileno(), self._woken)
        except NotImplementedError:  # Windows' proactor loop watches sockets only by reading them
            self._watched = False

    def wait(self, future: Awaited[Any]) -> Generator[Any, None, None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if not self._watched:
            future.add_done_callback(lambda _: loop.call_soon_threadsafe(_finish, done))
            yield from done
            return
        number = next(self._numbers)
        self._waiting[number] = done
        try:
            future._wake(self._core, number)
            yield from done
        finally:
            self._waiting.pop(number, None)

    def _woken(self) -> None:
        for number in self._core.take():
            done = self._waiting.pop(number, None)
            if done is not None:
                _finish(done)


_WAKERS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waker] = WeakKeyDictionary()


def _waker() -> _Waker:
    loop = asyncio.get_running_loop()
    waker = _WAKERS.get(loop)
    if waker is None:
        waker = _WAKERS[loop] = _Waker(loop)
    return waker


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
