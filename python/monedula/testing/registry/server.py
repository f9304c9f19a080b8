"""The registry over HTTP: a thread accepts connections, and each connection has a thread of its own."""

import contextlib
import json
import logging
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from monedula.testing.registry import kept
from monedula.testing.registry.access import Access
from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.faults import Faults, SetFault
from monedula.testing.registry.routes import answer
from monedula.testing.registry.store import Store
from monedula.testing.registry.subjects import RawText

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"

MAX_BODY_BYTES = 16 << 20

_KEPT_REQUESTS = 10_000
_PIECE_BYTES = 1 << 16
_LOG = logging.getLogger("monedula.broker.registry")


@dataclass(frozen=True, slots=True)
class RegistryRequest:
    """A request that the registry has got.

    Attributes:
        method: the method, such as `"GET"`.
        path: the path as it was sent, without its query.
        query: what stood behind the `?`.
        user: who asked, if the registry asks for that.
        status: the status of the answer; `None` if there was none.
    """

    method: str
    path: str
    query: str
    user: str | None
    status: int | None


class Server(ThreadingHTTPServer):
    """Listens, and knows its connections, so that it can close them."""

    daemon_threads = True
    block_on_close = False
    # Many clients may connect at once, such as the tasks of a job, before the thread accepts the first.
    request_queue_size = 1024

    def __init__(
        self,
        address: tuple[str, int],
        access: Access,
        faults: Faults,
        tls: ssl.SSLContext | None,
        file: Path | None = None,
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)
        self.file, self.lock = file, threading.Lock()
        self.store = Store() if file is None else kept.load(file)
        self.access, self.faults, self.tls = access, faults, tls
        self.requests: deque[RegistryRequest] = deque(maxlen=_KEPT_REQUESTS)
        self._connections: set[socket.socket] = set()
        self._is_stopped = False

    def answer(self, method: str, target: str, body: Any) -> Any:
        """Answer a request; its change is in the file then, if there is one."""
        with self.lock:
            found = answer(self.store, method, target, body)
            if self.file is not None and method != "GET":
                kept.save(self.store, self.file)
            return found

    def server_bind(self) -> None:
        """Bind, without the look-up of the host's name that the base does."""
        # A registry that is started again has its port, though connections of the one before linger.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        host, port = self.socket.getsockname()[:2]
        self.server_address, self.server_name, self.server_port = (host, port), host, port

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, after its handshake if there is TLS: a slow one keeps no other waiting."""
        if self.tls is not None:
            request = self.tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with self.lock:
            self._connections.add(request)
            if self._is_stopped:
                request.close()
        try:
            if self.tls is not None:
                request.do_handshake()
            super().process_request_thread(request, client_address)
        except OSError as error:
            _LOG.debug("a handshake failed: %s", error)
            request.close()
        finally:
            with self.lock:
                self._connections.discard(request)

    def handle_error(self, _request: Any, client_address: Any) -> None:
        """A connection that breaks is no error of the registry."""
        _LOG.debug("a connection from %s broke", client_address, exc_info=True)

    def serve(self) -> None:
        """Take connections until the server is stopped; it waits for nothing but them."""
        while True:
            try:
                request, address = self.socket.accept()
            except OSError:
                return
            self.process_request(request, address)

    def stop(self, serving: threading.Thread) -> None:
        """Close the port and all connections, and wait for the thread that serves."""
        # Shutting down wakes the thread that accepts; closing alone does not, and under eventlet nothing does after it.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
            serving.join(1.0)
        self.server_close()
        self.faults.stop()
        with self.lock:
            self._is_stopped = True
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        serving.join()


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    _user: str | None
    _started: float
    _is_told: bool
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, *_args: Any) -> None:
        """Nothing is written to standard error."""

    def do_GET(self) -> None:
        """See `_respond`."""
        self._respond()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = do_GET  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer bad requests and unknown methods of HTTP as JSON too, and end the connection."""
        self.close_connection = True
        status, told = (405, "HTTP 405 Method Not Allowed") if code == 501 else (int(code), message or explain or "")
        self.wfile.write(self._message(status, _told(status, told), {}))

    def _respond(self) -> None:
        self._started = time.perf_counter()
        path = self.path.partition("?")[0]
        self._user, self._is_told = None, False
        try:
            try:
                body = self._read_body()
            except ApiError as error:
                self._send(error.status, _told(error.code, error.message), {})
                return
            met = self.server.faults.met("request", self.command, path)
            if met is None or not self._takes(met):
                status, content, headers = self._answer(body)
                met = self.server.faults.met("answer", self.command, path)
                if met is None or not self._takes(met, self._message(status, content, headers)):
                    self._send(status, content, headers)
        finally:
            self._tell(None)

    def _tell(self, status: int | None) -> None:
        """Keep and log the request, once; before its answer, so that who has that finds the request."""
        if self._is_told:
            return
        self._is_told = True
        path, _, query = self.path.partition("?")
        with self.server.lock:
            self.server.requests.append(RegistryRequest(self.command, path, query, self._user, status))
        took_ms = (time.perf_counter() - self._started) * 1000
        _LOG.debug("%s %s: %s in %.1f ms", self.command, self.path, status, took_ms)

    def _read_body(self) -> bytes:
        """Read a body, also one that is too large: its sender reads no answer before its end."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            pieces = self._chunks()
        else:
            pieces = self._pieces(self._size(self.headers.get("Content-Length", "0"), 10))
        kept, size = [], 0
        for piece in pieces:
            size += len(piece)
            if size <= MAX_BODY_BYTES:
                kept.append(piece)
        if size > MAX_BODY_BYTES:
            raise ApiError(413, f"the body has {size} bytes, and {MAX_BODY_BYTES} are taken")
        return b"".join(kept)

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size > 0 and (piece := self.rfile.read(min(size, _PIECE_BYTES))):
            size -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while size := self._size(self.rfile.readline(100).decode("latin-1").partition(";")[0].strip(), 16):
            yield from self._pieces(size)
            self.rfile.readline(100)
        while self.rfile.readline(1000).strip():
            pass

    def _size(self, text: str, base: int) -> int:
        try:
            if not text.isascii() or not text.isalnum():
                raise ValueError
            return int(text, base)
        except ValueError:
            self.close_connection = True
            raise ApiError(400, f"{text[:60]!r} is no size of a body") from None

    def _answer(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        access = self.server.access
        if not access.is_open:
            self._user = access.user(self.headers.get("Authorization"))
            if self._user is None:
                return 401, _told(401, "Unauthorized"), {"WWW-Authenticate": access.challenge}
        try:
            try:
                parsed = json.loads(body) if body.strip() else None
            except (ValueError, RecursionError) as error:
                raise ApiError(400, f"the body is no JSON: {error}") from None
            found = self.server.answer(self.command, self.path, parsed)
        except ApiError as error:
            return error.status, _told(error.code, error.message), {}
        except Exception as error:  # one that nobody has thought of is told too
            _LOG.exception("%s %s", self.command, self.path)
            return 500, _told(50001, f"{type(error).__name__}: {error}"), {}
        if isinstance(found, RawText):
            return 200, found.encode(), {}
        return 200, json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode(errors="replace"), {}

    # Faults

    def _takes(self, fault: SetFault, message: bytes = b"") -> bool:
        """Do what a fault says; whether that is all that becomes of the request."""
        arguments = fault.arguments
        match fault.effect:
            case "answer":
                content = arguments.get("body")
                if content is None:
                    content = _told(arguments["code"], arguments["message"])
                self._send(arguments["status"], content, {})
            case "delay":
                self.server.faults.hold(fault, arguments["ms"] / 1000)
                return False
            case "hold":
                self.server.faults.hold(fault)
                return False
            case "drop":
                self.server.faults.hold(fault)
                self.close_connection = True
            case "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._close_now()
            case "truncate":
                self.wfile.write(message[: arguments["bytes"]])
                self.close_connection = True
            case _:
                self.close_connection = True
        return True

    def _close_now(self) -> None:
        """Close without the shutdown that the server does, which would send a FIN in place of the RST."""
        self.close_connection = True
        self.rfile.close()
        self.wfile.close()
        self.connection.close()

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self._tell(status)
        # Written in one piece: a second one would wait for the acknowledgement of the first.
        self.wfile.write(self._message(status, content, headers))

    def _message(self, status: int, content: bytes, headers: dict[str, str]) -> bytes:
        reason = self.responses.get(status, ("", ""))[0] if status in self.responses else ""
        lines = [f"HTTP/1.1 {status} {reason}", f"Content-Type: {CONTENT_TYPE}", f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self.close_connection:
            lines.append("Connection: close")
        head = "\r\n".join([*lines, "", ""]).encode()
        return head if self.command == "HEAD" else head + content


def _told(code: int, message: str) -> bytes:
    return json.dumps({"error_code": code, "message": message}, ensure_ascii=False).encode(errors="replace")
