"""A table of Delta in few files, and no file that no version names: while jobs, and others, go on."""

import base64
import json
import os
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import monedula
import polars
import pyarrow as pa
import pytest
from monedula.errors import LandingError
from monedula.landing import Delta, Iceberg, LandingJob, check, clean, compact
from monedula.landing.commits import PendingCommit
from monedula.landing.data_files import DataFiles

from tests.groups.ground import PATIENCE_SECONDS, Ground
from tests.landing.orders import ORDER, Orders, landed

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")

from monedula.landing.delta_snapshot import DeltaSnapshot  # noqa: E402 - needs the extra
from monedula.landing.delta_table import DeltaLandingTable  # noqa: E402 - needs the extra

WRITE = DeltaLandingTable._write
WEEK = 7 * 86400.0


class Killed(BaseException):
    """Ends a compaction as kill -9 does."""


@pytest.fixture
def path(orders: Orders, tmp_path: Path) -> Path:
    """A table with the orders in five files."""
    for _ in range(5):
        orders.send(30)
        orders.land(tmp_path / "lake")
    return tmp_path / "lake"


def live(path: Path) -> list[str]:
    return sorted(Path(file).name for file in deltalake.DeltaTable(path).file_uris())


def on_disk(path: Path) -> set[str]:
    return {file.name for file in path.rglob("*.parquet")}


