"""Queues of records that wait for room, or for their topic's metadata, and the threads that send them.

The queues themselves, and the transaction of each record, are the core's.
"""

import os
from collections.abc import Callable, Mapping
from threading import local
from time import monotonic, time
from typing import Any, NamedTuple
from weakref import WeakSet

from monedula._monedula import QueuedSendsCore, RecordDraft, SendFuture
from monedula._process.threads import start as start_thread
from monedula.errors import ArgumentError, NoThreadError

ROOM_QUEUE = "room"
"""The queue of records that wait for room in `buffer.memory`."""


def topic_queue(topic: str) -> str:
    """The queue of records that wait for the topic's metadata or schemas."""
    return f"topic {topic}"


class SendArguments(NamedTuple):
    """The arguments of `send`."""

    topic: str
    value: Any
    key: Any
    partition: int | None
    headers: Any
    timestamp: Any

    @property
    def is_draft(self) -> bool:
        """True if the key or the value is not encoded yet."""
        return isinstance(self.value, RecordDraft) or isinstance(self.key, RecordDraft)

    def copied(self) -> "SendArguments":
        """A copy that the caller cannot change later, with the current time if there is no timestamp."""
        headers = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        return self._replace(
            value=_copied(self.value),
            key=_copied(self.key),
            headers=None if headers is None else [(name, _copied(value)) for name, value in headers],
            timestamp=int(time() * 1000) if self.timestamp is None else self.timestamp,
        )


def _copied(data: Any) -> "str | bytes | RecordDraft | None":
    return data if data is None or isinstance(data, (str, bytes, RecordDraft)) else bytes(data)


OnDelivery = Callable[[SendFuture], object] | None

Send = Callable[[SendArguments, float, int], SendFuture]
"""Sends a record that has waited for so many seconds. It may be sent in this transaction only."""


_USED: "WeakSet[QueuedSendsCore]" = WeakSet()
"""Queues in which there ever was a record."""

# A forked child has none of the threads that serve the queues.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_USED.clear)


def wait_for_all(seconds: float) -> None:
    """Wait until no record waits in any queue, at most `seconds`. Records that still wait then are lost, and logged."""
    deadline = monotonic() + seconds
    late = [queued for queued in list(_USED) if not queued.wait(max(deadline - monotonic(), 0.0))]
    lost = sum(map(len, late))
    if lost:
        from monedula._logging import warn_last  # only here: logging is slow to import

        troubles = sorted({trouble for queued in late if (trouble := queued.trouble()) is not None})
        because = f"; the last error: {'; '.join(troubles)}" if troubles else ""
        waited = "they still waited for room or for their topic"
        warn_last(f"{lost} records were not delivered before the end: {waited}{because}")


def enqueue(
    queued: QueuedSendsCore, queue: str, record: SendArguments, on_delivery: OnDelivery, send: Send
) -> SendFuture:
    """Append a record to a queue. A queue has a thread as long as it has records."""
    pushed = queued.push(queue, record.copied(), on_delivery, creates=True)
    assert pushed is not None
    future, is_first = pushed
    if is_first:
        _USED.add(queued)
        try:
            start_thread(_serve, queued, queue, send, name="monedula-queue")
        except NoThreadError as error:
            # No thread serves the queue: fail this record, and those that were appended meanwhile.
            while queued.failed(queue, error):
                pass
    return future


def enqueue_behind(
    queued: QueuedSendsCore, queue: str, record: SendArguments, on_delivery: OnDelivery
) -> SendFuture | None:
    """Append a record to a queue if it exists, else return `None`."""
    pushed = queued.push(queue, record.copied(), on_delivery, creates=False) if queued else None
    return None if pushed is None else pushed[0]


def refuse_in_partitioner(queued: QueuedSendsCore, verb: str) -> None:
    """Refuse a call that would wait for the very record that this thread sends."""
    if getattr(_SERVED, "queued", None) is queued:
        raise ArgumentError(
            f"{verb}() cannot be called by a partitioner: it would wait for the partitioner's own record"
        )


_SERVED = local()
"""The queues that the thread of a queue belongs to, as `queued`, which other threads do not have."""


def _serve(queued: QueuedSendsCore, queue: str, send: Send) -> None:
    _SERVED.queued = queued
    goes_on = True
    while goes_on and (first := queued.front(queue)) is not None:
        try:
            sent = send(*first)
        except BaseException as error:
            goes_on = queued.failed(queue, error)
        else:
            goes_on = queued.sent(queue, sent)
