"""Memory of a job that lands in a table with 100 open partition values, in a process of its own.

`python -m benches.landing.memory FORMAT BOOTSTRAP TOPIC PATH` prints it as JSON.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import monedula
import pyarrow as pa
import pyarrow.parquet as pq
from monedula.landing import LandingJob
from monedula.landing.data_files import DataFiles

from benches import running
from benches.landing.orders import EVERY_SECONDS, SCHEMA, target

VALUES = 100
SHOP = "shop"
"""A column of `VALUES` values in turn: files of all of them are open at once."""

FIELDS = pa.schema([*SCHEMA, (SHOP, pa.int32())])
BUDGET_BYTES = 64 << 20


def fill(settings: Mapping[str, str], source: str, topic: str) -> None:
    """Write the records of a topic into another one, each with the column of partition values."""
    columns: list[Any] = ["value"]
    value = monedula.Json(SCHEMA)
    written = 0
    with monedula.Producer({**settings, "compression.type": "lz4"}) as producer:
        for batch in monedula.read(dict(settings), source, columns=columns, value=value):
            values: Any = pa.record_batch(batch).column("value")
            shops = pa.array([number % VALUES for number in range(written, written + len(values))], pa.int32())
            wide = pa.StructArray.from_arrays([*values.flatten(), shops], fields=list(FIELDS))
            producer.send_batch(pa.record_batch({"value": wide}), topic, value=monedula.Json(FIELDS))
            written += len(values)


def main() -> None:
    """Land the topic."""
    form, bootstrap, topic, path = sys.argv[1:]
    most_open = [0]
    append = DataFiles._append

    def counted(self: DataFiles, rows: Any, partitions: Any | None) -> None:
        append(self, rows, partitions)
        most_open[0] = max(most_open[0], len(self._open))

    DataFiles._append = counted  # type: ignore[method-assign]
    job = LandingJob(
        {"bootstrap.servers": bootstrap},
        topic,
        target(form, Path(path), partition_by=SHOP),
        value=monedula.Json(FIELDS),
        until="latest",
        every=EVERY_SECONDS,
        max_memory_bytes=BUDGET_BYTES,
    )
    job._table.prepare(job.schema)  # what the libraries take of themselves is of the baseline
    baseline = running.high_water_bytes(os.getpid())
    result = job.run()
    groups = [
        metadata.row_group(number).total_byte_size
        for metadata in (pq.read_metadata(file) for file in Path(path).rglob("*.parquet"))
        for number in range(metadata.num_row_groups)
    ]
    told = {
        "rows": result.rows,
        "files": result.files,
        "commits": result.commits,
        "baseline_bytes": baseline,
        "over_baseline_bytes": running.high_water_bytes(os.getpid()) - baseline,
        "budget_bytes": BUDGET_BYTES,
        "open_files": most_open[0],
        "row_groups": len(groups),
        "largest_row_group_bytes": max(groups),
        "mean_row_group_bytes": sum(groups) // len(groups),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
