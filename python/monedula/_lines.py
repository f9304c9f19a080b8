"""Threads that send the records of the producers' queues: records that wait for room, or for their topic's partitions.

The queues themselves, and the transaction of each record, are in the core (`LinesCore`).
"""

import os
from collections.abc import Callable, Mapping
from threading import Thread
from time import monotonic, time
from typing import Any, NamedTuple
from weakref import WeakSet

from monedula._monedula import LinesCore, SendFuture


class Outgoing(NamedTuple):
    """A record to send: the arguments of `send`."""

    topic: str
    value: Any
    key: Any
    partition: int | None
    headers: Any
    timestamp: Any

    def kept(self) -> "Outgoing":
        """A copy that the caller cannot change later, with the current time if the record has no timestamp."""
        headers = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        return self._replace(
            value=_kept(self.value),
            key=_kept(self.key),
            headers=None if headers is None else [(name, _kept(value)) for name, value in headers],
            timestamp=int(time() * 1000) if self.timestamp is None else self.timestamp,
        )


def _kept(data: Any) -> str | bytes | None:
    return data if data is None or isinstance(data, (str, bytes)) else bytes(data)


Send = Callable[[Outgoing, float, int], SendFuture]
"""Sends a record that has waited for the given seconds, in the transaction of the given number or not at all."""


_EVERY: "WeakSet[LinesCore]" = WeakSet()
"""The queues of all producers of this process that ever had a waiting record."""

# A forked child has no threads that serve the parent's queues, so it must not wait for them at exit.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_EVERY.clear)


def wait_for_all(seconds: float) -> None:
    """Wait at most `seconds` until all queues are empty. Records that still wait then are lost, which is logged."""
    deadline = monotonic() + seconds
    late = [lines for lines in list(_EVERY) if not lines.wait(max(deadline - monotonic(), 0.0))]
    lost = sum(map(len, late))
    if lost:
        from monedula._logging import warn_last  # imported here, because logging is slow to import

        warn_last(f"{lost} records were not delivered before the end: they still waited for room or for their topic")


def stand(lines: LinesCore, line: str, record: Outgoing, send: Send) -> SendFuture:
    """Append a record to the queue `line`, which is opened if necessary. A thread serves it until it is empty."""
    stood = lines.stand(line, record.kept(), opens=True)
    assert stood is not None
    future, is_first = stood
    if is_first:
        _EVERY.add(lines)
        try:
            Thread(target=_serve, args=(lines, line, send), name="monedula-line", daemon=True).start()
        except (RuntimeError, MemoryError) as error:
            # No thread would serve the queue: fail this record and those that have been appended since.
            while lines.failed(line, error):
                pass
    return future


def behind(lines: LinesCore, line: str, record: Outgoing) -> SendFuture | None:
    """Append a record to the queue `line` if it is open, and return its future; else return `None`."""
    stood = lines.stand(line, record.kept(), opens=False) if lines else None
    return None if stood is None else stood[0]


def _serve(lines: LinesCore, line: str, send: Send) -> None:
    goes_on = True
    while goes_on and (first := lines.first(line)) is not None:
        try:
            sent = send(*first)
        except BaseException as error:
            goes_on = lines.failed(line, error)
        else:
            goes_on = lines.sent(line, sent)
