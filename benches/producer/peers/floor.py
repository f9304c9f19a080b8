"""The floor: batches made in advance, pushed down one pipelined connection; no client could have the broker take more.

Nothing is encoded, compressed, checksummed or looked at while the time runs: what is measured is the broker, the socket
and the five requests in flight that keep both busy.
"""

import socket
import struct
import time
from collections import deque

import crc32c
import lz4.frame

from benches import measure
from benches.producer import workload
from tests.kafka import wire

PRODUCE_KEY, PRODUCE_VERSION = 0, 7
CLIENT_ID = b"benches.floor"
TIMEOUT_MS = 30_000
CODECS = {"none": 0, "lz4": 3}
IN_FLIGHT = 5
BATCH_BYTES = 262_144
SOCKET_SECONDS = 60.0


def send(job: measure.Job) -> None:
    """Push frames, at most so many unanswered."""
    pool = workload.pool()
    host, port = job.bootstrap.split(",")[0].rsplit(":", 1)
    node = wire.metadata(host, int(port))
    leaders = {partition.leader for partition in node.topics[job.topic].values()}
    if leaders != set(node.brokers):
        raise RuntimeError("the floor is of one broker that leads everything")
    frames = _frames(job, pool)
    with socket.create_connection((host, int(port)), timeout=SOCKET_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        phase = measure.Phase()
        unanswered = 0
        at = 0
        while phase.records < job.records:
            frame, records = frames[at]
            at = (at + 1) % len(frames)
            if unanswered == job.setting("in_flight", IN_FLIGHT):
                _answer(connection)
                unanswered -= 1
            connection.sendall(frame)
            unanswered += 1
            phase.add(records)
        for _ in range(unanswered):
            _answer(connection)
        result = phase.end()
    measure.report_foreign(result, "")


def _frames(job: measure.Job, pool: workload.Pool) -> list[tuple[bytes, int]]:
    """Requests with a batch for each partition, and how many records are in each; the last pass ends with the pool."""
    codec = job.settings.get("compression.type", "none")
    wanted = job.setting("batch_bytes", BATCH_BYTES)
    batches: deque[tuple[bytes, int]] = deque()
    encoded: list[bytes] = []
    size = 0
    for index, (key, value) in enumerate(zip(pool.keys, pool.values, strict=True)):
        record = _record(len(encoded), key, value)
        encoded.append(record)
        size += len(record)
        if size >= wanted or index == len(pool.keys) - 1:
            batches.append((_batch(encoded, codec), len(encoded)))
            encoded, size = [], 0
    frames = []
    while batches:
        some = [batches.popleft() for _ in range(min(job.partitions, len(batches)))]
        frames.append((_request(job.topic, [batch for batch, _ in some]), sum(records for _, records in some)))
    return frames


def _varint(value: int) -> bytes:
    value = value << 1 if value >= 0 else (value << 1) ^ -1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _record(offset_delta: int, key: bytes, value: bytes) -> bytes:
    body = b"\0" + _varint(0) + _varint(offset_delta) + _varint(len(key)) + key + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def _batch(records: list[bytes], codec: str) -> bytes:
    payload = b"".join(records)
    if codec == "lz4":
        payload = lz4.frame.compress(payload, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
    now_ms = int(time.time() * 1000)
    checked = (
        struct.pack(">hiqqqhii", CODECS[codec], len(records) - 1, now_ms, now_ms, -1, -1, -1, len(records)) + payload
    )
    head = struct.pack(">ibI", -1, 2, crc32c.crc32c(checked))
    return struct.pack(">qi", 0, len(head) + len(checked)) + head + checked


def _request(topic: str, batches: list[bytes]) -> bytes:
    partitions = b"".join(struct.pack(">ii", index, len(batch)) + batch for index, batch in enumerate(batches))
    name = topic.encode()
    body = struct.pack(">hhih", PRODUCE_KEY, PRODUCE_VERSION, 1, len(CLIENT_ID)) + CLIENT_ID
    body += struct.pack(">hhi", -1, -1, TIMEOUT_MS)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", len(batches)) + partitions
    return struct.pack(">i", len(body)) + body


def _answer(connection: socket.socket) -> None:
    """One answer with no error in it."""
    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    frame = connection.recv(length, socket.MSG_WAITALL)
    (name_length,) = struct.unpack_from(">h", frame, 8)
    (count,) = struct.unpack_from(">i", frame, 10 + name_length)
    for index in range(count):
        partition, error = struct.unpack_from(">ih", frame, 14 + name_length + 30 * index)
        if error != 0:
            raise RuntimeError(f"partition {partition}: error code {error}")


if __name__ == "__main__":
    measure.run(send)
