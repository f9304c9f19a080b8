"""How far a micro-batch goes: limits by offsets and bytes, shared out by backlog, and the wait for enough."""

import math
from collections.abc import Mapping

from monedula.partitions import TopicPartition
from monedula.spark.offsets import PartitionOffsets


def rate_limit(
    limit: int,
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    earliest_of_new: Mapping[TopicPartition, int],
) -> PartitionOffsets:
    """Where a micro-batch of about `limit` offsets ends, to the offset where Spark's JVM source would end it.

    Every partition gets its share of the backlog, rounded down, and one offset where that is less; so the batch is
    larger than `limit` where there are more partitions than that.

    Args:
        limit: most offsets, at least 1.
        start: where the batch begins.
        latest: where the log ends; only these partitions are in the answer.
        earliest_of_new: where partitions begin that `start` does not have. Those in neither go to their end.
    """
    backlog = _backlog({**earliest_of_new, **start}, latest)
    total = float(sum(size for _, size in backlog.values()))
    ends = dict(latest)
    for partition, (begin, size) in backlog.items():
        share = float(limit) * (float(size) / total)
        offsets = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = min(ends[partition], begin + offsets)
    return ends


def byte_limit(
    max_bytes: int,
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    bytes_per_offset: Mapping[TopicPartition, float],
) -> PartitionOffsets:
    """Where a micro-batch of about `max_bytes` bytes ends.

    Every partition gives the same share of its backlog, at least one offset.

    Args:
        max_bytes: most bytes, at least 1.
        start: where the batch begins. Partitions that are not in it go to their end.
        latest: where the log ends; only these partitions are in the answer.
        bytes_per_offset: estimates. A partition without one, or with none above 0, counts with the mean of the others;
            without any estimate nothing is limited.
    """
    backlog = _backlog(start, latest)
    known = {each: bytes_per_offset.get(each, 0.0) for each in backlog}
    known = {each: estimate for each, estimate in known.items() if 0 < estimate < math.inf}
    ends = dict(latest)
    if not known:
        return ends
    mean = math.fsum(known[each] * backlog[each][1] for each in known) / sum(backlog[each][1] for each in known)
    total_bytes = math.fsum(known.get(each, mean) * size for each, (_, size) in backlog.items())
    share = max_bytes / total_bytes
    if share < 1:
        for partition, (begin, size) in backlog.items():
            ends[partition] = min(ends[partition], begin + max(math.floor(size * share), 1))
    return ends


def _backlog(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int]]:
    """Start and size of what is not empty."""
    return {
        each: (start[each], end - start[each]) for each, end in latest.items() if each in start and end > start[each]
    }


class TriggerDelay:
    """Puts micro-batches off until there are enough offsets, or until long enough ago was the last."""

    def __init__(self) -> None:
        # As in Spark's JVM source: the first micro-batch of a process never waits, since 1970 is long enough ago.
        self._last_trigger_ms = 0

    def should_wait(
        self,
        min_offsets: int,
        max_trigger_delay_ms: int,
        start: Mapping[TopicPartition, int],
        latest: Mapping[TopicPartition, int],
        now_ms: int,
    ) -> bool:
        """Whether to wait; if not, the delay counts from now.

        Args:
            min_offsets: fewest offsets worth a micro-batch.
            max_trigger_delay_ms: longest time between micro-batches while there are fewer.
            start: where the batch would begin; partitions that are not in it begin at 0.
            latest: where the log ends.
            now_ms: the time, in milliseconds since 1970.
        """
        if now_ms - self._last_trigger_ms < max_trigger_delay_ms:
            new_offsets = sum(end - start.get(each, 0) for each, end in latest.items())
            if new_offsets < min_offsets:
                return True
        self._last_trigger_ms = now_ms
        return False
