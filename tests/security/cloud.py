"""A server that plays the metadata service or the token service of a cloud."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qsl, urlsplit

PATIENCE_SECONDS = 60.0


@dataclass
class Asked:
    """A request.

    Attributes:
        parameters: of its query, or of its form.
        headers: by name in lower case.
    """

    method: str
    path: str
    query: str
    parameters: dict[str, str]
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, bytes]


@dataclass
class Cloud:
    """A server on loopback that answers as it is told; `with` starts and ends it."""

    answer: Callable[[Asked], Answer]
    asked: list[Asked] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, count: int) -> None:
        """Wait until it was asked so often."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= count, PATIENCE_SECONDS), self.asked

    def __enter__(self) -> Self:
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                parameters = dict(parse_qsl(body.decode() or url.query, keep_blank_values=True))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, url.path, url.query, parameters, headers, body)
                with cloud._changed:
                    cloud.asked.append(asked)
                    cloud._changed.notify_all()
                status, answer = cloud.answer(asked)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_PUT = do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @property
    def host(self) -> str:
        """Its host and port."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://{self.host}"
