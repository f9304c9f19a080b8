"""Spark Connect: a server in JVM and processes of its own, its client in this process."""

import queue
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import monedula.spark
import pytest
from monedula import TopicPartition
from monedula.spark.listener import LagListener, LagReport

from tests.spark._support.driver import Driver
from tests.spark.versions.conftest import numbers

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

pytestmark = pytest.mark.thorough

WAIT_SECONDS = 60
PLUGIN = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": 0,
}


@pytest.fixture(scope="module")
def connected(spark_directory: Path) -> "Iterator[SparkSession]":
    """A client's session."""
    if find_spec("grpc") is None or find_spec("grpc_status") is None:
        warnings.warn("SPARK CONNECT IS NOT TESTED: pyspark[connect] is not installed", stacklevel=1)
        pytest.skip("no Spark Connect: pyspark[connect] is not installed; `make spark-versions` has it")
    from pyspark.sql.connect.session import SparkSession

    directory = spark_directory / "connect"
    directory.mkdir()
    server = Driver(directory, "serve_connect", {}, conf=PLUGIN)
    try:
        port = server.wait_for("serving")["port"]
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        try:
            yield session
        finally:
            session.stop()
    finally:
        server.kill()


def test_a_registered_session_reads(connected: "SparkSession", orders: dict[str, str]) -> None:
    monedula.spark.register(connected)
    rows = connected.read.format("monedula").options(**orders).load().collect()
    assert numbers(rows) == list(range(10))
    assert {bytes(row.value) for row in rows} == {f"v{number}".encode() for number in range(10)}


def test_a_registered_session_streams(
    connected: "SparkSession", orders: dict[str, str], more: Callable[[range], None], checkpoint: Path
) -> None:
    monedula.spark.register(connected)
    assert stream(connected, orders, checkpoint, "first") == list(range(10))
    more(range(10, 14))
    assert stream(connected, orders, checkpoint, "second") == list(range(14))


def test_the_lag_is_told_to_the_client(connected: "SparkSession", orders: dict[str, str], checkpoint: Path) -> None:
    monedula.spark.register(connected)
    reports: queue.Queue[LagReport] = queue.Queue()
    listener = LagListener(reports.put)
    connected.streams.addListener(listener)
    try:
        stream(connected, orders, checkpoint, "told")
        report = reports.get(timeout=WAIT_SECONDS)
    finally:
        connected.streams.removeListener(listener)
    assert listener.failures == {}
    assert (report.name, report.lag) == ("told", 0)
    assert report.end_offsets == {TopicPartition(orders["subscribe"], each): 5 for each in range(2)}


def test_wrong_options_are_named_to_the_client(connected: "SparkSession") -> None:
    monedula.spark.register(connected)
    options = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "minPartitions": "0"}
    with pytest.raises(Exception, match=r"(?s)ConfigError.*minPartitions"):
        connected.read.format("monedula").options(**options).load().collect()


def stream(session: "SparkSession", orders: dict[str, str], checkpoint: Path, name: str) -> list[int]:
    """Which records there are in the files beside the checkpoint, once a query has no more to read."""
    frame = session.readStream.format("monedula").options(**orders, startingOffsets="earliest").load()
    writer = frame.writeStream.format("parquet").queryName(name).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(f"{checkpoint}-rows")
    assert query.awaitTermination(WAIT_SECONDS)
    return numbers(session.read.parquet(f"{checkpoint}-rows").collect())
