"""Threads that serve lines of records: those that have to wait for room, or for their topic's partitions.

The lines themselves, and which transaction each record belongs to, are the core's.
"""

import os
from collections.abc import Callable, Mapping
from threading import Thread
from time import monotonic, time
from typing import Any, NamedTuple
from weakref import WeakSet

from monedula._monedula import LinesCore, SendFuture


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


Send = Callable[[Outgoing, float, int], SendFuture]
"""Sends a record that has waited for so many seconds, in this transaction or not at all."""


_EVERY: "WeakSet[LinesCore]" = WeakSet()
"""Those in which something stood."""

# The threads that served them are the parent's.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_EVERY.clear)


def wait_for_all(seconds: float) -> None:
    """Wait until nothing stands in any line; no longer than so many seconds. What does then is lost, and logged."""
    deadline = monotonic() + seconds
    late = [lines for lines in list(_EVERY) if not lines.wait(max(deadline - monotonic(), 0.0))]
    lost = sum(map(len, late))
    if lost:
        from monedula._logging import warn_last  # not before it is needed: logging is slow to import

        warn_last(f"{lost} records were not delivered before the end: they still waited for room or for their topic")


def stand(lines: LinesCore, line: str, record: Outgoing, send: Send) -> SendFuture:
    """Have a record stand in a line. A line has a thread for as long as something stands in it."""
    stood = lines.stand(line, record.kept(), opens=True)
    assert stood is not None
    future, is_first = stood
    if is_first:
        _EVERY.add(lines)
        try:
            Thread(target=_serve, args=(lines, line, send), name="monedula-line", daemon=True).start()
        except (RuntimeError, MemoryError) as error:
            # Nobody would serve it: neither this record nor those that stand behind it by now.
            while lines.failed(line, error):
                pass
    return future


def behind(lines: LinesCore, line: str, record: Outgoing) -> SendFuture | None:
    """Have a record stand behind others; `None` if there is no such line."""
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
