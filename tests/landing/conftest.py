"""`ground`: a server by `--on`, for all tests; `broker`: an embedded one for one test; `orders`: a topic of JSON."""

from collections.abc import Iterator

import pytest
from monedula.testing import Broker

from tests.conftest import skip_loudly
from tests.groups.ground import SETTINGS, Ground, opened
from tests.kafka import KafkaUnavailable
from tests.landing.http_relay import HttpRelay
from tests.landing.orders import Orders
from tests.landing.servers import Server, azurite, moto
from tests.landing.stores import S3Store


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        on = metafunc.config.getoption("--on") or "embedded"
        metafunc.parametrize("kind", ["embedded", "kafka"] if on == "both" else [on], scope="session")


@pytest.fixture(scope="session")
def ground(kind: str) -> Iterator[Ground]:
    """The cluster of a test, which uses unique names."""
    yield from opened(kind, SETTINGS)


@pytest.fixture(scope="session")
def moto_server() -> Iterator[Server]:
    """S3 and Glue."""
    with moto() as server:
        yield server


@pytest.fixture(scope="session")
def azurite_server() -> Iterator[Server]:
    """Azure's blobs."""
    try:
        server = azurite()
    except KafkaUnavailable as error:
        skip_loudly("TESTS ON AZURITE ARE SKIPPED", str(error))
    with server:
        yield server


@pytest.fixture
def s3(moto_server: Server) -> S3Store:
    """S3 by moto."""
    return S3Store(moto_server)


@pytest.fixture
def relay(moto_server: Server) -> Iterator[HttpRelay]:
    """A relay before moto."""
    with HttpRelay(moto_server.port) as relay:
        yield relay


@pytest.fixture
def relayed(moto_server: Server, relay: HttpRelay) -> S3Store:
    """S3 by the relay."""
    return S3Store(moto_server, relay.port)


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
