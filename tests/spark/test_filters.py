"""Filters of batch queries: what they leave to be read, and that the rows are those of Spark's own filters."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import monedula
import pytest
from monedula.testing import Broker
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark._support.sources import OURS

START_MS = 1_700_000_000_000
COUNT = 30
ENABLED = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Topics `orders` and `returns` of three partitions, in which times are out of order; the last one is empty.

    Keys are `k0` to `k3`, and every fifth record has none.
    """
    random = Random(4)
    with Broker(topics={"orders": 3, "returns": 3}) as broker:
        for name in ("orders", "returns"):
            for partition in range(2):
                times = [START_MS + 1000 * (n + random.choice((0, 0, 0, 5, -5))) for n in range(COUNT)]
                for number, time_ms in enumerate(times):
                    record = (f"k{number % 5}" if number % 5 < 4 else None, f"{name}:{number}")
                    broker.append(name, [record], partition=partition, timestamps=time_ms)
        yield broker


@contextmanager
def pushdown(spark: SparkSession, enabled: bool) -> Iterator[None]:
    before = spark.conf.get(ENABLED)
    spark.conf.set(ENABLED, str(enabled).lower())
    try:
        yield
    finally:
        spark.conf.set(ENABLED, before)


def load(spark: SparkSession, broker: Broker, **options: str) -> DataFrame:
    reader = spark.read.format(OURS).option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return reader.option("subscribe", "orders,returns").options(**options).load()


def time(seconds: float) -> str:
    text = datetime.fromtimestamp(START_MS / 1000 + seconds, UTC).isoformat()
    return f"timestamp '{text}'"


CONDITIONS = [
    "partition = 1",
    "partition in (0, 2) and topic = 'orders'",
    "not partition = 0 and topic <> 'orders'",
    "offset >= 5 and offset < 9",
    "offset in (3, 17) and partition = 0",
    "offset <> 4 and offset < 6",
    "offset = 99",
    "offset <=> 3 or offset <=> null",
    "partition = null",
    "topic like 'ord%'",
    "topic like '%urn%' and offset > 27",
    "topic like '%s' and topic > 'p'",
    f"timestamp >= {time(20)}",
    f"timestamp > {time(5)} and timestamp <= {time(9)} and partition = 1",
    f"timestamp = {time(12)}",
    f"timestamp < {time(0)}",
    f"timestamp > {time(500)}",
    f"offset < 5 or timestamp > {time(28)}",
    "timestamp is not null and topic is not null and key is null",
    "cast(value as string) like '%:7' and partition < 2",
    "key = cast('k1' as binary)",
    "key <> cast('k1' as binary) and offset < 9",
    "not key <=> cast('k1' as binary)",
    "key in (cast('k1' as binary), cast('k3' as binary)) or partition = 1",
    "key > cast('k1' as binary) and key <= cast('k3' as binary)",
    "key is null or key = cast('k0' as binary)",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_rows_are_those_that_spark_itself_filters(spark: SparkSession, broker: Broker, condition: str) -> None:
    columns = ("topic", "partition", "offset", "timestamp")
    with pushdown(spark, False):
        wanted = load(spark, broker).filter(condition).select(*columns).orderBy(*columns).collect()
    with pushdown(spark, True):
        pushed = load(spark, broker, maxLateness="10s").filter(condition)
        assert pushed.select(*columns).orderBy(*columns).collect() == wanted


@pytest.mark.parametrize(
    ("condition", "tasks"),
    [
        ("partition = 1 and topic = 'orders'", 1),
        ("partition = 2", 0),
        (f"timestamp > {time(500)}", 0),
        ("offset < 3", 4),
    ],
)
def test_partitions_without_wanted_rows_have_no_task(
    spark: SparkSession, broker: Broker, condition: str, tasks: int
) -> None:
    with pushdown(spark, True):
        frame = load(spark, broker).filter(condition).select(f.spark_partition_id().alias("task"))
        assert len({row.task for row in frame.collect()}) == tasks


def test_the_plan_shows_the_filters(spark: SparkSession, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    with pushdown(spark, True):
        load(spark, broker).filter(f"partition = 1 and timestamp >= {time(3)}").explain("formatted")
    plan = capsys.readouterr().out
    pushed = next(line for line in plan.splitlines() if line.startswith("PushedFilters: "))
    assert "partition" in pushed
    assert "timestamp >" not in pushed
    # Spark applies the filter of the time as well, and not that of the partition.
    kept = next(line for line in plan.splitlines() if line.startswith("Condition :"))
    assert "timestamp" in kept
    assert "partition" not in kept


def test_values_of_other_keys_are_not_decoded(spark: SparkSession, broker: Broker) -> None:
    broker.create_topic("documents", 1)
    broker.append("documents", [("good", '{"id": 1}'), ("bad", "no json"), ("good", '{"id": 2}')])
    typed = {"subscribe": "documents", "value.format": "json", "value.mode": "FAILFAST"}
    reader = spark.read.format(OURS).option("kafka.bootstrap.servers", broker.bootstrap_servers).options(**typed)
    frame = reader.schema("key binary, value struct<id: bigint>").load()
    with pushdown(spark, True):
        rows = frame.filter("key = cast('good' as binary)").select("value.id").orderBy("id").collect()
        assert [row.id for row in rows] == [1, 2]


def test_without_the_setting_a_query_runs_as_before(spark: SparkSession, broker: Broker) -> None:
    with pushdown(spark, False):
        assert load(spark, broker).filter("partition = 1 and offset < 3").count() == 6


def test_a_stream_is_filtered_by_spark(spark: SparkSession, broker: Broker, tmp_path: Any) -> None:
    with pushdown(spark, True):
        reader = spark.readStream.format(OURS).option("kafka.bootstrap.servers", broker.bootstrap_servers)
        frame = reader.options(subscribe="orders", startingOffsets="earliest").load().filter("partition = 1")
        query = (
            frame.writeStream.format("memory")
            .queryName("filtered")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
    assert spark.table("filtered").count() == COUNT


def test_an_offset_outside_of_the_log_is_an_error_with_filters_too(spark: SparkSession, broker: Broker) -> None:
    reader = spark.read.format(OURS).option("kafka.bootstrap.servers", broker.bootstrap_servers)
    ends = {"startingOffsets": '{"orders": {"0": -2, "1": -2, "2": -2}}'}
    ends["endingOffsets"] = '{"orders": {"0": 99, "1": 0, "2": 0}}'
    frame = reader.options(subscribe="orders", **ends).load().filter("partition = 1")
    with pushdown(spark, True), pytest.raises(Exception, match="was asked for"):
        frame.count()


def test_a_lateness_that_is_no_time_is_refused(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(Exception, match="maxLateness"):
        load(spark, broker, maxLateness="soon").count()
    assert monedula.__version__
