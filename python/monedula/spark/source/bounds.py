"""The start and end of a query as the options give them; `Cluster.resolve` turns them into offsets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from monedula.errors import ConfigError
from monedula.spark.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    PartitionOffsets,
    parse_offsets,
    parse_timestamps,
    partition_text,
    partitions_text,
)
from monedula.spark.options.values import LONG_MAX


@dataclass(frozen=True)
class Earliest:
    """The log start offset of each partition."""


@dataclass(frozen=True)
class Latest:
    """The end of each log; under `read_committed`, its last stable offset."""


@dataclass(frozen=True)
class Offsets:
    """An offset for each partition; -2 stands for the earliest, -1 for the latest offset."""

    offsets: PartitionOffsets


@dataclass(frozen=True)
class Timestamps:
    """The first record of each partition at or after its time."""

    timestamps: PartitionOffsets
    """Milliseconds since 1970, UTC."""


@dataclass(frozen=True)
class Timestamp:
    """The first record of every partition at or after one time."""

    timestamp_ms: int
    """Milliseconds since 1970, UTC."""


Bound = Earliest | Latest | Offsets | Timestamps | Timestamp


def start_bound(options: Mapping[str, str], default: Bound) -> Bound:
    """The start that `options` (names in lower case) give, or `default`."""
    return _bound(options, ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"), default)


def batch_bounds(options: Mapping[str, str]) -> tuple[Bound, Bound]:
    """The start and end of a batch query; earliest and latest if not given."""
    start = start_bound(options, Earliest())
    if start == Latest():
        raise _refused("startingOffsets", "startingOffsets: starting offset can't be latest")
    for partition in _with_offset(start, LATEST_OFFSET):
        raise _refused("startingOffsets", f"startingOffsets for {partition} can't be latest")
    end = _bound(options, ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"), Latest())
    if end == Earliest():
        raise _refused("endingOffsets", "endingOffsets: ending offset can't be earliest")
    for partition in _with_offset(end, EARLIEST_OFFSET):
        raise _refused("endingOffsets", f"ending offset for {partition} can't be earliest")
    if isinstance(start, Offsets) and isinstance(end, Offsets):
        _check_order("offset", "endingOffsets", start.offsets, end.offsets)
    if isinstance(start, Timestamps) and isinstance(end, Timestamps):
        _check_order("timestamp", "endingOffsetsByTimestamp", start.timestamps, end.timestamps)
    return start, end


def _bound(options: Mapping[str, str], names: tuple[str, str, str], default: Bound) -> Bound:
    """The first given option of `names` (one time, times, offsets) decides, as in Spark; the others are not parsed."""
    readers: tuple[Callable[[str, str], Bound], ...] = (_timestamp, _timestamps, _offsets)
    for name, reader in zip(names, readers, strict=True):
        text = options.get(name.lower())
        if text is not None:
            return reader(text.strip(), name)
    return default


def _timestamp(text: str, name: str) -> Bound:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 19 or int(digits) > LONG_MAX:
        message = f"{name}: Expected a single long value, got {text}; it is milliseconds since 1970, UTC"
        raise ConfigError(message, key=name)
    return Timestamp(int(digits))


def _timestamps(text: str, name: str) -> Bound:
    return Timestamps(parse_timestamps(text, name))


def _offsets(text: str, name: str) -> Bound:
    ends: dict[str, Bound] = {"earliest": Earliest(), "latest": Latest()}
    return ends.get(text.lower()) or Offsets(parse_offsets(text, name))


def _with_offset(bound: Bound, wanted: int) -> list[str]:
    offsets = bound.offsets if isinstance(bound, Offsets) else {}
    return [partition_text(partition) for partition, offset in sorted(offsets.items()) if offset == wanted]


def _refused(key: str, reason: str) -> ConfigError:
    return ConfigError(f"{reason} for batch queries on Kafka", key=key)


def _check_order(what: str, key: str, start: PartitionOffsets, end: PartitionOffsets) -> None:
    if start.keys() != end.keys():
        message = (
            "The specified start offset and end offset should have the same topic-partitions. Topic-partitions for "
            f"start offset: {partitions_text(start)}, topic-partitions for end offset: {partitions_text(end)}."
        )
        raise ConfigError(message, key=key)
    for partition, first in sorted(start.items()):
        last = end[partition]
        # Negative ones stand for ends of the log, which are not known yet.
        if first > last and first >= 0 and last >= 0:
            message = (
                f"The specified start {what} {first} is greater than the end {what} {last} for topic {partition.topic} "
                f"partition {partition.partition}."
            )
            raise ConfigError(message, key=key)
