"""A raw pass over a topic: fetch, step over the batches, drop the bytes.

Warms the page cache and the broker's own code before anything is timed, and counts the records without any client,
so that no peer's count is taken on trust.
"""

import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

FETCH_KEY, FETCH_VERSION = 1, 4
CLIENT_ID = b"benches.raw"
FETCH_MAX_BYTES = 32 << 20
PARTITION_MAX_BYTES = 8 << 20
# In a record batch: baseOffset, batchLength ... lastOffsetDelta at 23, recordCount at 57.
BATCH_OVERHEAD_BYTES = 12
LAST_OFFSET_DELTA_AT, RECORD_COUNT_AT = 23, 57
BATCH_HEADER_BYTES = 61


@dataclass
class Pass:
    """What one raw pass saw."""

    records: int = 0
    batches: int = 0
    stored_bytes: int = 0


Each = Callable[[int, memoryview], None]
"""Is shown every batch, and the partition that it is in."""


def drain(
    bootstrap: str,
    topic: str,
    end_offsets: dict[int, int],
    each: Each = lambda *_: None,
    *,
    context: ssl.SSLContext | None = None,
) -> Pass:
    """Read every partition from offset 0 to its end; over TLS with a `context`.

    Raises:
        RuntimeError: the broker answered with an error code, or stopped making progress.
    """
    seen = Pass()
    positions = dict.fromkeys(end_offsets, 0)
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    with _connect(host, int(port), context) as connection:
        while left := {p: at for p, at in positions.items() if at < end_offsets[p]}:
            connection.sendall(_request(topic, left))
            before = seen.records
            for partition, at in _response(_read_frame(connection), seen, each).items():
                positions[partition] = max(positions[partition], at)
            if seen.records == before:
                raise RuntimeError(f"no progress on {topic}: at {positions}, ends are {end_offsets}")
    return seen


def _connect(host: str, port: int, context: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=30)
    return connection if context is None else context.wrap_socket(connection, server_hostname=host)


def _request(topic: str, positions: dict[int, int]) -> bytes:
    partitions = b"".join(struct.pack(">iqi", p, at, PARTITION_MAX_BYTES) for p, at in positions.items())
    name = topic.encode()
    body = struct.pack(">hhih", FETCH_KEY, FETCH_VERSION, 1, len(CLIENT_ID)) + CLIENT_ID
    body += struct.pack(">iiiib", -1, 500, 1, FETCH_MAX_BYTES, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", len(positions)) + partitions
    return struct.pack(">i", len(body)) + body


def _read_frame(connection: socket.socket) -> memoryview:
    (length,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, length)


def _read(connection: socket.socket, length: int) -> memoryview:
    frame = memoryview(bytearray(length))
    filled = 0
    while filled < length:
        count = connection.recv_into(frame[filled:])
        if count == 0:
            raise ConnectionError("the broker closed the connection in the middle of a response")
        filled += count
    return frame


def _response(frame: memoryview, seen: Pass, each: Each) -> dict[int, int]:
    (name_length,) = struct.unpack_from(">h", frame, 12)  # after correlation id, throttle, topic count
    at = 14 + name_length
    (count,) = struct.unpack_from(">i", frame, at)
    at += 4
    positions = {}
    for _ in range(count):
        partition, error, _, _, aborted = struct.unpack_from(">ihqqi", frame, at)
        if error != 0:
            raise RuntimeError(f"fetch of partition {partition} failed with error code {error}")
        at += 26 + 16 * max(0, aborted)
        (size,) = struct.unpack_from(">i", frame, at)
        at += 4
        positions[partition] = _step(frame[at : at + size], seen, partial(each, partition))
        at += size
    return positions


def _step(records: memoryview, seen: Pass, each: Callable[[memoryview], None]) -> int:
    at, position = 0, 0
    while at + BATCH_HEADER_BYTES <= len(records):
        base_offset, length = struct.unpack_from(">qi", records, at)
        if at + BATCH_OVERHEAD_BYTES + length > len(records):
            break  # a Fetch may end in the middle of a batch
        (last_offset_delta,) = struct.unpack_from(">i", records, at + LAST_OFFSET_DELTA_AT)
        (record_count,) = struct.unpack_from(">i", records, at + RECORD_COUNT_AT)
        seen.records += record_count
        seen.batches += 1
        seen.stored_bytes += BATCH_OVERHEAD_BYTES + length
        each(records[at : at + BATCH_OVERHEAD_BYTES + length])
        position = base_offset + last_offset_delta + 1
        at += BATCH_OVERHEAD_BYTES + length
    return position
