"""`Iceberg`: a table of Apache Iceberg as the target of a landing job."""

from collections.abc import Mapping
from typing import Any

from monedula.errors import ArgumentError
from monedula.landing.column_types import Form
from monedula.landing.columns import DAY
from monedula.reading._export import installed


class Iceberg:
    """A table of Apache Iceberg, which is created with its namespace if there is none. Needs the extra `iceberg`.

    Args:
        table: its name in the catalog, such as `"warehouse.orders"`.
        catalog: the properties of the catalog, as pyiceberg has them, such as
            `{"type": "rest", "uri": "https://catalog"}`, also its `name` (`"default"`); or the name of one in
            pyiceberg's configuration. They are not shown by `repr`.
        partition_by: `"day(timestamp)"` for the day of each record's timestamp in UTC, as a hidden partition; or the
            name of a column of booleans, whole numbers, texts or dates. Without it the table is not partitioned.
        properties: properties of a table that is created, such as `{"commit.manifest-merge.enabled": "true"}`.

    Raises:
        ArgumentError: if the name has no namespace.
        ModuleNotFoundError: without the extra.
    """

    upsert: tuple[str, ...] = ()
    """No columns of keys: rows are appended."""

    def __init__(
        self,
        table: str,
        *,
        catalog: Mapping[str, str] | str = "default",
        partition_by: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        installed("pyiceberg", "iceberg")
        if not isinstance(table, str) or "." not in table.strip("."):
            raise ArgumentError.of("table", table, "expected a namespace and a name, such as 'warehouse.orders'")
        self.table = table
        self.catalog = catalog if isinstance(catalog, str) else dict(catalog)
        self.partition_by = partition_by
        self.properties = dict(properties or {})

    @property
    def partition_column(self) -> str | None:
        """The column by which the table is partitioned; `None` without one, and for the day, which is no column."""
        return None if self.partition_by == DAY else self.partition_by

    @property
    def form(self) -> Form:
        """The format of the table."""
        return "iceberg"

    def __repr__(self) -> str:
        return f"Iceberg({self.table!r}{'' if self.partition_by is None else f', partition_by={self.partition_by!r}'})"

    def _table(self, job: str) -> Any:
        from monedula.landing.iceberg_table import IcebergLandingTable

        return IcebergLandingTable(self, job)
