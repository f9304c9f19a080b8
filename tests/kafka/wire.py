"""One Metadata request over a plain socket: how the fixture observes that a node is ready.

Independent of every Kafka client on purpose: the fixture must not depend on the client it is there to test, nor on
a second JVM to see the first one's state.
"""

import socket
import struct
from dataclasses import dataclass

METADATA_KEY = 3
METADATA_VERSION = 4
CLIENT_ID = b"tests.kafka"


@dataclass(frozen=True)
class PartitionMetadata:
    """One partition as a broker sees it."""

    error_code: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True)
class Metadata:
    """One broker's view of the cluster. A fenced broker is not in `brokers`."""

    brokers: dict[int, tuple[str, int]]
    topics: dict[str, dict[int, PartitionMetadata]]


def metadata(host: str, port: int, timeout_seconds: float = 2.0) -> Metadata:
    """Ask one broker for all brokers, topics and partitions.

    Raises:
        OSError: no connection, no answer in time, or the connection ended early.
    """
    # Null topics: all of them. False: never create one.
    body = (
        struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, 1, len(CLIENT_ID))
        + CLIENT_ID
        + struct.pack(">i?", -1, False)
    )
    with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        (length,) = struct.unpack(">i", _read_exactly(connection, 4))
        return _decode(_Reader(_read_exactly(connection, length)))


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ConnectionError(f"connection closed after {len(parts)} of {count} bytes")
        parts += part
    return bytes(parts)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def int8(self) -> int:
        return self._take(">b")

    def int16(self) -> int:
        return self._take(">h")

    def int32(self) -> int:
        return self._take(">i")

    def string(self) -> str:
        length = max(0, self.int16())
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def int32s(self) -> tuple[int, ...]:
        return tuple(self.int32() for _ in range(self.int32()))


def _decode(reader: _Reader) -> Metadata:
    reader.int32()  # correlation id
    reader.int32()  # throttle_time_ms
    brokers = {}
    for _ in range(reader.int32()):
        node_id, host, port = reader.int32(), reader.string(), reader.int32()
        reader.string()  # rack
        brokers[node_id] = (host, port)
    reader.string()  # cluster_id
    reader.int32()  # controller_id
    topics = {}
    for _ in range(reader.int32()):
        reader.int16()  # error_code
        name = reader.string()
        reader.int8()  # is_internal
        topics[name] = dict(_partition(reader) for _ in range(reader.int32()))
    return Metadata(brokers, topics)


def _partition(reader: _Reader) -> tuple[int, PartitionMetadata]:
    error_code, index, leader = reader.int16(), reader.int32(), reader.int32()
    return index, PartitionMetadata(error_code, leader, reader.int32s(), reader.int32s())
