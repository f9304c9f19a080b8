"""What others do to a table while jobs land in it: they compact it, and add columns."""

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from monedula.landing import Iceberg

from tests.landing.orders import Target, iceberg_table

COMPACTION = "foreign/compaction"


def compact(path: Path) -> None:
    """Write all rows of a table into one file in place of those that have them.

    Raises:
        Exception: another commit was first, of many classes; the table is as it was.
    """
    if path.name == "ice":
        # Read by the handle that is committed with: it is of one snapshot.
        table = _unretried(path)
        table.overwrite(table.scan().to_arrow())
        return
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    table = DeltaTable(path)
    there = pa.table(table.get_add_actions(flatten=True)).select(["path", "size_bytes"]).to_pylist()
    rows: Any = table.to_pyarrow_table()
    name, now = f"compacted-{uuid4()}.parquet", int(time.time() * 1000)
    pq.write_table(rows, path / name)
    removed = [RemoveAction(each["path"], False, now, each["size_bytes"], {}) for each in there]
    added = AddAction(name, (path / name).stat().st_size, {}, now, False, f'{{"numRecords":{len(rows)}}}')
    # Without a transaction of its own, a second compaction of the same files would be let in, and repeat rows.
    maintenance = Transaction(COMPACTION, table.version(), now)
    table.create_write_transaction(
        [*removed, added],
        mode="append",
        schema=table.schema(),
        commit_properties=CommitProperties(app_transactions=[maintenance]),
    )


def add_column(table: Target, name: str) -> None:
    """Add a column of texts to a table.

    Raises:
        Exception: as `compact`.
    """
    if isinstance(table, Iceberg):
        from pyiceberg.types import StringType

        with iceberg_table(table).update_schema() as update:
            update.add_column(name, StringType())
        return
    from deltalake import DeltaTable, Field

    DeltaTable(table.path, storage_options=table.storage_options or None).alter.add_columns([Field(name, "string")])


def _unretried(path: Path) -> Any:
    """The table, whose commits are not tried again on a newer snapshot: that would delete its rows unread."""
    table = iceberg_table(path)
    properties = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table
