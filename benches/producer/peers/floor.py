"""The floor: batches made in advance, pushed down one pipelined connection; no client could have the broker take more.

Nothing is encoded, compressed, checksummed or looked at while the time runs: what is measured is the broker, the socket
and the five requests in flight that keep both busy. With the setting `compresses` the batches are compressed and
checksummed meanwhile, on as many threads as monedula's producer packs on, and only their records were encoded before.
"""

import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle

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
THREADS = 2

_Frame = tuple[bytes, int]
"""A request, and how many records are in it."""


def send(job: measure.Job) -> None:
    """Push frames, at most so many unanswered."""
    pool = workload.pool()
    host, port = job.bootstrap.split(",")[0].rsplit(":", 1)
    node = wire.metadata(host, int(port))
    leaders = {partition.leader for partition in node.topics[job.topic].values()}
    if leaders != set(node.brokers):
        raise RuntimeError("the floor is of one broker that leads everything")
    work = [partial(_request, job, batches) for batches in _batches(job, pool)]
    frames = _made_ahead(work) if job.setting("compresses", 0) else cycle([make() for make in work])
    with socket.create_connection((host, int(port)), timeout=SOCKET_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        phase = measure.Phase()
        unanswered = 0
        while phase.records < job.records:
            frame, records = next(frames)
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


def _made_ahead(work: Sequence[Callable[[], _Frame]]) -> Iterator[_Frame]:
    """The requests over and over, each made anew."""
    with ThreadPoolExecutor(THREADS) as threads:
        ahead: deque[Future[_Frame]] = deque()
        for make in cycle(work):
            ahead.append(threads.submit(make))
            if len(ahead) == 2 * THREADS:
                yield ahead.popleft().result()


@dataclass(frozen=True)
class _Batch:
    """The encoded records of one partition's batch."""

    count: int
    records: bytes

    def pieces(self, codec: str) -> list[bytes]:
        """The batch as it is sent. Pieces, because each copy costs more than the checksum."""
        payload = self.records
        if codec == "lz4":
            payload = lz4.frame.compress(payload, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
        now_ms = int(time.time() * 1000)
        checked = struct.pack(">hiqqqhii", CODECS[codec], self.count - 1, now_ms, now_ms, -1, -1, -1, self.count)
        head = struct.pack(">ibI", -1, 2, crc32c.crc32c(payload, crc32c.crc32c(checked))) + checked
        return [struct.pack(">qi", 0, len(head) + len(payload)) + head, payload]


def _batches(job: measure.Job, pool: workload.Pool) -> Iterator[list[_Batch]]:
    """For each request a batch for each partition; the last ends with the pool."""
    wanted = job.setting("batch_bytes", BATCH_BYTES)
    batches: list[_Batch] = []
    encoded: list[bytes] = []
    size = 0
    for index, (key, value) in enumerate(zip(pool.keys, pool.values, strict=True)):
        encoded.append(_record(len(encoded), key, value))
        size += len(encoded[-1])
        is_last = index == len(pool.keys) - 1
        if size >= wanted or is_last:
            batches.append(_Batch(len(encoded), b"".join(encoded)))
            encoded, size = [], 0
        if len(batches) == job.partitions or (is_last and batches):
            yield batches
            batches = []


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


def _request(job: measure.Job, batches: list[_Batch]) -> _Frame:
    codec = job.settings.get("compression.type", "none")
    name = job.topic.encode()
    body = [
        struct.pack(">hhih", PRODUCE_KEY, PRODUCE_VERSION, 1, len(CLIENT_ID)) + CLIENT_ID,
        struct.pack(">hhi", -1, -1, TIMEOUT_MS),
        struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", len(batches)),
    ]
    for index, batch in enumerate(batches):
        pieces = batch.pieces(codec)
        body += [struct.pack(">ii", index, sum(map(len, pieces))), *pieces]
    return b"".join([struct.pack(">i", sum(map(len, body))), *body]), sum(batch.count for batch in batches)


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
