"""Clients of a Python worker process that wait for its next task.

A worker process serves task after task, so a client outlives them: its connections are there when the next micro-batch
comes. It is taken out of the store while a task uses it, so two tasks never share one.
"""

import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

IDLE_SECONDS = 60.0
"""How long a client is kept without a task. Spark ends idle workers after the same time."""

_Settings = TypeVar("_Settings", bound=Hashable)
_Client = TypeVar("_Client")


class IdleClients(Generic[_Settings, _Client]):
    """The idle ones, by their settings.

    Args:
        make: makes one where none waits.
        close: ends one that no task has wanted for `IDLE_SECONDS`.
    """

    def __init__(self, make: Callable[[_Settings], _Client], close: Callable[[_Client], object]) -> None:
        self._make = make
        self._close = close
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Drop all without closing them: after a fork they are the parent's, their locks too."""
        self._lock = threading.Lock()
        self._idle: list[tuple[_Settings, _Client, float]] = []
        self._is_expiring = False

    def take(self, settings: _Settings) -> _Client:
        """One with these settings, the caller's own until it puts it back."""
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if self._idle[index][0] == settings:
                    return self._idle.pop(index)[1]
        return self._make(settings)

    def put(self, settings: _Settings, client: _Client) -> None:
        """Keep one for the next task."""
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
            # A worker with a limit on its memory may have none left for a thread, and its task is done all the same.
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
