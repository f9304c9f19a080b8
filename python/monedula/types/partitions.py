"""Partitions and positions: the types of arguments and results."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic. Every function also takes a plain `(topic, partition)` tuple."""

    topic: str
    partition: int


def _told(plain: Callable[..., TopicPartition]) -> Callable[..., TopicPartition]:
    @wraps(plain)
    def new(*arguments: Any, **keywords: Any) -> TopicPartition:
        try:
            return plain(*arguments, **keywords)
        except TypeError as error:
            # Explain confluent-kafka's form: its class takes an offset as the third argument.
            if len(arguments) < 4 and not keywords.keys() & {"offset", "metadata", "leader_epoch"}:
                raise
            advice = "it has no offset; here an offset stands beside it, as in {('orders', 0): 42}"
            raise TypeError(f"{error}; a TopicPartition is a topic and a number: {advice}") from None

    return new


setattr(TopicPartition, "__new__", _told(TopicPartition.__new__))  # noqa: B010 - type checkers see the plain one


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a given time: the result of `offsets_for_times`."""

    offset: int
    """The offset of the record."""
    timestamp: int
    """The timestamp of the record, in milliseconds since 1970, UTC."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset."""

    offset: int
    """The offset of the next record to read."""
    metadata: str = ""
    """A text of the user that is stored with the offset."""
    leader_epoch: int = -1
    """The leader epoch of the record before the offset; -1 if unknown."""


Position = int | str | datetime
"""A start: an offset; `"earliest"`; `"latest"`; `"committed"`, the committed offset of the group `group.id`; or a time,
for the first record that is not older: an aware datetime, or a text such as `"1h ago"`, `"yesterday"`,
`"2026-11-21T10:00:00Z"`."""

Assignment = (
    str
    | tuple[str, int]
    | Iterable[str]
    | Iterable[tuple[str, int]]
    | Mapping[tuple[str, int], Position]
    | Mapping[tuple[str, int], int]
)
"""The argument of `assign`: topics, partitions, or partitions with their positions."""

Offset = int | tuple[int, str] | OffsetAndMetadata

Offsets = Mapping[tuple[str, int], Offset] | Mapping[TopicPartition, Offset]
"""Offsets to commit: the offset of the next record to read, or `OffsetAndMetadata`, or `(offset, metadata)`."""

Until = str | datetime
"""The end of a loop: `"latest"`, or a time: an aware datetime, or a text such as `"today"` or `"1h ago"`."""
