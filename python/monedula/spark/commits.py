"""`GroupCommitter`: commits offsets to consumer groups in a thread, so that a slow coordinator does not delay a query.

It keeps only the newest offset of each partition. Failures are logged and counted, never raised. This module does not
use Spark.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from monedula._monedula import ConsumerCore
from monedula.errors import ClosedError, KafkaError
from monedula.spark.offsets import PartitionOffsets, partition_text
from monedula.types.partitions import TopicPartition

_log = logging.getLogger("monedula.spark")

_COMMIT_TIMEOUT_SECONDS = 30.0
_RETRY_SECONDS = 1.0


class Failures:
    """Counts failures by kind, and logs the first one of each kind as a warning."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def count(self, kind: str, message: str, error: BaseException | None = None) -> None:
        """Count a failure of `kind`; the first one is logged as a warning, later ones at DEBUG."""
        with self._lock:
            self._counts[kind] += 1
            is_first = self._counts[kind] == 1
        level = logging.WARNING if is_first else logging.DEBUG
        _log.log(level, "%s (logged once; the number of times is in LagListener.failures)", message, exc_info=error)

    def snapshot(self) -> dict[str, int]:
        """The number of failures, by kind."""
        with self._lock:
            return dict(self._counts)


class GroupCommitter:
    """Commits offsets in the background. The thread starts with the first offsets."""

    def __init__(self, settings: Sequence[tuple[str, str]], failures: Failures) -> None:
        self._settings = list(settings)
        self._failures = failures
        self._changed = threading.Condition()
        self._pending: dict[str, PartitionOffsets] = {}
        self._under_way = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._core: ConsumerCore | None = None

    def put(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit `offsets` in the background; they replace older ones that are not committed yet. Returns at once."""
        with self._changed:
            if self._closing or not offsets:
                return
            self._pending.setdefault(group_id, {}).update(offsets)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="monedula-commits", daemon=True)
                # Raises where the system grants none: the next micro-batch's offsets ask again.
                thread.start()
                self._thread = thread
            self._changed.notify_all()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait at most `timeout_seconds` until all offsets are committed or have failed; returns whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and not self._under_way, timeout_seconds)

    def close(self, timeout_seconds: float) -> None:
        """Commit the remaining offsets within `timeout_seconds`, and end the thread. May be called again."""
        deadline = time.monotonic() + timeout_seconds
        self.flush(timeout_seconds)
        with self._changed:
            self._closing = True
            self._pending.clear()
            self._changed.notify_all()
            thread, core = self._thread, self._core
        if core is not None:
            # Also ends a commit that is in flight.
            core.close(max(0.0, deadline - time.monotonic()))
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(1.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while True:
            with self._changed:
                self._under_way = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._pending or self._closing)
                if self._closing:
                    return
                group_id = next(iter(self._pending))
                offsets = self._pending.pop(group_id)
                self._under_way = True
            if not self._commit(group_id, offsets):
                self._put_back(group_id, offsets)

    def _commit(self, group_id: str, offsets: PartitionOffsets) -> bool:
        """Commit `offsets`. False if they should be retried; true if they are committed or a retry would not help."""
        try:
            outcome = self._client().commit_group_offsets(group_id, list(offsets.items()), _COMMIT_TIMEOUT_SECONDS)
        except Exception as error:
            if self._closing:
                return True
            kind = getattr(error, "code", None) or type(error).__name__
            self._failures.count(f"commit: {kind}", f"offsets are not committed to group {group_id}: {error}")
            return not (isinstance(error, KafkaError) and error.retriable)
        refused = {partition: code for partition, code in outcome.items() if code is not None}
        for (topic, index), code in refused.items():
            partition = partition_text(TopicPartition(topic, index))
            self._failures.count(f"commit: {code}", f"{partition}: the offset is not committed to {group_id}: {code}")
        return True

    def _put_back(self, group_id: str, offsets: PartitionOffsets) -> None:
        """Keep `offsets` for a retry, except of partitions that have newer ones by now, and wait 1 second."""
        with self._changed:
            if self._closing:
                return
            self._pending[group_id] = offsets | self._pending.get(group_id, {})
            self._changed.wait_for(lambda: self._closing, _RETRY_SECONDS)

    def _client(self) -> ConsumerCore:
        with self._changed:
            if self._closing:
                raise ClosedError("the listener is closed")
            if self._core is None:
                self._core = ConsumerCore(self._settings)
            return self._core
