"""`Consumer`, the synchronous consumer."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from sys import exception
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

from monedula._arguments import seconds
from monedula._health import patience
from monedula._migration_hints import tells
from monedula._monedula import Batch, Operation, PendingCallback, Record
from monedula._process.signals import error_to_raise
from monedula.config import RawSettings, Settings
from monedula.consumer._base import (
    MAX_BYTES,
    MAX_ROWS,
    ConsumerBase,
    as_offsets,
    as_times,
    chosen,
    named,
    raw_times,
)
from monedula.consumer._callbacks import CallsBack
from monedula.consumer._commits import CommitFuture, as_committed, committed_offsets, of_owned
from monedula.consumer._dead_letters import WaitingBatch
from monedula.consumer._read_until import UntilLoop
from monedula.consumer._record_cursor import MAX_ROWS as ROWS_AHEAD
from monedula.consumer._record_cursor import RowCursor
from monedula.errors import KafkaTimeoutError, WakeupError
from monedula.producer.sync import Producer
from monedula.types.partitions import OffsetAndMetadata, OffsetAndTimestamp, Offsets, TopicPartition, Until

if TYPE_CHECKING:
    from monedula.workers import Retry
    from monedula.workers.failures import OnError
    from monedula.workers.plans import Order

_R = TypeVar("_R")


@tells
class Consumer(CallsBack, ConsumerBase):
    """Reads Kafka as Arrow batches.

    Methods may be called from any thread; the GIL is free while one waits or decodes. Ctrl-C ends any wait at once.

    Args:
        config: settings by Kafka's names, such as `{"bootstrap.servers": "localhost:9092"}`; both Java's and
            librdkafka's names are accepted. `monedula.config_keys()` lists them with their defaults.
        topics: what to `subscribe()` to, as a member of the group `group.id`.
        columns: names of the columns of a batch; all but `headers` if left out. Other columns are not built.
        headers: whether to add the `headers` column.
        assignors: your own assignors and names of built-in ones, in place of `partition.assignment.strategy`; see
            `monedula.assignors`.
        on_event: called with each event of the group membership (see `monedula.events`), inside calls that wait.
        key: how keys are decoded, such as `monedula.Json(schema)`, `Avro(schema)` or `Protobuf(schema)`; bytes if
            left out.
        value: how values are decoded; bytes if left out.
        where: a condition that records must meet to be returned, on `key`, `headers.NAME`, `topic`, `partition`,
            `offset` and `timestamp`, as for `monedula.read`: `("headers.type", "=", "paid")`. It is decided before keys
            and values are decoded. The position passes over the other records, which count as finished; `metrics()`
            counts them in `records_filtered`.
        **settings: settings with underscores for dots, such as `bootstrap_servers="localhost:9092"`.

    Raises:
        ArgumentError: if `columns`, `where` or another argument cannot be what is given.
        ConfigError: on an unknown setting (the message names the nearest known one) or an invalid value.

    Examples:
        >>> consumer = Consumer(bootstrap_servers="localhost:9092", columns=["offset", "value"])
        >>> consumer.schema.names
        ['value', 'offset']
        >>> consumer.close()
    """

    def __iter__(self) -> NoReturn:
        message = "use `for record in consumer.records()`, or `for batch in consumer.batches()`"
        raise TypeError(f"{type(self).__name__!r} object is not iterable; here: {message}")

    def __enter__(self) -> Self:
        self._core.assignment()  # raises ClosedError if the consumer is closed
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._member.finish_held()
        self.close()

    def batches(
        self,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
        max_wait: float = 0.1,
        timeout: float | None = None,
        until: Until | None = None,
    ) -> Iterator[Batch]:
        """Yield batches of records: for ever, or until `timeout` seconds pass without one, or up to `until`.

        A batch ends when it reaches `max_rows` or `max_bytes`, when `max_wait` has passed, or when the byte budget
        (`queued.max.bytes`) is full. The next fetch runs in the background. Taking the next batch marks the previous
        batch of this thread as finished; with `enable.auto.commit` its offsets are then committed.

        Args:
            max_rows: the most rows of a batch.
            max_bytes: the most bytes of its columns; a single larger record makes a batch of its own.
            max_wait: seconds that available rows wait for more rows to fill the batch.
            timeout: seconds without any record after which the iteration ends; `None` for never. The time that
                callbacks take does not count.
            until: `"latest"` for what each partition holds when it is first assigned in this loop (ListOffsets; under
                read_committed up to the last stable offset), or a time: what comes before the first record that is not
                older. The loop ends when the assigned partitions are read up to there, however much is written
                meanwhile. In a group, partitions that a rebalance brings are read too; a member without any ends when
                the group has been stable for two heartbeat intervals.

        Yields:
            Batches with at least one row.

        Raises:
            ArgumentError: if `until` is neither `"latest"` nor a time.
            PartitionError: a subclass, when a partition stops; a new loop continues with the other partitions.
            GroupError: a subclass, when the group membership ends; after `MaxPollExceededError` a new loop joins the
                group again.
            BrokerConnectionError: if the cluster cannot be reached within `bootstrap.timeout.ms`.
            BrokersUnavailableError: if `timeout` is over, but the brokers did not answer during it (or for the last
                15 s of it), so that the topic need not be drained.
            KafkaTimeoutError: if `timeout` is over while dead letters of typed columns wait for their acknowledgement.
            UnknownTopicError: at the end of `until`, once all is handed out, if subscribed topics do not exist, or no
                topic matches the pattern.
            ClosedError: if the consumer is closed, also by another thread.
        """
        thread = get_ident()
        bound = None if until is None else UntilLoop(self._core, self._refused, until)
        self._looping.append(thread)
        try:
            while batch := self._next_bounded(bound, max_rows, max_bytes, max_wait, timeout):
                yield batch
            self._check_drained(timeout, bound)
        except WakeupError:
            return
        finally:
            self._looping.remove(thread)
            if bound is not None:
                bound.end()

    def poll(self, timeout: float = 1.0, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> Batch:
        """Return the records that are available, or the first ones that arrive within `timeout` seconds.

        If none arrives, the batch has no rows (and is false). Rebalance callbacks that are due are called inside; the
        time that they take does not count.

        Args:
            timeout: seconds to wait for the first record.
            max_rows: the most rows of the batch.
            max_bytes: the most bytes of the batch's columns.

        Raises:
            PartitionError: a subclass, when a partition stops; the next call continues with the other partitions.
            GroupError: a subclass, when the group membership ends; after `MaxPollExceededError` the next call joins the
                group again.
            BrokerConnectionError: if the cluster cannot be reached within `bootstrap.timeout.ms`.
            BrokersUnavailableError: if there is no record and brokers have not answered for 15 s; or during the whole
                `timeout`, if that is between 5 and 15 s.
            WakeupError: after `wakeup()`.
            ClosedError: if the consumer is closed, also by another thread.
        """
        batch = self._next(max_rows, max_bytes, 0.0, timeout)
        if not batch:
            self._core.check_failing(patience(timeout, is_end=False))
        return batch

    def records(self, timeout: float | None = None, until: Until | None = None) -> Iterator[Record]:
        """Yield records one by one: for ever, or until `timeout` seconds pass without one, or up to `until`.

        For services that handle one record at a time; the columns of `batches()` are faster. Records are read ahead in
        batches. Leaving the loop early gives the unread records back to the consumer, and the next call returns them.
        While the loop runs, `position()` is the offset after the records that were read ahead. Taking the next record
        marks the previous one as finished; with `enable.auto.commit` its offset is then committed. After `wakeup()`,
        also in a signal handler, no further record comes. `timeout` and `until` as in `batches`.
        """
        rows = RowCursor(self._core)
        try:
            for batch in self.batches(max_rows=ROWS_AHEAD, max_wait=0.0, timeout=timeout, until=until):
                rows.load(batch)
                while (record := rows.take()) is not None:
                    yield record
        finally:
            rows.give_back()

    def run(
        self,
        handler: Callable[[Any], object],
        *,
        concurrency: int = 32,
        order: "Order" = "key",
        batch_size: int | None = None,
        retries: "int | Retry" = 0,
        dead_letter: str | None = None,
        reply_topic: str | None = None,
        producer: Producer | None = None,
        transaction: Producer | None = None,
        commit_interval: float = 0.1,
        on_error: "OnError | None" = None,
        max_queued_records: int = 10_000,
        max_queued_bytes: int = 64 << 20,
        grace: float = 30.0,
        timeout: float | None = None,
        until: Until | None = None,
    ) -> None:
        """Call `handler` for each record, many at a time and in order by key, and commit what is finished.

        Returns at the end of `timeout` or `until`, when all records are handled; or after `wakeup()`, also in a signal
        handler, when those are handled that were begun. What is finished is committed by then. Only offsets before the
        first unfinished record of a partition are committed (at-least-once): after a crash the records from there on
        are handled again. The consumer must be subscribed, with `enable.auto.commit` on (the default), or off with
        `transaction`. This thread reads, and runs rebalance callbacks; handlers may take as long as they need.

        When a rebalance takes a partition away, none of its waiting records is begun, except those before the last one
        that was; the rebalance waits for these, at most `grace` seconds.

        Args:
            handler: called with a `Record`, in one of `concurrency` threads; with `batch_size`, with a list of records.
            concurrency: how many handlers run at a time.
            order: `"key"`: records with the same key (of a partition) one after the other, records without a key in any
                order; `"partition"`: all records of a partition; `"none"`: in any order.
            batch_size: calls the handler with up to so many records that may be handled now, in their order.
            retries: how often a record is tried again whose handler raised, or a `monedula.Retry`. Only its key (or
                partition) waits.
            dead_letter: the topic to which records are written that are given up, with their key, value, headers and
                timestamp, and headers that say where they are from and why (`__dlq.errors.*`, KIP-1191). The offset
                counts as finished once the brokers have acknowledged. Needs `headers=True`. Without it, the run ends.
            reply_topic: the topic to which is written what the handler returns: nothing for `None`, else a value, with
                the key of the record, or a `monedula.Reply`, or a list of these. The record counts as finished once the
                brokers have acknowledged its replies. Values are bytes or str, or what the producer's `value=` encodes.
            producer: writes the dead letters and replies; if left out, a producer with the settings of this consumer.
            transaction: in place of it, a producer with a `transactional.id`: exactly once. Replies, dead letters and
                the offsets of what is finished are committed together, in one transaction after the other, while
                handlers run. Needs `enable.auto.commit=false`, and `commit()` is refused meanwhile. What the handler
                itself sends belongs to none of them.
            commit_interval: seconds between these transactions, which also begin after 1,000 finished records.
            on_error: called with the handler's argument, its exception and the number of attempts. Returns `"retry"`,
                `"dead_letter"`, `"skip"`, `"stop"`, or `None` for what `retries` and `dead_letter` say.
            max_queued_records: the most records that wait or are handled; no more are taken meanwhile, but the consumer
                goes on polling.
            max_queued_bytes: the same in bytes.
            grace: seconds that the end of the run, and a rebalance, wait for handlers. A handler that takes longer is
                not interrupted, but its records stay uncommitted and are handled again; the log warns.
            timeout: ends the run when no record came for so many seconds and all are handled.
            until: as in `batches`: ends the run when all is handled up to there.

        Raises:
            Exception: what the handler raised, unchanged, once it is given up without `dead_letter`. A note has
                topic, partition and offset. Handlers that run are waited for; no other is begun.
            ArgumentError: if an argument makes no sense, this consumer is not subscribed, or it reads `reply_topic` or
                `dead_letter`; at the first record for which the handler returned a coroutine or a generator: its code
                did not run.
            CommitFailedError: if the last commit failed.
            TransactionAbortedError: if three transactions in a row were aborted, or one for a reply or dead letter that
                another would not write either.
            ProducerFencedError: if another producer has the `transactional.id` of `transaction`.
            KafkaTimeoutError: if brokers do not say whether the last transaction was committed.
            PartitionError, GroupError, ClosedError: as `batches`; `UnknownTopicError` once all is handled, or if the
                topic of replies or dead letters does not exist.
        """
        from monedula.consumer._run_setup import under_way
        from monedula.workers.plans import as_plan
        from monedula.workers.threads import ThreadRun

        plan = as_plan(
            handler=handler,
            concurrency=concurrency,
            order=order,
            batch_size=batch_size,
            retries=retries,
            dead_letter=dead_letter,
            reply_topic=reply_topic,
            producer=producer,
            transaction=transaction,
            commit_interval=commit_interval,
            on_error=on_error,
            max_queued_records=max_queued_records,
            max_queued_bytes=max_queued_bytes,
            grace=grace,
            timeout=timeout,
            until=until,
        )
        with under_way(self, plan) as (run, outputs):
            ThreadRun(self, run, outputs).run()

    def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The smallest offset of each partition, from a ListOffsets request.

        Args:
            partitions: `(topic, partition)` pairs; all assigned partitions if left out.
            timeout: seconds to wait; `default.api.timeout.ms` if left out.

        Raises:
            KafkaTimeoutError: after `timeout`; the message has the last failure.
            UnknownTopicError: if a topic or partition does not exist.
        """
        return as_offsets(self._outcome(self._core.list_offsets("beginning", chosen(partitions), timeout)))

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition; under read_committed, the last stable offset.

        Arguments and errors as `beginning_offsets`.
        """
        return as_offsets(self._outcome(self._core.list_offsets("end", chosen(partitions), timeout)))

    def offsets_for_times(
        self, times: Mapping[tuple[str, int], datetime | int | str], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition whose timestamp is at or after the given time; `None` if there is none.

        The broker's answer; after `delete_records` it may overlook a record, see "Positions and times" in the guide.

        Args:
            times: for each partition a time: an aware datetime, a text such as `"1h ago"`, or milliseconds since 1970.
            timeout: seconds to wait; `default.api.timeout.ms` if left out.

        Raises:
            KafkaTimeoutError: after `timeout`; the message has the last failure.
            UnknownTopicError: if a topic or partition does not exist.
        """
        raw = raw_times(times)
        return as_times(self._outcome(self._core.offsets_for_times(raw, timeout)))

    def partitions_of(self, *topics: str, timeout: float | None = None) -> list[TopicPartition]:
        """All partitions of the topics.

        Args:
            topics: names of topics.
            timeout: seconds to wait; `default.api.timeout.ms` if left out.

        Raises:
            KafkaTimeoutError: after `timeout`; the message has the last failure.
            UnknownTopicError: if a topic or partition does not exist.
        """
        found = self._outcome(self._core.partitions_of(named(topics), timeout))
        return [TopicPartition(*partition) for partition in found]

    def commit(self, what: Batch | Offsets | None = None, *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Commit offsets for the group, and wait for the result.

        Args:
            what: a batch: it becomes finished, and its partitions are committed up to its end, or up to the first
                earlier record that another thread has not finished. Or `{(topic, partition): offset}`, the offset of
                the next record to read, also with metadata as `(offset, metadata)`: committed as it is, also if it is
                lower than the committed one. If left out, the batches that this thread holds become finished, and all
                finished offsets are committed.
            timeout: seconds to wait; `default.api.timeout.ms` if left out.

        Returns:
            The committed offsets; empty if there was nothing new to commit.

        Raises:
            CommitFailedError: if the offsets of some partitions were not committed; `failures` has the reason for each.
                Offsets of a partition that is no longer owned are never committed.
            GroupInUseError: if partitions are assigned by hand and the group has members.
            ArgumentError: without `group.id`, or if `what` is none of these, such as a batch of another consumer. Also
                while a `run` with `transaction=` goes on, which commits by itself.
        """
        return committed_offsets(self._outcome(self._member.commit(self._to_commit(what), self._finisher(), timeout)))

    def commit_async(self, what: Batch | Offsets | None = None, *, timeout: float | None = None) -> CommitFuture:
        """Commit offsets without waiting for the result. Commits are made in the order of the calls.

        Arguments as `commit`; the future's `result()` raises the errors of `commit`.
        """
        operation = self._member.commit(self._to_commit(what), self._finisher(), timeout, is_news=True)
        future = CommitFuture(operation, lambda: self._core.health()["last_error"])
        self._commits.append(future)
        return future

    def hand_over(self, batch: Batch) -> list[Batch]:
        """Split a batch into one part for each partition, for other threads to finish one by one.

        Taking the next batch does not finish the parts: the worker of a part calls `finish(part)` or `commit(part)`.
        Until then a rebalance does not release the part's partition, and no offset beyond the part is committed. A
        part that is garbage-collected unfinished (its worker failed) stays uncommitted, is logged as a warning, and no
        longer delays a rebalance.

        Args:
            batch: a batch that this thread holds: call this before taking the next one. From now on commit or finish
                the parts, not this batch.

        Returns:
            The rows of the batch, without a copy: one batch for each run of rows of a partition, in their order.

        Raises:
            ArgumentError: if the batch is finished already, or another consumer's, or without `group.id`.
            ClosedError: if the consumer is closed.
        """
        return self._split(batch, None)

    def committed(
        self, partitions: Iterable[tuple[str, int]] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets of these partitions, or of all assigned ones; `None` where there is none.

        Args:
            partitions: these partitions; all assigned ones if left out.
            timeout: seconds to wait; `default.api.timeout.ms` if left out.

        Raises:
            KafkaTimeoutError: after `timeout`; the message has the last failure.
            ArgumentError: without `group.id`.
        """
        return as_committed(self._outcome(self._member.committed(chosen(partitions), timeout)))

    def unsubscribe(self, timeout: float = 5.0) -> None:
        """Leave the group: revoke all owned partitions, with `on_revoked` and the commits that belong to it.

        Of a `run` that is under way, the records that handlers have finished are committed (with `transaction=`, those
        of transactions that are), and it ends with `ArgumentError`: nothing is assigned any more.

        Args:
            timeout: seconds after which it returns in any case.
        """
        self._refuse_in_callback("unsubscribe")
        until = monotonic() + seconds("timeout", timeout)
        self._report_run()
        self._member.begin_unsubscribe()
        self._named = set()
        self._leave(until)

    def close(self, timeout: float = 5.0) -> None:
        """Commit finished offsets, revoke all partitions, leave the group, close the connections. May be called again.

        The batches that this thread holds become finished, unless an exception is being handled (`close()` in a
        `finally`), or this thread is still inside a loop over `batches()` or `records()`. Batches that other threads
        hold do not; of a `run` that is under way, the records that handlers have finished are committed. `on_revoked`
        is called in this thread; waits in other threads end with `ClosedError`.

        Args:
            timeout: seconds after which it returns in any case.
        """
        self._refuse_in_callback("close")
        until = monotonic() + seconds("timeout", timeout)
        self._refused.clear()
        if exception() is None and get_ident() not in self._looping:
            self._member.finish_held()
        else:
            self._leaves_unfinished = True
        self._report_run()
        try:
            self._member.begin_close(timeout)
            self._leave(until)
        finally:
            self._core.close(max(until - monotonic(), 0.0))
            if self._refused.producer is not None:
                self._refused.producer.close(max(until - monotonic(), 0.0))
                self._refused.forget_failures()
            self._tell_events()
            self._tell_commits()

    def _outcome(self, operation: "Operation[_R]") -> _R:
        return operation.outcome()

    def _next_bounded(
        self, bound: UntilLoop | None, max_rows: int, max_bytes: int, max_wait: float, timeout: float | None
    ) -> Batch:
        if bound is None:
            return self._next(max_rows, max_bytes, max_wait, timeout)
        slices = bound.slices(timeout)
        while True:
            batch = self._next(max_rows, max_bytes, max_wait, slices.next())
            if batch or slices.is_over():
                return batch

    def _next(
        self, max_rows: int, max_bytes: int, max_wait: float, timeout: float | None, holder: int | None = None
    ) -> Batch:
        self._refuse_in_callback("poll")
        left = None if timeout is None else seconds("timeout", timeout)
        max_wait = seconds("max_wait", max_wait)
        if self._reading is not None:
            self._reading.begins()
        while True:
            self._tell_events()
            self._tell_commits()
            began = monotonic()
            wait = left if self._reading is None else self._reading.wait(left)
            step: Batch | PendingCallback | None = None
            waiting = self._refused.take()
            if waiting is None:
                step = self._core.next_step(max_rows, max_bytes, max_wait, wait, holder)
                if isinstance(step, Batch) and step._refused() is not None:
                    waiting = WaitingBatch(step)
            if waiting is not None:
                step = self._put_aside(waiting, left, holder)
            if isinstance(step, Batch):
                if self._reading is not None:
                    self._reading.look(bool(step))
                if step or wait == left:
                    return step
                step = None
            # `timeout` limits the wait for records; the time that callbacks take does not count.
            left = None if left is None else max(left - (monotonic() - began), 0.0)
            if step is not None:
                self._call_back(step)

    def _put_aside(
        self, waiting: WaitingBatch, timeout: float | None, holder: int | None
    ) -> Batch | PendingCallback | None:
        """Write the records of a batch that cannot be decoded. Returns the outcome of the wait."""
        with self._refused.wait(waiting, timeout, holder) as wait:
            while wait.goes_on():
                if wait.future is None:
                    time.sleep(wait.slice_seconds)
                    continue
                with suppress(KafkaTimeoutError):
                    wait.future.exception(wait.slice_seconds)
        return wait.outcome

    @staticmethod
    def _open_producer(settings: RawSettings) -> Producer:
        return Producer(cast("Settings", settings))

    def _next_of_run(self, max_rows: int, max_bytes: int, wait: float, holder: int, /) -> Batch:
        return self._next(max_rows, max_bytes, 0.0, wait, holder)

    def _serve_run(self, holder: int, /) -> None:
        pending = self._core.poll_callbacks(0.0, holder)
        self._tell_events()
        self._tell_commits()
        if pending is not None:
            self._call_back(pending)

    def _commit_finished(self, holder: int, timeout: float) -> None:
        committed_offsets(of_owned(self._member.commit(None, holder, timeout).outcome()))

    def _leave(self, until: float) -> None:
        failure: BaseException | None = None
        while (pending := self._member.leaving(max(until - monotonic(), 0.0))) is not None:
            try:
                self._call_back(pending)
            except Exception as error:
                failure = error_to_raise(failure, error)
        self._tell_events()
        self._tell_commits()
        if failure is not None:
            raise failure
