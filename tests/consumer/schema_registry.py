"""A small registry over HTTP with Confluent's API, as far as its serializers and a consumer ask."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

NOT_FOUND = 404, b'{"error_code": 40403, "message": "Schema not found"}'


class Registry:
    """Schemas by id and subject, what was asked for, and what is answered instead.

    Attributes:
        asked: the paths of all GET requests, in order.
        authorizations: the header `Authorization` of each of them.
        posted: the paths of all POST requests, in order.
        instead: called with the path of a request; if it returns a status and a body, these are the answer.
        queries: what stood behind the `?` of each path the last time.
        incompatible: why no schema is compatible with those that are there; empty if all are.
        deleted: subjects that were deleted softly: found only by those that ask for deleted ones too.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.posted: list[str] = []
        self.authorizations: list[str | None] = []
        self.instead: Callable[[str], tuple[int, bytes] | None] = lambda _path: None
        self.deleted: set[str] = set()
        self.queries: dict[str, str] = {}
        self.incompatible: list[str] = []

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """The id of a schema, as the body of a registration has it."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number

    def avro(self, subject: str, schema: Any, *references: tuple[str, str, int], **more: Any) -> int:
        """The id of an Avro schema; a reference is a name, a subject and a version."""
        refers = [{"name": name, "subject": of, "version": version} for name, of, version in references]
        return self.register(
            subject, {"schema": json.dumps(schema), **({"references": refers} if refers else {}), **more}
        )

    def answer(self, path: str, query: str = "") -> tuple[int, bytes]:
        """The answer to a GET request."""
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, json.dumps(self.schemas[int(number) - 1]).encode()
            case ["subjects", subject, *_] if subject in self.deleted and query != "deleted=true":
                pass
            case ["subjects"]:
                return 200, json.dumps(list(self.subjects)).encode()
            case ["subjects", subject, "versions"] if subject in self.subjects:
                return 200, json.dumps([*range(1, len(self.subjects[subject]) + 1)]).encode()
            case ["subjects", subject, "versions", version] if self._has(subject, version):
                numbers = self.subjects[subject]
                wanted = len(numbers) if version == "latest" else int(version)
                of_version = numbers[wanted - 1]
                told = {"subject": subject, "version": wanted, "id": of_version}
                return 200, json.dumps({**told, **self.schemas[of_version - 1]}).encode()
        return NOT_FOUND

    def answer_posted(self, path: str, schema: dict[str, Any]) -> tuple[int, bytes]:
        """The answer to a schema that is to be registered, or looked up."""
        parts = path.strip("/").split("/")
        subject = unquote(parts[1])
        if len(parts) == 2 and schema not in [self.schemas[number - 1] for number in self.subjects.get(subject, [])]:
            return NOT_FOUND
        number = self.register(subject, schema)
        return 200, json.dumps({"id": number, "subject": subject, "version": 1, **schema}).encode()

    def _has(self, subject: str, version: str) -> bool:
        count = len(self.subjects.get(subject, []))
        return 0 < (count if version == "latest" else int(version)) <= count


@contextmanager
def serving() -> Iterator[Registry]:
    """A registry on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            path, query = urlsplit(self.path)[2:4]
            registry.asked.append(path)
            registry.queries[path] = query
            registry.authorizations.append(self.headers["Authorization"])
            self.respond(*(registry.instead(path) or registry.answer(path, query)))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            schema = {name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)}
            path, query = urlsplit(self.path)[2:4]
            registry.posted.append(path)
            registry.queries[path] = query
            if self.path.startswith("/compatibility/"):
                told = {"is_compatible": not registry.incompatible, "messages": registry.incompatible}
                self.respond(200, json.dumps(told).encode())
                return
            self.respond(*(registry.instead(path) or registry.answer_posted(path, schema)))

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
