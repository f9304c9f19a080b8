"""The batches of a topic as they lie in the log, fetched over a plain socket: no client's view of them."""

import struct
from typing import NamedTuple

from benches import raw
from tests.kafka import wire

HEADER = struct.Struct(">qiibIhiqqqhii")


class Batch(NamedTuple):
    """A record batch of format 2: the fields of its header in their order, then all that follows."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int
    payload: bytes

    @property
    def codec(self) -> int:
        """Kafka's number of it."""
        return self.attributes & 7


def batches_of(bootstrap: str, topic: str, partition: int = 0) -> list[Batch]:
    """All that a partition holds, asked of its leader."""
    found: list[Batch] = []

    def take(_: int, batch: memoryview) -> None:
        found.append(Batch._make((*HEADER.unpack_from(batch), bytes(batch[HEADER.size :]))))

    host, _, port = bootstrap.split(",")[0].rpartition(":")
    seen = wire.metadata(host, int(port))
    host, leader_port = seen.brokers[seen.topics[topic][partition].leader]
    address = f"{host}:{leader_port}"
    raw.drain(address, topic, {partition: _end(address, topic, partition)}, take)
    return found


def _end(address: str, topic: str, partition: int) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "ends", "log_level": 2})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), 30.0)[1])
    finally:
        consumer.close()
