"""The synchronous consumer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from sys import exception
from threading import get_ident
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from monedula._commits import CommitFuture, Offsets, as_committed, committed_offsets, raw_commit
from monedula._group import EventHook, GroupVerbs, Topics
from monedula._monedula import Batch, PendingCallback, Record, Schema
from monedula._rows import MAX_ROWS as ROWS_AHEAD
from monedula._rows import RowCursor
from monedula.config import Settings, raw_columns, raw_settings
from monedula.errors import ArgumentError, WakeupError
from monedula.partitions import (
    Assignment,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Position,
    RawPosition,
    TopicPartition,
    raw_partition,
    raw_partitions,
    raw_position,
    seconds,
    split_assignment,
    timestamp_ms,
    topic_names,
)

if TYPE_CHECKING:
    from monedula.assignors import Strategy

MAX_ROWS = 100_000
MAX_BYTES = 32 << 20


class ConsumerBase(GroupVerbs):
    """What both consumers share: everything that does not wait."""

    def __init__(
        self,
        config: Settings | None = None,
        /,
        topics: Topics | None = None,
        *,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        assignors: "Strategy | None" = None,
        on_event: EventHook | None = None,
        **settings: Any,
    ) -> None:
        self._commits: list[CommitFuture] = []
        self._known: set[int] = set()  # tasks whose end is listened for
        self._looping: list[int] = []  # threads that are in a loop, as often as they are
        self._open(raw_settings(config, settings), raw_columns(columns), headers, assignors, on_event)
        try:
            if topics is not None:
                self.subscribe(topics)
        except BaseException:
            self._core.close(0.0)
            raise

    @property
    def schema(self) -> Schema:
        """The Arrow schema of every batch, empty ones included.

        | column | type | |
        |---|---|---|
        | key | binary | null if the record has none |
        | value | binary | null if the record has none |
        | topic | string | |
        | partition | int32 | |
        | offset | int64 | |
        | timestamp | timestamp[us, UTC] | the producer's or the broker's, as timestampType says |
        | timestampType | int32 | 0 CreateTime, 1 LogAppendTime |
        | headers | list<struct<key: string, value: binary>> | only if asked for; null if the record has none |

        All are nullable and named as in Spark's Kafka source.
        """
        return self._core.schema

    def assign(self, partitions: Assignment) -> None:
        """Read these partitions, in place of what was assigned before. Joins no group; only `commit` commits anything.

        Returns at once; what is wrong with a partition is raised by the next call that waits.

        Args:
            partitions: topics, for all of their partitions now and later (those added later start at their smallest
                offset); or `(topic, partition)` pairs; both start at the committed offset of the group `group.id`, and
                where there is none, or no group, where `auto.offset.reset` says (by default at the end). Or
                `{(topic, partition): position}`: an offset, `"earliest"`, `"latest"`, `"committed"`, or the time of
                the first record.

        Raises:
            ArgumentError: if it is none of these, while topics are subscribed to with `subscribe()`, or if it says
                `"committed"` without `group.id`.
            ClosedError: if the consumer is closed.
        """
        topics, pairs = split_assignment(partitions, ("default", 0))
        if topics:
            self._core.assign_topics(topics, ("default", 0))
        else:
            self._core.assign(pairs)

    def unassign(self) -> None:
        """Read nothing any more."""
        self._core.unassign()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read; those of a whole topic from the first answer of the cluster on."""
        return {TopicPartition(*partition) for partition in self._core.assignment()}

    def seek(self, partition: tuple[str, int], position: Position) -> None:
        """Go on elsewhere. What was fetched of the partition is dropped; one that stopped with an error goes on.

        Args:
            partition: `(topic, partition)`.
            position: an offset, `"earliest"`, `"latest"`, `"committed"` (what the group has committed; if nothing,
                where `auto.offset.reset` says), or the time of the first record (aware datetime).

        Raises:
            ArgumentError: if the partition is not assigned, or there is no `group.id` for `"committed"`.
        """
        self._core.seek(raw_partition(partition), raw_position(position))

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go to the smallest offset of these partitions, or of all."""
        self._seek_each(partitions, ("earliest", 0))

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go to the end of these partitions, or of all."""
        self._seek_each(partitions, ("latest", 0))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Neither fetch nor hand out these partitions, or all, until `resume`. What was fetched is kept.

        Raises:
            ArgumentError: if a partition is not assigned, or not known yet of a topic just assigned.
        """
        for partition in self._each(partitions):
            self._core.set_paused(partition, True)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Go on with these partitions, or all."""
        for partition in self._each(partitions):
            self._core.set_paused(partition, False)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        partitions = self._core.assignment()
        return {TopicPartition(*partition) for partition in partitions if self._core.status(partition)["paused"]}

    def position(self, partition: tuple[str, int]) -> int | None:
        """Offset of the next record to be handed out; `None` until it is looked up."""
        position: int | None = self._core.status(raw_partition(partition))["position"]
        return position

    def lag(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int | None]:
        """How many offsets each partition is behind the end of its log, as of the last fetch.

        Under read_committed the end is the last stable offset. `None` until the partition was fetched from once. No
        request is made.
        """
        lags: dict[TopicPartition, int | None] = {}
        for partition in raw_partitions(partitions or self._core.assignment()):
            status = self._core.status(partition)
            end, position = status["log_end_offset"], status["position"]
            known = end is not None and position is not None
            lags[TopicPartition(*partition)] = max(end - position, 0) if known else None
        return lags

    def metrics(self) -> dict[str, float]:
        """Counters since the consumer was made: connections, requests, bytes, records, lost positions and so on.

        With a `group.id` also those of the group, whose names begin with `group_`: how many rebalances, joins, syncs,
        heartbeats and commits there were, and how many seconds they took; partitions gained, revoked and lost; and so
        on.
        """
        return {**dict(self._core.metrics()), **self._member.figures()}

    def health(self) -> dict[str, Any]:
        """How the client is.

        Connections, the last error and for how long, retried errors, the byte budget, and each partition's position,
        ends of its log, what is queued of it, and why it stopped if it did. `"group"` is about the membership: state,
        the protocol in force, coordinator, generation, what is owned, the last heartbeat and rebalance, errors; `None`
        without a `group.id`.
        """
        return {**self._core.health(), "group": self._member.health()}

    def wakeup(self) -> None:
        """End the wait that is under way in another thread or task, or the next one, with `WakeupError`.

        `batches()` and `records()` end without an error.
        """
        self._core.wakeup()

    def _seek_each(self, partitions: tuple[tuple[str, int], ...], position: RawPosition) -> None:
        if not partitions:
            self._core.seek_all(position)
        for partition in raw_partitions(partitions):
            self._core.seek(partition, position)

    def _each(self, partitions: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
        if partitions:
            return raw_partitions(partitions)
        assigned = self._core.assignment()  # first of all it says whether the consumer is closed
        unknown = self._core.unresolved()
        if unknown:
            raise ArgumentError(f"the partitions of {', '.join(unknown)} are not known yet: poll first, or name them")
        return assigned


class Consumer(ConsumerBase):
    """Reads Kafka as Arrow batches.

    Calls may come from any thread; while one waits or decodes, the GIL is free. Ctrl-C ends any wait at once.

    Args:
        config: settings by Kafka's names, such as `{"bootstrap.servers": "localhost:9092"}`; Java's and librdkafka's
            names both do. `monedula.config_keys()` lists them with their defaults.
        topics: what to `subscribe()` to, as a member of the group `group.id`.
        columns: names of the columns wanted, in place of all but `headers`; what is left out costs nothing.
        headers: whether to add the `headers` column.
        assignors: assignors of one's own and names of built-in ones, in place of `partition.assignment.strategy`; see
            `monedula.assignors`.
        on_event: called with what happens to the member of the group (see `monedula.events`), in calls that wait.
        **settings: settings with underscores for dots, such as `bootstrap_servers="localhost:9092"`.

    Raises:
        ConfigError: on an unknown setting (the nearest is named) or a value that does not do.

    Examples:
        >>> consumer = Consumer(bootstrap_servers="localhost:9092", columns=["offset", "value"])
        >>> consumer.schema.names
        ['value', 'offset']
        >>> consumer.close()
    """

    _calling_back: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._member.finish_held()
        self.close()

    def batches(
        self,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
        max_wait: float = 0.1,
        timeout: float | None = None,
    ) -> Iterator[Batch]:
        """Batches of records, for ever, or until `timeout` seconds pass without one.

        A batch ends at the first of `max_rows`, `max_bytes` and `max_wait`, and earlier if the byte budget
        (`queued.max.bytes`) is full; the next fetch is under way meanwhile. Asking for the next one says that this
        thread has finished the one before: it is then committed, if `enable.auto.commit` is on.

        Args:
            max_rows: most rows of a batch.
            max_bytes: most bytes of its columns; a single larger record makes a batch of its own.
            max_wait: seconds that rows which are there wait for more to fill the batch.
            timeout: seconds without any record after which the iteration ends; `None` for never. What callbacks take
                does not count.

        Yields:
            Batches with at least one row.

        Raises:
            PartitionError: a subclass, when a partition stops; iterating anew goes on with the others.
            GroupError: a subclass, when the membership of the group ends; after `MaxPollExceededError`, iterating anew
                joins it again.
            BrokerConnectionError: if the cluster cannot be reached within `bootstrap.timeout.ms`.
            ClosedError: if the consumer is closed, by another thread too.
        """
        thread = get_ident()
        self._looping.append(thread)
        try:
            while batch := self._next(max_rows, max_bytes, max_wait, timeout):
                yield batch
        except WakeupError:
            return
        finally:
            self._looping.remove(thread)

    def poll(self, timeout: float = 1.0, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> Batch:
        """What is there now, or comes first within `timeout` seconds; a batch without rows (which is false) if nothing.

        Callbacks that are due are called meanwhile; what they take does not count.

        Raises:
            PartitionError: a subclass, when a partition stops; the next call goes on with the others.
            GroupError: a subclass, when the membership of the group ends; after `MaxPollExceededError`, the next call
                joins it again.
            BrokerConnectionError: if the cluster cannot be reached within `bootstrap.timeout.ms`.
            WakeupError: after `wakeup()`.
            ClosedError: if the consumer is closed, by another thread too.
        """
        return self._next(max_rows, max_bytes, 0.0, timeout)

    def records(self, timeout: float | None = None) -> Iterator[Record]:
        """Records one by one, for ever, or until `timeout` seconds pass without one.

        For services that handle one record at a time; the columns of `batches()` are faster. Records are read ahead in
        batches; leaving the loop early gives back those not taken, so that the next call goes on with them. While the
        loop runs, `position()` is that after what was read ahead. A record is finished, and committed if
        `enable.auto.commit` is on, when the next one is asked for.
        """
        rows = RowCursor(self._core)
        try:
            for batch in self.batches(max_rows=ROWS_AHEAD, max_wait=0.0, timeout=timeout):
                rows.load(batch)
                while (record := rows.take()) is not None:
                    yield record
        finally:
            rows.give_back()

    def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The smallest offset of each partition, asked of the brokers.

        Args:
            partitions: `(topic, partition)` pairs; all that are assigned, if left out.
            timeout: seconds, `default.api.timeout.ms` if left out.

        Raises:
            KafkaTimeoutError: past `timeout`; the message has the last failure.
            UnknownTopicError: if there is no such topic or partition.
        """
        return as_offsets(self._core.list_offsets("beginning", chosen(partitions), timeout))

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition; under read_committed, the last stable offset.

        Arguments and errors as `beginning_offsets`.
        """
        return as_offsets(self._core.list_offsets("end", chosen(partitions), timeout))

    def offsets_for_times(
        self, times: Mapping[tuple[str, int], datetime | int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is at least as young as asked; `None` if there is none.

        Args:
            times: aware datetimes, or milliseconds since 1970.
            timeout: seconds, `default.api.timeout.ms` if left out.

        Raises:
            As `beginning_offsets`.
        """
        raw = [(raw_partition(partition), timestamp_ms(time)) for partition, time in times.items()]
        return as_times(self._core.offsets_for_times(raw, timeout))

    def partitions_of(self, *topics: str, timeout: float | None = None) -> list[TopicPartition]:
        """Every partition of the topics.

        Raises:
            As `beginning_offsets`.
        """
        return [TopicPartition(*partition) for partition in self._core.partitions_of(named(topics), timeout)]

    def commit(self, what: Batch | Offsets | None = None, *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Commit offsets for the group, and wait until that is done.

        Args:
            what: a batch: it is finished, and its partitions are committed up to its end, or as far as other threads
                have finished what comes before. Or `{(topic, partition): offset}`, the offsets of the next records to
                read, also with metadata as `(offset, metadata)`: committed as they are, lower ones too. Or nothing:
                what this thread was handed is finished, and all that is finished is committed.
            timeout: seconds, `default.api.timeout.ms` if left out.

        Returns:
            What was committed; nothing if there is nothing new.

        Raises:
            CommitFailedError: if it was not committed for some partitions; `failures` says why for each. A partition
                that is owned no more is never committed.
            GroupInUseError: if partitions are assigned by hand, and others are members of the group.
            ArgumentError: without `group.id`, or if `what` is none of these.
        """
        outcome = self._member.commit(raw_commit(what), None, timeout)
        return committed_offsets(outcome)

    def commit_async(self, what: Batch | Offsets | None = None, *, timeout: float | None = None) -> CommitFuture:
        """Commit offsets without waiting for it. Commits are made in the order of the calls.

        Arguments as `commit`; its errors are those of the future's `result()`.
        """
        future = CommitFuture(self._member.start_commit(None, raw_commit(what), None, timeout))
        self._commits.append(future)
        return future

    def hand_over(self, batch: Batch) -> list[Batch]:
        """Hand a batch over to other threads: one batch for each partition, each of which is finished by itself.

        Asking for the next batch does not finish them: whoever works on one says `finish(part)`, or `commit(part)`.
        Until then its partition is not given up in a rebalance, and not committed beyond it. A part that is dropped
        without a word (its worker failed) stays uncommitted, is warned of in the log, and holds nobody up.

        Args:
            batch: what this thread was handed, before it asks for the next one. Commit its parts from now on, not it.

        Returns:
            Its rows, without a copy: one batch for each run of rows of a partition, in their order.

        Raises:
            ArgumentError: if the batch is finished already, or without `group.id`.
            ClosedError: if the consumer is closed.
        """
        return self._split(batch, None)

    def committed(
        self, partitions: Iterable[tuple[str, int]] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of these partitions, or of all that are assigned; `None` where nothing is.

        Raises:
            KafkaTimeoutError: past `timeout`; the message has the last failure.
            ArgumentError: without `group.id`.
        """
        return as_committed(self._member.committed(chosen(partitions), timeout))

    def unsubscribe(self, timeout: float = 5.0) -> None:
        """Leave the group: give up what is owned, with the callbacks and commits that belong to it, and unassign all.

        Args:
            timeout: seconds after which it returns in any case.
        """
        self._refuse_in_callback("unsubscribe")
        until = monotonic() + seconds("timeout", timeout)
        self._member.begin_unsubscribe()
        self._named = set()
        self._leave(until)

    def close(self, timeout: float = 5.0) -> None:
        """Commit what is finished, give up what is owned, leave the group, close the connections. May be called again.

        What this thread was handed is finished, unless an exception is on its way (`close()` in a `finally`), or a
        loop over `batches()` or `records()` is not left yet; what other threads still hold is not. `on_revoked` is
        called in this thread; waits in other threads end with `ClosedError`.

        Args:
            timeout: seconds after which it returns in any case.
        """
        self._refuse_in_callback("close")
        until = monotonic() + seconds("timeout", timeout)
        if exception() is None and get_ident() not in self._looping:
            self._member.finish_held()
        try:
            self._member.begin_close(timeout)
            self._leave(until)
        finally:
            self._core.close(max(until - monotonic(), 0.0))
            self._tell_events()
            self._tell_commits()

    def _next(self, max_rows: int, max_bytes: int, max_wait: float, timeout: float | None) -> Batch:
        self._refuse_in_callback("poll")
        left = None if timeout is None else seconds("timeout", timeout)
        max_wait = seconds("max_wait", max_wait)
        while True:
            self._tell_events()
            self._tell_commits()
            began = monotonic()
            step = self._core.next_step(max_rows, max_bytes, max_wait, left, None)
            if isinstance(step, Batch):
                return step
            # The time is for records to come, not for what callbacks do meanwhile.
            left = None if left is None else max(left - (monotonic() - began), 0.0)
            if step is not None:
                self._call_back(step)

    def _leave(self, until: float) -> None:
        failure: BaseException | None = None
        while (pending := self._member.leaving(max(until - monotonic(), 0.0))) is not None:
            try:
                self._call_back(pending)
            except Exception as error:
                failure = failure or error
        self._tell_events()
        self._tell_commits()
        if failure is not None:
            raise failure

    def _call_back(self, pending: PendingCallback) -> None:
        call, failed = self._listeners.of(pending), True
        self._calling_back = get_ident()
        try:
            call()
            failed = False
        finally:
            self._calling_back = None
            self._member.called_back(pending.ticket, failed)

    def _tell_commits(self) -> None:
        for future in [future for future in self._commits if future.done()]:
            future.run_callbacks()
            if future in self._commits:
                self._commits.remove(future)

    def _refuse_in_callback(self, name: str) -> None:
        if self._calling_back == get_ident():
            raise ArgumentError(f"{name}() cannot be called inside of a rebalance callback: return from it first")


def chosen(partitions: Iterable[tuple[str, int]] | None) -> list[tuple[str, int]] | None:
    """The partitions given, checked; `None` stands for all that are assigned."""
    return None if partitions is None else raw_partitions(partitions)


def named(topics: tuple[str, ...]) -> list[str]:
    """The topics given to `partitions_of`, checked."""
    return topic_names(topics, "partitions_of() takes names one by one, such as partitions_of('orders', 'returns')")


def as_offsets(found: dict[tuple[str, int], int | None]) -> dict[TopicPartition, int]:
    """Offsets as the core has them, by `TopicPartition`."""
    return {TopicPartition(*partition): offset for partition, offset in found.items() if offset is not None}


def as_times(found: dict[tuple[str, int], tuple[int, int] | None]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Places as the core has them, by `TopicPartition`."""
    return {
        TopicPartition(*partition): None if place is None else OffsetAndTimestamp(*place)
        for partition, place in found.items()
    }
