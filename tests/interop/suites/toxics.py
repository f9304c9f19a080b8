"""The part of toxiproxy's HTTP API that Sarama's suite uses, with the nodes of an embedded broker for proxies.

A proxy that is disabled is a node that is stopped; a toxic is a fault of its node.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from monedula.testing import Broker

_NAME = re.compile(r"/proxies/kafka(\d+)(/toxics)?")


class Toxics:
    """The proxies `kafka1`, `kafka2` and so on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._stopped: set[int] = set()
        self._lock = threading.Lock()

    def enable(self, node: int, *, enabled: bool) -> None:
        """Start a node that is stopped, or stop one that runs."""
        with self._lock:
            if enabled and node in self._stopped:
                self._broker.start_node(node)
                self._stopped.remove(node)
            elif not enabled and node not in self._stopped:
                self._broker.stop_node(node)
                self._stopped.add(node)

    def add(self, node: int, toxic: dict[str, Any]) -> None:
        """Have a toxic take effect.

        Raises:
            ValueError: it is of a kind that is not known here.
        """
        match toxic["type"]:
            case "latency":
                self._broker.fault(node=node, delay_ms=toxic["attributes"]["latency"], on="answer")
            case "reset_peer":
                self._broker.fault(node=node, reset=True)
            case other:
                raise ValueError(f"the toxic {other!r} is not known here")

    def reset(self) -> None:
        """Remove all toxics, and enable all proxies."""
        self._broker.remove_faults()
        for node in list(self._stopped):
            self.enable(node, enabled=True)


@contextmanager
def serving(broker: Broker) -> Iterator[str]:
    """Serve the API. Gives its URL."""
    toxics = Toxics(broker)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = _NAME.fullmatch(self.path)
            self._answer(200 if found else 404, _proxy(found[1]) if found else {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/reset":
                toxics.reset()
                return self._answer(204, None)
            found = _NAME.fullmatch(self.path)
            if found is None:
                return self._answer(404, {})
            given = json.loads(body)
            if found[2]:
                toxics.add(int(found[1]), given)
            else:
                toxics.enable(int(found[1]), enabled=given["enabled"])
            return self._answer(200, given)

        def _answer(self, status: int, content: dict[str, Any] | None) -> None:
            data = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class calls it
            """Nothing: the suite's own output is what is read."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _proxy(node: str) -> dict[str, Any]:
    return {"name": f"kafka{node}", "listen": "", "upstream": "", "enabled": True}
