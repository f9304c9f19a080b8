"""`ShareConsumer`, the synchronous consumer of a share group."""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

from monedula._arguments import seconds
from monedula._migration_hints import tells
from monedula._monedula import Batch, Record
from monedula.config import RawSettings, Settings
from monedula.consumer._commits import CommitFuture
from monedula.errors import ClosedError, WakeupError
from monedula.producer.sync import Producer
from monedula.share._base import (
    MAX_BYTES,
    MAX_ROWS,
    UNREADABLE,
    Rows,
    ShareConsumerBase,
    UnreadRows,
    acknowledged,
    batch_to_commit,
    renewed,
)
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    from monedula.workers import Retry
    from monedula.workers.failures import OnError


@tells
class ShareConsumer(ShareConsumerBase):
    """Reads Kafka topics as a queue, as a member of a share group (KIP-932), in Arrow batches.

    Each record is handed to one member of the group at a time, whatever its partition, and locked until something is
    decided of it: `accept`, `release` or `reject`. Rows of which nothing was decided are accepted when the next batch
    is asked for; after an exception, in `close()`, or when the thread ends, they are released, to be delivered again.
    Locks of rows in hand are renewed by the core. Needs Kafka 4.1; renewals and `share.acquire.mode=record_limit` need
    4.2.

    Methods may be called from any thread; the GIL is free while one waits or decodes. Ctrl-C ends any wait at once.

    Args:
        config: settings by Kafka's names, with `group.id`, the share group; `monedula.config_keys()` lists them.
        topics: names of the topics to `subscribe()` to.
        columns: names of the columns of a batch, as of `Consumer`; `"deliveryCount"` may be among them.
        headers: whether to add the `headers` column.
        key: how keys are decoded, such as `monedula.Json(schema)`; bytes if left out.
        value: how values are decoded; bytes if left out.
        acknowledge: `"explicit"`: undecided rows stay locked when the next batch is asked for, or their thread ends, so
            that threads hold several batches, of which any decides. The same as the setting
            `share.acknowledgement.mode`; `"implicit"` if left out.
        on_event: called with each event of the membership (see `monedula.events`), inside calls that wait.
        **settings: settings with underscores for dots, such as `bootstrap_servers="localhost:9092"`.

    Raises:
        ArgumentError: if an argument cannot be what is given.
        ConfigError: on an unknown setting, an invalid value, a setting of consumer groups that share groups have
            elsewhere (such as `auto.offset.reset`, which is the group's `share.auto.offset.reset`), without `group.id`.

    Examples:
        with ShareConsumer({"bootstrap.servers": "localhost:9092", "group.id": "workers"}, topics=["jobs"]) as consumer:
            for batch in consumer.batches(timeout=10.0):
                good = work(batch.to_polars())  # a boolean for each row
                consumer.release(batch, ~good)
    """

    def __iter__(self) -> NoReturn:
        message = "use `for record in consumer.records()`, or `for batch in consumer.batches()`"
        raise TypeError(f"{type(self).__name__!r} object is not iterable; here: {message}")

    def __enter__(self) -> Self:
        if self._core.is_closed():
            raise ClosedError("the consumer is closed")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def batches(
        self, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES, timeout: float | None = None
    ) -> Iterator[Batch]:
        """Yield batches of records: for ever, or until `timeout` seconds pass without one.

        Taking the next batch accepts the undecided rows of the previous batch of this thread, unless `acknowledge` is
        `"explicit"`. Brokers are asked only while somebody waits: locks run from when they give records out.

        Args:
            max_rows: the most rows of a batch. How many a broker gives at a time is `max.poll.records`.
            max_bytes: the most bytes of its columns; a single larger record makes a batch of its own.
            timeout: seconds without any record after which the iteration ends; `None` for never.

        Yields:
            Batches with at least one row.

        Raises:
            ArgumentError: if the consumer is not subscribed.
            PartitionError: a subclass, about one partition; a new loop continues with the others.
            DecodeError: a record cannot be decoded; it is released. A new loop continues.
            CorruptRecordError: a record batch is damaged. It is released, and rejected if it was damaged at an earlier
                delivery too.
            GroupError: a subclass, when the membership ends.
            BrokerConnectionError: if the cluster cannot be reached within `bootstrap.timeout.ms`.
            BrokersUnavailableError: if `timeout` is over, but the brokers did not answer during it.
            ClosedError: if the consumer is closed, also by another thread.
        """
        try:
            while batch := self._next(max_rows, max_bytes, timeout):
                yield batch
        except WakeupError:
            return
        if timeout is not None:
            self._check_failing(timeout, is_end=True)

    def poll(self, timeout: float = 1.0, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> Batch:
        """Return the records that are available, or the first ones that arrive within `timeout` seconds.

        If none arrives, the batch has no rows (and is false). Accepts what this thread holds, as `batches`.

        Args:
            timeout: seconds to wait for the first record.
            max_rows: the most rows of the batch.
            max_bytes: the most bytes of the batch's columns.

        Raises:
            WakeupError: after `wakeup()`.
            ArgumentError: if the consumer is not subscribed.
            KafkaError: as `batches`.
        """
        batch = self._next(max_rows, max_bytes, timeout)
        if not batch:
            self._check_failing(timeout, is_end=False)
        return batch

    def records(self, timeout: float | None = None) -> Iterator[Record]:
        """Yield records one by one: for ever, or until `timeout` seconds pass without one.

        Taking the next record accepts the previous one, unless something was decided of it, or `acknowledge` is
        `"explicit"`. Leaving the loop releases the records that were read ahead; the last one stays in hand. A record
        whose lock ended while it waited is left out; locks are renewed for `share.renew.max.ms` from each record on.
        `timeout` and errors as `batches`.
        """
        for batch in self.batches(timeout=timeout):
            rows = UnreadRows(self._core, batch, self._core.is_implicit)
            try:
                while (record := rows.take()) is not None:
                    yield record
            except WakeupError:
                return
            finally:
                rows.release()

    def renew(self, what: Batch | Record, rows: Rows = None, *, timeout: float | None = None) -> float | None:
        """Lock undecided rows anew, and wait for that. The rows stay in the same batch.

        The core renews by itself, at 60 % of the lock's time, for `share.renew.max.ms`; this goes on behind that. Rows
        that were acquired together are renewed together.

        Args:
            what: a batch or a record of this consumer.
            rows: as of `accept`.
            timeout: seconds to wait; `default.api.timeout.ms` if left out.

        Returns:
            When the first lock of an undecided row of the batch ends, as `time.monotonic()` counts; `None` if nothing
            is undecided.

        Raises:
            AcknowledgeError: if locks were not renewed: they were over, or the group allows no renewals.
            KafkaTimeoutError: after `timeout`.
            ArgumentError: as `accept`.
        """
        return renewed(self._core.renew(what, rows, timeout).outcome())

    def commit(self, what: Batch | None = None, *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Tell the brokers what was decided, and wait for the outcomes.

        Args:
            what: a batch, whose undecided rows are accepted; all that was decided if left out, with what this thread
                holds: its batch, or the last record of its loop over `records()`. With `acknowledge="explicit"`
                undecided rows stay undecided.
            timeout: seconds to wait; `default.api.timeout.ms` if left out.

        Returns:
            The number of rows that were acknowledged, by partition: also of decisions that were under way before.

        Raises:
            AcknowledgeError: if some were not, since their lock was over, their partition moved or an answer was lost;
                `results` has them by partition.
            KafkaTimeoutError: after `timeout`; what was decided goes on to be sent.
            ArgumentError: if `what` is a batch of another consumer.
            ClosedError: if the consumer is closed.
        """
        return acknowledged(self._core.commit(batch_to_commit(what), timeout).outcome())

    def commit_async(self, what: Batch | None = None, *, timeout: float | None = None) -> CommitFuture:
        """Tell the brokers what was decided, without waiting for the outcomes.

        Arguments as `commit`; the future's `result()` raises the errors of `commit`.
        """
        operation = self._core.commit(batch_to_commit(what), timeout)
        future = CommitFuture(operation, lambda: self._core.health()["last_error"], acknowledged)
        self._commits.append(future)
        return future

    def run(
        self,
        handler: Callable[[Any], object],
        *,
        concurrency: int = 32,
        batch_size: int | None = None,
        retries: "int | Retry" = 0,
        dead_letter: str | None = None,
        reply_topic: str | None = None,
        producer: Producer | None = None,
        on_error: "OnError | None" = None,
        max_queued_records: int = 500,
        max_queued_bytes: int = 64 << 20,
        grace: float = 30.0,
        timeout: float | None = None,
    ) -> None:
        """Call `handler` for each record, many at a time and in any order: what it returns for is accepted.

        A record whose handler raises is tried again here, while its lock is renewed, as often as `retries` says; then
        it is released, for any member to get it again, until the group gives it up (`share.delivery.count.limit`). The
        log has the exception. Each record is decided by itself, as soon as its handler has returned; a decision of the
        handler, by `reject(record)` or another method, counts before that.

        Returns at the end of `timeout`, when all records are handled; or after `wakeup()`, also in a signal handler,
        when those are handled that were begun; the others are released. What was decided is told to the brokers by
        then; `health()["unacknowledged_records"]` counts what they did not take. This thread reads. Locks are renewed
        for `share.renew.max.ms` from when the last handler of a record of the same batch began; a record whose lock is
        over before its handler begins is not handled here. What cannot be decoded is released, and the log says so.

        Args:
            handler: called with a `Record`, in one of `concurrency` threads; with `batch_size`, with a list of records.
            concurrency: how many handlers run at a time.
            batch_size: calls the handler with up to so many records of a partition that came together.
            retries: how often a record is tried again whose handler raised, or a `monedula.Retry`.
            dead_letter: the topic to which this client writes records that are given up, as `Consumer.run` does; they
                are accepted once the brokers have acknowledged. Needs `headers=True`. The header
                `__dlq.errors.delivery.count` has the broker's count if `"deliveryCount"` is among `columns`, and else
                the attempts here. The dead letters of the group itself (`errors.deadletterqueue.topic.name`) are
                written by its brokers, for what is rejected or was delivered too often.
            reply_topic: the topic to which is written what the handler returns, as by `Consumer.run`. The record is
                accepted once the brokers have acknowledged its replies.
            producer: writes the dead letters and replies; if left out, a producer with the settings of this consumer.
            on_error: called with the handler's argument, its exception and the number of attempts. Returns `"retry"`;
                `"release"`; `"reject"`; `"dead_letter"`; `"skip"`, to accept the record nevertheless; `"stop"`, to end
                the run with the exception; or `None` for what `retries` and `dead_letter` say.
            max_queued_records: the records that wait or are handled beyond which brokers are asked for no more. One
                answer may bring more of them: `max.poll.records` from each broker. No other member gets them meanwhile.
            max_queued_bytes: the same in bytes.
            grace: seconds that the end of the run waits for handlers. A handler that takes longer is not interrupted,
                but its records are released, and handled again; the log warns.
            timeout: ends the run when no record came for so many seconds and all are handled.

        Raises:
            Exception: what the handler raised, unchanged, if `on_error` returned `"stop"`. A note has topic, partition
                and offset. Handlers that run are waited for; no other is begun.
            ArgumentError: if an argument makes no sense, or this consumer is not subscribed.
            KafkaTimeoutError: if brokers do not answer for what was decided last.
            PartitionError, GroupError, ClosedError: as `batches`; `UnknownTopicError` if the topic of
                replies or dead letters does not exist.
        """
        from monedula.share._run_setup import under_way
        from monedula.workers.plans import as_plan
        from monedula.workers.threads import ThreadRun

        plan = as_plan(
            handler=handler,
            concurrency=concurrency,
            order="none",
            batch_size=batch_size,
            retries=retries,
            dead_letter=dead_letter,
            reply_topic=reply_topic,
            producer=producer,
            transaction=None,
            commit_interval=0.0,
            on_error=on_error,
            max_queued_records=max_queued_records,
            max_queued_bytes=max_queued_bytes,
            grace=grace,
            timeout=timeout,
            until=None,
        )
        with under_way(self, plan, awaits=False) as (run, outputs):
            ThreadRun(self, run, outputs).run()

    def close(self, timeout: float = 5.0) -> None:
        """Tell what was decided, release the rest, leave the group, close the connections. May be called again.

        Args:
            timeout: seconds after which it returns in any case.
        """
        seconds("timeout", timeout)
        self._core.close(timeout).outcome()
        self._tell()

    @staticmethod
    def _open_producer(settings: RawSettings) -> Producer:
        return Producer(cast("Settings", settings))

    def _next_of_run(self, _max_rows: int, max_bytes: int, wait: float, holder: int, /) -> Batch | None:
        try:
            # All that was acquired: the locks of rows in hand are renewed, and those of others are not.
            return self._next(MAX_ROWS, max_bytes, wait, holder)
        except UNREADABLE as error:
            self._pass_unreadable(error)
            return None

    def _serve_run(self, _holder: int, /) -> None:
        self._core.send_decided()
        self._tell()
        self._core.check_ended()

    def _commit_finished(self, holder: int, timeout: float) -> None:
        # The log has what failed, as during the run.
        self._core.commit(None, timeout, holder).outcome()

    def _next(self, max_rows: int, max_bytes: int, timeout: float | None, holder: int | None = None) -> Batch:
        left = None if timeout is None else seconds("timeout", timeout)
        self._check_subscribed()
        while True:
            self._tell()
            began = monotonic()
            batch = self._core.next_batch(max_rows, max_bytes, self._slice(left), holder)
            left = None if left is None else left - (monotonic() - began)
            if batch or (left is not None and left <= 0.0):
                return batch
