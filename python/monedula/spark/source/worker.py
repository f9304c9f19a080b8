"""Reads the offset ranges of a task in Spark's Python workers, as Arrow batches."""

import logging
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from monedula._filters.records import RecordFilter
from monedula._monedula import Batch, ReaderCore
from monedula.errors import (
    DataLossError,
    DecodeError,
    OffsetOutOfRangeError,
    PartitionError,
    TopicRecreatedError,
    UnknownTopicError,
)
from monedula.spark.idle import IdleClients
from monedula.spark.offsets import partition_text
from monedula.spark.options.kafka_settings import ClientSettings
from monedula.spark.options.wording import OptionWording
from monedula.spark.process import has_address_limit, show_warnings, tune
from monedula.spark.source.planning import OffsetRange
from monedula.spark.source.typed import TypedColumn
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("monedula.spark")
_Batch = TypeVar("_Batch")

MAX_ROWS = 65_536
MAX_BYTES = 8 << 20
"""The most rows, and bytes of columns, of a batch: efficient for Arrow, and small in an executor's memory."""


@dataclass(frozen=True)
class ReadSettings:
    """The settings of the client and the columns to read; tasks with equal settings reuse a client."""

    kafka: ClientSettings
    columns: tuple[str, ...]
    output: tuple[str, ...] = ()
    """The columns of the rows, in their order, if the fields of the value are among them."""
    typed: tuple[TypedColumn, ...] = ()
    kept: RecordFilter | None = None
    """The records that are decoded; all of them if it is `None`."""


@dataclass(frozen=True)
class ReadTask:
    """The offset ranges of one Spark partition, with their leaders, so that the worker needs no Metadata request."""

    ranges: tuple[OffsetRange, ...]
    brokers: tuple[tuple[int, str, int], ...]
    """Node id, host and port of each leader."""
    leaders: tuple[tuple[tuple[str, int], str, int, int], ...]
    """Partition, topic id, node id of the leader, leader epoch."""
    fail_on_data_loss: bool


