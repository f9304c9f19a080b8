"""The history of a group: the events of all members and of the test, on one clock.

An event is what a member printed, or what a test noted of it: `t` (CLOCK_MONOTONIC, in nanoseconds), `member`, `event`:

| event | fields | |
|---|---|---|
| `assigned`, `revoked`, `lost` | `partitions` | as the callbacks got them; `revoked` when its callback ends |
| `batch` | `n`, `parts`: [topic, partition, first, last, count, crc] | as soon as it was handed out |
| | `rows`: [topic, partition, offset, deliveries, decision, crc], `deadline` | as well, in a share group |
| `acknowledged` | `n`, `outcomes`: [topic, partition, outcome], `reason` | share group: `done`, `failed`, `unknown` |
| `held` | `n` | the batch is kept until `release` |
| `finished` | `n` | the batch was worked on |
| `commit`, `committed`, `commit_failed` | `c`, `offsets`: [topic, partition, offset] | asked for, done, refused |
| `generation` | `generation`, `leader`, `assignor` | joined |
| `retried` | `api`, `reason` | a request that is made again |
| `error` | `error`, `message` | raised to the user |
| `closing`, `closed` | | in order |
| `dying`, `killed`, `stopped`, `continued`, `cut`, `healed` | | by the test: SIGKILL, SIGSTOP, SIGCONT, the network |
| `disturbed`, `quiet` | | by the test, of share groups: from when and until when brokers fail |
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Event = dict[str, Any]
TopicPartition = tuple[str, int]
Truth = Mapping[TopicPartition, Sequence[bytes]]
"""The values of every record, by partition; the index is the offset."""


def partitions_of(event: Event) -> list[TopicPartition]:
    """The partitions that an event is about."""
    return [(topic, partition) for topic, partition in event["partitions"]]


def offsets_of(event: Event) -> dict[TopicPartition, int]:
    """The offsets that a commit is about."""
    return {(topic, partition): offset for topic, partition, offset in event["offsets"]}


def merged(*sources: Iterable[Event]) -> list[Event]:
    """One history in the order of time. Events of one source keep their order."""
    return sorted((event for source in sources for event in source), key=lambda event: int(event["t"]))


def crc(values: Iterable[bytes]) -> int:
    """A text that stands for the values of several records, in order."""
    checked = 0
    for value in values:
        checked = zlib.crc32(value + b"\0", checked)
    return checked


def of_kind(events: Iterable[Event], *kinds: str) -> Iterator[Event]:
    """The events of these kinds."""
    return (event for event in events if event["event"] in kinds)


def save(history: Iterable[Event], path: Path) -> None:
    """Write a history to a file, for reading."""
    path.write_text("".join(json.dumps(event) + "\n" for event in history))
