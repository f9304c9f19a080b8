"""`server`: the server of a scenario, by `--on`; `restartable`: one with data on disk; `unique`: names of its own.

`kafkajs_on`, `franz` and `helper` are clients in other languages; those in Python are made by their scenarios.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest

from tests.conftest import give_up
from tests.interop import installed
from tests.interop.process import Driver
from tests.interop.servers import Embedded, RealKafka, Server
from tests.kafka import KafkaHelper, KafkaUnavailable

Unique = Callable[[str], str]


class KafkaJS(Protocol):
    """Starts KafkaJS in a process of its own, connected to a server."""

    def __call__(self, server: Server, **environment: str) -> Driver: ...


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


@pytest.fixture
def kafkajs_on() -> Iterator[KafkaJS]:
    """KafkaJS, driven by `kafkajs/client.js`."""
    try:
        modules = installed.kafkajs_modules()
    except KafkaUnavailable as error:
        give_up(error)
    with ExitStack() as stack:

        def start(server: Server, **environment: str) -> Driver:
            command = ["node", str(installed.KAFKAJS / "client.js"), server.bootstrap]
            return stack.enter_context(Driver(command, {"NODE_PATH": str(modules), **environment}))

        yield start


@pytest.fixture
def franz(server: Server) -> Iterator[Driver]:
    """franz-go, driven by the Go program in `franz/`."""
    try:
        program = installed.franz_program()
    except KafkaUnavailable as error:
        give_up(error)
    with Driver([str(program), server.bootstrap]) as driver:
        yield driver


@pytest.fixture(scope="session")
def helper_on() -> Iterator[Callable[[str], KafkaHelper]]:
    """Java's admin client and producers, kept for each server."""
    with ExitStack() as stack:

        @cache
        def start(bootstrap: str) -> KafkaHelper:
            try:
                helper = KafkaHelper(bootstrap)
            except KafkaUnavailable as error:
                give_up(error)
            stack.callback(helper.close)
            return helper

        yield start


@pytest.fixture
def helper(helper_on: Callable[[str], KafkaHelper], server: Server) -> KafkaHelper:
    return helper_on(server.bootstrap)
