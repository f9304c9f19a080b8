"""Prevention of forks while a thread of this package writes to the log.

A stream's lock is not reset by a fork: a child that was forked while another thread wrote would wait for it for ever.
"""

import logging
import os
from threading import Condition, local

_PATIENCE_SECONDS = 1.0
"""Time that a fork waits for a log handler, which may be slow or wait for the forking thread; and a handler for a
fork."""

# Imported first, because its hooks hold its lock during a fork, so they have to run after the hooks of this module.
assert logging


class _Writing:
    """Context in which a thread writes to the log: forks wait for its end."""

    def __init__(self) -> None:
        self._own = local()
        self._changed = Condition()
        self._writers = 0
        self._forks = 0

    def __enter__(self) -> None:
        depth = getattr(self._own, "depth", 0)
        with self._changed:
            if not depth:
                self._changed.wait_for(lambda: not self._forks, _PATIENCE_SECONDS)
                self._writers += 1
        self._own.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        self._own.depth -= 1
        if not self._own.depth:
            with self._changed:
                self._writers -= 1
                self._changed.notify_all()

    def before_fork(self) -> None:
        own = 1 if getattr(self._own, "depth", 0) else 0
        with self._changed:
            self._forks += 1
            self._changed.wait_for(lambda: self._writers <= own, _PATIENCE_SECONDS)

    def after_fork(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def in_child(self) -> None:
        """Reset in a child: the parent's other threads, one of which may hold the lock, do not exist here."""
        self._changed = Condition()
        self._writers = 1 if getattr(self._own, "depth", 0) else 0
        self._forks = 0


WRITING = _Writing()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=WRITING.before_fork, after_in_parent=WRITING.after_fork, after_in_child=WRITING.in_child)
