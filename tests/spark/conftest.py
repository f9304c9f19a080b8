"""Fixtures over a real PySpark: `spark` (a session), `registry`, `checkpoint`, `driver` (another process's session)."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import give_up
from tests.consumer.schema_registry import Registry, serving
from tests.kafka import KafkaUnavailable, jars
from tests.kafka.reaper import Reaper
from tests.spark._support import session
from tests.spark._support.driver import Driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_SHOWN_CHARACTERS = 6000
_LOG = pytest.StashKey[tuple[Path, int]]()


@pytest.fixture(scope="session")
def spark_directory() -> Iterator[Path]:
    """Everything that Spark writes, gone when the session is over, however it ends."""
    try:
        jars.java(), jars.spark_connector()
    except KafkaUnavailable as error:
        give_up(error)
    directory = Path(tempfile.mkdtemp(prefix="monedula-spark-"))
    reaper = Reaper()
    reaper.remove(str(directory))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        reaper.close()


@pytest.fixture(scope="session")
def spark(spark_directory: Path) -> "Iterator[SparkSession]":
    """One session, shared: a test leaves no query running and no setting changed."""
    with session.running(spark_directory) as started:
        yield started


@pytest.fixture
def spark_log(spark: "SparkSession", spark_directory: Path) -> Callable[[], str]:  # noqa: ARG001
    """What the JVM and the Python workers said since the test began."""
    path = spark_directory / session.LOG_NAME
    before = path.stat().st_size
    return lambda: path.read_bytes()[before:].decode(errors="replace")


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry of the test's own, which can be told what to answer."""
    with serving() as registry:
        yield registry


@pytest.fixture
def checkpoint(spark_directory: Path) -> Iterator[Path]:
    """A checkpoint's directory of the test's own."""
    directory = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=spark_directory))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def driver(spark_directory: Path) -> Iterator[Callable[..., Driver]]:
    """Starts a driver program in a process of its own; see `Driver`. What still runs at the end is killed."""
    started: list[Driver] = []

    def start(*arguments: Any, **keywords: Any) -> Driver:
        directory = Path(tempfile.mkdtemp(prefix="driver-", dir=spark_directory))
        started.append(Driver(directory, *arguments, **keywords))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Remember where Spark's log stands, for `pytest_runtest_makereport`."""
    yield
    directory = getattr(item, "funcargs", {}).get("spark_directory")
    log = directory / session.LOG_NAME if directory else None
    if log is not None and log.exists():
        item.stash[_LOG] = (log, log.stat().st_size)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """A test that failed shows what Spark said meanwhile."""
    report = yield
    if report.failed and _LOG in item.stash:
        log, before = item.stash[_LOG]
        if log.exists():
            said = log.read_bytes()[before:].decode(errors="replace")
            report.sections.append(("Spark's log", said[-LOG_SHOWN_CHARACTERS:]))
    return report
