"""`IcebergLandingTable`: commits of a landing job to an Iceberg table, with the positions among its properties.

pyiceberg tries a commit again on whatever snapshot is the newest by then, so a worker that believes to own partitions
still would be let in. Here each commit is one request to the catalog, which holds only if the newest snapshot is that
with which the positions were compared. Each commit makes a snapshot, also one that only moves positions: otherwise two
of these could both hold.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import And, EqualTo
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile as ManifestDataFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record

from monedula.errors import ArgumentError, LandingError
from monedula.landing.attempts import Attempts
from monedula.landing.column_types import table_type
from monedula.landing.columns import DAY, KAFKA, conformed, missing_columns, partitioned_as
from monedula.landing.commits import PendingCommit
from monedula.landing.data_files import DataFile, DataFiles
from monedula.landing.store_errors import landing_error, plain_text, raises_landing_error
from monedula.landing.table import ATTEMPT_PAUSES_S
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    from monedula.landing.iceberg import Iceberg

FORMAT = 1
"""The version of what a job writes into a table's properties; a job refuses a table with a newer one."""

COMMIT_KEY = "monedula.commit"
RANGES_KEY = "monedula.ranges"

_DAY_PARTITION = "_kafka_day"
_NAMED = {"name": "default"}
"""The name of a catalog that is given by its properties: SQL catalogs keep their tables under it."""
_EPOCH = date(1970, 1, 1)


class IcebergStore:
    """Writes data files by the input and output of a table."""

    def __init__(self, name: str, io: Any) -> None:
        self.name = name
        self._io = io

    def open(self, path: str) -> Any:
        """Begin a file."""
        return self._io.new_output(path).create()

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._io.delete(path)


