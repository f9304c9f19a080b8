"""`HealthServer`: the health of a landing job over HTTP, for probes, and its figures, for Prometheus."""

import json
import socket
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

from monedula._arguments import whole_number
from monedula.errors import ArgumentError

if TYPE_CHECKING:
    from monedula.landing.job import LandingJob

_REQUEST_SECONDS = 5.0


class HealthServer:
    """Answers `GET /health` with `LandingJob.health()` as JSON: 200 if `"ok"` is true, 503 if not.

    `GET /metrics` has what the registry of prometheus_client has, if that is installed: the job's figures, after
    `monedula.prometheus.watch(job)`. It serves in a thread of its own from the start until `close()`, or until its
    block is over.

    Args:
        job: the job. It may be new, running or ended.
        port: the port; 0 for any that is free.
        address: the address of this machine on which it listens; by default all of them.

    Attributes:
        port: the port on which it listens.

    Raises:
        ArgumentError: if `port` is no number of a port.
        OSError: if it cannot listen there.
    """

    def __init__(self, job: "LandingJob", port: int, *, address: str = "0.0.0.0") -> None:
        self._server: ThreadingTCPServer | None = None
        number = whole_number(port)
        if number is None or not 0 <= number < 1 << 16:
            raise ArgumentError.of("port", port, "expected a port, from 0 for any that is free to 65535")
        try:
            kind = _Ipv6Server if ":" in address else _Server
            self._server = kind((address, port), _handler(job))
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{address}:{port}") from None
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, name=f"monedula-health-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


class _Ipv6Server(_Server):
    address_family = socket.AF_INET6


def _handler(job: "LandingJob") -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS

        def do_GET(self) -> None:
            path = self.path.partition("?")[0].rstrip("/")
            if path == "/health":
                health = job.health()
                status = HTTPStatus.OK if health["ok"] else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, "application/json", json.dumps(health.to_json()).encode())
            elif path == "/metrics" and (figures := _figures()) is not None:
                self._answer(HTTPStatus.OK, *figures)
            else:
                self._answer(
                    HTTPStatus.NOT_FOUND, "text/plain", b"there are /health, and with prometheus_client /metrics\n"
                )

        def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
            with suppress(OSError):  # whoever asked is gone
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Say nothing: probes ask every few seconds."""

    return Handler


def _figures() -> tuple[str, bytes] | None:
    if find_spec("prometheus_client") is None:
        return None
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return CONTENT_TYPE_LATEST, generate_latest()
