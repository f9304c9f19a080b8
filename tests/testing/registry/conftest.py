"""`registry`, and `ask`, which sends it a request."""

import http.client
import json
from collections.abc import Iterator
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
from monedula.testing import Registry


class Ask(Protocol):
    """Sends a request over HTTP, and returns its status and its JSON."""

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]: ...


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


def asking(url: str) -> Ask:
    def ask(method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        try:
            sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, sent, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    return ask


@pytest.fixture
def ask(registry: Registry) -> Ask:
    return asking(registry.url)
