"""`MemberReading`: warns of a member of a group that nobody reads, while another one of the same process is read."""

import sys
from collections.abc import Callable, Iterator
from itertools import count
from threading import Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

from monedula._reprs import some
from monedula.errors import ClosedError, ForkError

if TYPE_CHECKING:
    from monedula.consumer._base import ConsumerBase

_CLOCK = count(1)

_JOIN_SECONDS = 5.0
"""Time after which a member should have joined: brokers wait for 3 s for the first members of a group."""


class MemberReading:
    """Who reads a member of a group, and since when it is one.

    A cell of a notebook that is run again makes a second member, while the first one keeps its partitions: half of the
    records would be missing without a word. Members that other threads or tasks read are no reason to warn.
    """

    def __init__(self, consumer: "ConsumerBase") -> None:
        self._consumer = ref(consumer)
        self._group = consumer._names.group
        self._servers = set(consumer._names.servers.replace(" ", "").split(","))
        self._is_looking = True
        self._began = monotonic()
        self.begins()
        self._since = self._read_at
        _READINGS[id(self)] = self

    def begins(self) -> None:
        """Note that the current thread or task reads the member."""
        reader = _reader()
        # What eventlet has for a thread is made anew by each call: nobody else keeps it.
        self._reader: Callable[[], Any] = ref(reader) if _can_end(reader) else lambda: reader
        self._read_at = next(_CLOCK)

    def wait(self, left: float | None) -> float | None:
        """The seconds of the next wait for records: less than all that is left, as long as there may be a warning."""
        if not self._is_looking:
            return left
        return _JOIN_SECONDS if left is None else min(left, _JOIN_SECONDS)

    def look(self, has_rows: bool) -> None:
        """Warn once of another member that has partitions, and that nobody has read since this one is a member.

        Args:
            has_rows: whether this member was just given its first rows. Otherwise it looks once it has joined, or
                should have: unfinished rows of the other member keep it from that.
        """
        if not self._is_looking:
            return
        consumer = self._consumer()
        if consumer is None:
            return
        has_joined = has_rows or _is_stable(consumer)
        if not has_joined and monotonic() - self._began < _JOIN_SECONDS:
            return
        self._is_looking = not has_joined
        for partitions in self._unread():
            from monedula._logging import alert

            self._is_looking = False
            alert(
                "groups",
                "member_unread",
                f"another member of group {self._group!r} in this process is open, and was not read since this one "
                f"subscribed: nobody reads {some(partitions)}, until it is closed. Make consumers in a `with` block, "
                "or close() them",
            )

    def _unread(self) -> Iterator[list[str]]:
        """Yield the partitions of each other member that nobody reads."""
        reader = self._reader()
        for other in [each() for each in _READINGS.valuerefs()]:
            if other is None or other is self or other._group != self._group or other._read_at > self._since:
                continue
            if self._servers.isdisjoint(other._servers) or not (other._is_deserted() or other._reader() is reader):
                continue
            consumer = other._consumer()
            try:
                assigned = [] if consumer is None else consumer.assignment()
            except (ClosedError, ForkError):
                continue
            if assigned:
                yield [f"{topic}-{partition}" for topic, partition in sorted(assigned)]

    def _is_deserted(self) -> bool:
        reader = self._reader()
        if reader is None:
            return True
        return _can_end(reader) and (not reader.is_alive() if isinstance(reader, Thread) else bool(reader.done()))


_READINGS: WeakValueDictionary[int, MemberReading] = WeakValueDictionary()


def _reader() -> Any:
    """The current task, or the current thread outside of tasks."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = None if asyncio is None else asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        task = None
    return task or current_thread()


def _can_end(reader: Any) -> bool:
    return isinstance(reader, Thread) or hasattr(reader, "done")


def _is_stable(consumer: "ConsumerBase") -> bool:
    health = consumer._member.health()
    return health is not None and health["state"] == "Stable"
