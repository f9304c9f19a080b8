"""Dead letters: records that are given up, with their bytes, and headers that say where they are from and why.

The names of the headers are those of share groups' dead letters (KIP-1191), which Kafka's broker writes.
"""

from typing import Any, NamedTuple

from monedula._monedula import Record, SendFuture
from monedula._process.signals import is_of_signal_handler
from monedula.config import RawSettings, config_keys
from monedula.errors import ArgumentError
from monedula.producer._send_queue import SendArguments
from monedula.producer.aio import AsyncProducer
from monedula.producer.sync import Producer
from monedula.workers.lanes import Item

LetterProducer = Producer | AsyncProducer
"""What writes dead letters: that of the kind of its consumer."""

PREFIX = "__dlq.errors."
"""How the names of the headers begin."""

NEEDED = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""The columns that a dead letter is made of."""

_LONGEST_MESSAGE = 4096


class DeadLetters(NamedTuple):
    """Where dead letters are written.

    Attributes:
        producer: what writes them.
        topic: their topic.
        group: the group whose handler gave them up.
        is_own: whether the run made the producer, and closes it.
    """

    producer: LetterProducer
    topic: str
    group: str
    is_own: bool

    def send(self, item: Item, error: BaseException, attempts: int) -> SendFuture:
        """Write a record. It counts as finished when the future has succeeded."""
        letter = self._letter(item.record, error, attempts)
        return self.producer.send(
            letter.topic, letter.value, key=letter.key, headers=letter.headers, timestamp=letter.timestamp
        )

    def send_if_room(self, record: Record, error: BaseException, attempts: int) -> SendFuture:
        """As `send`, of a record that no handler has, and without waiting for room.

        Raises:
            BufferFullError: at once, if `buffer.memory` is full.
        """
        return self.producer._send(0.0, 0.0, None, None, *self._letter(record, error, attempts))

    def _letter(self, record: Record, error: BaseException, attempts: int) -> SendArguments:
        headers = [*(record.headers or []), *self.headers(record, error, attempts)]
        return SendArguments(self.topic, record.value, record.key, None, headers, _timestamp(record))

    def forget_failures(self) -> None:
        """Have the producer tell of no dead letter that failed: the run has raised or logged what became of it."""
        self.producer._unseen_failures()

    def headers(self, record: Record, error: BaseException, attempts: int) -> list[tuple[str, bytes]]:
        """The headers that say where a record is from and why it was given up."""
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
    """Refuse a consumer that does not read all that a dead letter is made of.

    Raises:
        ArgumentError: if a column is missing.
    """
    missing = [name for name in NEEDED if name not in names]
    if missing:
        advice = "make the consumer with headers=True, and with these columns if columns=[...] is given"
        raise ArgumentError(f"dead letters are whole records, and {', '.join(missing)} is not read: {advice}")


_OF_LETTERS = ("max.request.size", "compression.type", "delivery.timeout.ms", "buffer.memory")
"""Settings of producers that apply to dead letters if a consumer has them."""


def producer_settings(settings: RawSettings) -> RawSettings:
    """Of a consumer's settings those that its producer of dead letters has too: how to connect, and `_OF_LETTERS`."""
    shared = {key.name: key for key in config_keys() if key.role == "all" or key.name in _OF_LETTERS}
    names = {name for key in shared.values() for name in (key.name, *key.aliases)}
    kept = RawSettings(pair for pair in settings if pair[0].strip().replace("_", ".") in names)
    kept.token_source = settings.token_source
    return kept


def _text(error: BaseException) -> str:
    # An error that cannot be printed must not keep its record from being put aside.
    try:
        return str(error)
    except Exception as raised:
        if is_of_signal_handler(raised):
            raise
        return f"its text cannot be had: {type(raised).__qualname__}"


def _timestamp(record: Record) -> Any:
    # A timestamp before 1970, or none at all, is not sent: the dead letter gets the time of now.
    return record.timestamp if record.timestamp is not None and record.timestamp >= 0 else None
