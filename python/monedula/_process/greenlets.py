"""Detection of gevent and eventlet, which replace threads by greenlets: one that blocks stops all others."""

import sys
from collections.abc import Callable
from typing import Any


def is_patched() -> bool:
    """Return true if `threading.Thread` starts greenlets now."""
    return _gevent() is not None or _eventlet() is not None


def has_hub() -> bool:
    """Return true if other greenlets run in this thread while this one waits in `pause`."""
    if _gevent() is not None:
        local, greenlet = sys.modules["gevent._hub_local"], sys.modules["greenlet"]
        hub = local.get_hub_if_exists()
        return hub is not None and greenlet.getcurrent() is not hub
    if _eventlet() is not None:
        hubs, greenlet = sys.modules["eventlet.hubs"], sys.modules["greenlet"]
        hub = getattr(hubs._threadlocal, "hub", None)
        return hub is not None and greenlet.getcurrent() is not hub.greenlet
    return False


def pause(seconds: float) -> None:
    package = sys.modules["gevent" if _gevent() is not None else "eventlet"]
    package.sleep(seconds)


def start_new_thread() -> Callable[..., int] | None:
    """Return the function that starts system threads, if `threading` does not any more; else `None`."""
    monkey, patcher = _gevent(), _eventlet()
    if monkey is not None:
        return monkey.get_original("_thread", "start_new_thread")  # type: ignore[no-any-return]
    if patcher is not None:
        return patcher.original("_thread").start_new_thread  # type: ignore[no-any-return]
    return None


def _gevent() -> Any:
    monkey = sys.modules.get("gevent.monkey")
    return monkey if monkey is not None and monkey.is_module_patched("threading") else None


def _eventlet() -> Any:
    patcher = sys.modules.get("eventlet.patcher")
    return patcher if patcher is not None and patcher.is_monkey_patched("thread") else None
