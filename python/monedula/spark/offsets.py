"""Offsets by partition: parses those of options, and reads and writes those of Spark's checkpoint.

Both are JSON in the form of Spark's JVM source, `{"topic": {"0": 23, "1": 40}}`, so both sources understand the same
options and checkpoints. This module sends no requests to Kafka.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from monedula.errors import ConfigError
from monedula.spark.options.values import INT_MAX, LONG_MAX
from monedula.types.partitions import TopicPartition

PartitionOffsets = dict[TopicPartition, int]
"""The offset of the next record, by partition."""

EARLIEST_OFFSET = -2
"""The log start offset in the JSON of `startingOffsets` and `endingOffsets`."""
LATEST_OFFSET = -1
"""The end of the log in the JSON of `startingOffsets` and `endingOffsets`."""

START_KEY = "$start"
"""The key of the resolved starts in the JSON of a stream's offset; no topic can have this name."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_KEY = re.compile(r"[+]?[0-9]{1,10}")
_PARTITION_KEY = re.compile(r"0|[1-9][0-9]{0,9}")

_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
_ASSIGN_EXAMPLE = '{"topicA":[0,1],"topicB":[0,1]}'


def partition_text(partition: TopicPartition) -> str:
    """`partition` as Kafka and Spark write it: `orders-0`."""
    return f"{partition.topic}-{partition.partition}"


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """`partitions`, sorted and separated by commas."""
    return ", ".join(partition_text(partition) for partition in sorted(partitions))


def to_dict(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """`offsets` in the form of Spark's JSON, sorted by topic and partition number.

    Spark compares the JSON texts to see whether there is new data, so equal offsets must always have the same order.
    (The order in Spark's JVM source is that of hash codes.)
    """
    topics: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return topics


def from_dict(data: object) -> PartitionOffsets:
    """The offsets of a checkpoint, as `to_dict` and Spark's JVM source write them."""
    if not isinstance(data, Mapping):
        raise _foreign(f"{_short(data)} is no map of topics")
    offsets: PartitionOffsets = {}
    for topic, partitions in data.items():
        if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
            raise _foreign(f"{_short(topic)} is no topic's name")
        if not isinstance(partitions, Mapping):
            raise _foreign(f"{_short(topic)} has {_short(partitions)}, no map of partitions")
        for number, offset in partitions.items():
            if not isinstance(number, str) or not _PARTITION_KEY.fullmatch(number) or int(number) > INT_MAX:
                raise _foreign(f"{_short(topic)} has {_short(number)}, which is no partition's number")
            if not _is_whole(offset) or not 0 <= offset <= LONG_MAX:
                raise _foreign(f"partition {topic}-{number} has {_short(offset)}, which is no offset")
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def _foreign(found: str) -> ConfigError:
    message = (
        "the checkpoint's offset is not one of a Kafka source, so the checkpoint belongs to another kind of source, or "
        f'is damaged: {found}. Expected e.g. {{"topicA":{{"0":23,"1":40}}}}. Give the query a checkpoint of its own'
    )
    return ConfigError(message, key="checkpointLocation")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


@dataclass(frozen=True)
class StreamOffset:
    """The offset of a stream, with the start offsets of partitions that are new in it.

    The starts are stored in it because after a crash Spark asks for the initial offset again, and `latest` has changed
    by then. Spark's offset log is the only storage that both runs read.
    """

    offsets: PartitionOffsets
    """The offset of the next record, by partition."""
    resolved_starts: PartitionOffsets = field(default_factory=dict)
    """The start offsets of partitions whose start was requested from Kafka: it is not in the previous stream offset."""

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The form of Spark's JSON, with the resolved starts under the first key, `$start`, if there are any."""
        starts = {START_KEY: to_dict(self.resolved_starts)} if self.resolved_starts else {}
        return {**starts, **to_dict(self.offsets)}

    @classmethod
    def from_dict(cls, data: object) -> "StreamOffset":
        """Parse what `to_dict`, or Spark's JVM source, has written."""
        if not isinstance(data, Mapping) or START_KEY not in data:
            return cls(from_dict(data))
        offsets = from_dict({topic: partitions for topic, partitions in data.items() if topic != START_KEY})
        starts = from_dict(data[START_KEY])
        if strangers := starts.keys() - offsets.keys():
            raise _foreign(f"{START_KEY} has partitions that the offset itself has not: {partitions_text(strangers)}")
        return cls(offsets, starts)


def parse_offsets(text: str, option_name: str) -> PartitionOffsets:
    """Parse `startingOffsets` or `endingOffsets`: offsets by partition, -2 for the earliest, -1 for the latest."""
    offsets = _parse_numbers(text, option_name, _OFFSETS_EXAMPLE)
    for partition, offset in offsets.items():
        if offset < EARLIEST_OFFSET:
            message = (
                f"{option_name}: offset {offset} of {partition_text(partition)} is negative; -2 is earliest, -1 latest"
            )
            raise ConfigError(message, key=option_name)
    return offsets


def parse_timestamps(text: str, option_name: str) -> PartitionOffsets:
    """Parse an option with timestamps: milliseconds since 1970, UTC, by partition."""
    timestamps = _parse_numbers(text, option_name, _TIMESTAMPS_EXAMPLE)
    for partition, timestamp in timestamps.items():
        if timestamp < 0:
            # In ListOffsets negative timestamps have special meanings: -1 is the end of the log.
            message = f"{option_name}: timestamp {timestamp} of {partition_text(partition)} is before 1970"
            raise ConfigError(message, key=option_name)
    return timestamps


def parse_assign(text: str, option_name: str = "assign") -> tuple[TopicPartition, ...]:
    """Parse `assign`: the partitions, sorted and without duplicates."""
    partitions: set[TopicPartition] = set()
    for topic, numbers in _parse_topics(text, option_name, _ASSIGN_EXAMPLE).items():
        if not isinstance(numbers, list):
            raise _unexpected(text, option_name, _ASSIGN_EXAMPLE)
        for number in numbers:
            if not _is_whole(number) or not 0 <= number <= INT_MAX:
                raise _unexpected(text, option_name, _ASSIGN_EXAMPLE)
            partitions.add(TopicPartition(topic, number))
    return tuple(sorted(partitions))


def _parse_numbers(text: str, option_name: str, example: str) -> PartitionOffsets:
    numbers: PartitionOffsets = {}
    for topic, partitions in _parse_topics(text, option_name, example).items():
        if not isinstance(partitions, dict):
            raise _unexpected(text, option_name, example)
        for key, number in partitions.items():
            if not _KEY.fullmatch(key) or int(key) > INT_MAX or not _is_whole(number) or abs(number) > LONG_MAX:
                raise _unexpected(text, option_name, example)
            numbers[TopicPartition(topic, int(key))] = number
    return numbers


def _parse_topics(text: str, option_name: str, example: str) -> dict[str, Any]:
    try:
        topics = json.loads(text.strip(), object_pairs_hook=_without_repetitions)
    except (ValueError, RecursionError):
        raise _unexpected(text, option_name, example) from None
    if not isinstance(topics, dict) or "" in topics:
        raise _unexpected(text, option_name, example)
    return topics


def _without_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        # Spark's JVM source silently takes the last one, which may not be the one that was meant.
        raise ValueError("a key is given twice")
    return result


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _unexpected(text: str, option_name: str, example: str) -> ConfigError:
    return ConfigError(f"{option_name}: Expected e.g. {example}, got {text}", key=option_name)
