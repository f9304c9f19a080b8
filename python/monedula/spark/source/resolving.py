"""Turns the bounds of the options (`monedula.spark.source.bounds`) into offsets, with requests to Kafka."""

from monedula.errors import ConfigError
from monedula.spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, PartitionOffsets, partition_text, partitions_text
from monedula.spark.source.bounds import Bound, Earliest, Latest, Offsets, Timestamp, Timestamps
from monedula.spark.source.cluster import Cluster, Layout
from monedula.spark.source.options import SourceOptions
from monedula.types.partitions import TopicPartition


def resolve(bound: Bound, is_start: bool, options: SourceOptions, cluster: Cluster, layout: Layout) -> PartitionOffsets:
    """The offset of `bound` in each partition of the layout."""
    partitions = list(layout.leaders)
    if isinstance(bound, Earliest):
        return cluster.earliest(partitions)
    if isinstance(bound, Latest):
        return cluster.latest(partitions)
    if isinstance(bound, Offsets):
        _check_partitions(bound.offsets, layout, f"Kafka {_which(is_start)} offsets")
        return filled_in(bound.offsets, cluster, layout)
    if isinstance(bound, Timestamps):
        _check_partitions(bound.timestamps, layout, f"Kafka timestamp based {_which(is_start)} offsets")
        times_ms = bound.timestamps
    elif isinstance(bound, Timestamp):
        times_ms = dict.fromkeys(partitions, bound.timestamp_ms)
    found = cluster.by_time(times_ms)
    if is_start and options.no_match == "error":
        for partition, offset in found.items():
            if offset is None:
                raise ConfigError(
                    f"No offset matched from request of topic-partition {partition_text(partition)} and "
                    f"timestamp {times_ms[partition]}. With startingOffsetsByTimestampStrategy=latest the query starts "
                    "at the end of such partitions."
                )
    return filled_in({each: LATEST_OFFSET if at is None else at for each, at in found.items()}, cluster, layout)


def filled_in(offsets: PartitionOffsets, cluster: Cluster, layout: Layout) -> PartitionOffsets:
    """The offsets, with the earliest and the latest one looked up where -2 and -1 stand for them.

    Partitions that the layout lacks are left out if their offset would have to be looked up.
    """
    known = {each: offset for each, offset in offsets.items() if offset >= 0}
    earliest = cluster.earliest([each for each in layout.leaders if offsets.get(each) == EARLIEST_OFFSET])
    latest = cluster.latest([each for each in layout.leaders if offsets.get(each) == LATEST_OFFSET])
    return {**known, **earliest, **latest}


def _check_partitions(given: dict[TopicPartition, int], layout: Layout, what: str) -> None:
    if set(given) != set(layout.leaders):
        raise ConfigError(
            f"Partitions specified for {what} don't match what are assigned. Maybe topic partitions are created or "
            "deleted while the query is running, or you didn't specify all the partitions. Use -1 for latest, -2 for "
            "earliest. "
            f"Specified: {partitions_text(given)} Assigned: {partitions_text(layout.leaders)}"
        )


def _which(is_start: bool) -> str:
    return "start" if is_start else "end"
