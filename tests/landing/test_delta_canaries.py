"""What deltalake has to do for a landing job: they fail if a version of it does otherwise."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    deltalake.DeltaTable.create(tmp_path / "lake", schema=SCHEMA)
    return tmp_path / "lake"


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
