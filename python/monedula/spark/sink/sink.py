"""The writers of `df.write.format("monedula")` and `df.writeStream.format("monedula")`.

Rows are written at least once, as with Spark's own sink: a failed task is run again as a whole, and so is a micro-batch
that was not committed. Commit and abort only write log messages, and the driver opens no connections but to a registry.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructField, StructType

from monedula.errors import ConfigError
from monedula.spark.errors_first import errors_first
from monedula.spark.options.kafka_settings import ClientSettings
from monedula.spark.process import show_warnings
from monedula.spark.sink.encoded_columns import EncodedColumn
from monedula.spark.sink.options import SinkOptions
from monedula.spark.sink.task_writer import WriteSettings, write

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("monedula.spark")

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (_HEADERS,),
    "partition": (IntegerType(),),
}
"""The allowed types of each column that is written, in the order in which Spark's own sink checks the columns."""
_MAX_ROWS = 10_000
"""The most rows of a batch if Spark passes rows one by one: as many as Spark puts into an Arrow batch by default."""

# Spark 4.0 has no DataSourceStreamArrowWriter.
_StreamWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)
TAKES_ARROW = _StreamWriter is not DataSourceStreamWriter
"""True if this version of Spark passes Arrow batches to a streaming sink, not rows."""


class Committed(WriterCommitMessage):
    """A task's message to the driver: how many rows it wrote."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class Sink:
    """The options and columns of one query, for both writers. It is pickled, so it opens no connections."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        show_warnings()
        parsed = SinkOptions.parse(options)
        self.schema = schema
        kafka = ClientSettings.of(parsed.kafka)
        pinned = tuple(each.pinned(kafka.here).of(schema, parsed.topic) for each in parsed.written)
        written = tuple(each.registered(schema, kafka.here, parsed.topic) for each in pinned)
        self.settings = WriteSettings(
            kafka=kafka,
            topic=parsed.topic,
            columns=_columns(schema, parsed.topic, written),
            written=written,
        )

    def write(self, batches: "Iterator[pa.RecordBatch]") -> Committed:
        """Write the rows of one task; returns when all are acknowledged."""
        return Committed(write(batches, self.settings))

    def in_batches(self, rows: Iterator[Any]) -> "Iterator[pa.RecordBatch]":
        """The rows of one task as Arrow batches, if Spark passes them one by one."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        # Columns that are not sent are all null: their types may have no Arrow type.
        names = self.schema.fieldNames()
        fields = [field for each in self.settings.written for field in each.fields]
        types = {place: to_arrow_type(self.schema[place].dataType) for _, place in (*self.settings.columns, *fields)}
        while chunk := list(islice(rows, _MAX_ROWS)):
            arrays = [
                pa.array([row[place] for row in chunk], types[place]) if place in types else pa.nulls(len(chunk))
                for place in range(len(names))
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def say_committed(self, messages: Sequence[WriterCommitMessage | None], batch: str) -> None:
        """Log how many rows the tasks wrote."""
        written = [each for each in messages if isinstance(each, Committed)]
        rows = sum(each.rows for each in written)
        _log.info("%swrote %d rows to Kafka in %d tasks", batch, rows, len(written))

    def say_aborted(self, messages: Sequence[WriterCommitMessage | None], batch: str) -> None:
        """Warn that some of the rows were written to Kafka, and stay there."""
        show_warnings()  # Spark calls abort() in a process of its own
        rows = sum(each.rows for each in messages if isinstance(each, Committed))
        _log.warning(
            "%swas aborted. What its tasks wrote until then is in Kafka and stays there: %d rows of those that ended, "
            "and some of the others",
            batch,
            rows,
        )


@errors_first
class BatchWriter(DataSourceArrowWriter):
    """The writer of a batch query, `df.write`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Called when all tasks have succeeded."""
        self._sink.say_committed(messages, "the query ")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Called when a task has failed too often."""
        self._sink.say_aborted(messages, "the query ")


@errors_first
class StreamWriter(_StreamWriter):
    """The writer of a streaming query, `df.writeStream`; there is one for each micro-batch."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Any) -> WriterCommitMessage:
        """Write the rows of one task of a micro-batch."""
        return self._sink.write(iterator if TAKES_ARROW else self._sink.in_batches(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Called when all tasks have succeeded."""
        self._sink.say_committed(messages, f"micro-batch {batchId} ")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Called when a task has failed too often."""
        self._sink.say_aborted(messages, f"micro-batch {batchId} ")


def _columns(
    schema: StructType, topic: str | None, written: tuple[EncodedColumn, ...] = ()
) -> tuple[tuple[str, int], ...]:
    """The columns to send, each with its index; unknown columns are ignored, as in Spark's own sink.

    A column that is written in a format may have any type; without values' own column, other columns are their fields.
    """
    places: dict[str, int] = {}
    for place, name in enumerate(schema.fieldNames()):
        places.setdefault(name, place)
    if topic is not None:
        places.pop("topic", None)
    elif "topic" not in places:
        raise ConfigError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic.",
            key="topic",
        )
    for each in written:
        if each.fields:
            places.pop(each.column, None)
    typed = {each.column for each in written}
    if "value" not in places and "value" not in typed:
        raise ConfigError("Required attribute 'value' not found")
    for name, types in TYPES.items():
        if name in places and name not in typed:
            _check_type(name, schema[places[name]].dataType, types)
    return tuple((name, places[name]) for name in TYPES if name in places)


def _check_type(name: str, given: DataType, wanted: tuple[DataType, ...]) -> None:
    # Compared as text, because == also compares nullability, which does not matter to a sink.
    if given.simpleString() not in {each.simpleString() for each in wanted}:
        expected = " or ".join(each.simpleString() for each in wanted)
        message = f"{name} attribute unsupported type {given.simpleString()}. {name} must be a(n) {expected}"
        raise ConfigError(message)
