"""`Delta`: a table of Delta Lake as the target of a landing job."""

import os
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from monedula.errors import ArgumentError
from monedula.landing.column_types import Form
from monedula.landing.columns import DATE, DAY
from monedula.landing.data_files import is_remote
from monedula.reading._export import installed

_TRUE = ("true", "1", "yes", "on", "y")
_RETRIES = {"retry_timeout": "30s"}
"""deltalake's own is three minutes, in which an address that leads nowhere is not told of."""


class Delta:
    """A table of Delta Lake, which is created if there is none. Needs the extra `delta`.

    Args:
        path: a folder, or a URL such as `s3://bucket/orders`.
        partition_by: `"day(timestamp)"` for the day of each record's timestamp in UTC, in the column `_date`; or the
            name of a column of booleans, whole numbers, texts or dates. Without it the table is not partitioned.
        storage_options: access to the store, as deltalake has it, such as `{"AWS_REGION": "eu-central-1"}`. They are
            not shown by `repr`. Unless they have a `retry_timeout`, a request to a store is tried again for 30 seconds.
        upsert: the column, or columns, of keys: the last row of each key replaces those before, and a record without a
            value, or a deletion of change data, removes them. `"key"` is the column of the records' keys, and
            `"key.id"` a field of decoded ones. Without it rows are appended.
        configuration: properties of a table that is created, such as
            `{"delta.logRetentionDuration": "interval 7 days"}`.

    Raises:
        ArgumentError: if `storage_options` would have the store overwrite commits of others.
        ModuleNotFoundError: without the extra.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        partition_by: str | None = None,
        upsert: str | Sequence[str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        installed("deltalake", "delta")
        # A job goes on in the same folder if the program moves to another.
        self.path = fspath(path) if "://" in fspath(path) else str(Path(path).absolute())
        self.partition_by = partition_by
        self.upsert = (upsert,) if isinstance(upsert, str) else tuple(upsert or ())
        if partition_by is not None and not all(each.isprintable() and each not in "/\\=" for each in partition_by):
            # It is in the names of folders, from which polars takes the values.
            raise ArgumentError.of(
                "partition_by", partition_by, "a name that no folder can have in it; rename the field"
            )
        self.storage_options = dict(storage_options or {})
        if is_remote(self.path):
            self.storage_options = {**_RETRIES, **self.storage_options}
        self.configuration = dict(configuration or {})
        told = self.storage_options.items()
        for name, value in (*told, *(os.environ.items() if is_remote(self.path) else ())):
            is_unsafe = name.lower().removeprefix("aws_") == "s3_allow_unsafe_rename"
            if is_unsafe and str(value).lower() in _TRUE:
                raise ArgumentError(
                    "with it two workers may both write one version of the table, and one of them is lost",
                    argument="storage_options",
                    value=name,
                    hint="leave it out: S3 and its like take conditional writes",
                )

    @property
    def partition_column(self) -> str | None:
        """The column by which the table is partitioned, or `None`."""
        return DATE if self.partition_by == DAY else self.partition_by

    @property
    def form(self) -> Form:
        """The format of the table."""
        return "delta"

    def __repr__(self) -> str:
        told = "" if self.partition_by is None else f", partition_by={self.partition_by!r}"
        return f"Delta({self.path!r}{told}{f', upsert={list(self.upsert)!r}' if self.upsert else ''})"

    def _table(self, job: str) -> Any:
        from monedula.landing.delta_table import DeltaLandingTable

        return DeltaLandingTable(self, job)
