"""The size of a micro-batch: limits by offsets and by bytes, divided by backlog, and `TriggerDelay` for the minimum."""

import math
from collections.abc import Mapping

from monedula.spark.offsets import PartitionOffsets
from monedula.types.partitions import TopicPartition


def rate_limit(
    limit: int,
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    earliest_of_new: Mapping[TopicPartition, int],
) -> PartitionOffsets:
    """The end offsets of a micro-batch of about `limit` offsets; exactly those of Spark's JVM source.

    Each partition gets a share of `limit` in proportion to its backlog, rounded down, but at least one offset. So the
    batch is larger than `limit` if more than `limit` partitions have a backlog.

    Args:
        limit: the most offsets, at least 1.
        start: the start offsets of the batch.
        latest: the ends of the logs; the result has these partitions.
        earliest_of_new: the start offsets of partitions that `start` lacks. Partitions in neither end at `latest`.
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
    """The end offsets of a micro-batch of about `max_bytes` bytes.

    The batch takes the same share of each partition's backlog, but at least one offset.

    Args:
        max_bytes: the most bytes, at least 1.
        start: the start offsets of the batch. Partitions that are not in it end at `latest`.
        latest: the ends of the logs; the result has these partitions.
        bytes_per_offset: the estimated bytes per offset. For a partition without an estimate above 0 the mean of the
            others is used; without any estimate there is no limit.
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
    return {
        each: (start[each], end - start[each]) for each, end in latest.items() if each in start and end > start[each]
    }


class TriggerDelay:
    """Delays micro-batches until there are enough offsets, or until the last one was long enough ago."""

    def __init__(self) -> None:
        # As in Spark's JVM source: with 0 (1970) the first micro-batch of a process is never delayed.
        self._last_trigger_ms = 0

    def should_wait(
        self,
        min_offsets: int,
        max_trigger_delay_ms: int,
        start: Mapping[TopicPartition, int],
        latest: Mapping[TopicPartition, int],
        now_ms: int,
    ) -> bool:
        """Return true to delay the micro-batch; if not, the next delay counts from now.

        Args:
            min_offsets: the least number of new offsets for a micro-batch.
            max_trigger_delay_ms: the longest time between two micro-batches if there are fewer.
            start: the start offsets of the batch; partitions that are not in it start at 0.
            latest: the ends of the logs.
            now_ms: the current time, in milliseconds since 1970.
        """
        if now_ms - self._last_trigger_ms < max_trigger_delay_ms:
            new_offsets = sum(end - start.get(each, 0) for each, end in latest.items())
            if new_offsets < min_offsets:
                return True
        self._last_trigger_ms = now_ms
        return False
