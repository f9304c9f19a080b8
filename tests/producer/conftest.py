"""`ground`: a server by `--on`; `broker`: an embedded one for one test; `producer`: makes producers on either."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import monedula
import pytest
from monedula.testing import Broker

from tests.groups.ground import Ground, opened


class ProducerFactory(Protocol):
    """Makes a producer, on `broker` where the test has one, else on `ground`."""

    def __call__(self, **settings: Any) -> monedula.Producer:
        """Make one.

        Args:
            settings: with underscores; `partitioner` too.
        """


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        on = metafunc.config.getoption("--on") or "embedded"
        metafunc.parametrize("kind", ["embedded", "kafka"] if on == "both" else [on], scope="session")


@pytest.fixture(scope="session")
def ground(kind: str) -> Iterator[Ground]:
    """The cluster of a test, which uses unique names."""
    yield from opened(kind)


@pytest.fixture
def broker() -> Iterator[Broker]:
    """An embedded broker of the test's own."""
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def producer(request: pytest.FixtureRequest) -> Iterator[ProducerFactory]:
    with ExitStack() as stack:

        def make(**settings: Any) -> monedula.Producer:
            if "bootstrap_servers" not in settings:
                settings["bootstrap_servers"] = bootstrap(request)
            settings.setdefault("topic_metadata_propagation_max_ms", 2000)
            made = monedula.Producer(None, **settings)
            # Bounded: a test that keeps answers back must not wait for them at its end.
            stack.callback(made.close, 2.0)
            return made

        yield make


def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the test's own broker listens, or else the ground."""
    if "broker" in request.fixturenames:
        broker: Broker = request.getfixturevalue("broker")
        return broker.bootstrap_servers
    ground: Ground = request.getfixturevalue("ground")
    return ground.bootstrap


def stored(bootstrap_servers: str, topic: str) -> list[monedula.Record]:
    """All records of a topic, by partition and offset."""
    batches = monedula.read({"bootstrap.servers": bootstrap_servers}, topic, headers=True)
    records = [record for batch in batches for record in batch.records()]
    return sorted(records, key=lambda record: (record.partition or 0, record.offset or 0))
