"""The transactions of a log are those that deltalake tells, whatever became of the versions that had them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")

from monedula.landing.delta_store import DeltaStore  # noqa: E402 - needs the extra
from monedula.landing.delta_transactions import DeltaTransactions  # noqa: E402 - needs the extra


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """A table with three transactions of two applications."""
    table = deltalake.DeltaTable.create(tmp_path / "lake", schema=pa.schema([("id", pa.int64())]))
    for application, version in (("old", 1), ("new", 2), ("new", 3)):
        commit(table, application, version)
    return table


def commit(table: Any, application: str, version: int) -> None:
    properties = deltalake.CommitProperties(app_transactions=[deltalake.Transaction(application, version, 1)])
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)
    table.update_incremental()


def transactions_of(table: Any, tmp_path: Path) -> DeltaTransactions:
    return DeltaTransactions(DeltaStore(str(tmp_path / "lake"), {}), table)


def told(transactions: DeltaTransactions) -> list[int | None]:
    return [transactions.version_of(application) for application in ("old", "new", "none")]


def test_the_newest_transaction_of_each_application_counts(table: Any, tmp_path: Path) -> None:
    assert told(transactions_of(table, tmp_path)) == [1, 3, None]


def test_versions_behind_a_checkpoint_may_be_gone(table: Any, tmp_path: Path) -> None:
    table.create_checkpoint()
    for version in range(3):
        (tmp_path / "lake" / "_delta_log" / f"{version:020}.json").unlink()
    transactions = transactions_of(deltalake.DeltaTable(tmp_path / "lake"), tmp_path)
    assert told(transactions) == told(transactions) == [1, 3, None]


def test_the_handle_leads(table: Any, tmp_path: Path) -> None:
    transactions = transactions_of(table, tmp_path)
    assert told(transactions) == [1, 3, None]
    commit(deltalake.DeltaTable(tmp_path / "lake"), "old", 7)
    assert told(transactions) == [1, 3, None]
    table.update_incremental()
    assert told(transactions) == [7, 3, None]
    assert transactions.take_operations() == {"WRITE"}
    assert transactions.take_operations() == set()


def test_versions_that_are_gone_before_they_are_read_are_in_a_checkpoint(table: Any, tmp_path: Path) -> None:
    transactions = transactions_of(table, tmp_path)
    assert told(transactions) == [1, 3, None]
    other = deltalake.DeltaTable(tmp_path / "lake")
    for version in (7, 8):
        commit(other, "old", version)
    other.create_checkpoint()
    (tmp_path / "lake" / "_delta_log" / f"{4:020}.json").unlink()
    table.update_incremental()
    assert told(transactions) == [8, 3, None]


def test_a_version_that_cannot_be_read_is_not_passed_over(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = transactions_of(table, tmp_path)
    commit(table, "old", 7)

    def fail(*_: object) -> bytes:
        raise OSError("the connection was reset")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaStore, "read", fail)
        with pytest.raises(OSError, match="reset"):
            transactions.take_operations()
    assert told(transactions) == [7, 3, None]
    assert transactions.take_operations() == {"WRITE"}
