"""`ground`: a server by `--on`; `group`: a share group that reads from the start; `member`: makes its consumers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import monedula
import pytest

from tests.groups.ground import Ground, opened
from tests.kafka import jars

LOCK_SECONDS = 4.0
"""How long a record is locked in `group`."""

SETTINGS: dict[str, object] = {
    "auto.create.topics.enable": False,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
}

Member = Callable[..., monedula.ShareConsumer]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    on = metafunc.config.getoption("--on") or "embedded"
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", ["embedded", "kafka"] if on == "both" else [on], scope="session")


@pytest.fixture(scope="session")
def ground(kind: str) -> Iterator[Ground]:
    """The cluster of a test, which uses unique names."""
    if kind == "kafka" and not jars.speaks("4.2"):
        pytest.skip("share groups are there from Kafka 4.2 on")
    yield from opened(kind, SETTINGS)


@pytest.fixture
def group(ground: Ground) -> str:
    """A share group that reads from the start of each topic."""
    name = ground.name("workers")
    with monedula.Admin(bootstrap_servers=ground.bootstrap) as admin:
        lock_ms = str(int(LOCK_SECONDS * 1000))
        settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": lock_ms}
        admin.alter_configs({("group", name): settings})
    return name


@pytest.fixture
def member(ground: Ground, group: str) -> Iterator[Member]:
    """Makes a `ShareConsumer` of `group`, which is closed at the end."""
    with ExitStack() as stack:

        def make(topics: Any = None, **settings: Any) -> monedula.ShareConsumer:
            settings = {"group_id": group, "fetch_max_wait_ms": 100, **settings}
            made = monedula.ShareConsumer({"bootstrap.servers": ground.bootstrap}, topics, **settings)
            stack.callback(made.close)
            return made

        yield make
