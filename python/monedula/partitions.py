"""Partitions, and where to start in them, as users may write them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from monedula.errors import ArgumentError


class TopicPartition(NamedTuple):
    """A partition of a topic. A plain `(topic, partition)` tuple does as well, everywhere."""

    topic: str
    partition: int


class OffsetAndTimestamp(NamedTuple):
    """The first record that is at least as young as asked."""

    offset: int
    timestamp: int
    """Milliseconds since 1970, UTC."""


Position = int | str | datetime
"""Where to start: an offset; `"earliest"`, `"latest"`; or the time of the first record wanted (aware datetime)."""

Assignment = (
    str
    | tuple[str, int]
    | Iterable[str]
    | Iterable[tuple[str, int]]
    | Mapping[tuple[str, int], Position]
    | Mapping[tuple[str, int], int]
)
"""What `assign` takes: topics, partitions, or partitions with their positions."""

RawPosition = tuple[str, int]
"""What the core takes: a kind, and its number."""


def raw_position(position: Position) -> RawPosition:
    """`position` as the core takes it.

    Raises:
        ArgumentError: if it is none of an offset, a name or an aware datetime.
    """
    if isinstance(position, bool):
        raise ArgumentError(f"{position!r} is no offset")
    if isinstance(position, int):
        if position < 0:
            raise ArgumentError(f'offset {position} is negative; use "earliest" or "latest" for the ends of the log')
        return ("offset", position)
    if isinstance(position, datetime):
        return ("timestamp", timestamp_ms(position))
    if position in ("earliest", "latest"):
        return (position, 0)
    raise ArgumentError(f'{position!r} is no position: expected an offset, "earliest", "latest" or a datetime')


def timestamp_ms(time: datetime | int) -> int:
    """`time` in milliseconds since 1970, UTC.

    Raises:
        ArgumentError: if it is a datetime without a time zone, or negative.
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ArgumentError(f"{time!r} has no time zone; use datetime.now(timezone.utc), or .astimezone()")
        time = round(time.timestamp() * 1000)
    if time < 0:
        raise ArgumentError(f"timestamp {time} is before 1970")
    return time


def raw_partition(partition: tuple[str, int]) -> tuple[str, int]:
    """`partition` checked.

    Raises:
        ArgumentError: if it is no pair of a topic and an index.
    """
    if isinstance(partition, str) or not isinstance(partition, tuple) or len(partition) != 2:
        raise ArgumentError(f"{partition!r} is no partition: expected (topic, partition), such as ('orders', 0)")
    topic, index = partition
    if not isinstance(topic, str) or not topic:
        raise ArgumentError(f"{partition!r}: the topic must be a name")
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < 1 << 31:
        raise ArgumentError(f"{partition!r}: the partition must be a whole number, 0 or more")
    return (topic, index)


def raw_partitions(partitions: Iterable[tuple[str, int]] | tuple[str, int]) -> list[tuple[str, int]]:
    """One partition or several, checked."""
    if isinstance(partitions, tuple) and len(partitions) == 2 and isinstance(partitions[0], str):
        return [raw_partition((partitions[0], partitions[1]))]  # type: ignore[arg-type]
    if isinstance(partitions, str):
        raise ArgumentError(f"{partitions!r} is no partition: expected (topic, partition), such as ('orders', 0)")
    return [raw_partition(partition) for partition in partitions]  # type: ignore[arg-type]


def split_assignment(
    assignment: Assignment, default: RawPosition
) -> tuple[list[str], list[tuple[tuple[str, int], RawPosition]]]:
    """What to assign: whole topics, or else partitions with their positions.

    Raises:
        ArgumentError: if it is neither, or both.
    """
    if isinstance(assignment, str):
        return [assignment], []
    if isinstance(assignment, Mapping):
        pairs = [(raw_partition(key), raw_position(value)) for key, value in assignment.items()]
        return [], pairs
    if isinstance(assignment, tuple) and len(assignment) == 2 and isinstance(assignment[1], int):
        return [], [(raw_partition(assignment), default)]  # type: ignore[arg-type]
    items = list(assignment)
    if all(isinstance(item, str) for item in items):
        return [str(item) for item in items], []
    if any(isinstance(item, str) for item in items):
        raise ArgumentError("assign() takes whole topics or single partitions, not both at once")
    return [], [(raw_partition(item), default) for item in items]  # type: ignore[arg-type]
