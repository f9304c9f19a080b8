"""Idle members of classic groups, over plain sockets: what one costs the server in memory.

Members join with JoinGroup 3 and SyncGroup 1: versions that need no second join (KIP-394) and have no flexible fields.
"""

import socket
import struct
import time

from benches.broker import servers

FIND_COORDINATOR, JOIN_GROUP, SYNC_GROUP = (10, 1), (11, 3), (14, 1)
READY_SECONDS, POLL_SECONDS = 60.0, 0.2
SESSION_TIMEOUT_MS = 600_000
# What Java's range assignor sends for one topic: version, topics, no user data.
METADATA = struct.pack(">hih", 0, 1, 6) + b"events" + struct.pack(">i", -1)
ASSIGNMENT = struct.pack(">hih", 0, 1, 6) + b"events" + struct.pack(">iii", 1, 0, -1)


def bytes_per_member(server: servers.Server, members: int) -> float:
    """Fill as many groups with a member each: the dearest way to have members, because each pays for its group too.

    Raises:
        SystemExit: the server refused a member.
    """
    with _connect(server.address) as connection:
        _wait_for_coordinators(connection)
        for number in range(members // 10):
            _fill(connection, f"warm-{number:05}")  # what the server allocates once is not a member's
        before = servers.resident_bytes(server.pid)
        for number in range(members):
            _fill(connection, f"group-{number:05}")
        return (servers.resident_bytes(server.pid) - before) / members


def _wait_for_coordinators(connection: socket.socket) -> None:
    """Kafka makes the topic of the groups when it is first asked, and loads its partitions one by one."""
    deadline = time.monotonic() + READY_SECONDS
    for number in range(100):
        group = f"ready-{number}"
        while True:
            _send(connection, FIND_COORDINATOR, _bytes16(group.encode()) + b"\0")
            (code,) = struct.unpack_from(">h", _receive(connection), 8)
            if code == 0:  # a member that had joined before would hold up the next one
                _send(connection, JOIN_GROUP, _join(group, b""))
                (code,) = struct.unpack_from(">h", _receive(connection), 8)
            if code == 0:
                break
            if time.monotonic() > deadline:
                raise SystemExit(f"no coordinator: error code {code}")
            time.sleep(POLL_SECONDS)


def _fill(connection: socket.socket, group: str) -> None:
    _send(connection, JOIN_GROUP, _join(group, b""))
    generation, member = _joined(_receive(connection))
    _send(connection, SYNC_GROUP, _sync(group, generation, member))
    (code,) = struct.unpack_from(">h", _receive(connection), 8)
    if code:
        raise SystemExit(f"SyncGroup of {group} was refused with error code {code}")


def _join(group: str, member: bytes) -> bytes:
    protocols = struct.pack(">i", 1) + _bytes16(b"range") + struct.pack(">i", len(METADATA)) + METADATA
    timeouts = struct.pack(">ii", SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS)
    return _bytes16(group.encode()) + timeouts + _bytes16(member) + _bytes16(b"consumer") + protocols


def _sync(group: str, generation: int, member: bytes) -> bytes:
    head = _bytes16(group.encode()) + struct.pack(">i", generation) + _bytes16(member)
    return head + struct.pack(">i", 1) + _bytes16(member) + struct.pack(">i", len(ASSIGNMENT)) + ASSIGNMENT


def _joined(frame: bytes) -> tuple[int, bytes]:
    """Generation and member id."""
    code, generation = struct.unpack_from(">hi", frame, 8)
    if code:
        raise SystemExit(f"JoinGroup was refused with error code {code}")
    at = 14
    for _ in range(2):  # protocol, leader
        at += 2 + struct.unpack_from(">h", frame, at)[0]
    (length,) = struct.unpack_from(">h", frame, at)
    return generation, frame[at + 2 : at + 2 + length]


def _bytes16(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def _connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _send(connection: socket.socket, api: tuple[int, int], body: bytes) -> None:
    frame = struct.pack(">hhi", *api, 1) + _bytes16(b"idle") + body
    connection.sendall(struct.pack(">i", len(frame)) + frame)


def _receive(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise SystemExit("the server closed the connection")
        parts += part
    return bytes(parts)
