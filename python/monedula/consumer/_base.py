"""`ConsumerBase`, which `Consumer` and `AsyncConsumer` share: the methods that do not wait."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from monedula._arguments import (
    RawOffset,
    RawPosition,
    one_by_one,
    raw_commit,
    raw_partition,
    raw_partitions,
    raw_position,
    split_assignment,
    timestamp_ms,
    topic_names,
    truth,
)
from monedula._config.client_names import ClientNames, names_in
from monedula._health import patience, with_since
from monedula._monedula import Batch, MetricRegistry, Schema
from monedula._registered_metrics import RegisteredMetrics
from monedula._reprs import counted, of_client, some
from monedula.config import RawSettings, Settings, raw_columns, raw_settings
from monedula.consumer._commits import CommitFuture
from monedula.consumer._dead_letters import RefusedRecords
from monedula.consumer._group import EventHook, GroupVerbs, Topics
from monedula.consumer._member_reading import MemberReading
from monedula.consumer._read_until import check_topics
from monedula.errors import ArgumentError, ClosedError, ForkError
from monedula.formats._typed import Typed, check_columns, pinned, spec_of
from monedula.producer._dead_letters import LetterProducer
from monedula.types.conditions import Where
from monedula.types.json_dict import JsonDict
from monedula.types.partitions import Assignment, OffsetAndTimestamp, Position, TopicPartition

# They import dataclasses, logging and threading: programs without own assignors, or runs, should not wait for that.
if TYPE_CHECKING:
    from monedula.assignors import Strategy
    from monedula.workers.runs import Bound, Run

MAX_ROWS = 100_000
MAX_BYTES = 32 << 20


class ConsumerBase(GroupVerbs, RegisteredMetrics):
    """Base of `Consumer` and `AsyncConsumer`: the methods that do not wait."""

    _names = ClientNames()

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
        key: Typed | None = None,
        value: Typed | None = None,
        where: Where | None = None,
        **settings: Any,
    ) -> None:
        self._commits: list[CommitFuture] = []
        self._last_run: Run | None = None
        self._looping: list[int] = []  # thread ids, one entry for each batches() or records() loop that is not left
        try:
            raw = raw_settings(config, settings, in_place_of_text="topics go into topics=[...]")
        finally:
            del config, settings  # no traceback shows passwords as locals
        self._settings = raw  # its repr shows no value
        self._names = names_in(raw)
        given = {"key": key, "value": value}
        key, value = pinned(raw, key, "key", topics), pinned(raw, value, "value", topics)
        for column, found in (("key", key), ("value", value)):
            form = given[column]
            if isinstance(form, Typed) and form.is_of_topics_subject and found is not None:
                (topic,) = [topics] if isinstance(topics, str) else map(str, topics)  # type: ignore[arg-type]
                self._of_topic = (column, type(form).__name__, topic)
        specs = spec_of("key", key), spec_of("value", value)
        columns = raw_columns(columns)
        check_columns(columns, key, value)
        kept = None
        if where is not None:
            # Imported here, so that programs without conditions do not pay for the import.
            from monedula._filters import condition_of
            from monedula._filters.records import record_filter

            kept = record_filter(condition_of(where), always=True)
        self._open(raw, columns, truth("headers", headers), assignors, on_event, *specs, kept)
        self._refused = RefusedRecords(self._core, self._member, raw, self._open_producer, key, value)
        try:
            if topics is not None:
                self.subscribe(topics)
        except BaseException:
            self._core.close(0.0)
            raise

    def __repr__(self) -> str:
        """Brokers, group, topics, and how far the consumer is, without a request."""
        facts = [] if self._names.group is None else [f"group {self._names.group}"]
        if self._named is None:
            facts.append("topics by a pattern")
        elif self._named:
            facts.append(f"topics {some(self._named)}")
        try:
            assigned, delivered = self._core.assignment(), dict(self._core.metrics())["records_delivered"]
            facts += [counted(len(assigned), "partition"), f"{counted(delivered, 'record')} delivered"]
        except ClosedError:
            facts.append("closed")
        except (AttributeError, ForkError):
            pass  # its constructor has failed, or it belongs to the parent process
        return of_client(self, self._names.servers, facts)

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
        | timestamp | timestamp[us, UTC] | set by the producer or the broker, see timestampType |
        | timestampType | int32 | 0 CreateTime, 1 LogAppendTime, -1 none (message format 0) |
        | headers | list<struct<key: string, value: binary>> | only with `headers=True`; null if the record has none |

        All columns are nullable, and named as in Spark's Kafka source. With `key=` or `value=` the column is a struct,
        or its fields stand in its place.
        """
        return self._core.schema

    def assign(self, partitions: Assignment) -> None:
        """Assign partitions by hand, in place of the previous assignment, without joining a group.

        Offsets are not committed automatically: call `commit()`. Returns at once; if a partition cannot be read, the
        next call that waits raises the error.

        Args:
            partitions: topics, with all of their partitions, also those that are added later (these start at their
                smallest offset); or `(topic, partition)` pairs. Both start at the offset that the group `group.id` has
                committed; without a committed offset or a group, where `auto.offset.reset` says (by default at the
                end). Or `{(topic, partition): position}`, with a position as in `seek()`.

        Raises:
            ArgumentError: if `partitions` is none of these or has a name that no topic can have, while topics are
                subscribed to with `subscribe()`, if a position is `"committed"` and there is no `group.id`, or if
                values are read with the schema of another topic's subject (`Avro()` and `Protobuf()` without a schema).
            ClosedError: if the consumer is closed.
        """
        topics, pairs = split_assignment(partitions, ("default", 0))
        self._check_schema(topics or [topic for (topic, _), _ in pairs])
        if topics:
            self._core.assign_topics(topics, ("default", 0))
        else:
            self._core.assign(pairs)

    def unassign(self) -> None:
        """Remove all partitions that `assign()` assigned.

        Raises:
            ArgumentError: while topics are subscribed to with `subscribe()`.
            ClosedError: if the consumer is closed.
        """
        self._core.unassign()

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions. Those of a whole topic are included once the first Metadata response is there."""
        return {TopicPartition(*partition) for partition in self._core.assignment()}

    def seek(self, partition: tuple[str, int], position: Position) -> None:
        """Set the position from which a partition is read next.

        Records of the partition that were fetched already are dropped. A partition that stopped with an error is read
        again. While a `run` commits a transaction, `"committed"` waits for its end, in the background.

        Args:
            partition: `(topic, partition)`.
            position: an offset; `"earliest"`; `"latest"`; `"committed"`, the group's committed offset (without one,
                where `auto.offset.reset` says); or an aware datetime, for the first record that is not older.

        Raises:
            ArgumentError: if the partition is not assigned, or there is no `group.id` for `"committed"`.
        """
        self._seek_one(raw_partition(partition), raw_position(position))

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Seek to the smallest offset of these partitions, or of all assigned ones if none is given."""
        self._seek_each("seek_to_beginning", partitions, ("earliest", 0))

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Seek to the end of these partitions, or of all assigned ones if none is given."""
        self._seek_each("seek_to_end", partitions, ("latest", 0))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Neither fetch nor return records of these partitions, or of all assigned ones, until `resume()`.

        Records that were fetched already are kept.

        Raises:
            ArgumentError: if a partition is not assigned; without arguments, if the partitions of an assigned topic
                are not known yet.
        """
        for partition in self._each("pause", partitions):
            self._core.set_paused(partition, True)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Resume these partitions, or all assigned ones if none is given."""
        for partition in self._each("resume", partitions):
            self._core.set_paused(partition, False)

    def paused(self) -> set[TopicPartition]:
        """The assigned partitions that are paused."""
        partitions = self._core.assignment()
        return {TopicPartition(*partition) for partition in partitions if self._core.status(partition)["paused"]}

    def position(self, partition: tuple[str, int]) -> int | None:
        """The offset of the next record that is returned; `None` while the starting offset is not known yet.

        Args:
            partition: an assigned partition, as `(topic, partition)`.
        """
        position: int | None = self._core.status(raw_partition(partition))["position"]
        return position

    def lag(
        self, *partitions: tuple[str, int], of: Literal["position", "finished"] = "position"
    ) -> JsonDict[TopicPartition, int | None]:
        """How many offsets each partition is behind the end of its log, as of the last fetch.

        Under read_committed the end is the last stable offset. `None` before the first fetch of the partition. No
        request is sent. `lag().to_json()` has keys such as `"orders-0"`.

        Args:
            partitions: `(topic, partition)` pairs; all assigned ones if left out.
            of: `"position"` counts from the next record to be returned; `"finished"` from the first record that is not
                finished, which the group would read again after a crash: the lag for a health check. It needs a
                `group.id`.

        Raises:
            ArgumentError: if a partition is not assigned, or `of` is neither.
        """
        if of not in ("position", "finished"):
            raise ArgumentError.of("of", of, "expected 'position' or 'finished'")
        lags: JsonDict[TopicPartition, int | None] = JsonDict()
        for partition in one_by_one("lag", partitions) or self._core.assignment():
            lags[TopicPartition(*partition)] = lag_of(self._core.status(partition), of)
        return lags

    def _metrics_registry(self) -> MetricRegistry:
        return self._core.metric_registry()

    def metrics(self) -> dict[str, float]:
        """Counters since the consumer was created: connections, requests, bytes, records, lost positions and so on.

        With a `group.id` also those of the group, whose names begin with `group_`: how many rebalances, joins, syncs,
        heartbeats and commits there were, and how many seconds they took; partitions assigned, revoked and lost; and
        so on. Once `run` was called also those of the runs, whose names begin with `run_`: records in flight (their
        handler runs) and waiting, for how many seconds the oldest handler has run, and records handled, tried again,
        written as dead letters, skipped and abandoned.
        """
        run = self._last_run
        running = {} if run is None else run.metrics()
        return {**dict(self._core.metrics()), **self._member.figures(), **running}

    # A bound method, kept beside the consumer, would keep one that nobody closed until the garbage collector comes.
    @staticmethod
    def _open_producer(settings: RawSettings) -> LetterProducer:
        """The producer of dead letters, of records that cannot be decoded and of those that a handler gives up."""
        raise NotImplementedError

    def _begin_reading(self) -> MemberReading:
        return MemberReading(self)

    def _to_commit(self, what: object) -> "Batch | list[RawOffset] | None":
        """Check what the user commits.

        Raises:
            ArgumentError: in a run with transactions. Replies to the records before an offset that is committed beside
                these would be lost with the process.
        """
        run = self._last_run
        if run is not None and run.is_under_way and run.rounds is not None:
            raise ArgumentError("run(transaction=...) commits offsets in its transactions: leave out commit()")
        return raw_commit(what)

    def _report_run(self) -> None:
        # Reported before the consumer leaves, so that records which handlers have finished are committed.
        run = self._last_run
        if run is not None and run.is_under_way:
            run.report()

    def health(self) -> JsonDict[str, Any]:
        """The state of the client, of each partition, and of the group membership.

        `"ok"` is whether all is well: brokers, the group's coordinator and the schema registry answer, no partition has
        stopped, the membership has not ended, and the consumer is open. `"failing_for"` and `"failing_since"` say for
        how many seconds, and since when (in UTC), brokers have not answered, and `"last_error"` why; they are `None`
        otherwise. A short interruption shows here at once: a probe that restarts a service should allow for some
        seconds. `"registry_failing_for"` and `"registry_last_error"` say the same of a schema registry.

        Further the connections, retried errors, and the byte budget; for each partition its position, the ends of its
        log, what is queued, and why it stopped if it did. `"group"` has the membership: state, the protocol in force,
        coordinator, generation, owned partitions, the last heartbeat and rebalance, errors; `None` without a
        `group.id`. `"client_instance_id"` names the client in the metrics that it pushes to brokers (KIP-714).
        `"certificate_expires"` is when the client's own certificate does, in seconds since 1970.

        Keys of `"partitions"` are `(topic, partition)` pairs, and `"failing_since"` is a datetime: `health().to_json()`
        has texts for them.
        """
        return with_since({**self._core.health(), "group": self._member.health()})

    def wakeup(self) -> None:
        """End the current wait of another thread or task, or else the next wait, with `WakeupError`.

        Loops over `batches()` and `records()` end without an error.
        """
        self._core.wakeup()

    def _check_drained(self, timeout: float | None, bound: "Bound | None" = None) -> None:
        """Raise if a loop ends after `timeout` without a record because brokers do not answer, or do not take letters.

        One that is read to its end raises if topics that it was to read do not exist.
        """
        if bound is not None and bound.reached():
            check_topics(self._member.health())
        elif timeout is not None:
            self._refused.check_written(timeout)
            self._core.check_failing(patience(timeout, is_end=True))

    def _seek_each(self, name: str, partitions: tuple[tuple[str, int], ...], position: RawPosition) -> None:
        if not partitions:
            self._in_order(partial(self._core.seek_all, position))
        for partition in one_by_one(name, partitions):
            self._seek_one(partition, position)

    def _seek_one(self, partition: tuple[str, int], position: RawPosition) -> None:
        seek = partial(self._core.seek, partition, position)
        if not self._in_order(seek, to_committed=position[0] == "committed"):
            self._core.status(partition)  # raises if it is not assigned

    def _in_order(self, seek: Callable[[], None], *, to_committed: bool = False) -> bool:
        run = self._last_run
        if run is None or not run.is_under_way or run.rounds is None:
            seek()
            return True
        return run.rounds.seek(seek, to_committed=to_committed)

    def _each(self, name: str, partitions: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
        if partitions:
            return one_by_one(name, partitions)
        assigned = self._core.assignment()  # comes first: raises ClosedError if the consumer is closed
        unknown = self._core.unresolved()
        if unknown:
            raise ArgumentError(f"the partitions of {', '.join(unknown)} are not known yet: poll first, or name them")
        return assigned


def lag_of(status: Mapping[str, Any], of: str) -> int | None:
    """The lag of a partition by its status, from its `"position"` or from the first record that is not `"finished"`."""
    end, start = status["log_end_offset"], status[of]
    return None if end is None or start is None else max(end - start, 0)


def chosen(partitions: Iterable[tuple[str, int]] | None) -> list[tuple[str, int]] | None:
    return None if partitions is None else raw_partitions(partitions)


def named(topics: tuple[str, ...]) -> list[str]:
    return topic_names(topics, "partitions_of() takes names one by one, such as partitions_of('orders', 'returns')")


def raw_times(times: Mapping[tuple[str, int], datetime | int | str]) -> list[tuple[tuple[str, int], int]]:
    if not isinstance(times, Mapping):
        raise ArgumentError(f"{times!r}: expected a dict such as {{('orders', 0): '1h ago'}}")
    return [(raw_partition(partition), timestamp_ms(time)) for partition, time in times.items()]


def as_offsets(found: dict[tuple[str, int], int | None]) -> dict[TopicPartition, int]:
    """The core's offsets, by `TopicPartition`; partitions without one are left out."""
    return {TopicPartition(*partition): offset for partition, offset in found.items() if offset is not None}


def as_times(found: dict[tuple[str, int], tuple[int, int] | None]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """The core's pairs of offset and timestamp, by `TopicPartition`."""
    return {
        TopicPartition(*partition): None if place is None else OffsetAndTimestamp(*place)
        for partition, place in found.items()
    }
