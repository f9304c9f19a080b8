"""`LandingJob` and `land`: read a topic as a member of a group, and commit its rows and positions to a table.

The group shares the partitions among workers, and nothing hangs on it: a worker that believes to own a partition still
is refused by the table. After each assignment the positions come from the table. A commit adds the files of all
partitions together with the next position of each, on condition that the table has the positions from which these files
were read. Otherwise another worker was first: all files are discarded, and reading goes on where the table is.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from math import inf
from threading import Event, Thread
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import pyarrow as pa
import pyarrow.compute as pc

from monedula._arguments import check_callable, seconds, topic_names, whole_number
from monedula._monedula import Batch
from monedula.config import Settings, Unpicklable, raw_settings
from monedula.consumer._dead_letters import Letter
from monedula.errors import (
    ArgumentError,
    ClosedError,
    DataLossError,
    DecodeError,
    KafkaError,
    LandingError,
    MaxPollExceededError,
    OffsetOutOfRangeError,
    WakeupError,
    plain_hint,
)
from monedula.formats._typed import Typed
from monedula.landing.column_types import Form, check_keys, check_partition_column
from monedula.landing.columns import DATE, KAFKA, VALUE, Columns, is_own
from monedula.landing.commits import LandingCommit, LandingPlan, LandingResult, PendingCommit
from monedula.landing.data_files import DataFiles
from monedula.landing.debezium import Unwrap, row_decoder
from monedula.landing.job_consumer import JobConsumer
from monedula.landing.job_settings import bad_record, job_settings, kept, reset_start, setting, without_bad
from monedula.landing.maintenance import LEAST_AGE_SECONDS
from monedula.landing.size_estimate import SizeEstimate
from monedula.landing.start_positions import StartPositions, check_start
from monedula.landing.table import LandingTable
from monedula.reading.read import read
from monedula.types.json_dict import JsonDict
from monedula.types.partitions import Position, TopicPartition, Until

if TYPE_CHECKING:
    from monedula.landing.upsert import Upsert

_log = logging.getLogger("monedula.landing")

BadRecords = Literal["fail", "column"]
"""What becomes of records that cannot be decoded: the job ends, or they are rows with `_error` and `_raw`."""

State = Literal["new", "running", "ended", "failed"]

_WAIT_SECONDS = 0.2
_CLOSE_SECONDS = 30.0
_LONGEST_PENDING_SECONDS = LEAST_AGE_SECONDS / 2
"""How long files wait for their commit: `clean` may take older ones for files that a worker left when it died."""
_OFFSETS_SECONDS = 5.0


class Target(Protocol):
    """A table to land in: `Delta` or `Iceberg`."""

    @property
    def partition_column(self) -> str | None:
        """The column by which it is partitioned."""

    @property
    def partition_by(self) -> str | None:
        """`"day(timestamp)"`, or the column; `None` if it is not partitioned."""

    @property
    def form(self) -> Form:
        """The format of the table."""

    @property
    def upsert(self) -> tuple[str, ...]:
        """The columns by which rows replace each other; none if they are appended."""

    def _table(self, job: str) -> LandingTable: ...


class LandingJob(Unpicklable):
    """Lands topics in a table, each record exactly once, in a thread of its own after `start()`, or here by `run()`.

    Several jobs with the same `group.id`, in as many processes, share the partitions and write to one table.

    Args:
        settings: settings, as for `Consumer`. `group.id` is the job's name if it is left out. `auto.offset.reset` says
            where partitions begin of which the table knows nothing, by default at `earliest`, and `isolation.level` is
            `read_committed` unless it is set: rows of aborted transactions could not be taken back.
        topics: a topic, or several whose records have the same columns.
        target: the table, such as `Delta("./lake/orders")`.
        key: how keys are decoded, such as `monedula.Json(schema)`; bytes if left out.
        value: how values are decoded, such as `monedula.Json(schema)`, `Avro()` or `Protobuf()`: each field is a
            column. Without it there is one column `value` of bytes.
        job: the name under which the table has the positions; `group.id` if left out. Under another name the table
            does not know how far it has the topic.
        start: where partitions begin of which the table knows nothing, in place of `auto.offset.reset`: a position, as
            for `Consumer.seek`, or a dict of positions by `(topic, partition)`.
        every: seconds after which rows are committed.
        max_bytes: bytes of files after which they are committed before that.
        max_memory_bytes: bytes of rows that may wait in memory for their row group.
        until: `"latest"` or a time, as for `Consumer.batches`: the job ends when all is committed up to there. A
            time to come is the end of the log as of now.
        headers: whether `_kafka` has the headers of records.
        key_column: the name of the column of keys; `None` for none.
        unwrap: `"debezium"` if values are envelopes of Debezium: the columns are those of `after`, of a deletion those
            of `before`, with `_op` (c, u, d or r) and `_ts_ms`. Of `Json` the schema is then that of the rows.
        bad_records: what becomes of records that cannot be decoded: `"fail"` ends the job after the rows before the
            record are committed; `"column"` makes rows with the reason in `_error` and the bytes in `_raw`. `mode` and
            `dead_letter` of the decoders say otherwise.
        fail_on_data_loss: whether a position in the table that the log has deleted ends the job; otherwise it goes on
            at the log's beginning, with a warning.
        max_commit_age: seconds after which `health()` is not well if there is something to commit; by default ten times
            `every`, but at least 300.
        on_commit: called with each `LandingCommit`, in the job's thread.

    Raises:
        ArgumentError: if an argument makes no sense, or a type of the values has no type in the table's format.
        ConfigError: on invalid settings.
        SchemaRegistryError: if the schema of a subject cannot be had.
    """

    def __init__(
        self,
        settings: Settings,
        topics: str | Iterable[str],
        target: Target,
        *,
        key: Typed | None = None,
        value: Typed | None = None,
        job: str | None = None,
        start: Position | Mapping[tuple[str, int], Position] | None = None,
        every: float = 60.0,
        max_bytes: int = 128 << 20,
        max_memory_bytes: int = 64 << 20,
        until: Until | None = None,
        headers: bool = False,
        key_column: str | None = "key",
        unwrap: Unwrap | None = None,
        bad_records: BadRecords = "fail",
        fail_on_data_loss: bool = True,
        max_commit_age: float | None = None,
        on_commit: Callable[[LandingCommit], object] | None = None,
    ) -> None:
        try:
            raw = raw_settings(settings, {}, in_place_of_text="topics come second, as in land(settings, 'orders', ...)")
        finally:
            del settings  # no traceback shows passwords as locals
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise ArgumentError("there is no topic; topics come second, as in land(settings, 'orders', ...)")
        self.topics = topic_names(names, "topics are names, such as 'orders'")
        if not hasattr(target, "_table"):
            raise ArgumentError.of("target", target, "expected a table, such as monedula.Delta('./lake/orders')")
        if bad_records not in get_args(BadRecords):
            raise ArgumentError.of("bad_records", bad_records, "expected 'fail' or 'column'")
        if unwrap not in (None, *get_args(Unwrap)):
            raise ArgumentError.of("unwrap", unwrap, "expected 'debezium'")
        for name, number in (("max_bytes", max_bytes), ("max_memory_bytes", max_memory_bytes)):
            if (whole_number(number) or 0) < 1:
                raise ArgumentError.of(name, number, "expected a number of bytes")
        for name, text in (("job", job), ("key_column", key_column)):
            if text is not None and (not isinstance(text, str) or not text):
                raise ArgumentError.of(name, text, "expected a name")
        check_callable("on_commit", on_commit, awaits=False)
        self.target = target
        self.name = job or setting(raw, "group.id") or f"land-{'-'.join(self.topics)}"
        self._every = seconds("every", every)
        self._max_bytes, self._max_memory_bytes = max_bytes, max_memory_bytes
        self._max_commit_age = (
            max(10 * self._every, 300.0) if max_commit_age is None else seconds("max_commit_age", max_commit_age)
        )
        start = reset_start(raw) if start is None else start
        check_start(start, self.topics)
        self._on_commit = on_commit
        self._fail_on_data_loss = fail_on_data_loss
        keeps_bad = bad_records == "column"
        self._decodes, self._key_column = value is not None, key_column
        own: Any = job_settings(raw, self.name)
        decoders: dict[str, Any] = {
            "key": kept(key, "key", self.topics, keeps_bad),
            "value": kept(value if unwrap is None else row_decoder(value), "value", self.topics, keeps_bad),
        }
        columns = ["key", "value", "topic", "partition", "offset", "timestamp", *(["headers"] if headers else [])]
        self._consumer = JobConsumer(own, columns=columns, headers=headers, **decoders)
        lenient: dict[str, Any] = {name: without_bad(each) for name, each in decoders.items()}
        self._read_besides: Any = partial(read, own, columns=columns, headers=headers, **lenient)
        try:
            self._consumer.show(self._figures)
            if keeps_bad:
                self._consumer.keep_bad()
            self._bound = None if until is None else self._consumer.until(until)
            batch_schema: Any = self._consumer.schema
            self._columns = Columns(
                pa.schema(batch_schema),
                key_column=key_column,
                headers=headers,
                keeps_bad=keeps_bad,
                has_date=target.partition_column == DATE,
                unwraps=unwrap is not None,
                marks_deletions=bool(target.upsert),
                form=target.form,
            )
            if target.partition_column is not None:
                check_partition_column(self.schema, target.partition_column)
            check_keys(self.schema, target.upsert)
        except BaseException:
            self._consumer.close(0.0)
            raise
        self._table: LandingTable = target._table(self.name)
        self._starts = StartPositions(
            self._consumer, self._table, self.topics, f"{target!r}, job {self.name!r}", start, fail_on_data_loss
        )
        self._files: DataFiles | Upsert | None = None
        self._froms: dict[TopicPartition, int | None] = {}
        """For each partition of this worker the position in the table, as of when it was looked at."""
        self._positions: dict[TopicPartition, int] = {}
        """The position behind the rows that are in files."""
        self._written_at: dict[TopicPartition, float] = {}
        self._is_torn = False
        """True while rows are written: the files have rows then which no position counts."""
        self._is_broken = False
        self._newest: Any = None
        self._result = LandingResult()
        self._bad_records = 0
        """Those that no commit has."""
        self._committing_rows = 0
        self._discarded_rows = 0
        self._freshness_seconds = 0.0
        self._committed_at = self._clean_at = monotonic()
        """When the last commit was, and when there was nothing to commit for the last time."""
        self._is_beginning = False
        """Whether table and log are looked at, for which a broker or a store may be slow."""
        self._is_stopping = Event()
        self._failure: BaseException | None = None
        self._thread: Thread | None = None
        self._state: State = "new"

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of the rows. A table may have wider types, and more columns."""
        return self._columns.schema

    def plan(self) -> LandingPlan:
        """Say what the job would do, and change nothing.

        Returns:
            The columns of the rows, those that the table would get, the offsets that would be read, and an estimate
            of the files: of up to 10,000 of the records, which are read for it.

        Raises:
            LandingError: if the table cannot take the rows.
            UnknownTopicError: if a topic does not exist.
        """
        partitions = self._consumer.partitions_of(*self.topics)
        self._table.topic_ids(self._consumer.topic_ids(self.topics, None))
        is_new = not self._table.open()
        self._check_decoding()
        columns = tuple(self.schema.names) if is_new else self._table.new_columns(self.schema)
        known = dict.fromkeys(partitions) if is_new else self._table.positions(partitions)
        ends = self._consumer.end_offsets(partitions)
        starts = self._starts.beginnings([each for each in partitions if known[each] is None])
        ranges = {each: (starts[each] if at is None else at, ends[each]) for each, at in known.items()}
        size, files = SizeEstimate.of(self._sample, self._columns, self.target.partition_by, ranges, self._max_bytes)
        return LandingPlan(self.schema, is_new, columns, ranges, size, files)

    def _sample(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> Iterable[Batch]:
        """Read ranges besides the group. What cannot be decoded is left out."""
        if not ranges:
            return
        starts, ends = ({each: bounds[number] for each, bounds in ranges.items()} for number in (0, 1))
        with self._read_besides(list(ranges), start=starts, end=ends) as stream:
            yield from stream

    def start(self) -> None:
        """Begin in a thread of its own. It ends by `stop()`, at `until`, or with an error, which `wait()` raises.

        Raises:
            ArgumentError: if it was begun already.
        """
        self._begin()
        self._thread = Thread(target=self._run_in_thread, name=f"monedula-land-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Have the job commit what it has, and end; from any thread, or a signal handler. Returns at once."""
        self._is_stopping.set()
        self._table.attempts.stop()
        with suppress(ClosedError):
            self._consumer.wakeup()

    def wait(self, timeout: float | None = None) -> LandingResult | None:
        """Wait for the end of a job that was started.

        Args:
            timeout: seconds to wait; `None` for as long as it takes.

        Returns:
            What it did; `None` if it is not at its end after `timeout`.

        Raises:
            ArgumentError: if it was not started.
            KafkaError: what ended it, such as `LandingError`; as `run`.
        """
        if self._thread is None:
            raise ArgumentError("the job was not started: start() begins it in a thread, and run() in this one")
        self._thread.join(timeout)
        if self._thread.is_alive():
            return None
        if self._failure is not None:
            raise self._failure
        return self._result

    def run(self) -> LandingResult:
        """Land until `until` is reached, or `stop()` is called.

        Returns:
            What it did.

        Raises:
            LandingError: if the table cannot take the rows, or not go on.
            DataLossError: if the log has deleted records that the table lacks.
            DecodeError: if a record cannot be decoded, once the rows before it are committed.
            UnknownTopicError: if a topic does not exist.
            PartitionError: another subclass, if a topic cannot be read, such as `TopicRecreatedError`.
            GroupError: a subclass, if the membership ends.
        """
        self._begin()
        return self._run()

    def _run(self) -> LandingResult:
        try:
            self._check_decoding()
            self._table.prepare(self.schema)
            self._look_ahead()
            self._is_beginning = False
            self._consumer.subscribe(
                self.topics, on_assigned=self._assigned, on_revoked=self._revoked, on_lost=self._lost
            )
            self._land()
            self._commit()
            self._state = "ended"
        except WakeupError:
            self._state = "ended"  # stopped before it had begun to read
        except BaseException as error:
            # Whatever is left uncommitted is read anew: a commit of what is half written would lose or repeat rows.
            self._failure, self._state, self._is_broken = error, "failed", True
            raise
        finally:
            self._close()
        return self._result

    def health(self) -> JsonDict[str, Any]:
        """The state of the job: for a probe, `health()["ok"]`.

        `"ok"` is false once the job has failed, if nothing was committed for `max_commit_age` although there is
        something to commit or to begin, while a topic is gone, or while its consumer is not well. `"state"` is `"new"`,
        `"running"`, `"ended"` or `"failed"`, `"error"` what ended it; `"last_commit_ago"` seconds since the last
        commit, or since the job began; `"pending_rows"` the rows that no commit has; `"consumer"` is
        `Consumer.health()`.
        """
        now = monotonic()
        age, pending = now - self._committed_at, self._pending_rows()
        is_due = self._state == "running" and (pending > 0 or self._is_beginning)
        is_late = is_due and now - self._clean_at > self._max_commit_age
        consumer = self._consumer.health()
        is_open = self._state in ("new", "running")
        error = None if self._failure is None else str(self._failure)
        gone = [each for each in self.topics if each in (consumer["group"] or {}).get("unknown_topics", ())]
        if error is None and gone:
            error = f"there is no topic {', '.join(gone)}"
        ok = error is None and not is_late and (bool(consumer["ok"]) or not is_open)
        return JsonDict(
            ok=ok, state=self._state, error=error, last_commit_ago=age, pending_rows=pending, consumer=consumer
        )

    def metrics(self) -> dict[str, float]:
        """The figures of the consumer, and those of the job, whose names begin with `landing_`.

        Rows, files, bytes, commits, conflicts, rows discarded after conflicts, records that could not be decoded; rows
        that no commit has yet; seconds since the last commit, and those from the newest record of the last commit with
        rows to that commit, its freshness. `monedula.prometheus.watch(job)` shows them.
        """
        return self._consumer.metrics()

    def _figures(self) -> dict[str, float]:
        result = self._result
        return {
            "landing_rows": result.rows,
            "landing_files": result.files,
            "landing_bytes": result.size,
            "landing_commits": result.commits,
            "landing_conflicts": result.conflicts,
            "landing_discarded_rows": self._discarded_rows,
            "landing_bad_records": result.bad_records,
            "landing_pending_rows": self._pending_rows(),
            "landing_freshness_seconds": self._freshness_seconds,
            "landing_last_commit_seconds": monotonic() - self._committed_at,
        }

    def _pending_rows(self) -> int:
        files = self._files
        return self._committing_rows + (0 if files is None else files.rows)

    def lag(self) -> JsonDict[TopicPartition, int | None]:
        """How many offsets each assigned partition is behind the end of its log; as `Consumer.lag`."""
        return self._consumer.lag()

    def _begin(self) -> None:
        if self._state != "new":
            raise ArgumentError(f"the job is {self._state}: it begins once; make another one")
        self._state, self._is_beginning = "running", True
        self._committed_at = self._clean_at = monotonic()

    def _run_in_thread(self) -> None:
        with suppress(BaseException):  # wait() raises it
            self._run()

    def _check_decoding(self) -> None:
        """Refuse to add a column of bytes to a table of decoded values, as a restart without `value` would."""
        if self._decodes or not self._table.open():
            return
        there = self._table.columns().names
        fields = [name for name in there if not is_own(name, self._key_column)]
        if fields and VALUE not in fields:
            raise LandingError(
                f"{self._table.name}: the table has the columns {', '.join(fields)} of values that were decoded, and "
                f"this job decodes none",
                hint="give `value=monedula.Json(...)` as the table's job has it, or land in another table",
            )

    def _look_ahead(self) -> None:
        """Refuse what cannot go on before the group has another member; the group gets offsets where it has none.

        Without these its members would warn of partitions that have no position, although the table has them.
        """
        positions = self._starts.of(self._consumer.partitions_of(*self.topics))
        with suppress(KafkaError):
            known = self._consumer.committed(positions, timeout=_OFFSETS_SECONDS)
            missing = {each: at for each, at in positions.items() if known[each] is None}
            if missing:
                self._consumer.commit(missing, timeout=_OFFSETS_SECONDS)

    def _land(self) -> None:
        bound = self._bound
        self._due_at = monotonic() + min(self._every, _LONGEST_PENDING_SECONDS / 2)
        try:
            while not self._is_stopping.is_set():
                if bound is not None and bound.reached():
                    self._commit()
                    # A conflict leads back to the positions of the table.
                    if bound.reached():
                        return
                self._read()
                files = self._files
                is_full = files is not None and (files.is_full or files.size >= self._max_bytes)
                if is_full or monotonic() >= self._due_at:
                    self._commit()
                    self._due_at = monotonic() + min(self._every, _LONGEST_PENDING_SECONDS / 2)
        finally:
            if bound is not None:
                bound.end()

    def _read(self) -> None:
        """Read a batch into files."""
        is_idle = self._files is None  # then no commit is due that could not wait
        timeout = _WAIT_SECONDS if is_idle else min(_WAIT_SECONDS, max(self._due_at - monotonic(), 0.0))
        generation = self._consumer.generation()
        try:
            batch = self._consumer.take(timeout)
        except WakeupError:
            return
        except MaxPollExceededError as error:
            # A commit took too long. Its partitions are lost, which discards what is left, and the next call joins.
            _log.warning("landing %s: %s", self.name, error)
            return
        except OffsetOutOfRangeError as error:
            if error.offset is None:
                self._begin_again(error)
                return
            self._try_commit()
            if self._fail_on_data_loss or self._is_broken:
                raise self._loss(error) from error
            # The table is told of what is skipped, as at the start.
            lost = TopicPartition(str(error.topic), error.partition or 0)
            for partition, position in self._starts.of([lost]).items():
                self._read_from(partition, position)
            return
        except LandingError:
            raise  # of a callback
        except DecodeError as error:
            self._try_commit()
            raise bad_record(error) from None
        except KafkaError:
            self._try_commit()  # no record was taken
            raise
        except BaseException:
            self._is_torn = True
            raise
        letters = self._consumer.take_bad()
        if not self._froms.keys() >= {*batch.offsets, *(letter.partition for letter in letters)}:
            # Rows of a partition that was taken away: no position would count them.
            self._discard()
            self._go_back(list(self._positions))
            return
        self._is_torn = True
        if batch or letters:
            if self._files is None:
                self._files = self._table.files(self._max_memory_bytes)
            if batch:
                self._write(self._files, batch)
            if letters:
                bad_rows = self._columns.bad_rows(letters)
                self._table.write(self._files, bad_rows)
                self._note_newest(bad_rows)
                self._bad_records += len(letters)
        self._advance(batch, letters, is_same=self._consumer.generation() == generation is not None)
        self._is_torn = False

    def _begin_again(self, error: OffsetOutOfRangeError) -> None:
        """Read on in a partition that the group has no offset of: this may be told before, or after, it is assigned."""
        partition = TopicPartition(str(error.topic), error.partition or 0)
        if partition in self._positions:
            with suppress(ArgumentError):  # lost since then
                self._consumer.seek(partition, self._positions[partition])

    def _advance(self, batch: Batch, letters: Sequence[Letter], is_same: bool) -> None:
        """Note the positions behind what was written, and behind what is no record, such as markers of transactions.

        Args:
            batch: what was written.
            letters: the records that were written as bytes.
            is_same: whether the generation is that of before the batch. If not, a partition may be lost, or lost and
                assigned again, before the callbacks that say so: then its position is not where this job has read to.
        """
        for partition, offset in batch.offsets.items():
            self._positions[TopicPartition(*partition)] = offset
        for letter in letters:
            self._positions[letter.partition] = max(letter.error.next_offset or 0, self._positions[letter.partition])
        for partition in self._positions if is_same else ():
            with suppress(ArgumentError):  # lost since then
                self._positions[partition] = max(self._consumer.position(partition) or 0, self._positions[partition])

    def _write(self, files: "DataFiles | Upsert", batch: Batch) -> None:
        try:
            rows = self._columns.rows(batch)
            self._table.write(files, rows)
        except (pa.ArrowInvalid, OverflowError) as error:  # the latter of days behind the year 9999 as partitions
            ranges = ", ".join(f"{each.topic}-{each.partition} from {each.first_offset}" for each in batch.spans)
            raise LandingError(f"a value does not fit into its column: {error}, in {ranges}") from error
        self._note_newest(rows)

    def _note_newest(self, rows: Any) -> None:
        newest = pc.max(rows.column(KAFKA).field("timestamp")).as_py()
        self._newest = max((each for each in (newest, self._newest) if each is not None), default=None)

    def _try_commit(self) -> None:
        """Commit what is there before an error is raised; what fails meanwhile is a note of no one."""
        try:
            self._commit()
        except KafkaError as error:
            self._is_broken = True
            _log.warning("landing %s: the rows before the error are not committed: %s", self.name, error)

    def _commit(self) -> None:
        """Commit files and positions, or go back to those of the table."""
        if self._is_torn or self._is_broken:
            self._discard()
            return
        if self._files is not None and time() - self._files.begun > _LONGEST_PENDING_SECONDS:
            _log.warning("landing %s: rows waited for too long, as after a suspension; they are read anew", self.name)
            self._discard()
            self._go_back(list(self._positions))
            return
        began = monotonic()
        refresh = self._table.refresh_seconds
        moves = {
            each: (self._froms[each], at)
            for each, at in self._positions.items()
            if at != self._froms[each] or (refresh is not None and began - self._written_at.get(each, -inf) > refresh)
        }
        if not moves:
            self._clean_at = began
            return
        bad_records, self._bad_records = self._bad_records, 0
        try:
            # Files that cannot be finished are still those of the job, which deletes them.
            pending = PendingCommit([] if self._files is None else self._files.finish(), moves)
            pending.upsert = self._files if self.target.upsert else None
            self._committing_rows = 0 if self._files is None else self._files.rows
            files, self._files = self._files, None
            is_committed = self._table.commit(pending)
        except BaseException:
            self._is_broken = True
            raise
        finally:
            self._committing_rows = 0
        if not is_committed:
            self._result = _added(self._result, conflicts=1)
            self._newest = None
            self._discarded_rows += pending.rows
            _log.info("landing %s: another worker was first; %d rows are read anew", self.name, pending.rows)
            if files is not None and pending.is_certain:
                self._delete(files)
            self._go_back(list(self._positions))
            return
        self._result = _added(self._result, bad_records=bad_records)
        self._note_committed(pending, began)

    def _note_committed(self, pending: PendingCommit, began: float) -> None:
        moved = {each: to for each, (_, to) in pending.moves.items()}
        self._froms.update(moved)
        self._committed_at = self._clean_at = monotonic()
        self._written_at.update(dict.fromkeys(moved, self._committed_at))
        size = sum(file.size for file in pending.files)
        self._result = _added(self._result, rows=pending.rows, files=len(pending.files), size=size, commits=1)
        self._result = LandingResult(**{**vars(self._result), "positions": {**self._result.positions, **moved}})
        newest, self._newest = self._newest, None
        if newest is not None:
            self._freshness_seconds = max(0.0, (datetime.now(UTC) - newest).total_seconds())
        # For tools that show the lag of groups: nothing depends on it.
        with suppress(KafkaError):
            self._consumer.commit_async(moved, timeout=_OFFSETS_SECONDS)
        if self._on_commit is not None:
            took = self._committed_at - began
            self._on_commit(
                LandingCommit(self._table.version, pending.rows, len(pending.files), size, moved, took, newest)
            )

    def _discard(self) -> None:
        files, self._files = self._files, None
        self._newest, self._bad_records = None, 0
        if files is not None:
            self._discarded_rows += files.rows
            self._delete(files)

    def _delete(self, files: "DataFiles | Upsert") -> None:
        try:
            files.discard()
        except LandingError as error:
            _log.warning("landing %s: %s", self.name, error)

    def _go_back(self, partitions: list[TopicPartition]) -> None:
        """Read on from the positions of the table."""
        for partition, position in self._table.positions(partitions).items():
            if position is None:
                raise LandingError(f"{self.target!r}: the position of {partition.topic}-{partition.partition} is gone")
            self._read_from(partition, position)

    def _read_from(self, partition: TopicPartition, position: int) -> None:
        self._froms[partition] = self._positions[partition] = position
        # It may be lost already, before the callback that says so.
        with suppress(ArgumentError):
            self._consumer.seek(partition, position)

    def _assigned(self, partitions: set[TopicPartition]) -> None:
        """Begin where the table is."""
        positions = self._starts.of(partitions)
        for partition, position in positions.items():
            self._read_from(partition, position)
        facts = vars(self._result)
        self._result = LandingResult(**{**facts, "positions": {**facts["positions"], **positions}})

    def _loss(self, error: OffsetOutOfRangeError) -> KafkaError:
        hint = "begin again: the job looks where the table and the log are; `fail_on_data_loss=False` goes on"
        return DataLossError(
            f"{error}; {plain_hint(hint, None)}",
            topic=error.topic,
            partition=error.partition,
            offset=error.offset,
            log_start_offset=error.log_start_offset,
            log_end_offset=error.log_end_offset,
            hint=hint,
        )

    def _revoked(self, partitions: set[TopicPartition]) -> None:
        """Commit while the partitions are this worker's; should they not be, the table says so."""
        self._commit()
        self._forget(partitions)

    def _lost(self, partitions: set[TopicPartition]) -> None:
        """Discard: others own the partitions, and their rows are in files with those of the others."""
        had_files = self._files is not None
        self._discard()
        self._forget(partitions)
        if had_files and self._positions:
            self._go_back(list(self._positions))

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._froms.pop(partition, None)
            self._positions.pop(partition, None)

    def _close(self) -> None:
        try:
            self._consumer.close(_CLOSE_SECONDS)
        except KafkaError as error:
            if self._failure is None:
                raise
            _log.warning("landing %s: %s", self.name, error)
        finally:
            self._discard()


def land(
    settings: Settings,
    topics: str | Iterable[str],
    target: Target,
    *,
    key: Typed | None = None,
    value: Typed | None = None,
    until: Until | None = None,
    **options: Any,
) -> LandingResult:
    """Land topics in a table, each record exactly once: until `until` is reached, or the process ends.

    Args:
        settings: settings, as for `Consumer`.
        topics: a topic, or several whose records have the same columns.
        target: the table, such as `monedula.Delta("./lake/orders")`.
        key: how keys are decoded; bytes if left out.
        value: how values are decoded, such as `monedula.Json(schema)`: each field is a column.
        until: `"latest"` for what is there now, or a time; without it the job goes on.
        **options: the other arguments of `LandingJob`, such as `every=10`, `job` or `bad_records="column"`.

    Returns:
        What was done.

    Raises:
        LandingError: if the table cannot take the rows, or not go on.
        DataLossError: if the log has deleted records that the table lacks.
        DecodeError: if a record cannot be decoded, once the rows before it are committed.
    """
    return LandingJob(settings, topics, target, key=key, value=value, until=until, **options).run()


def _added(result: LandingResult, **counts: int) -> LandingResult:
    facts = vars(result)
    return LandingResult(**{**facts, **{name: facts[name] + count for name, count in counts.items()}})
