"""`scan` and `dataset`: a query decodes its columns, fetches its offsets, and has the rows that its filters ask for."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import monedula
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from monedula.testing import Broker

from tests.relay import Relay

FETCH = 1
NOW_MS = 1_764_000_000_000
MINUTES = 24 * 60
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Topic `orders`: two partitions with a batch of some kilobytes for each minute of a day, before `NOW_MS`."""
    with Broker(topics={"orders": 2, "empty": 1}) as broker:
        for partition in range(2):
            for minute in range(MINUTES):
                time_ms = NOW_MS - (MINUTES - minute) * 60_000
                values = [f"{minute}" + "x" * 800 for _ in range(4)]
                broker.append("orders", values, partition=partition, timestamps=time_ms, headers={"h": "1"})
        yield broker


@pytest.fixture
def relay(broker: Broker) -> Iterator[Relay]:
    with Relay(broker.bootstrap_servers) as relay:
        yield relay


@pytest.fixture
def settings(relay: Relay) -> dict[str, Any]:
    return {"bootstrap.servers": relay.bootstrap_servers}


@pytest.fixture(scope="module")
def day_bytes(broker: Broker) -> int:
    """What reading all of it fetches."""
    stream = monedula.read({"bootstrap.servers": broker.bootstrap_servers}, "orders", columns=["offset"])
    assert pa.table(stream).num_rows == 2 * 4 * MINUTES
    return stream.metrics()["bytes_received"]


LAST_HOUR = pl.lit(NOW_MS - 3_600_000).cast(pl.Datetime("ms")).dt.replace_time_zone("UTC")


def test_a_scan_asks_no_broker_before_it_is_collected() -> None:
    frame = monedula.scan({"bootstrap.servers": "127.0.0.1:1", "bootstrap.timeout.ms": 500}, "orders", headers=True)
    assert frame.collect_schema().names() == [*COLUMNS, "headers"]
    assert "PYTHON[monedula] SCAN" in frame.filter(pl.col("partition") == 0).explain()
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        frame.collect()


def test_the_plan_shows_what_is_pushed_down(settings: dict[str, Any]) -> None:
    frame = monedula.scan(settings, "orders").filter(pl.col("offset") < 3, pl.col("value") != b"").select("key")
    plan = frame.explain()
    assert "PROJECT 3/7 COLUMNS" in plan
    assert 'SELECTION: (col("offset") < 3) & (col("value") != b"")' in plan
    assert "INFO: orders" in plan


@pytest.mark.parametrize("engine", ["streaming", "in-memory"])
def test_an_hour_of_a_day_is_fetched_and_not_the_day(
    settings: dict[str, Any], relay: Relay, day_bytes: int, engine: Any
) -> None:
    frame = monedula.scan(settings, "orders").filter(pl.col("timestamp") >= LAST_HOUR)
    assert frame.select(pl.len()).collect(engine=engine).item() == 2 * 4 * 60
    assert relay.answered_bytes(FETCH) * 20 < day_bytes


@pytest.mark.parametrize("engine", ["streaming", "in-memory"])
def test_ten_rows_fetch_about_ten_rows(settings: dict[str, Any], relay: Relay, day_bytes: int, engine: Any) -> None:
    frame = monedula.scan(settings, "orders").select("offset", "value").head(10).collect(engine=engine)
    assert frame["offset"].to_list() == list(range(10))
    assert relay.answered_bytes(FETCH) < 150_000
    assert day_bytes > 5_000_000


def test_more_rows_than_a_partition_has_come_from_the_next(settings: dict[str, Any]) -> None:
    pairs = [("orders", 0), ("orders", 1)]
    frame = monedula.scan(settings, pairs, start=dict.fromkeys(pairs, -3))
    assert frame.head(5).collect()["partition"].to_list() == [0, 0, 0, 1, 1]
    assert frame.head(50).collect().height == 6
    assert frame.head(0).collect().height == 0


def test_first_rows_are_found_behind_gaps() -> None:
    with Broker() as broker:
        broker.create_topic("gaps", 1, config={"cleanup.policy": "compact"})
        broker.append("gaps", [("same", str(number)) for number in range(500)])
        broker.append("gaps", [(f"own {number}", "") for number in range(5)])
        broker.append("gaps", [("last", "")])
        broker.compact("gaps")
        frame = monedula.scan({"bootstrap.servers": broker.bootstrap_servers}, "gaps")
        assert frame.head(3).collect()["offset"].to_list() == [499, 500, 501]


def test_filters_and_limits_go_together(settings: dict[str, Any]) -> None:
    frame = monedula.scan(settings, "orders").filter(pl.col("offset") >= 7, pl.col("partition") == 1).head(2)
    assert frame.select("partition", "offset").collect().rows() == [(1, 7), (1, 8)]


