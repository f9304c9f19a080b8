"""Kafka from SQL, and how errors read that Spark shows."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from monedula.testing import Broker
from pyspark.sql import SparkSession

from tests.spark._support.streams import run_stream

GUIDE = "docs/migration/spark.md"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ["a", "b", "c"])
        yield broker


def test_a_view_is_read(spark: SparkSession, broker: Broker) -> None:
    options = f"`kafka.bootstrap.servers` '{broker.bootstrap_servers}', subscribe 'orders'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders_view USING monedula OPTIONS ({options})")
    (row,) = spark.sql("SELECT count(*) AS rows, max(offset) AS last FROM orders_view").collect()
    assert (row.rows, row.last) == (3, 2)


def test_a_table_is_read_with_options_and_says_that_it_needs_them(spark: SparkSession, broker: Broker) -> None:
    servers = broker.bootstrap_servers
    spark.sql(
        f"CREATE TABLE orders_table USING monedula OPTIONS (`kafka.bootstrap.servers` '{servers}', subscribe 'orders')"
    )
    try:
        given = f"`kafka.bootstrap.servers` = '{servers}', subscribe = 'orders'"
        assert spark.sql(f"SELECT value FROM orders_table WITH ({given})").count() == 3
        with pytest.raises(Exception, match=r"passes those of a table.*to no source in Python.*WITH \(\.\.\.\)"):
            spark.sql("SELECT * FROM orders_table").collect()
    finally:
        spark.sql("DROP TABLE orders_table")


def first_words(error: BaseException) -> str:
    """What stands between Spark's own introduction and the first line's end."""
    return re.sub(r"^\[\w+\] [^:]*: ", "", str(error).split("\n")[0])


def test_errors_begin_with_the_message(spark: SparkSession, broker: Broker, checkpoint: Path) -> None:
    def options(**given: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": broker.bootstrap_servers, **given}

    with pytest.raises(Exception) as misspelt:  # noqa: PT011 - Spark's types vary
        spark.read.format("monedula").options(**options(subcribe="orders")).load()
    assert first_words(misspelt.value).startswith("monedula.errors.ConfigError: option 'subcribe' is not known")
    with pytest.raises(Exception) as unknown:  # noqa: PT011
        spark.read.format("monedula").options(**options(subscribe="ordres")).load().collect()
    assert first_words(unknown.value).startswith("monedula.errors.UnknownTopicError: ordres: ")
    rows = spark.createDataFrame([(1,)], ["x"])
    with pytest.raises(Exception) as written:  # noqa: PT011
        rows.write.format("monedula").options(**options(topic="orders")).mode("append").save()
    assert first_words(written.value).startswith("monedula.errors.ConfigError: Required attribute 'value' not found")
    with pytest.raises(Exception, match=r"initialOffset: monedula\.errors\.UnknownTopicError: ordres: ") as streamed:
        run_stream(spark.readStream.format("monedula").options(**options(subscribe="ordres")).load(), checkpoint)
    assert "Traceback (most recent call last)" not in str(streamed.value)


def test_the_example_of_the_migration_guide_runs(
    spark: SparkSession, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).resolve().parents[2] / GUIDE
    (source,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    exec(compile(source, str(page), "exec"), {"spark": spark, "servers": broker.bootstrap_servers})
    assert capsys.readouterr().out == "3\n"
