"""The records of the benches' topics as typed columns, and the tables that they land in."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from monedula.landing import Delta, Iceberg

EVERY_SECONDS = 3600.0
"""Size alone decides when is committed, as in a backfill."""

FIELDS: list[tuple[str, Any]] = [
    ("user", pa.int64()),
    ("event", pa.string()),
    ("cents", pa.int32()),
    ("item", pa.int32()),
    ("from", pa.string()),
    ("at", pa.int64()),
    ("ok", pa.bool_()),
]
"""All fields of a value."""

SCHEMA = pa.schema(FIELDS)
NAME = "bench.events"


def catalog_of(path: Path) -> dict[str, str]:
    """The properties of a SQL catalog in a folder."""
    path.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}/warehouse"}


def target(form: str, path: Path, **options: Any) -> Delta | Iceberg:
    """A table of a format in a folder."""
    return Delta(path, **options) if form == "delta" else Iceberg(NAME, catalog=catalog_of(path), **options)


def count(form: str, path: Path) -> int:
    """How many rows the table in a folder has, by its own library."""
    if form == "delta":
        from deltalake import DeltaTable

        return int(DeltaTable(path).to_pyarrow_dataset().count_rows())
    from pyiceberg.catalog import load_catalog

    return int(load_catalog("default", **catalog_of(path)).load_table(NAME).scan().count())
