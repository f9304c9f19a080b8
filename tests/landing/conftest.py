"""`ground`: a server by `--on`, for all tests; `broker`: an embedded one for one test; `orders`: a topic of JSON."""

from collections.abc import Iterator

import pytest
from monedula.testing import Broker

from tests.groups.ground import SETTINGS, Ground, opened
from tests.landing.orders import Orders


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        on = metafunc.config.getoption("--on") or "embedded"
        metafunc.parametrize("kind", ["embedded", "kafka"] if on == "both" else [on], scope="session")


@pytest.fixture(scope="session")
def ground(kind: str) -> Iterator[Ground]:
    """The cluster of a test, which uses unique names."""
    yield from opened(kind, SETTINGS)


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
