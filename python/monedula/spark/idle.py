"""`IdleClients`: keeps the Kafka clients of a Python worker process between its tasks.

A worker process runs one task after another. A client is kept for the next task, so that its connections are open when
the next micro-batch starts. It is removed from the store while a task uses it, so two tasks never share a client.
"""

import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

IDLE_SECONDS = 60.0
"""Time that a client is kept without a task. Spark ends idle workers after 60 s too."""

_Settings = TypeVar("_Settings", bound=Hashable)
_Client = TypeVar("_Client")


class IdleClients(Generic[_Settings, _Client]):
    """The idle clients, by their settings.

    Args:
        make: creates a client if none with these settings is idle.
        close: closes a client that was idle for `IDLE_SECONDS`.
    """

    def __init__(self, make: Callable[[_Settings], _Client], close: Callable[[_Client], object]) -> None:
        self._make = make
        self._close = close
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Forget all clients without closing them: after a fork they, and their locks, belong to the parent."""
        self._lock = threading.Lock()
        self._idle: list[tuple[_Settings, _Client, float]] = []
        self._is_expiring = False

    def take(self, settings: _Settings) -> _Client:
        """Take a client with these settings out of the store, or create one."""
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if self._idle[index][0] == settings:
                    return self._idle.pop(index)[1]
        return self._make(settings)

    def put(self, settings: _Settings, client: _Client) -> None:
        """Keep a client for the next task."""
        with self._lock:
            is_watched = self._is_expiring or self._watch()
            if is_watched:
                self._idle.append((settings, client, time.monotonic() + IDLE_SECONDS))
        if not is_watched:
            self._close(client)

    def _watch(self) -> bool:
        try:
            threading.Thread(target=self._expire, name="monedula-idle", daemon=True).start()
        except RuntimeError:
            # A worker with a memory limit may have no memory left for a thread. Its task must not fail because of that.
            return False
        self._is_expiring = True
        return True

    def _expire(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                expired = [client for _, client, until in self._idle if until <= now]
                self._idle = [each for each in self._idle if each[2] > now]
                next_until = min((until for _, _, until in self._idle), default=None)
                self._is_expiring = next_until is not None
            for client in expired:
                self._close(client)
            if next_until is None:
                return
            time.sleep(next_until - now)
