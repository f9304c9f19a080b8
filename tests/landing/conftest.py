"""`ground`: a server by `--on`; `broker`: an embedded one for one test; `orders`: a topic; `spark`: with Delta.

`stage` is three nodes, by `--on`; without it what is marked `also_on_kafka` runs on both.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from monedula.testing import Broker

from tests.conftest import give_up, skip_loudly
from tests.groups.behaviour.conftest import real_stage, stage
from tests.groups.ground import SETTINGS, Ground, opened
from tests.kafka import KafkaUnavailable, jars
from tests.landing.http_relay import HttpRelay
from tests.landing.orders import Orders
from tests.landing.servers import Server, azurite, moto
from tests.landing.stores import S3Store
from tests.spark._support import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


@pytest.fixture(scope="session")
def delta_conf() -> dict[str, str]:
    """Spark's settings with Delta Lake."""
    try:
        jars.java()
        listed = ",".join(map(str, (*jars.spark_connector(), *jars.delta())))
    except KafkaUnavailable as error:
        give_up(error)
    return {
        "spark.jars": listed,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }


@pytest.fixture(scope="session")
def spark(delta_conf: dict[str, str]) -> "Iterator[SparkSession]":
    """A session with Delta Lake."""
    directory = Path(tempfile.mkdtemp(prefix="monedula-spark-"))
    try:
        with session.running(directory, conf=delta_conf) as started:
            yield started
    finally:
        shutil.rmtree(directory, ignore_errors=True)
