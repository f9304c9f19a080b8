"""What a landing job needs of a table, whatever its format."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from monedula.landing.attempts import Attempts
from monedula.landing.commits import PendingCommit
from monedula.types.partitions import TopicPartition

ATTEMPT_PAUSES_S = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)
"""Seconds before each attempt to commit, and to look after one without an answer."""


class LandingTable(Protocol):
    """A table as of one moment: it takes a commit only if the positions of the commit's partitions are still those.

    Attributes:
        refresh_seconds: after how many seconds a position has to be written again, for the table to keep it; `None` if
            it keeps it for good.
        version: the version of the table, or the id of its snapshot.
        attempts: how often and for how long it asks its store again.
    """

    @property
    def name(self) -> str:
        """What errors call it."""

    refresh_seconds: float | None
    version: int
    attempts: Attempts

    @property
    def upserts(self) -> bool:
        """True if rows of this job replace each other, as of the last look."""

    def open(self) -> bool:
        """Look whether there is a table; false if not."""

    def columns(self) -> Any:
        """The `pyarrow.Schema` of a table that is open."""

    def prepare(self, schema: Any) -> None:
        """Create the table, or add the columns that it lacks for rows of this schema.

        Raises:
            LandingError: if it cannot have them, or is one that must not be written to.
        """

    def positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Look at the newest version, and return the position of each partition there.

        Raises:
            LandingError: if a topic was recreated, or the table was rolled back.
        """

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return where this job began each partition, as of the last look; `None` if the table does not say."""

    def has_begun(self, topic: str) -> bool:
        """Return true if the table has positions of a topic, as of the last look."""

    def holds_rows(self, partition: TopicPartition) -> bool:
        """Return true if there are rows of a partition."""

    def origins(self, topic: str) -> Iterator[tuple[Any, Any]]:
        """The partitions and offsets of all rows of a topic, as pairs of arrays."""

    def files(self, max_memory_bytes: int) -> Any:
        """Begin the files of the next commit: `DataFiles`, or an `Upsert`."""

    def write(self, files: Any, rows: Any) -> None:
        """Write rows, as `Columns` made them, to files of this table."""

    def commit(self, pending: PendingCommit) -> bool:
        """Add files and positions to the table; false if a position is not what it was: then nothing was added.

        Raises:
            LandingError: if that cannot be done, or its outcome cannot be told.
        """

    def new_columns(self, schema: Any) -> tuple[str, ...]:
        """The columns that a table, which is open, would get for rows of this schema.

        Raises:
            LandingError: as `prepare`.
        """

    def topic_ids(self, ids: Mapping[str, tuple[str, int]]) -> None:
        """Say which id and how many partitions each topic has."""
