"""`await` of the core's futures; a module of its own, because importing asyncio costs more than all the rest."""

import asyncio
from collections.abc import Callable, Generator
from itertools import count
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from monedula._monedula import LoopWaker

_T_co = TypeVar("_T_co", covariant=True)


class Awaited(Protocol[_T_co]):
    """A future of the core's."""

    def done(self) -> bool:
        """Whether it is over."""

    def result(self, timeout: float | None = None) -> _T_co:
        """What it came to."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Have something called when it is over."""

    def _wake(self, waker: LoopWaker, number: int) -> None: ...


def waiting(future: Awaited[_T_co]) -> Generator[Any, None, _T_co]:
    """What `future.__await__()` is."""
    if not future.done():
        yield from _waker().wait(future)
    return future.result()


class _Waker:
    """One for each loop: of a thousand futures that are done, the first one wakes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._core = LoopWaker()
        self._numbers = count()
        # Not the loop itself: it would never be collected.
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
