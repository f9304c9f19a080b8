"""A topic lands in a table of Iceberg: what users see, faults, refusals, and that planted bugs are caught."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import monedula
import polars
import pyarrow as pa
import pytest
from monedula.errors import LandingError
from monedula.landing import Iceberg, LandingCommit, check
from monedula.landing.commits import PendingCommit
from monedula.testing import Broker

from tests.groups.ground import Ground
from tests.landing.orders import ORDER, Orders, iceberg, iceberg_table, landed, rows
from tests.landing.race import race

pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

from monedula.landing.iceberg_table import IcebergLandingTable
from pyiceberg.exceptions import CommitFailedException

Write = Callable[[IcebergLandingTable, PendingCommit], None]
WRITE: Write = IcebergLandingTable._write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ice"


def test_each_record_is_a_row_and_a_second_run_goes_on(orders: Orders, path: Path) -> None:
    result = orders.land(path)
    assert (result.rows, result.conflicts) == (300, 0)
    assert orders.land(path).rows == 0
    orders.send(30)
    assert orders.land(path).rows == 30
    found = rows(path).sort("id")
    assert found.columns == ["id", "amount", "key", "_kafka"]
    assert found["id"].to_list() == list(range(330))
    assert found["key"].to_list() == [f"key-{number}".encode() for number in range(330)]
    assert landed(path) == orders.offsets()
    assert check(orders.settings, orders.topic, iceberg(path), job="lake").ok


def test_duckdb_reads_the_same(orders: Orders, path: Path) -> None:
    orders.land(path)
    found = iceberg_table(path).scan("id < 50").to_arrow()  # noqa: F841 - DuckDB finds it by its name
    assert duckdb.sql("select count(*), sum(amount) from found").fetchall() == [(50, sum(range(50)) / 2)]


def test_columns_are_added_and_made_wider(orders: Orders, path: Path) -> None:
    orders.land(path, value=monedula.Json("id int, amount float"))
    orders.send(3, note="new")
    assert orders.land(path, value=monedula.Json("id bigint, amount double, note string")).rows == 3
    orders.send(3)
    assert orders.land(path, value=monedula.Json("id int")).rows == 3
    found = rows(path).sort("id")
    assert found.schema["id"] == polars.Int64
    assert found["note"].drop_nulls().to_list() == ["new"] * 3
    assert landed(path) == orders.offsets()
    with pytest.raises(LandingError, match="the column amount of the table is of the type double"):
        orders.land(path, value=monedula.Json("id bigint, amount string"))


def test_a_table_is_partitioned_by_the_hidden_day(orders: Orders, path: Path) -> None:
    with monedula.Producer(orders.settings) as producer:
        for day in (1, 2, 3):
            time = datetime(2026, 11, day, 23, 59, tzinfo=UTC)
            producer.send(orders.topic, b'{"id": 1000}', timestamp=time, partition=0)
    orders.land(path, partition_by="day(timestamp)")
    table = iceberg_table(path)
    days = {str(each["partition"]["_kafka_day"]) for each in table.inspect.partitions().to_pylist()}
    assert {"2026-11-01", "2026-11-02", "2026-11-03"} <= days
    (file,) = table.scan("_kafka.timestamp < '2026-11-02T00:00:00+00:00'").plan_files()
    assert file.file.record_count == 1
    with pytest.raises(LandingError, match=r"is partitioned by day\(timestamp\)"):
        orders.land(path)


@pytest.mark.parametrize("field", ["country string", "country int", "country boolean", "country date"])
def test_a_table_is_partitioned_by_a_field(ground: Ground, path: Path, field: str) -> None:
    values: dict[str, list[Any]] = {"string": ["a/b", "", None], "int": [1, -2, None], "boolean": [True, False, None]}
    told: list[Any] = values.get(field.split()[1], ["2026-11-01", "1969-12-31", None])
    made = Orders(ground.bootstrap, ground.topic(1))
    for value in told:
        made.send(2, country=value)
    made.land(path, value=monedula.Json(f"{ORDER}, {field}"), partition_by="country")
    found = iceberg_table(path).scan().to_arrow().sort_by("id")["country"].to_pylist()
    assert [None if each is None else str(each) for each in found[::2]] == [
        None if each is None else str(each) for each in told
    ]
    assert len(iceberg_table(path).inspect.partitions()) == 3


def test_bad_records_are_rows_with_the_reason_and_their_bytes(orders: Orders, path: Path) -> None:
    orders.send_bad()
    assert orders.land(path, bad_records="column").bad_records == 1
    (bad,) = rows(path).filter(polars.col("_error").is_not_null()).to_dicts()
    assert bad["_raw"] == {"key": b"bad", "value": b"{broken"}


def test_nested_values_and_types_of_arrow(ground: Ground, path: Path) -> None:
    made = Orders(ground.bootstrap, ground.topic(1))
    made.send(3, items=[{"sku": "a", "count": 1}], tags={"x": "y"}, at="2026-11-01T12:00:00Z", small=7)
    kinds = "items array<struct<sku: string, count: smallint>>, tags map<string, string>, at timestamp, small tinyint"
    made.land(path, value=monedula.Json(f"{ORDER}, {kinds}, price decimal(9, 2)"))
    found = iceberg_table(path).scan().to_arrow().to_pylist()[0]
    assert found["items"] == [{"sku": "a", "count": 1}]
    assert (found["tags"], found["small"]) == ([("x", "y")], 7)


def test_a_topic_that_was_created_again_needs_another_job(broker: Broker, path: Path) -> None:
    broker.create_topic("orders", 2)
    own = Orders(broker.bootstrap_servers, "orders")
    own.send(20)
    own.land(path)
    broker.delete_topic("orders")
    broker.create_topic("orders", 2)
    own.send(30)
    with pytest.raises(LandingError, match="was deleted and created again"):
        own.land(path)
    with pytest.raises(LandingError, match="the table has rows of orders-"):
        own.land(path, job="again")
    start = {("orders", 0): 0, ("orders", 1): 0}
    assert own.land(path, job="again", start=start).rows == 30


def test_a_table_that_was_rolled_back_is_refused_until_it_is_set_forward(orders: Orders, path: Path) -> None:
    orders.land(path)
    orders.send(30)
    orders.land(path)
    table = iceberg_table(path)
    newest = table.current_snapshot().snapshot_id
    first = table.current_snapshot().parent_snapshot_id
    table.manage_snapshots().set_current_snapshot(snapshot_id=first).commit()
    with pytest.raises(LandingError, match="was rolled back to an earlier snapshot"):
        orders.land(path)
    iceberg_table(path).manage_snapshots().set_current_snapshot(snapshot_id=newest).commit()
    assert orders.land(path).rows == 0
    assert landed(path) == orders.offsets()


def test_snapshots_that_expired_are_no_rollback(orders: Orders, path: Path) -> None:
    orders.land(path)
    table = iceberg_table(path)
    for _ in range(2):
        table.append(pa.table({"id": pa.array([], pa.int64())}))
    for snapshot in table.snapshots()[:-1]:
        table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    orders.send(3)
    assert orders.land(path).rows == 3


@pytest.mark.parametrize("is_written", [True, False])
def test_a_commit_whose_answer_is_lost_is_looked_up(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    lost = [True]

    def write(table: IcebergLandingTable, pending: PendingCommit) -> None:
        if not pending.files or not lost:
            WRITE(table, pending)
            return
        lost.clear()
        if is_written:
            WRITE(table, pending)
        raise OSError("the connection was reset")

    monkeypatch.setattr(IcebergLandingTable, "_write", write)
    assert orders.land(path).rows == 300
    assert landed(path) == orders.offsets()


def test_a_commit_that_looks_like_a_conflict_with_itself_is_looked_up(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(table: IcebergLandingTable, pending: PendingCommit) -> None:
        WRITE(table, pending)
        if pending.files:
            raise CommitFailedException("Requirement failed: branch main has changed")

    monkeypatch.setattr(IcebergLandingTable, "_write", write)
    result = orders.land(path)
    assert (result.rows, result.conflicts) == (300, 0)
    assert landed(path) == orders.offsets()


def test_two_workers_with_the_same_partitions_repeat_nothing(orders: Orders, path: Path) -> None:
    assert race(orders, path) > 0, "they did not meet"
    assert landed(path) == orders.offsets()
    # The files of commits that certainly failed are deleted.
    live = {Path(each.file.file_path).name for each in iceberg_table(path).scan().plan_files()}
    assert {file.name for file in path.rglob("*.parquet")} == live


def test_planted_a_rebase_after_a_conflict_is_caught(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IcebergLandingTable, "_moved", lambda *_: False)
    race(orders, path)
    assert landed(path) != orders.offsets()


def test_planted_files_deleted_on_an_unknown_outcome_are_caught(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = IcebergLandingTable.commit

    def give_up(table: IcebergLandingTable, pending: PendingCommit) -> bool:
        if not pending.files:
            return commit(table, pending)
        WRITE(table, pending)
        return False  # the answer was lost, and is taken for a conflict

    monkeypatch.setattr(IcebergLandingTable, "commit", give_up)
    orders.land(path)
    with pytest.raises(FileNotFoundError):
        rows(path)


def test_secrets_are_in_no_repr_and_a_name_has_a_namespace() -> None:
    assert "sesame" not in repr(Iceberg("lake.orders", catalog={"uri": "https://me:sesame@catalog"}))
    with pytest.raises(monedula.ArgumentError, match="expected a namespace and a name"):
        Iceberg("orders")


def test_a_table_that_is_rolled_back_right_after_a_commit_is_refused(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next commit would make the rollback one that this job has seen."""
    orders.land(path)
    orders.send(30)
    done: list[None] = []

    def write(table: IcebergLandingTable, pending: PendingCommit) -> None:
        WRITE(table, pending)
        if pending.files and not done:
            done.append(None)
            there = iceberg_table(path)
            parent = there.current_snapshot().parent_snapshot_id
            there.manage_snapshots().set_current_snapshot(snapshot_id=parent).commit()

    def go_on(commit: LandingCommit) -> None:
        rows_of.append(commit.rows)
        if len(rows_of) == 1:
            orders.send(30)
        else:
            job.stop()

    rows_of: list[int] = []
    monkeypatch.setattr(IcebergLandingTable, "_write", write)
    job = orders.job(path, until=None, every=0.05, on_commit=go_on)
    with pytest.raises(LandingError, match="was rolled back to an earlier snapshot"):
        job.run()


@pytest.mark.parametrize("is_created", [True, False])
def test_a_table_that_is_dropped_while_a_job_runs_is_gone(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch, is_created: bool
) -> None:
    orders.land(path)
    orders.send(3)
    job = orders.job(path)
    write = IcebergLandingTable._write

    def drop(table: IcebergLandingTable, pending: PendingCommit) -> None:
        table._catalog.drop_table("lake.orders")
        if is_created:
            table._catalog.create_table("lake.orders", pa.schema([("id", pa.int64())]))
        write(table, pending)

    monkeypatch.setattr(IcebergLandingTable, "_write", drop)
    monkeypatch.setattr("monedula.landing.iceberg_table.ATTEMPT_PAUSES_S", (0.0, 0.0))
    with pytest.raises(LandingError, match=r"another table stands there now|the table is gone"):
        job.run()
