"""`DeltaLandingTable`: commits of a landing job to Delta's log, with the positions as transactions of an application.

The high-level writes of deltalake are holes for workers that believe to own partitions still: a write by path reads the
newest version first, so it checks nothing. Here one handle is read, its positions are compared, and the commit extends
this handle: Delta refuses it if a commit since then has the same application id.
"""

import json
import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import date
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from monedula.errors import ArgumentError, LandingError
from monedula.landing.attempts import Attempts
from monedula.landing.columns import DATE, DELETED, KAFKA, conformed, missing_columns, partitioned_as
from monedula.landing.commits import PendingCommit
from monedula.landing.data_files import DataFile, DataFiles, extremes
from monedula.landing.delta_probe import check_put_if_absent
from monedula.landing.delta_snapshot import DeltaSnapshot
from monedula.landing.delta_store import DeltaStore
from monedula.landing.delta_transactions import DeltaTransactions
from monedula.landing.store_errors import landing_error, plain_text, raises_landing_error
from monedula.landing.table import ATTEMPT_PAUSES_S
from monedula.landing.upsert import Upsert
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    from monedula.landing.delta import Delta

T = TypeVar("T")

FORMAT = 1
"""The version of what a job writes to a table's log; a job refuses a table with a newer one."""

COMMIT_KEY = "monedula.commit"
JOB_KEY = "monedula.job"
BASE_KEY = "monedula.base"
RANGES_KEY = "monedula.ranges"

