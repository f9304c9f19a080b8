"""Spark with Delta's own jars reads what a landing job wrote, and compacts and merges the table while it lands on."""

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import monedula
import polars
import pytest
from monedula.landing import Delta, check

from tests.groups.ground import Ground
from tests.landing.orders import Orders, landed
from tests.landing.running_job import RunningJob
from tests.landing.typed_orders import EXPECTED, FIRST, KINDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyspark", reason="the extra spark is not installed")

pytestmark = pytest.mark.jvm


def test_every_type_and_null_is_read_by_spark_duckdb_and_polars(
    spark: "SparkSession", ground: Ground, tmp_path: Path
) -> None:
    """After several commits, partitioned by the day, and with columns that were added between them."""
    made = Orders(ground.bootstrap, ground.topic(2))
    path = str(tmp_path / "lake")
    with monedula.Producer(made.settings) as producer:
        times = [datetime(2026, 11, day, 12, tzinfo=UTC) for day in (26, 27, 28)]
        for number, time in enumerate(times):
            producer.send(
                made.topic, f'{{"id": {-number - 1}}}', key=b"null", partition=0, timestamp=time, headers={"h": b"1"}
            )
    made.land(path, partition_by="day(timestamp)", value=monedula.Json("id bigint"), headers=True)
    made.send(4, **FIRST)
    made.land(path, partition_by="day(timestamp)", value=monedula.Json(KINDS), headers=True)
    made.send(2, **{**dict.fromkeys(FIRST), "customer": {"name": None}, "items": [None], "tags": {"x": None}})
    made.land(path, partition_by="day(timestamp)", value=monedula.Json(KINDS), headers=True)

    frame = spark.read.format("delta").load(path)
    rows = {row["id"]: row.asDict(recursive=True) for row in frame.collect()}
    assert sorted(rows) == [-3, -2, -1, 0, 1, 2, 3, 4, 5]
    for number in range(4):
        values = {name: rows[number][name] for name in FIRST}
        values["raw"], values["at"] = bytes(values["raw"]), values["at"].astimezone(UTC)
        assert values == EXPECTED
    assert [rows[4][name] for name in ("customer", "items", "tags")] == [
        {"name": None, "age": None},
        [None],
        {"x": None},
    ]
    assert {rows[4][name] for name in FIRST if name not in ("customer", "items", "tags")} == {None}
    assert {rows[-1][name] for name in FIRST} == {None}
    kinds = {name: kind for name, kind in frame.dtypes if name in FIRST}
    assert kinds["large"] == "decimal(38,10)"
    assert kinds["local"] == "timestamp_ntz"
    origin = rows[-3]["_kafka"]
    assert (origin["topic"], origin["partition"], origin["offset"]) == (made.topic, 0, 2)
    assert origin["timestamp"].astimezone(UTC) == times[2]
    assert [(each["key"], bytes(each["value"])) for each in origin["headers"]] == [("h", b"1")]
    assert rows[-3]["_date"] == date(2026, 11, 28)
    # Readers skip files by the day, and by statistics.
    frame.createOrReplaceTempView("landed")
    assert spark.sql("select id from landed where _date = date'2026-11-26'").collect()[0]["id"] == -1
    assert spark.sql("select count(*) from landed where price > 1234567").collect()[0][0] == 4

    by_polars = polars.read_delta(path).sort("id")
    assert by_polars["id"].to_list() == sorted(rows)
    assert by_polars["large"].to_list() == [rows[number]["large"] for number in sorted(rows)]
    found = deltalake.DeltaTable(path).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    told = duckdb.sql("select id, price, customer.name, items[1].sku, _kafka.offset from found order by id").fetchall()
    assert told[3] == (0, Decimal("1234567.89"), "Ada", "a", rows[0]["_kafka"]["offset"])
    assert len(told) == len(rows)


def test_spark_compacts_merges_and_deletes_while_a_job_lands_on(
    spark: "SparkSession", ground: Ground, tmp_path: Path
) -> None:
    """Of a day that is over, as the guide says: a merge that reads where the job writes would have to try again."""
    made = Orders(ground.bootstrap, ground.topic(3))
    with monedula.Producer(made.settings) as producer:
        for number in range(30):
            value = f'{{"id": {number}, "amount": 1.0}}'
            producer.send(made.topic, value, partition=number % 3, timestamp=datetime(2026, 11, 1, tzinfo=UTC))
    made.count = 30
    path = tmp_path / "lake"
    landing = RunningJob(made, partial(made.job, path, partition_by="day(timestamp)"))
    landing.wait_for_all()
    with made.sending():
        table, day = f"delta.`{path}`", "_date = date'2026-11-01'"
        merge = (
            f"MERGE INTO {table} old USING (SELECT id, -1.0D AS amount FROM range(0, 10)) new "
            f"ON old.id = new.id AND old.{day} WHEN MATCHED THEN UPDATE SET amount = new.amount"
        )
        for round_ in range(2):
            spark.sql(f"OPTIMIZE {table}")
            spark.sql(merge)
            spark.sql(f"DELETE FROM {table} WHERE {day} AND id = {10 + round_}")
    landing.wait_for_all()
    landing.end()
    frame = spark.read.format("delta").load(str(path))
    rows = {(row["partition"], row["offset"]) for row in frame.select("_kafka.*").collect()}
    expected = {(number, offset) for number, offsets in made.offsets().items() for offset in offsets}
    assert frame.count() == len(rows) == made.count - 2
    assert len(expected - rows) == 2
    assert frame.where("id < 10 and amount = -1.0").count() == 10
    assert frame.select("id").distinct().count() == made.count - 2
    history = spark.sql(f"DESCRIBE HISTORY {table}").select("operation").collect()
    assert {"OPTIMIZE", "MERGE", "DELETE"} <= {row["operation"] for row in history}
    made.send(3)
    assert made.land(path, partition_by="day(timestamp)").rows == 3


def test_positions_are_kept_by_checkpoints_that_spark_writes(
    spark: "SparkSession", ground: Ground, tmp_path: Path
) -> None:
    made = Orders(ground.bootstrap, ground.topic(3))
    made.send(30)
    path = tmp_path / "lake"
    made.land(path)
    table = f"delta.`{path}`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    spark.sql(f"OPTIMIZE {table}")
    made.send(30)
    made.land(path)
    spark.sql(f"UPDATE {table} SET amount = 0 WHERE id = 1")
    assert list((path / "_delta_log").glob("*.checkpoint*.parquet"))
    # Without the log before the checkpoint it has the positions alone.
    last = max(int(file.name.partition(".")[0]) for file in (path / "_delta_log").glob("*.checkpoint*.parquet"))
    for file in (path / "_delta_log").glob("*.json"):
        if int(file.stem) < last:
            file.unlink()
    made.send(30)
    assert made.land(path).rows == 30
    assert landed(path) == made.offsets()
    assert check(made.settings, made.topic, Delta(path), job="lake").ok
