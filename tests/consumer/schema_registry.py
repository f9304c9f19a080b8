"""The embedded broker's registry behind a server of the tests' own, which lets them answer in its place."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.routes import answer
from monedula.testing.registry.store import Store

Answer = tuple[int, bytes]


class Registry:
    """What was asked for, and what is answered instead. No schema has to be compatible with others.

    Attributes:
        asked: the paths of all GET requests, in order.
        authorizations: the header `Authorization` of each of them.
        posted: the paths of all POST requests, in order.
        instead: called with the path of a request; if it returns a status and a body, these are the answer.
        queries: what stood behind the `?` of each path the last time.
        incompatible: why no schema is compatible with those that are there, if that is what is answered.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = Store()
        self.store.configs[""] = {"compatibilityLevel": "NONE"}
        self.asked: list[str] = []
        self.posted: list[str] = []
        self.authorizations: list[str | None] = []
        self.instead: Callable[[str], Answer | None] = lambda _path: None
        self.queries: dict[str, str] = {}
        self.incompatible: list[str] = []
        self._lock = threading.Lock()

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """The id of a schema, as the body of a registration has it."""
        with self._lock:
            found = answer(self.store, "POST", f"/subjects/{quote(subject, safe='')}/versions", schema)
        return int(found["id"])

    def avro(self, subject: str, schema: Any, *references: tuple[str, str, int], **more: Any) -> int:
        """The id of an Avro schema; a reference is a name, a subject and a version."""
        refers = [{"name": name, "subject": of, "version": version} for name, of, version in references]
        return self.register(subject, {"schema": json.dumps(schema), "references": refers, **more})

    @property
    def subjects(self) -> dict[str, list[int]]:
        """The ids of each subject's versions, in the order in which the subjects were registered."""
        return {
            subject: [versions[number].id for number in versions] for subject, versions in self.store.subjects.items()
        }

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """All schemas of the default context as they are answered, in the order of their ids."""
        return [definition.to_json() for _, definition in sorted(self.store.contexts["."].definitions.items())]

    @property
    def texts(self) -> list[str]:
        """The texts of these schemas."""
        return [each["schema"] for each in self.schemas]

    def delete(self, subject: str) -> None:
        """Delete a subject softly, also one that others refer to."""
        for version in self.store.subjects[subject].values():
            version.is_deleted = True

    def answered(self, method: str, target: str, body: Any = None) -> Answer:
        """What the registry answers to a request."""
        try:
            with self._lock:
                return 200, json.dumps(answer(self.store, method, target, body)).encode()
        except ApiError as error:
            return error.status, json.dumps({"error_code": error.code, "message": error.message}).encode()


@contextmanager
def serving() -> Iterator[Registry]:
    """A registry on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            registry.asked.append(path)
            registry.queries[path] = query
            registry.authorizations.append(self.headers["Authorization"])
            self.respond(*(registry.instead(path) or registry.answered("GET", self.path)))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path, _, query = self.path.partition("?")
            registry.posted.append(path)
            registry.queries[path] = query
            if registry.incompatible and path.startswith("/compatibility/"):
                told = {"is_compatible": False, "messages": registry.incompatible}
                self.respond(200, json.dumps(told).encode())
                return
            self.respond(*(registry.instead(path) or registry.answered("POST", self.path, body)))

        def respond(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry = Registry(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
