"""Registers `format("monedula")` in Spark without a call from the user.

Spark looks for top-level modules whose names begin with `pyspark_`, and registers their `DefaultSource`. It imports
this module in every session, so `monedula` itself is imported only when the format is used.
"""

from typing import TYPE_CHECKING, Any

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType
except ImportError as error:
    raise ImportError(
        "monedula's source and sink for Spark need PySpark 4.0 or newer, and pyarrow: pip install 'monedula[spark]'"
    ) from error

if TYPE_CHECKING:
    from monedula.spark.sink.sink import Sink
    from monedula.spark.source.source import Source

__all__ = ["DefaultSource"]

_OVERWRITE = (
    "Save mode Overwrite not allowed for Kafka. Allowed is Append: .mode('append'). (Spark itself leaves its default "
    "mode, ErrorIfExists, to no sink in Python.)"
)


class DefaultSource(DataSource):
    """Kafka as a Spark source and sink, batch and streaming, with the options and semantics of Spark's own `kafka`.

        frame = (
            spark.read.format("monedula")  # or spark.readStream
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("subscribe", "orders")
            .load()
        )

    Columns: key, value (binary), topic, partition, offset, timestamp, timestampType, and with includeHeaders headers.
    `.schema("value binary, timestamp timestamp")` before `load()` reads only those columns, and saves the cost of the
    others.

    The options (upper or lower case; those after `|` do not exist in Spark's own source) are described in
    docs/spark.md:

        what          kafka.bootstrap.servers, and subscribe, subscribePattern or assign
        from, to      startingOffsets, startingTimestamp, startingOffsetsByTimestamp (and its Strategy);
                      in batch queries also endingOffsets, endingTimestamp, endingOffsetsByTimestamp
        micro-batches maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay | maxBytesPerTrigger
        tasks         minPartitions, maxRecordsPerPartition | maxPartitions
        rows          includeHeaders | columns, maxLateness (with filters on timestamp)
        failures      failOnDataLoss, fetchOffset.numRetries, fetchOffset.retryIntervalMs, kafkaConsumer.pollTimeoutMs
        Kafka         groupIdPrefix, and kafka.*: settings of the client, see `monedula.config_keys()`

        frame.write.format("monedula").mode("append")  # or frame.writeStream
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("topic", "orders")
            .save()

    Columns to write: value, key (string or binary), headers, topic (string; the option topic overrides it), partition
    (int); other columns are ignored. Options: topic, and kafka.*: settings of the producer. Rows are written at least
    once.
    """

    is_registered = False
    """Whether `monedula.spark.register` made it known; else Spark found it."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "monedula"

    def schema(self) -> StructType:
        """The schema of Spark's own Kafka source, reduced to the columns that the option `columns` names."""
        return self._source(None).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch query."""
        from monedula.spark.errors_first import without_traceback
        from monedula.spark.source.batch import BatchReader

        with without_traceback():
            return BatchReader(self._source(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """The reader of a streaming query."""
        from monedula.errors import ConfigError, SchemaRegistryError
        from monedula.spark.errors_first import without_traceback
        from monedula.spark.source.stream import InvalidStreamReader, StreamReader

        try:
            with without_traceback():
                return StreamReader(self._source(schema))
        except (ConfigError, SchemaRegistryError) as error:
            return InvalidStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a batch query."""
        from monedula.errors import ConfigError
        from monedula.spark.errors_first import without_traceback
        from monedula.spark.sink.sink import BatchWriter

        with without_traceback():
            if overwrite:
                raise ConfigError(_OVERWRITE)
            return BatchWriter(self._sink(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        """The writer of a streaming query.

        `overwrite` means output mode complete: each micro-batch writes the whole result again, as with Spark's own
        sink.
        """
        from monedula.spark.errors_first import without_traceback
        from monedula.spark.sink.sink import StreamWriter

        with without_traceback():
            writer: DataSourceStreamWriter = StreamWriter(self._sink(schema))
            return writer

    def _source(self, schema: "StructType | None") -> "Source":
        from monedula.spark.errors_first import without_traceback
        from monedula.spark.process import warn_of_driver_python
        from monedula.spark.source.source import Source

        if schema is not None and not self.is_registered:
            warn_of_driver_python()
        options: dict[str, Any] = dict(self.options.items())
        # Spark pickles this object once the schema of load() is known: a query has that of its registry's subject.
        with without_traceback():
            source = Source(options, schema, getattr(self, "_pinned", None))
        self._pinned = source.pinned
        return source

    def _sink(self, schema: StructType) -> "Sink":
        from monedula.spark.errors_first import without_traceback
        from monedula.spark.process import warn_of_driver_python
        from monedula.spark.sink.sink import Sink

        if not self.is_registered:
            warn_of_driver_python()
        with without_traceback():
            return Sink(dict(self.options.items()), schema)


class RegisteredSource(DefaultSource):
    """Spark runs a registered source with the Python of other Python code, and one that it found with the driver's."""

    is_registered = True