def read(task: ReadTask, settings: ReadSettings) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of the task's ranges, with the columns of the settings in their order.

    Raises:
        DataLossError: if records of a range are gone, and `fail_on_data_loss` is true.
        KafkaError: on any other failure: the task never ends with a part of its rows, and Spark runs it again.
    """
    import pyarrow as pa

    show_warnings()
    tune()
    columns = list(settings.output or settings.columns)
    settings = replace(settings, typed=tuple(each.in_task() for each in settings.typed))
    core = _clients.take(settings)
    batches = _batches(core, task, settings)
    # Another batch and a thread's stack do not fit into the memory that the guide names for a worker.
    with closing(batches if has_address_limit() else _one_ahead(batches, core.end)) as taken:
        for batch in taken:
            arrow = pa.record_batch(batch)
            yield arrow if arrow.schema.names == columns else arrow.select(columns)


def _one_ahead(batches: Generator[_Batch, None, None], end: Callable[[], None]) -> Generator[_Batch, None, None]:
    """Read the next batch while Spark takes this one: writing to its socket takes as long as decoding.

    Args:
        batches: what is read, on a thread of its own after the first batch. Its error comes after those before it.
        end: ends the wait of `batches` for more, if Spark needs no more of them.
    """
    with closing(batches):
        yield from islice(batches, 1)
        with ThreadPoolExecutor(1, "monedula-read-ahead") as reading:
            try:
                ahead = reading.submit(next, batches, None)
            except RuntimeError:
                # The system grants no thread, as under a limit of memory.
                yield from batches
                return
            try:
                while (batch := ahead.result()) is not None:
                    ahead = reading.submit(next, batches, None)
                    yield batch
            except (GeneratorExit, KeyboardInterrupt):
                end()
                raise


def _batches(core: ReaderCore, task: ReadTask, settings: ReadSettings) -> Generator[Batch, None, None]:
    try:
        ranges = list(task.ranges)
        while ranges:
            core.begin_planned(ranges, task.brokers, task.leaders)
            try:
                while (batch := core.next()) is not None:
                    yield batch
                break
            except (OffsetOutOfRangeError, UnknownTopicError, TopicRecreatedError) as loss:
                left = [
                    OffsetRange(TopicPartition(*partition), start, end) for partition, start, end in core.remaining()
                ]
                ranges = _after_loss(left, loss, task.fail_on_data_loss)
            except DecodeError as bad:
                with_text = any(each.column == bad.column and each.reader is None for each in settings.typed)
                raise _in_options(bad, with_text) from None
        core.end()
    except GeneratorExit:
        # Spark needs no more rows, as with LIMIT. The client is intact, so it is kept.
        core.end()
        _clients.put(settings, core)
        raise
    except BaseException:
        core.close()
        raise
    _clients.put(settings, core)


def _in_options(bad: DecodeError, with_text: bool) -> DecodeError:
    """The error with Spark's options for what a user may do. A read's own advice is to start behind the record."""
    what = OptionWording(bad.column).told(bad)
    option = f"{bad.column}.mode"
    has_text = f", and the field that {bad.column}.columnNameOfCorruptRecord names has the text" if with_text else ""
    advice = (
        f"The option {option} is FAILFAST. With PERMISSIVE such fields are null{has_text}; with DROPMALFORMED such "
        "records are left out"
    )
    details = {"topic": bad.topic, "partition": bad.partition, "offset": bad.offset, "next_offset": bad.next_offset}
    return DecodeError(f"{what}. {advice}", column=bad.column, path=bad.path, reason=bad.reason, **details)


def _after_loss(left: list[OffsetRange], loss: PartitionError, fail: bool) -> list[OffsetRange]:
    """The ranges without the offsets that the log of the failed partition does not have; reports these as data loss."""
    ranges = []
    for each in left:
        if tuple(each.partition) != (loss.topic, loss.partition):
            ranges.append(each)
            continue
        held = (loss.log_start_offset, loss.log_end_offset)
        is_outside = held[0] is not None and held[1] is not None
        start = min(max(each.start, held[0]), each.end) if held[0] is not None else each.end
        end = max(min(each.end, held[1]), start) if held[1] is not None else each.end
        if start < end:
            ranges.append(OffsetRange(each.partition, start, end))
            gaps = [(each.start, start), (end, each.end)]
        else:
            gaps = [(each.start, each.end)]
        lost = " and ".join(f"[{first}, {last})" for first, last in gaps if first < last)
        # The client's own message would not do: it advises to seek or to set auto.offset.reset, which is not possible
        # here.
        why = f"the log holds {held[0]}..{held[1]}" if is_outside else str(loss)
        report_data_loss(
            f"Could not read records in offset {lost} for topic partition {partition_text(each.partition)}: {why}",
            fail,
            loss,
        )
    return ranges


def report_data_loss(what: str, fail: bool, cause: Exception | None = None) -> None:
    """Report data loss: raise an error or log a warning, depending on the option `failOnDataLoss` (`fail`)."""
    lost = (
        "Some data may have been lost because they are not available in Kafka any more; either the data was aged out "
        "by Kafka or the topic may have been deleted before all the data in the topic was processed."
    )
    if fail:
        advice = "If you don't want your query to fail on such cases, set the source option failOnDataLoss to false."
        raise DataLossError(f"{lost} {advice} Reason: {what}") from cause
    _log.warning("%s The query goes on, as failOnDataLoss is false. Reason: %s", lost, what)


def _open(settings: ReadSettings) -> ReaderCore:
    specs = {typed.column: typed.decoder().spec for typed in settings.typed}
    columns = list(settings.columns)
    key, value = specs.get("key"), specs.get("value")
    return ReaderCore(
        settings.kafka.here(), columns, False, MAX_ROWS, MAX_BYTES, key, value, fields=None, kept=settings.kept
    )


_clients = IdleClients(_open, ReaderCore.close)
