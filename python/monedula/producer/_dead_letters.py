"""Dead letters: records that are given up, with their bytes, and headers for their origin and error.

The headers have the names of share groups' dead letters (KIP-1191), which Kafka's broker writes.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from monedula._monedula import Record, SendFuture
from monedula._process.signals import is_of_signal_handler
from monedula.config import RawSettings, config_keys
from monedula.errors import ArgumentError
from monedula.producer._send_queue import SendArguments

if TYPE_CHECKING:
    from monedula.producer.aio import AsyncProducer
    from monedula.producer.sync import Producer

LetterProducer: TypeAlias = "Producer | AsyncProducer"
"""Producer of dead letters, of the same kind (synchronous or not) as the consumer."""

PREFIX = "__dlq.errors."
"""Prefix of the headers' names."""

NEEDED = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""Columns that a dead letter consists of."""

_LONGEST_MESSAGE = 4096


class DeadLetters(NamedTuple):
    """Destination of dead letters.

    Attributes:
        producer: the producer that writes them.
        topic: their topic.
        group: the group whose handler gave them up.
    """

    producer: LetterProducer
    topic: str
    group: str

    def send_if_room(self, record: Record, error: BaseException, attempts: int) -> SendFuture:
        """Write a record that was not handed to a handler, without waiting for room."""
        return self.producer._send(0.0, 0.0, None, None, *self.letter(record, error, attempts))

    def letter(self, record: Record, error: BaseException, attempts: int) -> SendArguments:
        """Return the dead letter of a record."""
        headers = [*(record.headers or []), *self.headers(record, error, attempts)]
        return SendArguments(self.topic, record.value, record.key, None, headers, _timestamp(record))

    def headers(self, record: Record, error: BaseException, attempts: int) -> list[tuple[str, bytes]]:
        """Return the headers for a record's origin and error."""
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        facts = {
            "topic": str(record.topic),
            "partition": str(record.partition),
            "offset": str(record.offset),
            "group": self.group,
            "delivery.count": str(attempts),
            "message": f"{name}: {_text(error)}"[:_LONGEST_MESSAGE],
            "exception": name,
        }
        return [(PREFIX + key, value.encode(errors="backslashreplace")) for key, value in facts.items()]


def check_columns(names: list[str]) -> None:
    """Refuse a consumer without a column that dead letters need."""
    missing = [name for name in NEEDED if name not in names]
    if missing:
        advice = "make the consumer with headers=True, and with these columns if columns=[...] is given"
        raise ArgumentError(f"dead letters are whole records, and {', '.join(missing)} is not read: {advice}")


_OF_LETTERS = ("max.request.size", "compression.type", "delivery.timeout.ms", "buffer.memory")
"""Settings of producers that apply to dead letters if a consumer has them."""


def producer_settings(settings: RawSettings) -> RawSettings:
    """Select the consumer's settings that its dead-letter producer shares: connections, and `_OF_LETTERS`."""
    shared = {key.name: key for key in config_keys() if key.role == "all" or key.name in _OF_LETTERS}
    names = {name for key in shared.values() for name in (key.name, *key.aliases)}
    kept = RawSettings(pair for pair in settings if pair[0].strip().replace("_", ".") in names)
    kept.token_source = settings.token_source
    return kept


def _text(error: BaseException) -> str:
    # Errors that cannot be printed must not keep their records from being set aside.
    try:
        return str(error)
    except Exception as raised:
        if is_of_signal_handler(raised):
            raise
        return f"its text cannot be had: {type(raised).__qualname__}"


def _timestamp(record: Record) -> Any:
    # Timestamps before 1970, or none, cannot be sent: the dead letter gets the current time.
    return record.timestamp if record.timestamp is not None and record.timestamp >= 0 else None
