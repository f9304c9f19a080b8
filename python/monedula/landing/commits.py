"""Commits of landing jobs: what one is about to do, what it did, what a job would do, and what it did in all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from monedula.types.partitions import TopicPartition


@dataclass
class PendingCommit:
    """Files and positions that are to become part of a table at once, or not at all.

    Attributes:
        files: the data files, complete.
        moves: for each partition the position that the table has now, `None` for none, and the next one: that of the
            record after the last one that is in the files or was passed over.
        commit_id: by which the commit is found in the table's log if its answer was lost.
        is_certain: false once an attempt ended without an answer: the files may be in the table then, or get there.
        upsert: an `Upsert` whose rows replace those of their keys; each attempt has it say anew which files these are
            in.
        removed: files of the table that are no part of it any more.
        rewritten: files with the rows of these that stay.
    """

    files: list[Any]
    moves: Mapping[TopicPartition, tuple[int | None, int]]
    commit_id: str = field(default_factory=lambda: str(uuid4()))
    is_certain: bool = True
    upsert: Any = None
    removed: Sequence[Any] = ()
    rewritten: Sequence[Any] = ()

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(file.rows for file in self.files)

    def ranges(self) -> dict[str, list[int | None]]:
        """The moves, as types of JSON."""
        return {f"{topic}-{partition}": list(move) for (topic, partition), move in self.moves.items()}


class LandingCommit(NamedTuple):
    """A commit that a job made: the argument of `on_commit`."""

    version: int
    """The version of the table that it made, or one after it; of Iceberg the id of the snapshot."""
    rows: int
    files: int
    size: int
    """The bytes of the files."""
    positions: Mapping[TopicPartition, int]
    """The offset of the next record of each partition whose position moved."""
    seconds: float
    """How long the commit took, with the end of the files."""
    newest: datetime | None
    """The largest timestamp of its records."""
    bad_records: int = 0
    """The records that could not be decoded and became rows with `_error`."""
    dead_letters: int = 0
    """The records that could not be decoded and were written to a topic of dead letters."""


@dataclass(frozen=True)
class LandingResult:
    """What a job did until it ended.

    Attributes:
        rows: the rows that it added to the table.
        files: the data files.
        size: the bytes of these files.
        commits: the commits, those among them that only moved positions.
        conflicts: how often another worker was first, and rows were discarded and read anew.
        bad_records: the records that could not be decoded and became rows with `_error`.
        dead_letters: the records that could not be decoded and were written to a topic of dead letters, each counted
            once: a record that is read anew after a conflict is written again.
        positions: the offset of the next record of each partition that the job had a part in.
    """

    rows: int = 0
    files: int = 0
    size: int = 0
    commits: int = 0
    conflicts: int = 0
    bad_records: int = 0
    dead_letters: int = 0
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)


class LandingPlan(NamedTuple):
    """What a job would do: the result of `LandingJob.plan`."""

    schema: Any
    """The `pyarrow.Schema` of the rows."""
    is_new: bool
    """True if there is no table yet."""
    new_columns: tuple[str, ...]
    """The columns that the table would get."""
    ranges: Mapping[TopicPartition, tuple[int, int]]
    """The offsets from which and to which each partition would be read now."""
    size: int
    """The bytes of the files that there would be, estimated by a sample."""
    files: int
    """How many files there would be if size alone made commits, estimated likewise."""

    @property
    def offsets(self) -> int:
        """The most records that there are to read."""
        return sum(end - start for start, end in self.ranges.values())