def test_a_scan_is_written_to_a_file(settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    monedula.scan(settings, "orders", headers=True).filter(pl.col("timestamp") >= LAST_HOUR).sink_parquet(path)
    frame = pl.read_parquet(path)
    assert (frame.height, frame.columns) == (2 * 4 * 60, [*COLUMNS, "headers"])


def test_a_scan_is_read_anew_each_time() -> None:
    with Broker(topics=["orders"]) as broker:
        frame = monedula.scan({"bootstrap.servers": broker.bootstrap_servers}, "orders")
        assert frame.collect().height == 0
        broker.append("orders", ["a"])
        assert frame.collect().height == 1


def test_errors_of_a_scan_are_those_of_a_read(settings: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="no-such-topic"):
        monedula.scan(settings, "no-such-topic").collect()
    with pytest.raises(monedula.ArgumentError, match="patter"):
        monedula.scan(settings, "orders.*")
    with pytest.raises(monedula.ConfigError, match="bootstrap"):
        monedula.scan({"bootstrap.server": "localhost"}, "orders")


def test_what_polars_alone_understands_is_applied_all_the_same(settings: dict[str, Any]) -> None:
    frame = monedula.scan(settings, "orders").filter(
        pl.col("offset") % 1000 == 3, pl.col("timestamp").dt.hour() >= 0, pl.col("partition").cast(pl.String) == "1"
    )
    assert frame.collect()["offset"].to_list() == [3, 1003, 2003, 3003, 4003, 5003]


def test_sql_reads_an_hour_of_a_day(settings: dict[str, Any], relay: Relay, day_bytes: int) -> None:
    orders = monedula.dataset(settings, "orders")
    assert orders.schema.names == COLUMNS
    with duckdb.connect() as connection:
        hour = f"to_timestamp({NOW_MS // 1000}) - INTERVAL 1 HOUR"
        sql = f'SELECT count(*), count(DISTINCT "partition") FROM orders WHERE timestamp >= {hour}'
        assert connection.sql(sql).fetchall() == [(2 * 4 * 60, 2)]
        assert relay.answered_bytes(FETCH) * 20 < day_bytes
        plan = connection.sql(f"EXPLAIN {sql}").fetchall()[0][1]
        assert "Filters" in plan
        assert '"timestamp" >=' in " ".join(plan.split())


def test_sql_reads_a_partition_and_its_offsets(settings: dict[str, Any], relay: Relay) -> None:
    # A fetch is answered with more than is wanted, as much as these settings allow.
    orders = monedula.dataset({**settings, "fetch.max.bytes": 64 << 10}, "orders")
    assert orders.schema.names == COLUMNS
    with duckdb.connect() as connection:
        sql = 'SELECT "offset" FROM orders WHERE "partition" IN (1, 7) AND "offset" BETWEEN 10 AND 12'
        assert connection.sql(sql).fetchall() == [(10,), (11,), (12,)]
    assert relay.answered_bytes(FETCH) < 300_000


def test_a_dataset_does_what_datasets_do(settings: dict[str, Any]) -> None:
    orders = monedula.dataset(settings, "orders")
    one = pc.field("partition") == 1
    assert orders.head(3).num_rows == 3
    assert orders.head(3, columns=["offset"], filter=one).to_pydict() == {"offset": [0, 1, 2]}
    assert orders.count_rows() == 2 * 4 * MINUTES
    assert orders.count_rows(filter=one & (pc.field("offset") < 5)) == 5
    assert orders.filter(one).filter(pc.field("offset") < 3).to_table(columns=["offset"]).num_rows == 3
    assert sum(batch.num_rows for batch in orders.to_batches(filter=pc.field("offset") == 3)) == 2
    computed = orders.to_table(
        columns={"twice": pc.field("offset") + pc.field("offset")}, filter=pc.field("offset") == 2
    )
    assert computed.to_pydict() == {"twice": [4, 4]}
    assert pl.scan_pyarrow_dataset(orders).filter(pl.col("offset") == 3).select("partition").collect().height == 2


NOT_POSSIBLE: dict[str, Callable[[Any], Any]] = {
    "join": lambda orders: orders.join(orders, "key"),
    "join_asof": lambda orders: orders.join_asof(orders, "offset", "key", 1),
    "sort_by": lambda orders: orders.sort_by("offset"),
    "get_fragments": lambda orders: list(orders.get_fragments()),
    "replace_schema": lambda orders: orders.replace_schema(pa.schema([])),
}


@pytest.mark.parametrize("name", NOT_POSSIBLE)
def test_what_a_dataset_of_topics_cannot_do_is_an_error(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=rf"has no {name}\(\): read a table first"):
        NOT_POSSIBLE[name](monedula.dataset(settings, "orders"))


@pytest.mark.parametrize(
    "use",
    [lambda orders: ds.Scanner.from_dataset(orders).to_table(), lambda orders: ds.dataset([orders]).to_table()],
    ids=["scanner", "union"],
)
def test_arrows_own_code_takes_no_topic_for_an_empty_one(settings: dict[str, Any], use: Callable[[Any], Any]) -> None:
    with pytest.raises((OSError, monedula.ArgumentError)):
        use(monedula.dataset(settings, "orders"))


def test_a_column_that_does_not_exist_is_named(settings: dict[str, Any]) -> None:
    orders = monedula.dataset(settings, "orders")
    with pytest.raises(monedula.ArgumentError, match="there is no column 'ofset'"):
        orders.to_table(columns=["ofset"])
    with pytest.raises(pa.ArrowInvalid, match="ofset"):
        orders.to_table(filter=pc.field("ofset") == 3)
    with duckdb.connect() as connection:
        connection.register("orders", orders)
        with pytest.raises(duckdb.BinderException, match="ofset"):
            connection.sql("SELECT ofset FROM orders")
