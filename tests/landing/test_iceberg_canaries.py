"""What pyiceberg has to do for a landing job: they fail if a version of it does otherwise."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.landing.orders import iceberg

pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Transaction
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    properties: Any = iceberg(tmp_path / "ice").catalog
    catalog = load_catalog("default", **properties)
    catalog.create_namespace("lake")
    catalog.create_table("lake.orders", pa.schema([("id", pa.int64())]))
    return catalog


def commit(table: Any, position: int) -> None:
    """Commit as a landing job does, without files."""
    append = Transaction(table).update_snapshot({"monedula.commit": str(position)}).fast_append()
    updates, requirements = append._commit()
    properties = SetPropertiesUpdate(updates={"position": str(position)})
    uuid = AssertTableUUID(uuid=table.metadata.table_uuid)
    table.catalog.commit_table(table, (*requirements, uuid), (*updates, properties))


@pytest.mark.parametrize("before", [0, 1], ids=["the first snapshot", "a later one"])
def test_a_stale_handle_cannot_commit(catalog: Any, before: int) -> None:
    if before:
        commit(catalog.load_table("lake.orders"), 1)
    stale, fresh = (catalog.load_table("lake.orders") for _ in range(2))
    commit(fresh, 5)
    with pytest.raises(CommitFailedException):
        commit(stale, 7)
    table = catalog.load_table("lake.orders")
    assert table.properties["position"] == "5"
    assert len(table.snapshots()) == before + 1


def test_a_commit_without_files_is_a_snapshot_that_is_found_by_its_id(catalog: Any) -> None:
    commit(catalog.load_table("lake.orders"), 5)
    (snapshot,) = catalog.load_table("lake.orders").snapshots()
    assert snapshot.summary["monedula.commit"] == "5"


def test_a_stale_append_of_the_library_is_let_in_which_is_why_it_is_not_used(catalog: Any) -> None:
    stale = catalog.load_table("lake.orders")
    commit(catalog.load_table("lake.orders"), 5)
    stale.append(pa.table({"id": [1]}))
    assert catalog.load_table("lake.orders").scan().count() == 1
