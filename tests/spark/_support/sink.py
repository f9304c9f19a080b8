"""An idempotent sink: what a micro-batch holds is kept under its id, and written again by whoever runs it again."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Position = tuple[str, int, int]


class Sink:
    """A directory with a file for each batch."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def write(self, batch: "DataFrame", batch_id: int) -> None:
        """Put topic, partition and offset of every row under the batch's id, all or nothing."""
        rows = [tuple(row) for row in batch.select("topic", "partition", "offset").collect()]
        partial = self._directory / f"{batch_id}.partial"
        partial.write_text(json.dumps(rows))
        partial.rename(self._directory / f"{batch_id}.json")

    def batches(self) -> dict[int, list[Position]]:
        """What is there, sorted, by batch id."""
        return {
            int(path.stem): sorted(
                (topic, partition, offset) for topic, partition, offset in json.loads(path.read_text())
            )
            for path in sorted(self._directory.glob("*.json"), key=lambda path: int(path.stem))
        }

    def positions(self) -> list[Position]:
        """Every row of every batch: one that is there twice was read into two batches."""
        return sorted(position for batch in self.batches().values() for position in batch)
