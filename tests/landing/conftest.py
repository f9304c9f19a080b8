"""`ground`: a server by `--on`, for all tests; `broker`: an embedded one for one test; `orders`: a topic of JSON.

`stage` is three nodes, by `--on`; without it what is marked `also_on_kafka` runs on both.
"""

from collections.abc import Iterator

import pytest
from monedula.testing import Broker

from tests.groups.behaviour.conftest import real_stage, stage
from tests.groups.ground import SETTINGS, Ground, opened
from tests.landing.orders import Orders

__all__ = ["real_stage", "stage"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        on = metafunc.config.getoption("--on") or "embedded"
        metafunc.parametrize("kind", ["embedded", "kafka"] if on == "both" else [on], scope="session")
    if "staged_on" in metafunc.fixturenames:
        is_on_both = metafunc.definition.get_closest_marker("also_on_kafka") is not None
        on = metafunc.config.getoption("--on") or ("both" if is_on_both else "embedded")
        metafunc.parametrize("staged_on", ["embedded", "kafka"] if on == "both" else [on], scope="session")


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
