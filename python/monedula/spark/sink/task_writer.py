"""Writes the Arrow batches of a task in Spark's Python workers, until all rows are acknowledged."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from monedula._monedula import BatchFuture
from monedula.config import HiddenValues
from monedula.errors import ArgumentError, BatchSendError, KafkaError, UnknownTopicError
from monedula.producer.sync import Producer
from monedula.spark.idle import IdleClients
from monedula.spark.offsets import partition_text
from monedula.spark.options.kafka_settings import ClientSettings, with_prefix
from monedula.spark.options.wording import OptionWording
from monedula.spark.process import show_warnings, tune
from monedula.spark.sink.encoded_columns import EncodedColumn
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_NULL_TOPIC = (
    "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default "
    "topic."
)


@dataclass(frozen=True)
class WriteSettings:
    """The producer's settings, the topic and the columns; tasks with equal producer settings reuse a producer."""

    kafka: ClientSettings
    topic: str | None
    columns: tuple[tuple[str, int], ...]
    """The columns to send, each with its index in Spark's batches."""
    written: tuple[EncodedColumn, ...] = ()


def write(batches: "Iterator[pa.RecordBatch]", settings: WriteSettings) -> int:
    """Send all rows, wait until the brokers have acknowledged them as `acks` requires, and return their number.

    `buffer.memory` and the size of one batch of Spark limit the memory: `send_batch` waits for room.

    Raises:
        KafkaError: if a row was not delivered. Spark runs the task again, which repeats the rows that were delivered.
    """
    show_warnings()
    tune()
    producer = _producers.take(settings.kafka)
    try:
        written = _write(batches, producer, settings)
    except BaseException:
        # The task has failed, so its other records need not be waited for.
        producer.close(0.0)
        raise
    _producers.put(settings.kafka, producer)
    return written


def _write(batches: "Iterator[pa.RecordBatch]", producer: Producer, settings: WriteSettings) -> int:
    sent = 0
    under_way: list[tuple[int, BatchFuture]] = []
    forms: dict[str, Any] = {each.column: each.in_task().form() for each in settings.written}
    for batch in batches:
        try:
            future = producer.send_batch(_projected(batch, settings), settings.topic, **forms)
        except ArgumentError as error:
            if not forms:
                raise
            what = OptionWording("value").told(error)
            raise ArgumentError(f"of the task's rows from {sent} on, {what}") from None
        under_way.append((sent, future))
        sent += batch.num_rows
        # Check all futures, also out of order, so that a failure ends the task at once: an earlier batch may wait long
        # for its broker, while later batches find no room.
        waiting = []
        for each in under_way:
            if each[1].done():
                _check_delivered(*each)
            else:
                waiting.append(each)
        under_way = waiting
    producer.flush()
    for each in under_way:
        _check_delivered(*each)
    return sent


def _projected(batch: "pa.RecordBatch", settings: WriteSettings) -> "pa.RecordBatch":
    import pyarrow as pa

    names = [name for name, _ in settings.columns]
    columns: list[Any] = [batch.column(place) for _, place in settings.columns]
    for each in settings.written:
        if each.fields:
            fields = [pa.field(name, batch.schema.field(place).type) for name, place in each.fields]
            names.append(each.column)
            columns.append(pa.StructArray.from_arrays([batch.column(place) for _, place in each.fields], fields=fields))
    if "topic" in names and columns[names.index("topic")].null_count > 0:
        raise ArgumentError(_NULL_TOPIC)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _check_delivered(first_row: int, future: BatchFuture) -> None:
    try:
        future.result()
    except BatchSendError as error:
        report = error.report
        if report is None or not report.errors:
            raise
        row, cause = report.errors[0]
        raise BatchSendError(
            f"{report.failed} of {report.num_rows} rows were not written to Kafka. The first is row {first_row + row} "
            f"of the task{_of_partition(cause)}: {type(cause).__name__}: {with_prefix(str(cause))}{_advice(cause)}",
            report=report,
        ) from cause


def _of_partition(error: KafkaError) -> str:
    if error.topic is None or error.partition is None:
        return ""
    return f", for partition {partition_text(TopicPartition(error.topic, error.partition))}"


def _advice(error: KafkaError) -> str:
    if isinstance(error, UnknownTopicError) and error.partition is not None:
        return ". The column partition says so: without it, .drop('partition'), the key chooses the partition"
    return ""


def _open(kafka: ClientSettings) -> Producer:
    return Producer(HiddenValues(kafka.here()))


_producers = IdleClients(_open, Producer.close)
