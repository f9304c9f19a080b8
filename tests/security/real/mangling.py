"""A broker in the middle, which changes one of the messages that the real one sends during a login."""

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.kafka.cluster import HOST
from tests.kafka.secured import SecuredKafka
from tests.kafka.secured.listeners import Listener

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA = 18, 17, 36, 3
UNSUPPORTED_VERSION = 35
# No flexible versions of the SASL requests, so that the fields stand at fixed places.
OFFERED = ((API_VERSIONS, 0, 0), (SASL_HANDSHAKE, 1, 1), (SASL_AUTHENTICATE, 0, 1), (METADATA, 0, 12))
TIMEOUT_SECONDS = 30.0


class Mangling:
    """Listens on `address` until it is closed.

    Args:
        listener: without TLS.
        secured: the real broker.
        message: which of the broker's messages is changed, counted from 1.
        change: what becomes of it.
    """

    def __init__(
        self, listener: Listener, secured: SecuredKafka, message: int, change: Callable[[bytes], bytes]
    ) -> None:
        self.mangled = 0
        self._to = (HOST, int(secured.bootstrap_of(listener.name).rpartition(":")[2]))
        self._message = message
        self._change = change
        self._server = socket.create_server((HOST, 0))
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        # The name is that of the broker's principal.
        self.address = f"localhost:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._accepting.join(TIMEOUT_SECONDS)
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(TIMEOUT_SECONDS)
        try:
            with client, socket.create_connection(self._to, TIMEOUT_SECONDS) as broker:
                seen = 0
                while (request := _frame(client)) is not None:
                    api, version = struct.unpack_from(">hh", request)
                    if api == API_VERSIONS:
                        _send(client, request[4:8] + _versions(version))
                        continue
                    _send(broker, request)
                    answer = _frame(broker)
                    if answer is None:
                        return
                    if api == SASL_AUTHENTICATE:
                        seen += 1
                        if seen == self._message:
                            answer = self._changed(answer)
                    _send(client, answer)
        except OSError:
            return

    def _changed(self, answer: bytes) -> bytes:
        """A SaslAuthenticate response: correlation id, error code and no message; token; what is left."""
        token_length = struct.unpack_from(">i", answer, 8)[0]
        token = answer[12 : 12 + token_length]
        changed = self._change(token)
        self.mangled += 1
        return answer[:8] + struct.pack(">i", len(changed)) + changed + answer[12 + token_length :]


def _versions(version: int) -> bytes:
    error = UNSUPPORTED_VERSION if version else 0
    rows = b"".join(struct.pack(">hhh", *row) for row in OFFERED)
    return struct.pack(">hi", error, len(OFFERED)) + rows


def _frame(stream: socket.socket) -> bytes | None:
    header = _exactly(stream, 4)
    return None if header is None else _exactly(stream, struct.unpack(">i", header)[0])


def _exactly(stream: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = stream.recv(count - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _send(stream: socket.socket, frame: bytes) -> None:
    stream.sendall(struct.pack(">i", len(frame)) + frame)
