"""Threads of the client that run the user's code."""

from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

from monedula._process.greenlets import start_new_thread
from monedula.errors import NoThreadError

if TYPE_CHECKING:
    import asyncio


def start(function: Callable[..., object], *arguments: object, name: str) -> None:
    """Call `function` in a daemon thread of the system, even if `threading` starts greenlets.

    Greenlets cannot be used: the core blocks in the call, which would stop all of them.
    """
    original = start_new_thread()
    try:
        if original is None:
            Thread(target=function, args=arguments, name=name, daemon=True).start()
        else:
            original(function, arguments)
    except (RuntimeError, MemoryError) as error:
        raise no_thread(name, error) from error


def in_executor(call: Callable[[], Any]) -> "asyncio.Future[Any]":
    import asyncio

    is_refused = False

    def unless_refused() -> Any:
        return None if is_refused else call()

    try:
        return asyncio.get_running_loop().run_in_executor(None, unless_refused)
    except RuntimeError as error:
        # The executor has queued the call nevertheless, and would run it with the next one, so mark it as refused.
        is_refused = True
        if "start new thread" not in str(error):  # the executor was shut down
            raise
        raise no_thread("an executor", error) from error


def no_thread(name: str, error: BaseException) -> NoThreadError:
    limits = "a limit of threads (ulimit -u, pids.max of a container) or of memory (ulimit -v) is reached"
    why = f"the system grants no thread for {name} ({error}): {limits}. The same call may succeed later"
    return NoThreadError(why, retriable=True)
