"""A relay before one embedded broker: it sees every request, and can keep the answers to some back.

Clients that come by it stay with it: where the broker names its own port, they read the relay's.
"""

import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

HOST = "127.0.0.1"


class Request(NamedTuple):
    """A request as it was sent, with a header of version 1 or later.

    Attributes:
        api_key: Kafka's number of the API.
        version: of it.
        correlation_id: of the client.
        body: all that follows the client's id; it begins with the header's tags where the version has these.
    """

    api_key: int
    version: int
    correlation_id: int
    body: bytes


class Relay:
    """See the module.

    Args:
        bootstrap: the broker, by one `host:port`.
        holds: API keys whose answers wait for `release`.
        change: makes of each answer the one that the client gets, of the same length.
    """

    def __init__(
        self,
        bootstrap: str,
        holds: frozenset[int] = frozenset(),
        change: Callable[[bytes], bytes] = lambda answer: answer,
    ) -> None:
        self._change = change
        self._broker_port = int(bootstrap.rpartition(":")[2])
        self._listener = socket.create_server((HOST, 0))
        self._port: int = self._listener.getsockname()[1]
        self._holds = holds
        self._changed = threading.Condition()
        self._held: list[Callable[[], None]] = []
        self._outstanding = 0
        self._requests: list[Request] = []
        self._answered_bytes: Counter[int] = Counter()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    @property
    def bootstrap_servers(self) -> str:
        """Where it listens."""
        return f"{HOST}:{self._port}"

    def apis(self) -> list[int]:
        """The API keys of all requests, in the order in which they came."""
        with self._changed:
            return [request.api_key for request in self._requests]

    def requests(self, api_key: int) -> list[Request]:
        """Those of an API, in the order in which they came."""
        with self._changed:
            return [request for request in self._requests if request.api_key == api_key]

    def answered_bytes(self, api_key: int) -> int:
        """How many bytes the answers to an API's requests had so far."""
        with self._changed:
            return self._answered_bytes[api_key]

    def wait_requests(self, api_key: int, count: int = 1, timeout_seconds: float = 60.0) -> None:
        """Wait until so many requests of an API came."""
        self.wait(lambda: len(self.requests(api_key)) >= count, f"{count} requests of API {api_key}", timeout_seconds)

    def wait(self, condition: Callable[[], bool], what: str, timeout_seconds: float = 60.0) -> None:
        """Wait until something is so, which requests or answers bring about.

        Raises:
            AssertionError: it is not, in time.
        """
        with self._changed:
            assert self._changed.wait_for(condition, timeout_seconds), f"waited {timeout_seconds} s for {what}"

    @property
    def outstanding(self) -> int:
        """Requests whose answers are to be held, that have none yet."""
        return self._outstanding

    def wait_held(self, count: int) -> None:
        """Wait until so many answers are kept back."""
        self.wait(lambda: len(self._held) >= count, f"{count} answers")

    def release(self) -> int:
        """Let all answers go that are kept back; returns how many."""
        with self._changed:
            held, self._held = self._held, []
            self._outstanding -= len(held)
        for send in held:
            send()
        return len(held)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection((HOST, self._broker_port))
            self._sockets += [client, broker]
            asked: dict[int, int] = {}
            for work in (self._requests_of, self._answers_of):
                threading.Thread(target=work, args=(client, broker, asked), daemon=True).start()

    def _requests_of(self, client: socket.socket, broker: socket.socket, asked: dict[int, int]) -> None:
        for frame in _frames(client):
            api_key, version, correlation_id, length = struct.unpack_from(">hhih", frame)
            request = Request(api_key, version, correlation_id, frame[10 + max(length, 0) :])
            with self._changed:
                asked[correlation_id] = api_key
                self._requests.append(request)
                self._outstanding += api_key in self._holds
                self._changed.notify_all()
            _send(broker, frame)
        _close(broker)

    def _answers_of(self, client: socket.socket, broker: socket.socket, asked: dict[int, int]) -> None:
        theirs, ours = (HOST.encode() + struct.pack(">i", port) for port in (self._broker_port, self._port))
        for frame in _frames(broker):
            answer = self._change(frame.replace(theirs, ours))
            with self._changed:
                api_key = asked[struct.unpack_from(">i", frame)[0]]
                self._answered_bytes[api_key] += len(frame)
                if api_key in self._holds:
                    self._held.append(partial(_send, client, answer))
                    self._changed.notify_all()
                    continue
            _send(client, answer)
        _close(client)


def _frames(end: socket.socket) -> Iterator[bytes]:
    """The frames that come, without their lengths, until the connection ends."""
    while (prefix := _exactly(end, 4)) is not None:
        frame = _exactly(end, struct.unpack(">i", prefix)[0])
        if frame is None:
            return
        yield frame


def _exactly(end: socket.socket, length: int) -> bytes | None:
    found = b""
    while len(found) < length:
        try:
            more = end.recv(length - len(found))
        except OSError:
            return None
        if not more:
            return None
        found += more
    return found


def _send(end: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):
        end.sendall(struct.pack(">i", len(frame)) + frame)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
