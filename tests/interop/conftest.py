"""`server`: what a scenario runs on, by `--on`; `restartable`: one with data on disk; `unique`: names of its own."""

import os
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.conftest import give_up
from tests.interop.servers import Embedded, RealKafka, Server
from tests.kafka import KafkaUnavailable

Unique = Callable[[str], str]

_NUMBERS = count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        on = metafunc.config.getoption("--on") or "embedded"
        metafunc.parametrize("kind", ["embedded", "kafka"] if on == "both" else [on], scope="session")


@pytest.fixture(scope="session")
def real() -> Iterator[RealKafka]:
    """Shared by all scenarios, started by the first that asks."""
    try:
        server = RealKafka()
    except KafkaUnavailable as error:
        give_up(error)
    yield server
    server.close()


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """Shared by all scenarios, as a real one would be."""
    server = Embedded()
    yield server
    server.close()


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue("embedded" if kind == "embedded" else "real")
    return server


@pytest.fixture
def restartable(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server whose data outlive it."""
    if kind == "kafka":
        yield request.getfixturevalue("real")
        return
    server = Embedded(tmp_path)
    yield server
    server.close()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Unique:
    """Makes names for topics, groups and transactional ids."""
    stem = re.sub(r"[^A-Za-z0-9-]+", "-", request.node.originalname).strip("-")[:60]
    return lambda what: f"{stem}-{what}-{os.getpid()}-{next(_NUMBERS)}"
