"""Spark with Iceberg's own jar reads what a landing job wrote, and rewrites the table's files while it lands on."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import monedula
import pyspark
import pytest
from monedula.testing import Broker
from pyspark.sql import SparkSession

from tests.conftest import give_up
from tests.groups.ground import SETTINGS
from tests.kafka import KafkaUnavailable, jars
from tests.spark._support import session

pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")
if not pyspark.__version__.startswith("4.1."):
    pytest.skip("iceberg-spark-runtime-4.1 is for Spark 4.1", allow_module_level=True)

from tests.landing.orders import ORDER, Orders
from tests.landing.running_job import RunningJob
from tests.landing.typed_orders import EXPECTED, FIRST, KINDS

pytestmark = pytest.mark.jvm

DAY = "day(timestamp)"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of the catalog, and of all that Spark writes."""
    made = Path(tempfile.mkdtemp(prefix="monedula-spark-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def spark(folder: Path) -> Iterator[SparkSession]:
    """A session with the catalog `ice`."""
    try:
        listed = ",".join(map(str, jars.iceberg()))
    except KafkaUnavailable as error:
        give_up(error)
    conf = {
        "spark.jars": listed,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "jdbc",
        "spark.sql.catalog.ice.uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=30000",
        "spark.sql.catalog.ice.jdbc.schema-version": "V1",
        "spark.sql.catalog.ice.warehouse": f"file://{folder}/warehouse",
        "spark.sql.catalog.ice.cache-enabled": "false",
    }
    with session.running(folder / "spark", conf=conf) as started:
        yield started


@pytest.fixture
def made() -> Iterator[Orders]:
    with Broker(settings=SETTINGS, topics={"orders": 3}) as broker:
        yield Orders(broker.bootstrap_servers, "orders")


@pytest.fixture
def job(made: Orders, folder: Path) -> Callable[..., monedula.LandingJob]:
    """Makes jobs that land the topic."""
    catalog = {
        "name": "ice",
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    target = monedula.Iceberg("lake.orders", catalog=catalog, partition_by=DAY)

    def make(kinds: str = ORDER, **options: Any) -> monedula.LandingJob:
        options = {"until": "latest", **options}
        return monedula.LandingJob(
            made.settings, "orders", target, value=monedula.Json(kinds), job="lake", headers=True, **options
        )

    return make


def test_every_type_and_null_is_read(
    spark: SparkSession, made: Orders, job: Callable[..., monedula.LandingJob]
) -> None:
    """After several commits, partitioned by the hidden day, with columns that were added and made wider."""
    made.send(3)
    job("id int, amount float").run()
    made.send(4, **FIRST)
    job(KINDS).run()
    made.send(2, **{**dict.fromkeys(FIRST), "customer": {"name": None}, "items": [None], "tags": {"x": None}})
    job(KINDS).run()
    frame = spark.table("ice.lake.orders")
    rows = {row["id"]: row.asDict(recursive=True) for row in frame.collect()}
    assert sorted(rows) == list(range(9))
    for number in range(3, 7):
        values = {name: rows[number][name] for name in FIRST}
        values["raw"], values["at"] = bytes(values["raw"]), values["at"].astimezone(UTC)
        assert values == EXPECTED
    nested = ("customer", "items", "tags")
    assert [rows[7][name] for name in nested] == [{"name": None, "age": None}, [None], {"x": None}]
    assert {rows[7][name] for name in FIRST if name not in nested} == {None}
    assert [rows[number]["amount"] for number in range(3)] == [0.0, 0.5, 1.0]
    assert dict(frame.dtypes)["large"] == "decimal(38,10)"
    origins = {(row["_kafka"]["partition"], row["_kafka"]["offset"]) for row in rows.values()}
    assert origins == {(number % 3, number // 3) for number in range(9)}
    assert rows[0]["_kafka"]["timestamp"].astimezone(UTC).date() == datetime.now(UTC).date()
    assert spark.sql("select count(*) from ice.lake.orders where price > 1234567").collect()[0][0] == 4


def test_files_are_rewritten_and_snapshots_expire_while_a_job_lands_on(
    spark: SparkSession, made: Orders, job: Callable[..., monedula.LandingJob]
) -> None:
    made.send(30)
    landing = RunningJob(made, partial(job))
    landing.wait_for_all()
    with made.sending():
        rewritten = 0
        for _ in range(3):
            options = "options => map('rewrite-all', 'true')"
            told = spark.sql(f"CALL ice.system.rewrite_data_files(table => 'lake.orders', {options})").collect()
            rewritten += told[0]["rewritten_data_files_count"]
            spark.sql("CALL ice.system.expire_snapshots(table => 'lake.orders', retain_last => 5)")
    landing.wait_for_all()
    landing.end()
    made.send(3)
    assert job().run().rows == 3
    assert rewritten > 3
    rows = spark.table("ice.lake.orders").select("_kafka.partition", "_kafka.offset").collect()
    expected = [(number, offset) for number, offsets in made.offsets().items() for offset in offsets]
    assert sorted(map(tuple, rows)) == sorted(expected)
    operations = spark.sql("select operation from ice.lake.orders.snapshots").collect()
    assert {"append", "replace"} >= {row["operation"] for row in operations}
