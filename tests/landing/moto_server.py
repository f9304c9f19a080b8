"""`python -m tests.landing.moto_server`: moto, one request after the other, with the compare-and-swap of AWS.

moto looks whether a key is there (`If-None-Match`) and writes it in two steps, between which others come in, and takes
each `UpdateTable` of Glue, whichever `VersionId` it was made for: two commits of one version would both be let in.
"""

import io
import json
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from moto.backends import get_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tests.landing.servers import HOST

_ACCOUNT = "123456789012"


class AtomicMoto:
    """The application before moto's."""

    def __init__(self) -> None:
        self._moto: Any = DomainDispatcherApplication(create_backend_app)
        self._lock = Lock()

    def __call__(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        # The stream of a body in chunks ends with it.
        length = environment.get("CONTENT_LENGTH")
        is_chunked = environment.get("HTTP_TRANSFER_ENCODING") == "chunked"
        body = environment["wsgi.input"].read(-1 if is_chunked else int(length or 0))
        environment |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        with self._lock:
            if environment.get("HTTP_X_AMZ_TARGET") == "AWSGlue.UpdateTable" and _is_stale(environment, body):
                start("400 Bad Request", [("Content-Type", "application/x-amz-json-1.1")])
                return [json.dumps({"__type": "ConcurrentModificationException", "message": "stale"}).encode()]
            return list(self._moto(environment, start))


def _is_stale(environment: dict[str, Any], body: bytes) -> bool:
    asked = json.loads(body)
    region = environment["HTTP_AUTHORIZATION"].split("/")[2]
    table = get_backend("glue")[_ACCOUNT][region].get_table(asked["DatabaseName"], asked["TableInput"]["Name"])
    return bool(asked["VersionId"] != table.as_dict()["VersionId"])


def main() -> None:
    server = make_server(HOST, 0, AtomicMoto(), threaded=True)
    print(f"listens on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
