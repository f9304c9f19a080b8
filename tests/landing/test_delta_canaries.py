"""What deltalake has to do for a landing job: they fail if a version of it does otherwise."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")

from deltalake.transaction import RemoveAction  # noqa: E402 - needs the extra

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    deltalake.DeltaTable.create(tmp_path / "lake", schema=SCHEMA)
    return tmp_path / "lake"


def remove(table: Any, count: int, retries: int | None = None) -> None:
    """Remove the first files of a version, as `compact` and upserts do."""
    actions = pa.table(table.get_add_actions()).to_pylist()[:count]
    removals = [RemoveAction(unquote(each["path"]), True, 1, each["size_bytes"]) for each in actions]
    properties = deltalake.CommitProperties(max_commit_retries=retries)
    table.create_write_transaction(removals, "append", table.schema(), commit_properties=properties)


def append(path: Path, *ids: int) -> None:
    for each in ids:
        deltalake.write_deltalake(path, pa.table({"id": [each]}, SCHEMA), mode="append")


def ids(path: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def commit(table: Any, application: str, version: int) -> None:
    properties = deltalake.CommitProperties(app_transactions=[deltalake.Transaction(application, version, 1)])
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_a_stale_handle_cannot_move_a_position(path: Path, version: int) -> None:
    stale = deltalake.DeltaTable(path)
    commit(deltalake.DeltaTable(path), "orders/0", 5)
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        commit(stale, "orders/0", version)
    assert deltalake.DeltaTable(path).transaction_version("orders/0") == 5


def test_a_stale_handle_can_move_the_position_of_another_partition(path: Path) -> None:
    stale = deltalake.DeltaTable(path)
    commit(deltalake.DeltaTable(path), "orders/0", 5)
    commit(stale, "orders/1", 7)
    table = deltalake.DeltaTable(path)
    assert (table.transaction_version("orders/0"), table.transaction_version("orders/1")) == (5, 7)


def test_a_commit_of_the_same_handle_again_fails(path: Path) -> None:
    table = deltalake.DeltaTable(path)
    commit(table, "orders/0", 5)
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        commit(table, "orders/0", 6)
    table.update_incremental()
    commit(table, "orders/0", 6)


def test_a_change_of_columns_fails_a_stale_commit(path: Path) -> None:
    stale = deltalake.DeltaTable(path)
    deltalake.DeltaTable(path).alter.add_columns([deltalake.Field("more", "string")])
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        commit(stale, "orders/0", 5)


def test_positions_outlive_checkpoints_and_compaction(path: Path) -> None:
    table = deltalake.DeltaTable(path)
    commit(table, "orders/0", 5)
    table.update_incremental()
    table.create_checkpoint()
    table.optimize.compact()
    assert deltalake.DeltaTable(path).transaction_version("orders/0") == 5


def test_a_commit_is_found_by_its_id(path: Path) -> None:
    table = deltalake.DeltaTable(path)
    properties = deltalake.CommitProperties(custom_metadata={"monedula.commit": "one"})
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)
    table.update_incremental()
    assert table.history(1)[0]["monedula.commit"] == "one"


def test_a_commit_without_retries_is_for_one_version_of_the_table(path: Path) -> None:
    append(path, 1, 2)
    acts: list[Callable[[], object]] = [
        lambda: append(path, 3),
        lambda: commit(deltalake.DeltaTable(path), "orders/0", 5),
    ]
    for act in acts:
        stale = deltalake.DeltaTable(path)
        act()
        with pytest.raises(deltalake.exceptions.CommitFailedError):
            remove(stale, 1, retries=0)
    assert ids(path) == [1, 2, 3]
    remove(deltalake.DeltaTable(path), 2, retries=0)
    assert len(ids(path)) == 1


def test_a_file_is_removed_once(path: Path) -> None:
    append(path, 1, 2)
    stale = deltalake.DeltaTable(path)
    remove(deltalake.DeltaTable(path), 1)
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        remove(stale, 1)
    assert len(ids(path)) == 1


def test_paths_of_removals_are_those_of_the_log_without_their_encoding(path: Path) -> None:
    other = path / "partitioned"
    rows = pa.table({"id": [1, 2], "country": ["a/b", "ä & ö %"]})
    deltalake.write_deltalake(other, rows, partition_by=["country"])
    remove(deltalake.DeltaTable(other), 1)
    assert deltalake.DeltaTable(other).to_pyarrow_table().num_rows == 1


def test_a_full_vacuum_spares_what_is_young_live_or_of_a_version_that_is_kept(path: Path) -> None:
    append(path, 1, 2)
    remove(deltalake.DeltaTable(path), 1)
    for file in path.glob("*.parquet"):
        os.utime(file, (1, 1))
    for name, days in (("young.parquet", 6), ("old.parquet", 8), ("_hidden.parquet", 8)):
        (path / name).write_bytes(b"rows")
        os.utime(path / name, (time.time() - days * 86400,) * 2)
    table = deltalake.DeltaTable(path)
    # The removal has the time 1 here, so that its file is of no version that is kept.
    (removed,) = table.vacuum(168, dry_run=True)
    assert set(table.vacuum(168, dry_run=False, full=True)) == {"old.parquet", removed}
    assert len(ids(path)) == 1
