"""Transactions that no coordinator knows, as clients before KIP-890 could leave them behind."""

import base64
import socket
import struct
import time

from monedula import Admin

from tests.differential.batches import batch

HOUR_MS = 3_600_000


def hang(admin: Admin, transactional_id: str, topic: str, *, age_ms: int = HOUR_MS) -> tuple[int, int]:
    """Leave one in partition 0, with a record of this age; returns its producer id and epoch.

    The broker has to have `transaction.partition.verification.enable=false`: the partition is not added to the
    producer's transaction.
    """
    (fenced,) = admin.fence_producers(transactional_id).values()
    written = int(time.time() * 1000) - age_ms
    records = batch(
        ("k", "hanging"),
        timestamps=[written],
        producer_id=fenced.producer_id,
        producer_epoch=fenced.producer_epoch,
        sequence=0,
        transactional=True,
    )
    request = _produce(transactional_id.encode(), topic.encode(), base64.b64decode(records))
    leader = admin.describe_topics(topic)[topic].partitions[0].leader
    node = next(node for node in admin.describe_cluster().nodes if node.id == leader)
    with socket.create_connection((node.host, node.port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            # Correlation id, one topic with its name, one partition with its index: then comes the error code.
            (error,) = struct.unpack_from(">h", answer.read(size), 4 + 4 + 2 + len(topic) + 4 + 4)
    assert error == 0, f"Produce: error {error}"
    return fenced.producer_id, fenced.producer_epoch


def _produce(transactional_id: bytes, topic: bytes, records: bytes) -> bytes:
    """Produce in version 3, with acks=all."""

    def text(value: bytes) -> bytes:
        return struct.pack(">h", len(value)) + value

    header = struct.pack(">hhi", 0, 3, 1) + text(b"test")
    partition = struct.pack(">iii", 1, 0, len(records)) + records
    return header + text(transactional_id) + struct.pack(">hii", -1, 10_000, 1) + text(topic) + partition
