"""What makes `format("monedula")` known to Spark without a word from the user.

Spark looks for top-level modules whose names begin with `pyspark_` and registers their `DefaultSource`. It does so in
every session, so nothing is loaded here before the format is used.
"""

from typing import TYPE_CHECKING, Any

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType
except ImportError as error:
    raise ImportError(
        "monedula's source for Spark needs PySpark 4.0 or newer, and pyarrow: pip install 'monedula[spark]'"
    ) from error

if TYPE_CHECKING:
    from monedula.spark.source import Source

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Kafka as a source of Spark, batch and streaming, with the options and semantics of Spark's own `kafka`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "monedula"

    def schema(self) -> StructType:
        """The schema of Spark's own Kafka source, or the columns of it that the option `columns` names."""
        return self._source(None).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch query."""
        from monedula.spark.batch import BatchReader

        return BatchReader(self._source(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """The reader of a streaming query."""
        from monedula.spark.stream import StreamReader

        return StreamReader(self._source(schema))

    def _source(self, schema: StructType | None) -> "Source":
        from monedula.spark.source import Source

        options: dict[str, Any] = dict(self.options.items())
        return Source(options, schema)