class IcebergLandingTable:
    """A table of Iceberg for one job: see `LandingTable`."""

    refresh_seconds: float | None = None

    upserts = False

    def __init__(self, target: "Iceberg", job: str) -> None:
        self._target = target
        self._job = job
        self._property = f"monedula.land.{quote(job, safe='')}"
        self._topics: Mapping[str, tuple[str, int]] = {}
        self._catalog: Any = None
        self._table: Any = None
        self._schema: Any = None
        self._spec_id = 0
        self.attempts = Attempts()

    @property
    def name(self) -> str:
        """The name in the catalog, for errors."""
        return self._target.table

    @property
    def version(self) -> int:
        """The id of the newest snapshot; 0 before the first one."""
        snapshot = self._table.current_snapshot()
        return 0 if snapshot is None else int(snapshot.snapshot_id)

    def topic_ids(self, ids: Mapping[str, tuple[str, int]]) -> None:
        """Say which id and how many partitions each topic has."""
        self._topics = ids

    @raises_landing_error("the table cannot be opened")
    def open(self) -> bool:
        """Load the table; false if there is none."""
        if self._catalog is None:
            self._catalog = self._loaded_catalog()
        try:
            self._table = self._catalog.load_table(self._target.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return False
        return True

    def _loaded_catalog(self) -> Any:
        given = self._target.catalog
        for _ in self.attempts.after(ATTEMPT_PAUSES_S[:5]):
            try:
                return load_catalog(given) if isinstance(given, str) else load_catalog(**{**_NAMED, **given})
            except Exception as error:  # of many classes; of a SQL catalog also that another worker creates it just now
                failure: Exception = error
        raise landing_error(self.name, "the catalog cannot be opened", failure)

    def columns(self) -> Any:
        """The columns of the table."""
        fields = schema_to_pyarrow(self._table.schema(), include_field_ids=False)
        return pa.schema([field.with_type(_plain(field)) for field in fields])

    def new_columns(self, schema: Any) -> tuple[str, ...]:
        """The columns that the table lacks, or has of a narrower type."""
        self._check_partitions()
        self._check_rollback()
        return tuple(field.name for field in self._missing(schema))

    @raises_landing_error("the table cannot be prepared")
    def prepare(self, schema: Any) -> None:
        """Create the table, or add the columns that it lacks."""
        for _ in self.attempts.after(ATTEMPT_PAUSES_S):
            if not self.open():
                self._create(schema)
                continue
            self._check_partitions()
            missing = self._missing(schema)
            if missing:
                with suppress(CommitFailedException), self._table.update_schema() as update:
                    update.union_by_name(pa.schema(missing))
                continue
            # With the ids of its fields, as files need them.
            there = schema_to_pyarrow(self._table.schema(), include_field_ids=True)
            self._schema = pa.schema([there.field(name) for name in schema.names])
            self._spec_id = self._table.spec().spec_id
            self._check_rollback()
            return
        raise LandingError(f"{self._target.table}: others change the table all the time; it cannot be prepared")

    def positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Look at the newest snapshot, and return the position of each partition there."""
        self._look(None)
        for topic in {topic for topic, _ in partitions}:
            self._check_topic(topic)
        return self._recorded(partitions)

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return where this job began each partition."""
        topics = self._known()["topics"]
        return {each: topics.get(each.topic, {}).get("starts", {}).get(str(each.partition)) for each in partitions}

    def has_begun(self, topic: str) -> bool:
        """Return true if the table has positions of a topic."""
        return topic in self._known()["topics"]

    @raises_landing_error("the rows cannot be read")
    def holds_rows(self, partition: TopicPartition) -> bool:
        """Return true if there are rows of a partition."""
        if KAFKA not in self._table.schema().column_names:
            return False
        wanted = And(EqualTo(f"{KAFKA}.topic", partition.topic), EqualTo(f"{KAFKA}.partition", partition.partition))
        return bool(self._table.scan(wanted, selected_fields=(f"{KAFKA}.offset",), limit=1).to_arrow().num_rows)

    def origins(self, topic: str) -> Iterator[tuple[Any, Any]]:
        """The partitions and offsets of all rows of a topic."""
        names = (f"{KAFKA}.partition", f"{KAFKA}.offset")
        scan = self._table.scan(EqualTo(f"{KAFKA}.topic", topic), selected_fields=names)
        for batch in scan.to_arrow_batch_reader():
            origin = batch.column(KAFKA)
            yield pc.struct_field(origin, "partition"), pc.struct_field(origin, "offset")

    def files(self, max_memory_bytes: int) -> DataFiles:
        """Begin the files of the next commit."""
        return DataFiles(IcebergStore(self.name, self._table.io), self._schema, None, self._path_of, max_memory_bytes)

    def write(self, files: DataFiles, rows: Any) -> None:
        """Write rows."""
        rows = conformed(rows, self._schema)
        column = self._target.partition_column
        if self._target.partition_by == DAY:
            files.write(rows, rows.column(KAFKA).field("timestamp").cast(pa.date32(), safe=False))
        else:
            files.write(rows, None if column is None else rows.column(column))

    @raises_landing_error("the commit failed")
    def commit(self, pending: PendingCommit) -> bool:
        """Add files and positions by one snapshot, if the positions are still those of `pending`."""
        with self.attempts.bounded():
            return self._commit(pending)

    def _commit(self, pending: PendingCommit) -> bool:
        failure: Exception | None = None
        for _ in self.attempts.after(ATTEMPT_PAUSES_S):
            # The newest snapshot may be another one than when the positions were read: it is this one that must hold.
            if self._moved(pending):
                return False
            try:
                self._write(pending)
            except CommitFailedException as error:
                failure = error
            except Exception as error:  # of many classes, and the commit may have arrived
                failure, pending.is_certain = error, False
            else:
                with suppress(Exception):  # the next look tells
                    self._table.refresh()
                # A rollback right after it would not be seen any more behind the next commit.
                self._check_rollback()
                return True
            self._look(failure)
            if any((each.summary or {}).get(COMMIT_KEY) == pending.commit_id for each in self._table.snapshots()):
                return True
            self._check_unchanged()
        raise landing_error(self.name, "the commit failed", failure)

    def _write(self, pending: PendingCommit) -> None:
        ranges = json.dumps(pending.ranges(), separators=(",", ":"))
        transaction = Transaction(self._newest())
        update = transaction.update_snapshot({COMMIT_KEY: pending.commit_id, RANGES_KEY: ranges})
        merges = self._table.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
        append = update.merge_append() if merges else update.fast_append()
        for file in pending.files:
            append.append_data_file(self._data_file(file))
        known = self._known()
        for (topic, number), (at, to) in pending.moves.items():
            told = known["topics"].setdefault(topic, {"id": self._topics[topic][0], "positions": {}, "starts": {}})
            told["positions"][str(number)] = to
            if at is None:
                told["starts"][str(number)] = to
        known |= {"format": FORMAT, "commit": pending.commit_id}
        properties = SetPropertiesUpdate(updates={self._property: json.dumps(known, separators=(",", ":"))})
        # The requirements name the newest snapshot: the catalog takes the commit on top of this one, or not at all.
        updates, requirements = append._commit()
        uuid = AssertTableUUID(uuid=self._table.metadata.table_uuid)
        self._catalog.commit_table(self._table, (*requirements, uuid), (*updates, properties))

    def _newest(self) -> Any:
        """The table without the snapshots before the newest: pyiceberg copies all of them thirteen times a commit."""
        metadata = self._table.metadata
        snapshot = self._table.current_snapshot()
        snapshots = [] if snapshot is None else [snapshot]
        newest = metadata.model_copy(update={"snapshots": snapshots, "snapshot_log": [], "metadata_log": []})
        location, io = self._table.metadata_location, self._table.io
        return Table(self._table.name(), newest, location, io, self._catalog)

    def _data_file(self, file: DataFile) -> Any:
        schema = self._table.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            file.metadata,
            stats_columns=compute_statistics_plan(schema, self._table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        value = file.partition
        days = (value - _EPOCH).days if isinstance(value, date) else value
        return ManifestDataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.path,
            file_format=FileFormat.PARQUET,
            partition=Record() if self._target.partition_by is None else Record(days),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=self._spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def _moved(self, pending: PendingCommit) -> bool:
        recorded = self._recorded(pending.moves)
        return any(recorded[each] != start for each, (start, _) in pending.moves.items())

    def _look(self, failure: Exception | None) -> None:
        """Load the newest metadata, for as long as it takes: without it nothing can be said."""
        for _ in self.attempts.after(ATTEMPT_PAUSES_S):
            try:
                self._table.refresh()
            except NoSuchTableError as error:
                raise LandingError(f"{self.name}: the table is gone", hint="begin again, to make a new one") from error
            except Exception as error:  # of the catalog, as above
                if "UUID" in str(error):
                    hint = "begin again, if that one is meant"
                    raise LandingError(f"{self.name}: another table stands there now", hint=hint) from error
                unreadable: Exception = error
                continue
            self._check_rollback()
            return
        if failure is None:
            raise landing_error(self.name, "the catalog does not answer", unreadable)
        hint = "begin again once the catalog answers: the job looks first, and repeats nothing"
        raise LandingError(
            f"{self.name}: whether the last commit is in the table is not known: {plain_text(failure)}, and then: "
            f"{plain_text(unreadable)}",
            hint=hint,
        )

    def _known(self) -> dict[str, Any]:
        """What the properties have of this job."""
        found: dict[str, Any] = json.loads(self._table.properties.get(self._property, '{"topics":{}}'))
        return found

    def _recorded(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        topics = self._known()["topics"]
        found: dict[TopicPartition, int | None] = {}
        for partition in partitions:
            told = topics.get(partition.topic, {"positions": {}})
            found[partition] = told["positions"].get(str(partition.partition))
        return found

    def _check_topic(self, topic: str) -> None:
        known = self._known()
        if known.get("format", FORMAT) > FORMAT:
            raise LandingError(f"{self._target.table}: a newer version of monedula has written it; update this one")
        told = known["topics"].get(topic)
        if told is not None and topic in self._topics and told["id"] != self._topics[topic][0]:
            raise LandingError(
                f"{self._target.table}: the topic {topic} was deleted and created again, and the offsets in the table "
                "are those of the old one",
                topic=topic,
                hint="land it as another `job`, whose offsets begin anew",
            )

    def _check_rollback(self) -> None:
        """Refuse a table whose newest snapshot does not have the last commit of this job among its ancestors."""
        commit = self._known().get("commit")
        if commit is None:
            return
        snapshots = {each.snapshot_id: each for each in self._table.snapshots()}
        newest = self._table.current_snapshot()
        each = newest
        while each is not None:
            if (each.summary or {}).get(COMMIT_KEY) == commit:
                return
            each = None if each.parent_snapshot_id is None else snapshots.get(each.parent_snapshot_id)
        is_elsewhere = any((each.summary or {}).get(COMMIT_KEY) == commit for each in snapshots.values())
        # A snapshot that is nowhere has expired.
        if is_elsewhere or newest is None:
            raise LandingError(
                f"{self._target.table}: the table was rolled back to an earlier snapshot, and still has the positions "
                "of rows that are gone",
                hint="make the snapshot before the current one, or land the topic as another `job` with `start` where "
                "rows are missing",
            )

    def _check_unchanged(self) -> None:
        """Refuse to go on if the table has become one for which the written files are not right."""
        there = schema_to_pyarrow(self._table.schema(), include_field_ids=True)
        for field in self._schema:
            # Readers widen what is in files.
            if field.name not in there.names or there.field(field.name).metadata != field.metadata:
                raise LandingError(
                    f"{self._target.table}: the column {field.name} was changed while rows were written",
                    hint="begin again: what is not committed is read anew",
                )
        if self._table.spec().spec_id != self._spec_id:
            raise LandingError(f"{self._target.table}: the partitions were changed while rows were written")

    def _check_partitions(self) -> None:
        fields = self._table.spec().fields
        wanted = self._target.partition_by
        schema = self._table.schema()
        found = [
            DAY
            if isinstance(each.transform, DayTransform)
            and schema.find_column_name(each.source_id) == f"{KAFKA}.timestamp"
            else schema.find_column_name(each.source_id)
            if isinstance(each.transform, IdentityTransform)
            else str(each)
            for each in fields
        ]
        if found != ([] if wanted is None else [wanted]):
            told = f"is partitioned by {', '.join(map(str, found))}" if found else "is not partitioned"
            raise LandingError(f"{self._target.table}: the table {told}", hint=partitioned_as(found, DAY))

    def _missing(self, schema: Any) -> list[Any]:
        try:
            return missing_columns(schema, self.columns(), widens=True)
        except ArgumentError as error:
            raise LandingError(f"{self._target.table}: {error.reason}", hint=error.hint) from None

    def _create(self, schema: Any) -> None:
        namespace = self._target.table.rpartition(".")[0]
        try:
            self._catalog.create_namespace_if_not_exists(namespace)
        except Exception:  # of many classes, if another worker creates it just now
            if not self._catalog.namespace_exists(namespace):
                raise
        # Whoever else creates it at the same time may be first.
        with suppress(TableAlreadyExistsError, CommitFailedException):
            transaction = self._catalog.create_table_transaction(
                self._target.table, schema=schema, properties=self._target.properties
            )
            with transaction as creation, creation.update_spec() as spec:
                if self._target.partition_by == DAY:
                    spec.add_field(f"{KAFKA}.timestamp", DayTransform(), _DAY_PARTITION)
                elif self._target.partition_by is not None:
                    spec.add_identity(self._target.partition_by)

    def _path_of(self, name: str, _value: Any) -> str:
        location: str = self._table.location_provider().new_data_location(f"part-{name}.parquet")
        return location


def _plain(field: Any) -> Any:
    """The type of a column as rows have it; columns of fixed length and others take no rows."""
    try:
        return (
            field.type if pa.types.is_fixed_size_binary(field.type) else table_type(field.type, field.name, "iceberg")
        )
    except ArgumentError:
        return field.type
