"""`ground`: a server by `--on`, for all tests; `broker`: an embedded one for one test; `orders`: a topic of JSON."""

from collections.abc import Iterator

import pytest
from monedula.testing import Broker

from tests.conftest import give_up
from tests.groups.ground import SETTINGS, EmbeddedGround, Ground, KafkaGround
from tests.kafka import KafkaCluster, KafkaUnavailable
from tests.landing.orders import Orders


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        on = metafunc.config.getoption("--on") or "embedded"
        metafunc.parametrize("kind", ["embedded", "kafka"] if on == "both" else [on], scope="session")


@pytest.fixture(scope="session")
def ground(kind: str) -> Iterator[Ground]:
    """The cluster of a test, which uses unique names."""
    if kind == "embedded":
        embedded = EmbeddedGround()
        yield embedded
        embedded.broker.stop()
        return
    try:
        cluster = KafkaCluster(1, config=SETTINGS).__enter__()
    except KafkaUnavailable as error:
        give_up(error)
    yield KafkaGround(cluster)
    cluster.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    """An embedded broker of the test's own."""
    with Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def orders(ground: Ground) -> Orders:
    """A topic of three partitions with 300 orders."""
    made = Orders(ground.bootstrap, ground.topic(3))
    made.send(300)
    return made