_RESTORE = "RESTORE"
_CREATE = "CREATE TABLE"
_REPLACE = "CREATE OR REPLACE TABLE"
_RETENTION = "delta.setTransactionRetentionDuration"
_FILE_RETENTION = "delta.deletedFileRetentionDuration"
_LEAST_RETENTION_SECONDS = 30 * 86400
_UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_FEATURES = {
    "appendOnly",
    "timestampNtz",
    "changeDataFeed",
    "deletionVectors",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "domainMetadata",
    "invariants",
    "checkConstraints",
    "generatedColumns",
}
"""Features of writers under which added files are right; that no column has a rule is checked besides."""
_LONGEST_FOLDER = 255
"""The most bytes in a name of most file systems."""
_APPENDS_ONLY = ("delta.appendOnly", "delta.enableChangeDataFeed")
"""Properties under which rows cannot be replaced by files alone."""
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class DeltaLandingTable:
    """A table of Delta for one job: see `LandingTable`."""

    def __init__(self, target: "Delta", job: str) -> None:
        self._target = target
        self._job = job
        self._prefix = f"monedula/{quote(job, safe='')}"
        self._topics: Mapping[str, tuple[str, int]] = {}
        self._topics_kept_until: dict[str, float] = {}
        self._partition_column = target.partition_column
        self.attempts = Attempts()
        self._keys = target.upsert
        self.refresh_seconds: float | None = None
        self._schema: Any = None
        self._table: DeltaTable = None  # until open()
        self._transactions: DeltaTransactions

    @property
    def name(self) -> str:
        """The path, for errors."""
        return self._target.path

    @property
    def version(self) -> int:
        """The version that the handle is at."""
        return int(self._table.version())

    def topic_ids(self, ids: Mapping[str, tuple[str, int]]) -> None:
        """Say which id and how many partitions each topic has."""
        self._topics = ids

    @raises_landing_error("the table cannot be opened")
    def open(self) -> bool:
        """Read the log; false if there is no table."""
        try:
            # deltalake raises the same error for a folder without a log, and for one that is not there.
            self._table = DeltaTable(self._target.path, storage_options=self._target.storage_options or None)
        except TableNotFoundError:
            return False
        self._metadata_id = self._table.metadata().id
        self._rules = self._told_rules()
        self._store = DeltaStore(self._target.path, self._target.storage_options)
        self._transactions = DeltaTransactions(self._store, self._table)
        return True

    def columns(self) -> Any:
        """The columns of the table."""
        return _schema_of(self._table)

    @property
    def upserts(self) -> bool:
        """True if the rows of this job replace each other."""
        return self._transaction(self._upsert_application) is not None

    def snapshot(self) -> DeltaSnapshot:
        """The files of the version that the handle is at."""
        return DeltaSnapshot(self._table, self._store.filesystem)

    def adopt(self) -> None:
        """Open a table as it is, to write its rows anew.

        Raises:
            LandingError: if there is none, or it has rules that are not applied here.
        """
        if not self.open():
            hint = "files of Iceberg's tables are compacted and cleaned by Spark or Trino"
            raise LandingError(f"{self._target.path}: there is no table of Delta", hint=hint)
        columns = self._table.metadata().partition_columns
        if self._target.partition_by is None and len(columns) == 1:
            self._partition_column = columns[0]
        self._check_table()
        self._schema = self.columns()
        if self._partition_column is not None and pa.types.is_binary(self._schema.field(self._partition_column).type):
            raise LandingError(f"{self.name}: its partitions are bytes, which are not rewritten", hint="use Spark")

    def file_retention_seconds(self) -> float:
        """How long the table keeps the files of older versions."""
        told = _interval_seconds(self._table.metadata().configuration.get(_FILE_RETENTION, "interval 7 days"))
        return 0.0 if told is None else told

    def vacuum(self, age_seconds: float, dry_run: bool) -> list[str]:
        """Delete the files that no version within the retention names, and that are older.

        Raises:
            LandingError: if the table has deletion vectors, whose files the library does not know.
        """
        if "deletionVectors" in (self._table.protocol().writer_features or ()):
            raise LandingError(f"{self._target.path}: the table has deletion vectors", hint="use Spark's VACUUM")
        hours = math.ceil(age_seconds / 3600)
        try:
            paths: list[str] = self._table.vacuum(hours, dry_run=dry_run, full=True)
        except DeltaError as error:
            raise LandingError(f"{self._target.path}: {error}") from error
        return paths

    def new_columns(self, schema: Any) -> tuple[str, ...]:
        """The columns that the table lacks."""
        self._check_table()
        self._check_history()
        return tuple(field.name for field in self._missing(schema))

    @raises_landing_error("the table cannot be prepared")
    def prepare(self, schema: Any) -> None:
        """Create the table, or add the columns that it lacks."""
        is_checked = False
        for _ in self.attempts.after(ATTEMPT_PAUSES_S):
            is_there = self.open()
            if not is_checked:
                check_put_if_absent(self._target.path, self._target.storage_options)
                is_checked = True
            if not is_there:
                # Whoever else creates it at the same time may be first.
                with suppress(CommitFailedError):
                    self._create(schema)
                continue
            self._check_table()
            missing = self._missing(schema)
            if missing:
                with suppress(CommitFailedError):
                    fields = [Field.from_arrow(field) for field in missing]
                    self._table.alter.add_columns(fields)
                continue
            there = _schema_of(self._table)
            self._schema = pa.schema([there.field(name) for name in schema.names])
            self._check_history()
            return
        raise LandingError(f"{self._target.path}: others change the table all the time; it cannot be prepared")

    @raises_landing_error("the log cannot be read")
    def positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Look at the newest version, and return the position of each partition there."""
        self._read(self._refresh)
        found = {partition: self._position(partition) for partition in partitions}
        for topic in {topic for topic, _ in partitions}:
            self._check_topic(topic)
        if self._keys and not self.upserts and any(found[each] != at for each, at in self.starts(partitions).items()):
            hint = "leave out `upsert`, or land as another `job` into another table"
            raise LandingError(
                f"{self.name}: the job {self._job!r} has appended rows, which would be replaced", hint=hint
            )
        return found

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return where this job began each partition."""
        return {each: self._transaction(f"{self._application(each)}/start") for each in partitions}

    @raises_landing_error("the rows cannot be read")
    def holds_rows(self, partition: TopicPartition) -> bool:
        """Return true if there are rows of a partition: by statistics, and by the rows where they allow it."""
        if KAFKA not in _schema_of(self._table).names:
            return False
        number = pa.scalar(partition.partition)
        return any(pc.any(pc.equal(numbers, number)).as_py() for numbers, _ in self._origins(partition))

    def has_begun(self, topic: str) -> bool:
        """Return true if the table has positions of a topic."""
        return self._topic_format(topic) is not None

    def origins(self, topic: str) -> Iterator[tuple[Any, Any]]:
        """The partitions and offsets of all rows of a topic."""
        yield from self._origins(TopicPartition(topic, -1))

    def _origins(self, partition: TopicPartition) -> Iterator[tuple[Any, Any]]:
        """The partitions and offsets of the rows of files that may have some of a partition, or for -1 of a topic.

        Not by the library's dataset, which refuses tables for features of readers that change no row.
        """
        snapshot, (topic, number) = self.snapshot(), partition
        for file in snapshot.files():
            has_number = number < 0 or file.may_hold(f"{KAFKA}.partition", number, number)
            if not has_number or not file.may_hold(f"{KAFKA}.topic", topic, topic):
                continue
            if file.has_deletions:
                raise LandingError(
                    f"{self.name}: the table has deletion vectors", hint="purge them, as by Spark's REORG"
                )
            for batch in snapshot.batches(file, [KAFKA]):
                origin = batch.column(KAFKA)
                is_of_topic: Any = pc.equal(pc.struct_field(origin, "topic"), pa.scalar(topic))
                rows = origin.filter(is_of_topic)
                yield pc.struct_field(rows, "partition"), pc.struct_field(rows, "offset")

    def files(self, max_memory_bytes: int) -> DataFiles | Upsert:
        """Begin the files of the next commit."""
        if self._keys:
            return Upsert(self, self._schema, self._keys, max_memory_bytes)
        return self.data_files(self._schema, max_memory_bytes)

    def data_files(self, schema: Any, max_memory_bytes: int) -> DataFiles:
        """Begin files with these columns; that of partitions is in the log alone."""
        schema = pa.schema([field for field in schema if field.name != self._partition_column])
        return DataFiles(self._store, schema, self._partition_column, self._path_of, max_memory_bytes)

    def delete(self, file: DataFile) -> None:
        """Delete a file that no commit can name."""
        self._store.delete(file.path)

    def write(self, files: DataFiles | Upsert, rows: Any) -> None:
        """Write rows; the column of partitions is in the log alone."""
        deletions = rows.column(DELETED) if isinstance(files, Upsert) else None
        rows = self._without_empty_partition(conformed(rows, self._schema))
        if isinstance(files, Upsert):
            files.write(rows, deletions)
            return
        if self._partition_column is None:
            files.write(rows)
        else:
            files.write(rows.drop_columns([self._partition_column]), rows.column(self._partition_column))

    def _without_empty_partition(self, rows: Any) -> Any:
        """The rows with null in place of an empty text in the partition column, which Delta has for it.

        An upsert would look for a key with the empty text, and find none.
        """
        if self._partition_column is None:
            return rows
        index = rows.schema.get_field_index(self._partition_column)
        field, column = rows.schema.field(index), rows.column(index)
        if not pa.types.is_string(field.type):
            return rows
        is_empty: Any = pc.equal(column, pa.scalar(""))
        return rows.set_column(index, field, pc.if_else(is_empty, pa.scalar(None, pa.string()), column))

    @raises_landing_error("the commit failed")
    def commit(self, pending: PendingCommit) -> bool:
        """Add files and positions in one version of the log, if the positions are still those of `pending`."""
        with self.attempts.bounded():
            return self._commit(pending)

    def _commit(self, pending: PendingCommit) -> bool:
        failure: Exception | None = None
        for _ in self.attempts.after(ATTEMPT_PAUSES_S):
            before = self.version
            self._read(self._check_log)
            # The handle may have moved on since the positions were read: a commit extends what is compared here.
            if self._moved(pending):
                return False
            if pending.upsert is not None:
                self._read(lambda: pending.upsert.plan(pending, self.snapshot()))
            try:
                self._write(pending)
            except CommitFailedError as error:
                failure = error
            except LandingError:
                raise
            except Exception as error:  # the store's errors are of many classes, and the commit may have arrived
                failure, pending.is_certain = error, False
            else:
                if self.refresh_seconds is not None:
                    kept_until = monotonic() + self.refresh_seconds
                    self._topics_kept_until |= dict.fromkeys((topic for topic, _ in pending.moves), kept_until)
                with suppress(DeltaError, OSError):
                    self._refresh()
                return True
            self._look(failure)
            # An answer that was lost looks like a conflict: with one's own commit.
            if self._read(lambda: self._has(pending, since=before)):  # noqa: B023 - called at once
                return True
            self._check_unchanged()
        raise landing_error(self.name, "the commit failed", failure)

    def _check_log(self) -> None:
        """Refuse to write beside a log that is gone: deltalake would begin it anew, with this version alone."""
        if not self._store.holds(f"_delta_log/{self.version:020}.json"):
            raise LandingError(
                f"{self.name}: the log has lost its version {self.version}: was the table deleted while the job ran?",
                hint="begin again: the job creates the table if it is gone",
            )

    def _write(self, pending: PendingCommit) -> None:
        now = int(time.time() * 1000)
        positions = {self._application(each): to for each, (_, to) in pending.moves.items()}
        # `check` looks for rows from there on.
        for each, (at, to) in pending.moves.items():
            start = f"{self._application(each)}/start"
            began = to if at is None else None if self.refresh_seconds is None else self._transaction(start)
            if began is not None:
                positions[start] = began
        for topic in {topic for topic, _ in pending.moves}:
            if self._topic_format(topic) is None or self._forgets(topic):
                positions[self._topic_application(topic)] = FORMAT
        if self._keys and pending.moves and not self.upserts:
            positions[self._upsert_application] = FORMAT
        metadata = {COMMIT_KEY: pending.commit_id}
        if pending.moves:
            metadata[JOB_KEY] = self._job
            metadata[BASE_KEY] = str(self.version)
            metadata[RANGES_KEY] = json.dumps(pending.ranges(), separators=(",", ":"))
        column = self._partition_column
        values = [{} if column is None else {column: _partition_text(file.partition)} for file in pending.removed]
        # A compaction moves no position, and changes no data.
        changes = bool(pending.moves)
        removals = [
            RemoveAction(file.path, changes, now, file.size, value)
            for file, value in zip(pending.removed, values, strict=True)
        ]
        is_plain = pending.upsert is None and not removals
        self._table.create_write_transaction(
            [*(self._action(file, now, changes) for file in (*pending.files, *pending.rewritten)), *removals],
            mode="append",
            schema=self._table.schema(),
            partition_by=self._table.metadata().partition_columns,
            commit_properties=CommitProperties(
                custom_metadata=metadata,
                # Files that are removed, or were looked for keys, are those of this very version.
                max_commit_retries=None if is_plain else 0,
                # Spark drops transactions without a time under a retention.
                app_transactions=[Transaction(name, to, now) for name, to in sorted(positions.items())],
            ),
        )

    def _forgets(self, topic: str) -> bool:
        """Whether the id of a topic has to be written again, for the table to keep it."""
        return self.refresh_seconds is not None and monotonic() > self._topics_kept_until.get(topic, 0.0)

    def _action(self, file: DataFile, now: int, changes: bool) -> AddAction:
        column = self._partition_column
        values = {} if column is None else {column: _partition_text(file.partition)}
        # deltalake writes the path encoded.
        return AddAction(file.path, file.size, values, now, changes, _statistics(file))

    def _moved(self, pending: PendingCommit) -> bool:
        if any(self._position(each) != start for each, (start, _) in pending.moves.items()):
            return True
        if pending.upsert is not None or not pending.removed:
            return False
        live = {file.path for file in self.snapshot().files() if not file.has_deletions}
        return any(file.path not in live for file in pending.removed)

    def _look(self, failure: Exception) -> None:
        """Read the log after a commit that failed."""
        hint = "begin again once the store answers: the job looks first, and repeats nothing"
        told = f"whether the last commit is in the table is not known: {plain_text(failure)}, and then"
        self._read(self._refresh, told, hint)

    def _read(self, what: Callable[[], T], told: str = "the table cannot be read", hint: str | None = None) -> T:
        """Ask the store for as long as it takes: without an answer nothing can be said."""
        unreadable: Exception | None = None
        for _ in self.attempts.after(ATTEMPT_PAUSES_S):
            try:
                return what()
            except LandingError:
                raise
            except Exception as error:  # of the store, as above
                unreadable = error
        raise landing_error(self.name, told, unreadable, hint)

    def _has(self, pending: PendingCommit, since: int) -> bool:
        newer = self.version - since
        return newer > 0 and any(each.get(COMMIT_KEY) == pending.commit_id for each in self._table.history(newer))

    def _refresh(self) -> None:
        self._table.update_incremental()
        operations = self._transactions.take_operations()
        if self._table.metadata().id != self._metadata_id:
            # Two workers that create a table at once both do: deltalake writes the second one's metadata as version 1.
            if _CREATE not in operations or _REPLACE in operations:
                raise LandingError(f"{self.name}: another table stands there now", hint="begin again, if it is meant")
            self._metadata_id = self._table.metadata().id
        if any(_takes_back(operation) for operation in operations):
            self._check_rollback()
        rules = self._told_rules()
        if rules != self._rules and self._schema is not None:
            self._check_unchanged()
        self._rules = rules

    def _told_rules(self) -> tuple[object, ...]:
        """What the written files, and positions, have to be right for."""
        metadata, protocol = self._table.metadata(), self._table.protocol()
        features = (*(protocol.reader_features or ()), *(protocol.writer_features or ()))
        return self._table.schema().to_json(), metadata.partition_columns, metadata.configuration, features

    def _check_unchanged(self) -> None:
        """Refuse to go on if the table has become one for which the written files are not right."""
        self._check_table()
        there = _schema_of(self._table)
        for field in self._schema:
            if field.name not in there.names or there.field(field.name).type != field.type:
                hint = "begin again: what is not committed is read anew"
                raise LandingError(
                    f"{self._target.path}: the column {field.name} was changed while rows were written",
                    hint=hint,
                )

    def _create(self, schema: Any) -> None:
        column = self._partition_column
        DeltaTable.create(
            self._target.path,
            schema=schema,
            mode="ignore",
            partition_by=None if column is None else [column],
            configuration=dict(self._target.configuration) or None,
            storage_options=self._target.storage_options or None,
        )

    def _missing(self, schema: Any) -> list[Any]:
        try:
            return missing_columns(schema, _schema_of(self._table))
        except ArgumentError as error:
            raise LandingError(f"{self._target.path}: {error.reason}", hint=error.hint) from None

    def _check_table(self) -> None:
        """Refuse a table whose rules would need more than adding files, or that forgets positions."""
        path, metadata = self._target.path, self._table.metadata()
        columns = metadata.partition_columns
        wanted = [] if self._partition_column is None else [self._partition_column]
        if columns != wanted:
            told = f"is partitioned by {', '.join(columns)}" if columns else "is not partitioned"
            raise LandingError(f"{path}: the table {told}", hint=partitioned_as(columns, DATE))
        features = set(self._table.protocol().writer_features or ()) - _FEATURES
        ruled = [name for name in metadata.configuration if name.startswith("delta.constraints.")]
        if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
            ruled.append("delta.columnMapping.mode")
        for field in self._table.schema().fields:
            ruled += [f"{field.name}: {name}" for name in field.metadata or {} if name.startswith("delta.")]
        if self._keys:
            ruled += sorted({"deletionVectors"} & set(self._table.protocol().writer_features or ()))
            ruled += [name for name in _APPENDS_ONLY if metadata.configuration.get(name) == "true"]
        if features or ruled:
            told = ", ".join(sorted([*features, *ruled]))
            raise LandingError(f"{path}: the table has rules that a landing job does not apply: {told}")
        self.refresh_seconds = None
        retention = metadata.configuration.get(_RETENTION)
        if retention is not None:
            seconds = _interval_seconds(retention)
            if seconds is None or seconds < _LEAST_RETENTION_SECONDS:
                hint = f"unset {_RETENTION}, or make it 30 days or more"
                raise LandingError(
                    f"{path}: {_RETENTION} is {retention!r}: the table would forget positions, and rows would be "
                    f"repeated",
                    hint=hint,
                )
            self.refresh_seconds = seconds / 4

    def _check_history(self) -> None:
        """Refuse a table to which this job has landed in another way, or that has lost what it landed."""
        if self.upserts and not self._keys:
            hint = "give the table its `upsert`, or land as another `job` into another table"
            raise LandingError(f"{self._target.path}: rows of the job {self._job!r} replace each other", hint=hint)
        self._check_rollback()

    def _check_rollback(self) -> None:
        """Refuse a table that was restored to a version without rows that its positions count.

        Looked at are all versions since the one that the newest commit of this job was made for: that commit may have
        come after a restoration that it did not see.
        """
        restores: dict[int, int] = {}
        own: list[int] = []
        base = -1
        for entry in _history(self._table):
            version = int(entry["version"])
            if own and version <= base and own[-1] < min(restores, default=version + 1):
                break
            if entry.get(JOB_KEY) == self._job:
                base = base if own else int(entry.get(BASE_KEY, version))
                own.append(version)
            elif _takes_back(entry.get("operation")):
                target = str(dict(entry.get("operationParameters") or {}).get("version"))
                # Restored to a time, which version that is cannot be told; a table that was replaced has no row.
                restores[version] = int(target) if target.isdigit() else -1
        if not restores:
            return
        ours = max((each for each in own if each < max(restores)), default=-1)
        state = max(restores)
        while (restored := max((each for each in restores if each <= state), default=None)) is not None:
            state = restores[restored]
        if state < ours:
            hint = "restore the version before, or land the topic as another `job` with `start` where rows are missing"
            raise LandingError(
                f"{self.name}: the table was restored to an earlier version, or replaced, and still has the positions "
                "of rows that are gone",
                hint=hint,
            )

    def _check_topic(self, topic: str) -> None:
        form = self._topic_format(topic)
        if form is not None and form > FORMAT:
            raise LandingError(f"{self._target.path}: a newer version of monedula has written it; update this one")
        if form is not None or topic not in self._topics:
            return
        _, count = self._topics[topic]
        known = [number for number in range(count) if self._position(TopicPartition(topic, number)) is not None]
        if known:
            hint = "land it as another `job`, whose offsets begin anew"
            raise LandingError(
                f"{self._target.path}: the topic {topic} was deleted and created again, and the offsets in the table "
                f"are those of the old one",
                topic=topic,
                hint=hint,
            )

    def _application(self, partition: TopicPartition) -> str:
        return f"{self._prefix}/{partition.topic}/{partition.partition}"

    @property
    def _upsert_application(self) -> str:
        return f"{self._prefix}/upsert"

    def _topic_application(self, topic: str) -> str:
        return f"{self._prefix}/{topic}/id/{self._topics[topic][0]}"

    def _topic_format(self, topic: str) -> int | None:
        return self._transaction(self._topic_application(topic)) if topic in self._topics else None

    def _position(self, partition: TopicPartition) -> int | None:
        return self._transaction(self._application(partition))

    def _transaction(self, application: str) -> int | None:
        return self._read(lambda: self._transactions.version_of(application))

    def _path_of(self, name: str, value: Any) -> str:
        """The path of a new file: with the partition's folder, from which polars takes the value."""
        file = f"part-{name}.zstd.parquet"
        if self._partition_column is None:
            return file
        text = _partition_text(value)
        folder = f"{self._partition_column}={_NO_VALUE if text is None else quote(text, safe='')}"
        if len(folder.encode()) > _LONGEST_FOLDER:
            raise LandingError(
                f"{self._target.path}: a value of the partition column {self._partition_column!r} is "
                f"{len(str(value))} letters long, and its folder's name would be longer than {_LONGEST_FOLDER} bytes",
                hint="partition the table by a column of short values",
            )
        return f"{folder}/{file}"