def aged(path: Path, days: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(b"rows")
    os.utime(path, (time.time() - days * 86400,) * 2)
    return path


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something happen to the table once, between the reading of files and the commit."""
    left = [act]

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        if pending.removed and left:
            left.pop()()
        WRITE(table, pending)

    monkeypatch.setattr(DeltaLandingTable, "_write", write)


def test_small_files_become_one_and_the_job_goes_on(orders: Orders, path: Path) -> None:
    before = polars.read_delta(str(path)).sort("id")
    positions = deltalake.DeltaTable(path).transaction_version(f"monedula/lake/{orders.topic}/0")
    done = compact(Delta(path))
    assert (done.removed_files, done.added_files, done.commits, done.conflicts) == (5, 1, 1, 0)
    assert done.removed_bytes > done.added_bytes > 0
    assert len(live(path)) == 1
    assert polars.read_delta(str(path)).sort("id").equals(before)
    assert deltalake.DeltaTable(path).transaction_version(f"monedula/lake/{orders.topic}/0") == positions
    assert compact(Delta(path)).commits == 0
    orders.send(30)
    assert orders.land(path).rows == 30
    assert landed(path) == orders.offsets()
    assert check(orders.settings, orders.topic, Delta(path), job="lake").ok


def test_older_versions_stay_readable(path: Path) -> None:
    table = deltalake.DeltaTable(path)
    before = polars.read_delta(str(path)).sort("id")
    compact(Delta(path))
    assert polars.read_delta(str(path), version=table.version()).sort("id").equals(before)


def test_statistics_are_those_of_all_rows(path: Path) -> None:
    compact(Delta(path))
    (told,) = pa.table(deltalake.DeltaTable(path).get_add_actions(flatten=True)).to_pylist()
    assert (told["num_records"], told["min.id"], told["max.id"], told["null_count.id"]) == (450, 0, 449, 0)
    assert (told["min._kafka.offset"], told["max._kafka.offset"]) == (0, 149)


def test_a_compaction_says_that_no_data_changed(path: Path) -> None:
    compact(Delta(path))
    (log,) = [max((path / "_delta_log").glob("*.json"))]
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    told = [each[kind]["dataChange"] for each in actions for kind in ("add", "remove") if kind in each]
    assert told == [False] * 6


TYPES = {
    "a": pa.bool_(),
    "b": pa.int8(),
    "c": pa.int64(),
    "d": pa.float32(),
    "e": pa.decimal128(12, 3),
    "f": pa.string(),
    "g": pa.binary(),
    "h": pa.date32(),
    "i": pa.timestamp("us", "UTC"),
    "j": pa.timestamp("us"),
    "k": pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])),
    "l": pa.map_(pa.string(), pa.int64()),
    "m": pa.struct([("n", pa.struct([("o", pa.string())])), ("p", pa.list_(pa.int16()))]),
}
VALUES: list[dict[str, Any]] = [
    {},
    {
        "a": True,
        "b": -7,
        "c": 1 << 60,
        "d": 0.5,
        "f": "ä",
        "g": b"\0\xff",
        "h": 20000,
        "i": 1,
        "j": -1,
        "k": [{"x": 1, "y": None}, None],
        "l": [("key", 1), ("other", None)],
        "m": {"n": {"o": "deep"}, "p": []},
    },
    {"d": float("nan"), "f": "", "g": b"", "k": [], "l": [], "m": {"n": None, "p": [1, None]}},
]


def test_rows_of_every_type_are_the_same(tmp_path: Path) -> None:
    fields = [pa.field(name, kind) for name, kind in TYPES.items()]
    for value in VALUES * 2:
        deltalake.write_deltalake(tmp_path, pa.Table.from_pylist([value], pa.schema(fields)), mode="append")
    deltalake.DeltaTable(tmp_path).alter.add_columns([deltalake.Field("late", "string")])
    before = deltalake.DeltaTable(tmp_path).to_pyarrow_table()
    assert compact(Delta(tmp_path)).removed_files == 6
    after = deltalake.DeltaTable(tmp_path).to_pyarrow_table()
    assert after.schema == before.schema
    assert sorted(map(repr, after.to_pylist())) == sorted(map(repr, before.to_pylist()))


def test_each_partition_value_is_for_itself(ground: Ground, tmp_path: Path) -> None:
    made = Orders(ground.bootstrap, ground.topic(1))
    countries = ["a/b", "ä & ö", "x=y %", "", None]
    options: dict[str, Any] = {"value": monedula.Json(f"{ORDER}, country string"), "partition_by": "country"}
    for _ in range(3):
        for country in countries:
            made.send(2, country=country)
        made.land(tmp_path / "lake", **options)
    before = polars.read_delta(str(tmp_path / "lake")).sort("id")
    done = compact(Delta(tmp_path / "lake"))
    assert (done.removed_files, done.added_files) == (12, 4)  # the empty text is null
    assert polars.read_delta(str(tmp_path / "lake")).sort("id").equals(before)
    made.send(2, country="new")
    made.land(tmp_path / "lake", **options)
    assert landed(tmp_path / "lake") == made.offsets()


def test_large_files_are_left_and_commits_are_bounded(orders: Orders, path: Path) -> None:
    for _ in range(6):
        orders.send(30)
        orders.land(path)
    sizes = [(path / name).stat().st_size for name in live(path)]
    largest = max(sizes)
    done = compact(Delta(path), target_bytes=2 * largest)
    kept = [name for name in live(path) if (path / name).stat().st_size == largest]
    assert len(kept) == 1, "the file of half of the target was written again"
    assert done.commits > 1
    assert landed(path) == orders.offsets()


def test_what_is_landed_meanwhile_stays(orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.send(30)
    meanwhile(monkeypatch, lambda: orders.land(path))
    done = compact(Delta(path))
    assert (done.removed_files, done.conflicts) == (7, 0)  # the five, and then the one with the new one
    assert landed(path) == orders.offsets()


@pytest.mark.parametrize("how", ["compact", "optimize", "delete"])
def test_files_that_are_removed_meanwhile_are_not_repeated(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    table = deltalake.DeltaTable(path)
    acts: dict[str, Callable[[], object]] = {
        "compact": lambda: compact(Delta(path)),
        "optimize": table.optimize.compact,
        "delete": lambda: table.delete("id < 3"),
    }
    before = on_disk(path)
    meanwhile(monkeypatch, acts[how])
    done = compact(Delta(path))
    assert done.conflicts == 1
    expected = {each: offsets[1 if how == "delete" else 0 :] for each, offsets in orders.offsets().items()}
    assert landed(path) == expected
    assert on_disk(path) - before <= {*live(path), *tombstones(path)}, "files of the failed commit are left"


def tombstones(path: Path) -> set[str]:
    removed = deltalake.DeltaTable(path).vacuum(0, enforce_retention_duration=False)
    return {Path(each).name for each in removed}


def test_two_at_the_same_moment(orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    met: set[int] = set()

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        if threading.get_ident() not in met:
            met.add(threading.get_ident())
            gate.wait()
        WRITE(table, pending)

    monkeypatch.setattr(DeltaLandingTable, "_write", write)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(compact(Delta(path)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert sorted((each.commits, each.conflicts) for each in results) == [(0, 1), (1, 0)]
    assert landed(path) == orders.offsets()


@pytest.mark.parametrize("step", ["copy", "finish", "before", "after"])
def test_one_that_dies_loses_and_repeats_nothing(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def die(*_: object, **__: object) -> None:
        raise Killed

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        if step == "after":
            WRITE(table, pending)
        raise Killed

    with monkeypatch.context() as patch:
        if step == "copy":
            patch.setattr(DeltaSnapshot, "copy", die)
        elif step == "finish":
            patch.setattr(DataFiles, "finish", die)
        else:
            patch.setattr(DeltaLandingTable, "_write", write)
        patch.setattr(DataFiles, "discard", lambda _: None)
        with pytest.raises(Killed):
            compact(Delta(path))
    assert landed(path) == orders.offsets()
    compact(Delta(path))
    assert landed(path) == orders.offsets()
    assert len(live(path)) == 1


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("error", [OSError, deltalake.exceptions.CommitFailedError])
def test_a_commit_whose_answer_is_lost_is_looked_up(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool, error: type[Exception]
) -> None:
    left = [1]

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        if not left:
            WRITE(table, pending)
            return
        left.pop()
        if is_written:
            WRITE(table, pending)
        raise error("the connection was reset")

    monkeypatch.setattr(DeltaLandingTable, "_write", write)
    assert compact(Delta(path)).commits == 1
    assert landed(path) == orders.offsets()


def test_a_full_disk_leaves_no_file(orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    before = on_disk(path)
    with monkeypatch.context() as patch:
        patch.setattr(DataFiles, "finish", full)
        with pytest.raises(LandingError, match="No space left"):
            compact(Delta(path))
    assert on_disk(path) == before
    assert landed(path) == orders.offsets()


def test_planted_a_rebase_over_another_compaction_is_caught(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What keeps rows from being repeated is the look at the removed files: without it, they are there twice."""
    moved = DeltaLandingTable._moved

    def unseen(table: DeltaLandingTable, pending: PendingCommit) -> bool:
        removed, pending.removed = pending.removed, ()
        try:
            return moved(table, pending)
        finally:
            pending.removed = removed

    meanwhile(monkeypatch, lambda: compact(Delta(path)))
    monkeypatch.setattr(DeltaLandingTable, "_moved", unseen)
    compact(Delta(path))
    assert landed(path) != orders.offsets()


def test_a_table_that_others_rewrite_all_the_time_is_an_error(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeltaLandingTable, "_moved", lambda *_: True)
    with pytest.raises(LandingError, match="others rewrite the same files all the time"):
        compact(Delta(path))
    monkeypatch.undo()
    assert landed(path) == orders.offsets()
    assert on_disk(path) == set(live(path))


def delete_a_row(path: Path) -> str:
    """Delete the first row of a file by a deletion vector in the log, as Spark does; returns the file's name."""
    table = deltalake.DeltaTable(path)
    if "deletionVectors" not in (table.protocol().writer_features or ()):
        table.alter.add_feature([deltalake.TableFeatures.DeletionVectors], allow_protocol_versions_increase=True)
        table.update_incremental()
    logs = [log.read_text() for log in (path / "_delta_log").glob("*.json")]
    action = next(
        each
        for each in pa.table(table.get_add_actions()).to_pylist()
        if not any("deletionVector" in line and each["path"] in line for log in logs for line in log.splitlines())
    )
    bitmap = struct.pack("<IQIIIHHIHxx", 1681511377, 1, 0, 12346, 1, 0, 0, 16, 0)
    facts = {
        "path": action["path"],
        "size": action["size_bytes"],
        "partitionValues": {},
        "modificationTime": action["modification_time"],
        "dataChange": True,
        "stats": json.dumps({"numRecords": action["num_records"]}),
        "deletionVector": {
            "storageType": "i",
            "pathOrInlineDv": z85(bitmap),
            "sizeInBytes": len(bitmap) - 2,
            "cardinality": 1,
        },
    }
    removal = {"path": action["path"], "deletionTimestamp": action["modification_time"], "dataChange": True}
    lines = [json.dumps(each) + "\n" for each in ({"remove": removal}, {"add": facts})]
    (path / f"_delta_log/{table.version() + 1:020}.json").write_text("".join(lines))
    return str(action["path"])


def z85(content: bytes) -> str:
    """ZeroMQ's base 85: Python's RFC 1924 in another order of digits."""
    ours = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    theirs = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    return base64.b85encode(content).decode().translate(str.maketrans(theirs, ours))


def test_files_with_deletion_vectors_are_left_as_they_are(orders: Orders, path: Path) -> None:
    name = delete_a_row(path)
    count = deltalake.DeltaTable(path).scan(columns=["id"]).read_all().num_rows
    assert count == orders.count - 1, "the deletion vector is not read"
    done = compact(Delta(path))
    assert done.removed_files == 4
    assert name in live(path)
    assert deltalake.DeltaTable(path).scan(columns=["id"]).read_all().num_rows == count


def test_a_deletion_vector_that_comes_meanwhile_is_not_lost(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_a_row(path)
    meanwhile(monkeypatch, lambda: delete_a_row(path))
    count = orders.count - 2
    done = compact(Delta(path))
    assert done.conflicts == 1
    assert deltalake.DeltaTable(path).scan(columns=["id"]).read_all().num_rows == count


def test_upserts_and_cleaning_refuse_deletion_vectors(orders: Orders, path: Path) -> None:
    delete_a_row(path)
    with pytest.raises(LandingError, match="rules that a landing job does not apply: deletionVectors"):
        orders.land(path, upsert="key")
    with pytest.raises(LandingError, match="has deletion vectors") as failure:
        clean(Delta(path), older_than=WEEK)
    assert "VACUUM" in str(failure.value.hint)


def test_files_that_no_version_names_are_deleted_once_they_are_old(orders: Orders, tmp_path: Path) -> None:
    path = tmp_path / "lake"
    options: dict[str, Any] = {"value": monedula.Json(f"{ORDER}, country string"), "partition_by": "country"}
    for _ in range(2):
        orders.send(4, country="ä / ö")
        orders.land(path, **options)
    compact(Delta(path))
    for file in path.rglob("*.parquet"):
        aged(file, 30)  # those of older versions too: when they were removed is what counts
    old = {aged(path / name, 8) for name in ("part-1.zstd.parquet", "country=%C3%A4/part-2.zstd.parquet")}
    young = aged(path / "part-3.zstd.parquet", 6)
    hidden = {aged(path / name, 30) for name in ("_tmp/part-4.parquet", ".part-5.parquet", "_delta_log/x.tmp")}
    named = {str(each.relative_to(path)) for each in old}
    rest = on_disk(path) - {each.name for each in old}
    assert set(clean(Delta(path), older_than=WEEK, dry_run=True)) == named
    assert all(each.exists() for each in old)
    assert set(clean(Delta(path), older_than=WEEK)) == named
    assert on_disk(path) == rest
    assert young.exists()
    assert all(each.exists() for each in hidden)
    assert landed(path) == orders.offsets()
    orders.send(4)
    assert orders.land(path, **options).rows == 4


def test_files_of_a_worker_that_died_are_cleaned(orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise Killed

    before = on_disk(path)
    orders.send(30)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLandingTable, "_write", die)
        patch.setattr(LandingJob, "_discard", lambda _: None)
        with pytest.raises(Killed):
            orders.land(path)
    (left,) = on_disk(path) - before
    assert clean(Delta(path), older_than=WEEK) == []
    aged(path / left, 8)
    assert clean(Delta(path), older_than=WEEK) == [left]
    orders.land(path)
    assert landed(path) == orders.offsets()


def test_an_age_below_the_retention_is_refused(path: Path) -> None:
    with pytest.raises(monedula.ArgumentError, match="expected 168 hours or more"):
        clean(Delta(path), older_than=WEEK - 1)
    table = deltalake.DeltaTable(path)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 hours"})
    with pytest.raises(monedula.ArgumentError, match="expected 24 hours or more"):
        clean(Delta(path), older_than=3600)
    assert clean(Delta(path), older_than=86400) == []


def test_a_job_discards_files_that_waited_for_too_long(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was suspended for a day must not commit files that were cleaned meanwhile."""
    commit = LandingJob._commit
    ages = [13 * 3600.0]

    def late(job: LandingJob) -> None:
        if job._files is not None and ages:
            job._files.begun -= ages.pop()
        commit(job)

    monkeypatch.setattr(LandingJob, "_commit", late)
    job = orders.job(tmp_path / "lake")
    assert job.run().rows == 300
    assert job._discarded_rows > 0
    assert landed(tmp_path / "lake") == orders.offsets()


@pytest.mark.parametrize("maintain", [compact, lambda target: clean(target, older_than=WEEK)])
def test_what_is_no_table_of_delta_is_refused(tmp_path: Path, maintain: Callable[[Any], object]) -> None:
    pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")
    with pytest.raises(monedula.ArgumentError, match="for Iceberg Spark's and Trino's procedure"):
        maintain(Iceberg("lake.orders"))
    with pytest.raises(LandingError, match="there is no table of Delta"):
        maintain(Delta(tmp_path / "missing"))


def test_partitions_of_bytes_are_left_alone(tmp_path: Path) -> None:
    """Their values would become texts."""
    for number in range(2):
        rows = pa.table({"id": [number], "c": pa.array([b"ab"], pa.binary())})
        deltalake.write_deltalake(tmp_path / "lake", rows, mode="append", partition_by=["c"])
    with pytest.raises(LandingError, match="its partitions are bytes"):
        compact(Delta(tmp_path / "lake"))


def test_a_target_size_is_a_number(path: Path) -> None:
    with pytest.raises(monedula.ArgumentError, match="expected a number of bytes"):
        compact(Delta(path), target_bytes=0)
