"""Offset commits: the offsets to commit, in the user's and in the core's form, and `CommitFuture` for the result."""

from collections.abc import Callable
from threading import Lock
from typing import Any

from monedula._monedula import Operation
from monedula.errors import ArgumentError, CommitFailedError, CommitFailure, KafkaError, KafkaTimeoutError
from monedula.types.partitions import OffsetAndMetadata, TopicPartition

RawOutcome = dict[tuple[str, int], tuple[int, tuple[str | None, bool, str] | None]]
"""The core's result of a commit: the offset, and `None` or the error: Kafka's name, whether it is retriable, reason."""


class CommitFuture:
    """The future of a commit that `commit_async` of a `Consumer` or `ShareConsumer` started."""

    def __init__(
        self,
        operation: "Operation[Any]",
        last_error: Callable[[], str | None],
        convert: "Callable[[Any], dict[TopicPartition, int]] | None" = None,
    ) -> None:
        self._operation = operation
        self._convert = convert or committed_offsets
        self._last_error = last_error
        self._outcome: dict[TopicPartition, int] | BaseException | None = None
        self._lock = Lock()
        self._callbacks: list[Callable[[CommitFuture], object]] = []

    def done(self) -> bool:
        """Return true once the commit has succeeded or failed."""
        return self._operation.done()

    def result(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Wait for the commit, and return what `commit` returns.

        Args:
            timeout: seconds to wait; `None` for as long as the commit itself may take.

        Raises:
            CommitFailedError: if the offsets of some partitions were not committed.
            AcknowledgeError: of a `ShareConsumer`, if some rows were not acknowledged.
            KafkaTimeoutError: if the commit is not done after `timeout`; it goes on.
        """
        failure = self.exception(timeout)
        if failure is not None:
            raise failure
        assert isinstance(self._outcome, dict)
        return dict(self._outcome)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the commit, and return the error that `result` would raise; `None` if all offsets were committed.

        Args:
            timeout: seconds to wait; `None` for as long as the commit itself may take.

        Raises:
            KafkaTimeoutError: if the commit is not done after `timeout`; it goes on.
        """
        if not self._operation.wait(timeout):
            last_error = self._last_error()
            because = "" if last_error is None else f"; the last attempt: {last_error}"
            message = f"the commit is not answered after {timeout} s; it goes on{because}"
            raise KafkaTimeoutError(message, retriable=True, last_error=last_error)
        with self._lock:
            if self._outcome is None:
                try:
                    self._outcome = self._convert(self._operation.result())
                except KafkaError as error:
                    self._outcome = error
        return self._outcome if isinstance(self._outcome, BaseException) else None

    def add_done_callback(self, callback: "Callable[[CommitFuture], object]") -> None:
        """Call `callback` with this future when the commit is done: now if it is done, else in a later call that waits.

        Such a call is `poll`, `batches`, `records`, `unsubscribe` or `close` of the consumer. The callback runs in the
        thread of that call, and the call raises the callback's exception.

        Args:
            callback: a function that takes the future.

        Raises:
            ArgumentError: if `callback` cannot be called.
        """
        if not callable(callback):
            raise ArgumentError(f"{callback!r} cannot be called: give a function that takes the future")
        with self._lock:
            waits = not self._operation.done()
            if waits:
                self._callbacks.append(callback)
        if not waits:
            callback(self)

    def run_callbacks(self) -> None:
        """Call the pending callbacks. If one raises, the following ones stay pending for the next call."""
        while True:
            with self._lock:
                callback = self._callbacks.pop(0) if self._callbacks else None
            if callback is None:
                return
            callback(self)


_DELETED = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")


def committed_offsets(outcome: RawOutcome) -> dict[TopicPartition, int]:
    committed = {TopicPartition(*key): offset for key, (offset, wrong) in outcome.items() if wrong is None}
    failures: dict[TopicPartition, CommitFailure] = {}
    retriable = True
    for partition, (offset, wrong) in outcome.items():
        if wrong is not None:
            code, may_do_later, reason = wrong
            retriable = retriable and may_do_later
            failures[TopicPartition(*partition)] = CommitFailure(offset, code, reason)
    if not failures:
        return committed
    (topic, index), first = next(iter(failures.items()))
    rest = f" (and {len(failures) - 1} more partitions, see .failures)" if len(failures) > 1 else ""
    message = f"offset {first.offset} of {topic}-{index} was not committed: {first.reason}{rest}"
    code = first.code if len({failure.code for failure in failures.values()}) == 1 else None
    raise CommitFailedError(message, failures=failures, committed=committed, code=code, retriable=retriable)


def of_owned(outcome: RawOutcome) -> RawOutcome:
    """A result without failures at partitions that this member has no more to do with.

    Where a partition was not owned any more, its revocation has committed what was finished. Where its topic is
    deleted, nothing is left to be read again.
    """

    def has_nothing_to_commit(wrong: tuple[str | None, bool, str]) -> bool:
        code, may_do_later, _ = wrong
        is_lost = code is None and not may_do_later
        return is_lost or code in _DELETED

    return {key: at for key, at in outcome.items() if at[1] is None or not has_nothing_to_commit(at[1])}


def as_committed(
    found: dict[tuple[str, int], tuple[int, int, str] | None],
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """The core's committed offsets (offset, leader epoch, metadata), by `TopicPartition`."""
    return {
        TopicPartition(*partition): None if at is None else OffsetAndMetadata(at[0], at[2], at[1])
        for partition, at in found.items()
    }
