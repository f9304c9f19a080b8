"""`Upsert`: the last row of each key since the last commit of a job, and what a commit does to the rows before it.

A file that has rows of these keys is written anew without them, and the commit removes it: copy on write. The commit is
for the very version of the table whose files were looked at. If another one was first, only its files are looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from monedula.errors import LandingError
from monedula.landing.columns import DELETED, DELETION_COLUMNS, ERROR, KAFKA
from monedula.landing.commits import PendingCommit
from monedula.landing.data_files import DataFile, leaf_paths
from monedula.landing.debezium import OP
from monedula.landing.delta_snapshot import DeltaSnapshot, LiveFile
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    from monedula.landing.delta_table import DeltaLandingTable

_LOOKUP_BYTES = 16 << 20
_ORIGIN = ("topic", "partition", "offset", "timestamp")


class Upsert:
    """Rows that wait for a commit, of each key the last one.

    Within a partition of the topic the last one is that with the largest offset. Records of a key in several
    partitions, which there are once a topic got more of them, are ordered by their timestamps.

    Args:
        table: where they are written.
        schema: the columns of the rows.
        keys: those of keys.
        max_memory_bytes: the bytes of rows that may wait.

    Attributes:
        rows: how many wait, or are replaced by those that do.
        is_full: whether memory would not hold many more.
        begun: when the first one came, in seconds since the epoch.
    """

    def __init__(self, table: "DeltaLandingTable", schema: Any, keys: Sequence[str], max_memory_bytes: int) -> None:
        self._table = table
        self._none: Any = schema.append(pa.field(DELETED, pa.bool_())).empty_table()
        self._keys = keys
        self._max_memory_bytes = max_memory_bytes
        self._waiting: list[Any] = []
        self._errors: list[Any] = []
        self._size = 0
        self._found: dict[str, Any] = {}
        """For each file that was looked at the rows whose keys are among those that wait."""
        self._rewritten: dict[str, list[DataFile]] = {}
        self._written: tuple[set[int], list[DataFile]] | None = None
        """The rows that are not written since the table has a later one, and the files of the others."""
        self.begun = time()
        self.rows = 0
        self.is_full = False

    @property
    def size(self) -> int:
        """The bytes of the rows that wait."""
        return self._size

    def write(self, rows: Any, deletions: Any) -> None:
        """Have rows wait.

        Args:
            rows: a `pyarrow.RecordBatch` with columns of the table.
            deletions: for each row whether it deletes those of its key.

        Raises:
            LandingError: if a row has no key, and there is no column for errors.
        """
        lacks = _any(column.is_null() for column in self._parts(rows))
        # A tombstone without a key follows a deletion; a deletion that says so, and has no key, would leave its row.
        says = _any(rows.column(name).is_valid() for name in DELETION_COLUMNS if name in rows.schema.names)
        tombstones = deletions if says is None else pc.and_not(deletions, says)
        if ERROR in rows.schema.names:
            # Nothing can be looked up by them: they stay beside the rows of keys.
            told = pc.if_else(lacks, pa.scalar(self._lacks_key()), pa.scalar(None, pa.string()))
            error = pc.coalesce(rows.column(ERROR), pc.if_else(tombstones, pa.scalar(None, pa.string()), told))
            rows = rows.set_column(rows.schema.get_field_index(ERROR), rows.schema.field(ERROR), error)
            is_error = error.is_valid()
            self._errors.append(rows.filter(is_error))
            self._size += self._errors[-1].nbytes
            lacks = pc.or_(lacks, is_error)
        elif pc.any(pc.and_not(lacks, tombstones)).as_py():
            self._refuse(rows.filter(pc.and_not(lacks, tombstones)))
        kept = pc.invert(lacks)
        self._waiting.append(rows.append_column(DELETED, deletions).filter(kept))
        self._size += self._waiting[-1].nbytes
        self.rows += rows.num_rows
        if self._size > self._max_memory_bytes:
            self._fold()
            self.is_full = self._size > self._max_memory_bytes / 2

    def finish(self) -> list[DataFile]:
        """Return no files: an attempt to commit writes them."""
        return []

    def discard(self) -> None:
        """Delete all files."""
        for path in list(self._rewritten):
            self._forget(path)
        self._forget_written()
        self._waiting, self._errors, self._size = [], [], 0

    def plan(self, pending: PendingCommit, snapshot: DeltaSnapshot) -> None:
        """Write the files for a commit on top of a version of the table; most are there from the last attempt.

        Args:
            pending: gets the files.
            snapshot: the version.

        Raises:
            OSError: if a file cannot be read or written.
        """
        entries = self._fold()
        live = {file.path: file for file in snapshot.files()}
        for path in self._found.keys() - live.keys():
            del self._found[path]
            if pending.is_certain:
                self._forget(path)
            self._rewritten.pop(path, None)
        if entries.num_rows:
            new = [file for path, file in live.items() if path not in self._found]
            self._look_up(snapshot, new, entries, pending.moves)
        passed: set[int] = set()
        for found in self._found.values():
            passed.update(found.filter(found.column("is_later")).column("entry").to_pylist())
        removed = [live[path] for path, found in self._found.items() if pc.any(_replaced(found)).as_py()]
        for file in removed:
            if file.path not in self._rewritten:
                self._rewritten[file.path] = self._without(snapshot, file)
        if self._written is None or self._written[0] != passed:
            if pending.is_certain:
                self._forget_written()
            self._written = passed, self._files_of(entries, passed)
        pending.files, pending.removed = self._written[1], removed
        pending.rewritten = [made for file in removed for made in self._rewritten[file.path]]

    def _without(self, snapshot: DeltaSnapshot, file: LiveFile) -> list[DataFile]:
        found = self._found[file.path]
        dropped = found.filter(_replaced(found)).column("row").combine_chunks()
        files = self._table.data_files(snapshot.schema, self._max_memory_bytes)
        snapshot.copy(file, files, dropped)
        return files.finish()

    def _files_of(self, entries: Any, passed: set[int]) -> list[DataFile]:
        numbers = pa.array(range(entries.num_rows), pa.int64())
        left_out = pc.or_(entries.column(DELETED), pc.is_in(numbers, value_set=pa.array(passed, pa.int64())))
        rows = entries.filter(pc.invert(left_out)).drop_columns([DELETED])
        files = self._table.data_files(rows.schema, self._max_memory_bytes)
        for batch in (*rows.to_batches(), *self._errors):
            if batch.num_rows:
                self._table.write(files, batch)
        return files.finish()

    def _look_up(
        self, snapshot: DeltaSnapshot, files: Iterable[LiveFile], entries: Any, moves: Mapping[TopicPartition, Any]
    ) -> None:
        """Find the rows of files whose keys are among those that wait."""
        wanted = self._keyed(entries)
        # What this job landed is earlier than what it lands now, whatever the timestamps are.
        names = pc.binary_join_element_wise(wanted.column("topic"), wanted.column("partition").cast(pa.string()), "-")
        known = pa.array([f"{topic}-{partition}" for topic, partition in moves], pa.string())
        froms = pa.array([start for start, _ in moves.values()], pa.int64())
        wanted = wanted.append_column("from", froms.take(pc.index_in(names, value_set=known).combine_chunks()))
        wanted = wanted.append_column("entry", pa.array(range(wanted.num_rows), pa.int64()))
        ranges = self._ranges(entries)
        columns = [*self._keys, KAFKA, *([ERROR] if ERROR in snapshot.schema.names else [])]
        candidates: list[LiveFile] = []
        matches, waiting, size = [_NO_MATCHES], [], 0
        for file in files:
            self._found[file.path] = _NO_MATCHES
            if not all(file.may_hold(name, *ends) for name, ends in ranges.items()):
                continue
            first = 0
            for batch in snapshot.batches(file, columns):
                rows = self._keyed(pa.Table.from_batches([batch]))
                rows = rows.append_column("file", pa.repeat(pa.scalar(len(candidates), pa.int64()), rows.num_rows))
                rows = rows.append_column("row", pa.array(range(first, first + rows.num_rows), pa.int64()))
                first += batch.num_rows
                waiting.append(rows.filter(batch.column(ERROR).is_null()) if ERROR in columns else rows)
                size += rows.nbytes
                if size > _LOOKUP_BYTES:
                    matches.append(_matches(waiting, wanted))
                    waiting, size = [], 0
            candidates.append(file)
        if waiting:
            matches.append(_matches(waiting, wanted))
        found: Any = pa.concat_tables(matches)
        numbers: Any = pc.unique(found.column("file"))
        for number in numbers.to_pylist():
            self._found[candidates[number].path] = found.filter(pc.equal(found.column("file"), number))

    def _fold(self) -> Any:
        """The last row of each key of those that wait: nothing else waits then."""
        table = pa.Table.from_batches(self._waiting, self._none.schema)
        if not table.num_rows:
            return self._none
        keyed = self._keyed(table)
        keys = [name for name in keyed.schema.names if name not in _ORIGIN]
        keyed = keyed.append_column("index", pa.array(range(keyed.num_rows), pa.int64())).sort_by("offset")
        last = keyed.group_by([*keys, "topic", "partition"], use_threads=False)
        last = last.aggregate([("index", "last"), ("timestamp", "last")]).sort_by("timestamp_last")
        last = last.group_by(keys, use_threads=False).aggregate([("index_last", "last")])
        table = table.take(last.column("index_last_last").sort()).combine_chunks()
        self._waiting = table.to_batches()
        self._size = table.nbytes + sum(batch.nbytes for batch in self._errors)
        return table

    def _keyed(self, table: Any) -> Any:
        """The parts of keys, and where the rows are from; a timestamp that is not known is before all others."""
        names = [field.name for field in table.schema.field(KAFKA).type]
        origin = dict(zip(names, table.column(KAFKA).flatten(), strict=True))
        columns = {name: origin[name] for name in _ORIGIN}
        columns["timestamp"] = pc.fill_null(columns["timestamp"].cast(pa.int64()), -1)
        columns |= {f"key.{number}": part for number, part in enumerate(self._parts(table))}
        return pa.table(columns)

    def _parts(self, rows: Any) -> list[Any]:
        """The columns of keys, in place of structs those in them."""
        return [part for name in self._keys for part in _flat(rows.column(name))]

    def _ranges(self, entries: Any) -> dict[str, tuple[Any, Any]]:
        fields = pa.schema([entries.schema.field(name) for name in self._keys])
        names = [".".join(path or ()) for path in leaf_paths(fields)]
        ends: list[Any] = [pc.min_max(part).as_py() for part in self._parts(entries)]
        return {name: (told["min"], told["max"]) for name, told in zip(names, ends, strict=True)}

    def _refuse(self, rows: Any) -> None:
        origin = rows.column(KAFKA)[0].as_py()
        topic, partition, offset = (origin[name] for name in _ORIGIN[:3])
        op = str(rows.column(OP)[0].as_py()) if OP in rows.schema.names else ""
        kind = {"t": "truncation", "m": "message"}.get(op, "record")
        raise LandingError(
            f"the {kind} at offset {offset} of {topic}-{partition} has {self._lacks_key()}",
            topic=topic,
            partition=partition,
            hint="`bad_records='column'` keeps such records as rows with `_error`",
        )

    def _lacks_key(self) -> str:
        return f"no value in {', '.join(self._keys)}, the key by which rows are replaced"

    def _forget(self, path: str) -> None:
        self._delete(self._rewritten.pop(path, []))

    def _forget_written(self) -> None:
        written, self._written = self._written, None
        self._delete([] if written is None else written[1])

    def _delete(self, files: list[DataFile]) -> None:
        for file in files:
            with suppress(OSError):  # it is in no version, and `clean` deletes it
                self._table.delete(file)


_NO_MATCHES = pa.table(
    {
        "file": pa.array([], pa.int64()),
        "row": pa.array([], pa.int64()),
        "entry": pa.array([], pa.int64()),
        "is_later": pa.array([], pa.bool_()),
    }
)


def _replaced(found: Any) -> Any:
    return pc.invert(found.column("is_later"))


def _matches(there: list[Any], wanted: Any) -> Any:
    """The rows of a table that have a key of those that wait, and whether they are of later records."""
    keys = [name for name in wanted.schema.names if name.startswith("key.")]
    both = pa.concat_tables(there).join(wanted, keys=keys, join_type="inner", right_suffix="_new")
    is_own: Any = pc.and_(
        pc.and_(
            pc.equal(both.column("topic"), both.column("topic_new")),
            pc.equal(both.column("partition"), both.column("partition_new")),
        ),
        pc.less(both.column("offset"), both.column("from")),
    )
    is_newer: Any = pc.greater(both.column("timestamp"), both.column("timestamp_new"))
    is_later = pc.and_not(is_newer, pc.fill_null(is_own, False))
    return both.select(["file", "row", "entry"]).append_column("is_later", is_later)


def _flat(column: Any) -> list[Any]:
    return [part for each in column.flatten() for part in _flat(each)] if pa.types.is_struct(column.type) else [column]


def _any(masks: Iterable[Any]) -> Any:
    found: Any = None
    for mask in masks:
        found = mask if found is None else pc.or_(found, mask)
    return found
