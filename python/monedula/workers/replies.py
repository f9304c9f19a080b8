"""`Reply`, and what a handler returns as the records that a run writes."""

from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monedula._arguments import topic_names
from monedula._monedula import Record
from monedula.errors import ArgumentError
from monedula.producer._send_queue import SendArguments

Headers = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]


@dataclass(frozen=True, slots=True)
class Reply:
    """A record that a handler of `run(..., reply_topic=...)` returns, where it is to have more than a value.

    Attributes:
        value: bytes, a str, `None` for a tombstone, or what the producer's `value=` encodes.
        key: likewise. A reply without `Reply` has the key of the handled record.
        topic: another topic than `reply_topic`.
        partition: the partition; by default the partitioner chooses it.
        headers: pairs of names and values, or a dict.
        timestamp: milliseconds since 1970, or an aware datetime; by default the time of writing.

    Raises:
        ArgumentError: if `topic` is no name of a topic.
    """

    value: Any
    key: Any = None
    topic: str | None = None
    partition: int | None = None
    headers: Headers | None = None
    timestamp: int | datetime | None = None

    def __post_init__(self) -> None:
        if self.topic is not None:
            instead = "topic= of a Reply takes the name of one; without it, the topic is reply_topic= of run()"
            topic_names([self.topic], instead, instead)

    def _arguments(self, topic: str) -> SendArguments:
        return SendArguments(
            topic if self.topic is None else self.topic,
            self.value,
            self.key,
            self.partition,
            self.headers,
            self.timestamp,
        )


def refusal(returned: object) -> ArgumentError | None:
    """Return an error if a handler returned its own body, which did not run: such a record is not handled."""
    if returned is None or not isinstance(returned, (Coroutine, Generator, AsyncGenerator)):
        return None
    shown = repr(returned)
    if isinstance(returned, (Coroutine, Generator)):
        returned.close()  # else Python warns of a coroutine that was never awaited
    hint = "return values, several in a list"
    if isinstance(returned, Coroutine):
        hint = (
            "await it in the handler, a coroutine function, which the client for asyncio takes; or call plain functions"
        )
    return ArgumentError(f"it returned {shown}, which run() does not run", argument="handler", hint=hint)


def replies_of(returned: object, topic: str, record: Record | None) -> list[SendArguments]:
    """Return the replies in what a handler has returned: none, one, or a list of them.

    Args:
        returned: the handler's result.
        topic: where replies go.
        record: the handled record, whose key a reply has by default; `None` if the handler took several.

    Raises:
        ArgumentError: if the record's key was decoded, and so cannot be that of a reply.
    """
    if returned is None:
        return []
    several = returned if isinstance(returned, list) else [returned]
    return [each._arguments(topic) if isinstance(each, Reply) else _keyed(each, topic, record) for each in several]


def _keyed(value: object, topic: str, record: Record | None) -> SendArguments:
    key = None if record is None else record.key
    if not isinstance(key, bytes | None):
        raise ArgumentError("the record's key is decoded, so a reply does not have it by itself: return a Reply")
    return SendArguments(topic, value, key, None, None, None)
