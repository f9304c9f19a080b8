"""`check` and `monedula land check` of tables in both formats: what they say while jobs run, and after a rollback."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from monedula.errors import LandingError
from monedula.landing import TableCheck, check, compact
from monedula.testing import Broker

from tests.landing.orders import Orders, iceberg_table, landed, table_of
from tests.landing.test_command import run

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

from pyiceberg.catalog import load_catalog  # noqa: E402 - needs the extra


def roll_back(path: Path) -> None:
    """Have the table be what it was before its newest version."""
    if path.name == "ice":
        table = iceberg_table(path)
        parent = table.current_snapshot().parent_snapshot_id
        table.manage_snapshots().set_current_snapshot(snapshot_id=parent).commit()
    else:
        table = deltalake.DeltaTable(path)
        table.restore(table.version() - 1)


def checked(orders: Orders, path: Path, job: str = "lake") -> TableCheck:
    return check(orders.settings, orders.topic, table_of(path), job=job)


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_a_table_that_was_rolled_back_is_listed_and_the_error_says_what_to_do(
    orders: Orders, tmp_path: Path, folder: str
) -> None:
    path = tmp_path / folder
    orders.land(path)
    orders.send(30)
    orders.land(path)
    roll_back(path)
    found = checked(orders, path)
    assert not found.ok
    for each in found.partitions.values():
        assert (each.rows, each.start, each.end, each.repeated) == (100, 0, 110, [])
        assert (each.missing, each.unknown) == ([(100, 110)], [])
    assert "back" in str(found.rollback) or "restored" in str(found.rollback)
    # As the recovery story has it.
    ends = {partition: each.end for partition, each in checked(orders, path, "again").partitions.items()}
    assert orders.land(path, job="again", start=ends).rows == 30
    assert landed(path) == orders.offsets()
    assert checked(orders, path, "again").ok


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_the_command_lists_a_table_that_was_rolled_back(orders: Orders, tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder
    words: tuple[str, ...] = (str(path),)
    if folder == "ice":
        catalog: Any = table_of(path)
        options = (f"warehouse={catalog.catalog['warehouse']}",)
        words = (catalog.table, "--catalog", catalog.catalog["uri"], "--storage-option", *options)
    orders.land(path)
    orders.send(3)
    orders.land(path)
    roll_back(path)
    out, said = run(orders, "check", *words, "--topic", orders.topic, "--job", "lake", code=1)
    assert out == "".join(f"{partition}\t100\t0\t101\t\t100\t\n" for partition in range(3))
    assert "still has the positions of rows that are gone" in said
    assert "or land the topic as another --job with --from where rows are missing" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_a_commit_during_a_check_is_no_gap(
    orders: Orders, tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / folder
    orders.land(path)
    kind = type(table_of(path)._table("lake"))
    origins = kind.origins

    def commit_meanwhile(table: Any, topic: str) -> Any:
        yield from origins(table, topic)
        orders.send(30)
        monkeypatch.undo()
        orders.land(path)

    monkeypatch.setattr(kind, "origins", commit_meanwhile)
    found = checked(orders, path)
    assert found.ok
    assert {each.end for each in found.partitions.values()} == {100}


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_a_topic_that_has_fewer_partitions_now_hides_no_rows(broker: Broker, tmp_path: Path, folder: str) -> None:
    broker.create_topic("orders", 3)
    made = Orders(broker.bootstrap_servers, "orders")
    made.send(30)
    path = tmp_path / folder
    made.land(path)
    broker.delete_topic("orders")
    broker.create_topic("orders", 1)
    found = checked(made, path).partitions
    assert {number: each.rows for (_, number), each in found.items()} == {0: 10, 1: 10, 2: 10}


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_a_file_that_cannot_be_read_is_told(orders: Orders, tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder
    orders.land(path)
    for file in path.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(LandingError, match="the rows cannot be read: FileNotFoundError"):
        checked(orders, path)
    if folder == "lake":
        for file in deltalake.DeltaTable(path).file_uris():
            Path(file).write_bytes(b"no Parquet")
        orders.send(3)
        orders.land(path)
        with pytest.raises(LandingError, match="the files cannot be written anew: ArrowInvalid"):
            compact(table_of(path))


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_a_table_that_no_job_wrote_is_told(orders: Orders, tmp_path: Path, folder: str) -> None:
    rows = pa.table({"id": [1]})
    path = tmp_path / folder
    if folder == "lake":
        deltalake.write_deltalake(path, rows)
    else:
        table: Any = table_of(path)
        catalog = load_catalog("default", **table.catalog)
        catalog.create_namespace("lake")
        catalog.create_table(table.table, rows.schema)
    with pytest.raises(LandingError, match="no column _kafka"):
        checked(orders, path)
