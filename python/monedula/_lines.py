"""Records that have to wait before they can be sent, for room or for their topic's partitions, in lines."""

import os
from collections import deque
from collections.abc import Callable, Mapping
from threading import Condition, Thread
from time import monotonic, time
from typing import Any, NamedTuple
from weakref import WeakSet

from monedula._monedula import SendFuture


class Outgoing(NamedTuple):
    """The arguments of `send`."""

    topic: str
    value: Any
    key: Any
    partition: int | None
    headers: Any
    timestamp: Any

    def kept(self) -> "Outgoing":
        """The same, safe from what the caller does to it later, and with the time that it is now."""
        headers = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        return self._replace(
            value=_kept(self.value),
            key=_kept(self.key),
            headers=None if headers is None else [(name, _kept(value)) for name, value in headers],
            timestamp=int(time() * 1000) if self.timestamp is None else self.timestamp,
        )


def _kept(data: Any) -> str | bytes | None:
    return data if data is None or isinstance(data, (str, bytes)) else bytes(data)


class _Waiting(NamedTuple):
    number: int
    record: Outgoing
    future: SendFuture
    since: float


Send = Callable[[Outgoing, float], SendFuture]
"""Sends a record that has waited for so many seconds."""


_EVERY: "WeakSet[Lines]" = WeakSet()

# The threads that served them are the parent's.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_EVERY.clear)


def wait_for_all(seconds: float) -> None:
    """Wait until nothing stands in any line; no longer than so many seconds. What does then is lost, and logged."""
    deadline = monotonic() + seconds
    lost = sum(0 if lines.wait(deadline) else len(lines) for lines in list(_EVERY))
    if lost:
        from monedula._logging import warn_last  # not before it is needed: logging is slow to import

        warn_last(f"{lost} records were not delivered before the end: they still waited for room or for their topic")


class Lines:
    """Lines by name. A line has a thread for as long as something stands in it."""

    def __init__(self) -> None:
        _EVERY.add(self)
        self._lines: dict[str, deque[_Waiting]] = {}
        self._changed = Condition()
        self._number = 0

    def join(self, name: str, record: Outgoing, future: SendFuture) -> bool:
        """Put a record at a line's end, if there is such a line. Whether it stands there now."""
        with self._changed:
            line = self._lines.get(name)
            if line is not None:
                line.append(self._waiting(record, future))
            return line is not None

    def open(self, name: str, record: Outgoing, future: SendFuture, send: Send) -> None:
        """Put a record at a line's end, and begin the line if there is none."""
        with self._changed:
            line = self._lines.get(name)
            if line is not None:
                line.append(self._waiting(record, future))
                return
            self._lines[name] = deque([self._waiting(record, future)])
        Thread(target=self._serve, args=(name, send), name="monedula-line", daemon=True).start()

    def wait(self, deadline: float | None) -> bool:
        """Wait until what stands in lines now was sent or failed; false past the deadline."""
        with self._changed:
            last = self._number
            left = None if deadline is None else max(deadline - monotonic(), 0.0)
            return self._changed.wait_for(lambda: all(line[0].number > last for line in self._lines.values()), left)

    def __len__(self) -> int:
        with self._changed:
            return sum(map(len, self._lines.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._lines

    def _waiting(self, record: Outgoing, future: SendFuture) -> _Waiting:
        self._number += 1
        return _Waiting(self._number, record, future, monotonic())

    def _serve(self, name: str, send: Send) -> None:
        while True:
            with self._changed:
                waiting = self._lines[name][0]
            try:
                waiting.future._send(send(waiting.record, monotonic() - waiting.since))
            except BaseException as error:
                waiting.future._fail(error)
            # Only now: whoever looks for the line in between must find it, and stand behind.
            with self._changed:
                line = self._lines[name]
                line.popleft()
                if not line:
                    del self._lines[name]
                self._changed.notify_all()
                if not line:
                    return