def _schema_of(table: DeltaTable) -> Any:
    return pa.schema(table.schema().to_arrow())


def _takes_back(operation: object) -> bool:
    """Whether an operation leaves a table without rows that it had, and with the transactions of them."""
    return operation == _RESTORE or "REPLACE TABLE" in str(operation)


def _history(table: DeltaTable) -> Iterator[Mapping[str, Any]]:
    """The last commits, the newest first. The first few are read alone: they are mostly enough."""
    seen = 0
    for limit in (10, 100, 1000):
        entries = table.history(limit)
        yield from entries[seen:]
        if len(entries) < limit:
            return
        seen = len(entries)


def _interval_seconds(text: str) -> float | None:
    """The seconds of Delta's `interval 30 days`; `None` if it is another form."""
    found = re.fullmatch(r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", text.strip(), re.IGNORECASE)
    return None if found is None else int(found[1]) * _UNIT_SECONDS[found[2].lower()]


def _partition_text(value: Any) -> str | None:
    """A value as the log has it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _statistics(file: DataFile) -> str:
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path, told in extremes(file.metadata, file.metadata.schema.to_arrow_schema()).items():
        low, high = _json_value(told.smallest), _json_value(told.largest)
        if low is not None and high is not None:
            _put(smallest, path, low)
            _put(largest, path, high)
        if told.nulls is not None:
            _put(nulls, path, told.nulls)
    found = {"numRecords": file.rows, "minValues": smallest, "maxValues": largest, "nullCount": nulls}
    return json.dumps(found, separators=(",", ":"), allow_nan=False)


_LONGEST_TEXT = 64


def _json_value(value: Any) -> Any:
    """A value of the statistics as types of JSON; `None` for those that readers could misread or that are too long."""
    if isinstance(value, bool | bytes):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, float):
        return value if value - value == 0 else None  # neither NaN nor infinite
    if hasattr(value, "hour"):
        # Not by strftime, which leaves out the zeros of years before 1000: readers skip such files.
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text if value.tzinfo is None else f"{text}Z"
    return value.isoformat() if isinstance(value, date) else None


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, name = path
    for parent in parents:
        tree = tree.setdefault(parent, {})
    tree[name] = value
