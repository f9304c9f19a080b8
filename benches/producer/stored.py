"""What a topic holds: counted without any client, and read by confluent-kafka where its content is asked for."""

from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from benches import raw
from benches.producer.workload import Sums

CHUNK = 10_000
READ_SECONDS = 60.0


@dataclass(frozen=True)
class Stored:
    """Of one topic; `sums` only where they were asked for."""

    records: int
    batches: int
    stored_bytes: int
    sums: Sums | None


def stored(bootstrap: str, topic: str, ends: dict[int, int], *, verify: bool) -> Stored:
    """Read every partition from the beginning to its end."""
    seen = raw.drain(bootstrap, topic, ends)
    sums = _sums(bootstrap, topic, ends) if verify else None
    return Stored(seen.records, seen.batches, seen.stored_bytes, sums)


def _sums(bootstrap: str, topic: str, ends: dict[int, int]) -> Sums:
    sums = Sums()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benches", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        while sums.records < sum(ends.values()):
            messages = consumer.consume(CHUNK, READ_SECONDS)
            if not messages:
                raise RuntimeError(f"{topic}: only {sums.records:,} of {sum(ends.values()):,} records can be read")
            pairs = [(_bytes(message.key()), _bytes(message.value())) for message in messages]
            sums.add([key for key, _ in pairs], [value for _, value in pairs])
    finally:
        consumer.close()
    return sums


def _bytes(data: bytes | str | None) -> bytes:
    # A null is nothing that any peer was to send: it makes the sums differ.
    return b"\0null" if data is None else data if isinstance(data, bytes) else data.encode()
