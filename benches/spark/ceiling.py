"""The ceiling of any data source in Python: one that yields ready-made Arrow batches and does nothing else.

The batches hold what the topic holds, cut as our source cuts them, in files that are mapped into memory: a worker's
only work is to hand them to Spark.
"""

from collections.abc import Iterator
from pathlib import Path

import monedula
import pyarrow
from monedula.spark.process import tune
from monedula.spark.source.options import COLUMNS
from monedula.spark.source.schema import source_schema
from monedula.spark.source.worker import MAX_BYTES, MAX_ROWS
from pyarrow import ipc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


class Ceiling(DataSource):
    """Format `ceiling`; the option `path` names the folder that `prepare` wrote."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        return source_schema(COLUMNS[:-1])

    def reader(self, schema: StructType) -> "CeilingReader":
        return CeilingReader(self.options["path"], schema.fieldNames())


class CeilingReader(DataSourceReader):
    """One task for each file."""

    def __init__(self, path: str, columns: list[str]) -> None:
        self._path = path
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(path)) for path in sorted(Path(self._path).iterdir())]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        # What our source does about Spark's worker processes is no merit of its reading: the ceiling has it too.
        tune()
        with pyarrow.memory_map(partition.value) as source:
            batches = ipc.open_file(source)
            for index in range(batches.num_record_batches):
                batch = batches.get_batch(index)
                yield batch if batch.schema.names == self._columns else batch.select(self._columns)


def prepare(directory: Path, bootstrap: str, topic: str, partitions: int) -> None:
    """Write the topic's records into files of Arrow batches, one for each partition."""
    schema = to_arrow_schema(source_schema(COLUMNS[:-1]), timezone="UTC")
    directory.mkdir(parents=True)
    for partition in range(partitions):
        stream = monedula.read(
            {"bootstrap.servers": bootstrap}, (topic, partition), max_rows=MAX_ROWS, max_bytes=MAX_BYTES
        )
        with ipc.new_file(str(directory / f"{partition}.arrow"), schema) as file:
            for batch in stream:
                file.write_batch(pyarrow.record_batch(batch).cast(schema))
