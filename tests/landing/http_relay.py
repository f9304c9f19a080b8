"""`HttpRelay`: passes HTTP requests on to a store or a catalog, and does something else to those that a test names.

It is a process of its own, `python -m tests.landing.http_relay PORT`: deltalake holds the interpreter while it waits
for some answers, and a relay in the test's process could not give them.
"""

import http.client
import json
import re
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from tests.landing.servers import HOST, Server

_CONTROL = "/_relay"
_HOP_BY_HOP = ("connection", "transfer-encoding", "keep-alive", "date", "server")


@dataclass(frozen=True)
class Fault:
    """What becomes of some requests.

    Attributes:
        request: a pattern of method and path, such as `"PUT .*_delta_log/.*json"`.
        times: of how many requests.
        carries_out: whether they are passed on.
        status: the status of the answer in place of the server's; `None` resets the connection.
        body: of the answer.
        delay_seconds: before anything else.
        without: a header that is not passed on; the answer is the server's.
    """

    request: str
    times: int = 1_000_000
    carries_out: bool = False
    status: int | None = None
    body: str = ""
    delay_seconds: float = 0.0
    without: str = ""


class HttpRelay(Server):
    """The process, and what it is told."""

    def __init__(self, port: int) -> None:
        super().__init__([sys.executable, "-m", "tests.landing.http_relay", str(port)], r"relay on port (\d+)")

    def set(self, *faults: Fault) -> None:
        """Say what becomes of requests from now on; the first fault whose pattern fits counts."""
        self._control("POST", [asdict(fault) for fault in faults])

    def counts(self) -> dict[str, int]:
        """How often each pattern was met since `set`."""
        found: dict[str, int] = self._control("GET", None)
        return found

    def _control(self, method: str, told: Any) -> Any:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            connection.request(method, _CONTROL, json.dumps(told))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_port: int
    faults: tuple[Fault, ...] = ()
    counts: ClassVar[Counter[str]] = Counter()
    lock = threading.Lock()

    def handle_one_request(self) -> None:
        try:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            body = self._body()
            if self.path == _CONTROL:
                self._obey(body)
            else:
                self._handle(body)
        except (OSError, http.client.HTTPException):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while length := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _obey(self, body: bytes) -> None:
        kind = type(self)
        with self.lock:
            if self.command == "POST":
                kind.faults = tuple(Fault(**each) for each in json.loads(body))
                kind.counts.clear()
            told = dict(kind.counts)
        self._answer(200, {}, json.dumps(told).encode())

    def _handle(self, body: bytes) -> None:
        fault = self._fault()
        if fault is None:
            self._answer(*self._passed_on(body, ""))
            return
        if fault.delay_seconds:
            threading.Event().wait(fault.delay_seconds)
        answer = self._passed_on(body, fault.without) if fault.carries_out else None
        if fault.status is not None:
            self._answer(fault.status, {}, fault.body.encode())
        elif answer is not None and (fault.without or fault.delay_seconds):
            self._answer(*answer)
        else:
            # A reset, not an end: clients take an end for a connection that was idle for too long.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True

    def _fault(self) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                is_left = self.counts[fault.request] < fault.times
                if is_left and re.fullmatch(fault.request, f"{self.command} {self.path}"):
                    self.counts[fault.request] += 1
                    return fault
        return None

    def _passed_on(self, body: bytes, without: str) -> tuple[int, Mapping[str, str], bytes]:
        left_out = (without.lower(), "transfer-encoding")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
        connection = http.client.HTTPConnection(HOST, self.server_port, timeout=60)
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP}
            return answer.status, kept, content
        finally:
            connection.close()

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main() -> None:
    _Handler.server_port = int(sys.argv[1])
    server = ThreadingHTTPServer((HOST, 0), _Handler)
    print(f"relay on port {server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
