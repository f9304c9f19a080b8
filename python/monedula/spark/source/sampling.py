"""`ByteEstimate`: the bytes per offset of a topic, estimated from a sample of records.

`maxBytesPerTrigger` limits bytes, but Kafka returns only offsets.
"""

import time
from collections import defaultdict

from monedula._monedula import ReaderCore
from monedula.errors import KafkaError
from monedula.spark.offsets import PartitionOffsets
from monedula.spark.options.kafka_settings import ClientSettings
from monedula.spark.source.cluster import Layout
from monedula.spark.source.options import SourceOptions
from monedula.types.partitions import TopicPartition

SAMPLE_OFFSETS = 200
SAMPLE_PARTITIONS = 8
"""The size of a topic's sample: this many offsets in each of about this many partitions."""

ESTIMATE_SECONDS = 30.0
"""Time that an estimate is used before a new sample is read."""

_SMALL_FETCHES = {
    "queued.max.bytes": str(8 << 20),
    "fetch.max.bytes": str(1 << 20),
    "max.partition.fetch.bytes": str(128 << 10),
    "default.api.timeout.ms": "10000",
}


class ByteEstimate:
    """Estimates the decoded bytes of key, value and headers (if included) per offset, by topic."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._core: ReaderCore | None = None
        self._known: dict[str, tuple[float, float]] = {}

    def bytes_per_offset(
        self, start: PartitionOffsets, latest: PartitionOffsets, layout: Layout
    ) -> dict[TopicPartition, float]:
        """The estimate for each partition of `latest`, at least one byte."""
        now = time.monotonic()
        by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
        for partition, end in sorted(latest.items()):
            if start.get(partition, end) < end:
                by_topic[partition.topic].append(partition)
        for topic, partitions in by_topic.items():
            if topic not in self._known or self._known[topic][1] < now:
                step = -(-len(partitions) // SAMPLE_PARTITIONS)
                ranges = {
                    each: (start[each], min(latest[each], start[each] + SAMPLE_OFFSETS)) for each in partitions[::step]
                }
                self._known[topic] = (self._sample(ranges, layout), now + ESTIMATE_SECONDS)
        return {each: self._known.get(each.topic, (1.0, now))[0] for each in latest}

    def close(self) -> None:
        """Close the connections."""
        core, self._core = self._core, None
        if core is not None:
            core.close()

    def _sample(self, ranges: dict[TopicPartition, tuple[int, int]], layout: Layout) -> float:
        if self._core is None:
            settings = ClientSettings.of({**self._options.kafka, **_SMALL_FETCHES}).here()
            columns = ["key", "value", "headers"] if self._options.include_headers else ["key", "value"]
            self._core = ReaderCore(settings, columns, False, 1 << 16, 8 << 20)
        brokers = [(node, *address) for node, address in layout.brokers.items()]
        leaders = [(each, *layout.leaders[each]) for each in ranges if each in layout.leaders]
        asked = [(each, *bounds) for each, bounds in ranges.items()]
        sampled_bytes = 0
        try:
            self._core.begin_planned(asked, brokers, leaders)
            while (batch := self._core.next()) is not None:
                sampled_bytes += batch.nbytes
            self._core.end()
        except KafkaError:
            # The error is not raised: the workers will meet the same error and raise it. Without a sample the estimate
            # is 1 byte.
            self.close()
        offsets = sum(end - first for first, end in ranges.values())
        return max(1.0, sampled_bytes / max(1, offsets))
