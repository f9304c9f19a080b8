"""Rows of a table of Delta that replace each other: the last record of each key stays, deletions remove."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import monedula
import polars
import pyarrow as pa
import pytest
from monedula.errors import LandingError
from monedula.landing import Delta, LandingJob, check
from monedula.landing.commits import PendingCommit

from tests.groups.ground import Ground
from tests.landing.changes import Changes, kept
from tests.landing.orders import ORDER, Orders
from tests.landing.race import race

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")

from monedula.landing.delta_table import DeltaLandingTable  # noqa: E402 - needs the extra
from monedula.landing.upsert import Upsert  # noqa: E402 - needs the extra

WRITE = DeltaLandingTable._write


class Killed(BaseException):
    """Ends a job as kill -9 does."""


@pytest.fixture
def changes(ground: Ground) -> Changes:
    """A topic with 300 changes of 40 keys."""
    made = Changes(ground.bootstrap, ground.topic(3))
    made.send(300)
    return made


@pytest.fixture
def empty(ground: Ground) -> Changes:
    """A topic of one partition without a record."""
    return Changes(ground.bootstrap, ground.topic(1), 1)


def on_disk(path: Path) -> set[str]:
    return {file.name for file in path.rglob("*.parquet")}


def live(path: Path) -> set[str]:
    return {Path(file).name for file in deltalake.DeltaTable(path).file_uris()}


def amounts(path: Path) -> dict[int, float]:
    table = polars.read_delta(str(path))
    return dict(zip(table["id"], table["amount"], strict=True))


def test_the_last_record_of_each_key_is_its_row(changes: Changes, tmp_path: Path) -> None:
    result = changes.land(tmp_path / "lake", upsert="key")
    assert kept(tmp_path / "lake") == changes.left()
    assert result.rows == len(changes.left())
    for _ in range(3):
        changes.send(60)
        changes.land(tmp_path / "lake", upsert="key")
        assert kept(tmp_path / "lake") == changes.left()
    assert changes.land(tmp_path / "lake", upsert="key").commits == 0
    found = check(changes.settings, changes.topic, Delta(tmp_path / "lake"), job="lake")
    assert found.ok
    assert {partition: each.end for (_, partition), each in found.partitions.items()} == changes.ends()


def test_positions_and_rows_are_one_version(changes: Changes, tmp_path: Path) -> None:
    changes.land(tmp_path / "lake", upsert="key")
    before = deltalake.DeltaTable(tmp_path / "lake").version()
    changes.send(60)
    changes.land(tmp_path / "lake", upsert="key")
    table = deltalake.DeltaTable(tmp_path / "lake")
    assert table.version() == before + 1
    assert table.transaction_version(f"monedula/lake/{changes.topic}/0") == changes.ends()[0]


@pytest.mark.parametrize("told", ["__deleted boolean", "__deleted string", "__op string", None])
def test_deletions_of_change_data_remove_rows(empty: Changes, tmp_path: Path, told: str | None) -> None:
    def change(op: str, before: Any, after: Any) -> dict[str, Any]:
        return {"before": before, "after": after, "op": op, "ts_ms": 1, "source": {}}

    schema = ORDER if told is None else f"{ORDER}, {told}"
    value = monedula.Json(schema, options={"envelope": "debezium"})
    for number in range(3):
        empty.put(f"{number}", change("c", None, {"id": number, "amount": 0.5}))
    empty.land(tmp_path / "lake", upsert="key", value=value)
    empty.put("0", change("u", {"id": 0, "amount": 0.5}, {"id": 0, "amount": 1.5}))
    empty.put("1", change("d", {"id": 1, "amount": 0.5}, None))
    if told is None:  # the deletion itself is a row for a moment
        empty.put("1", None)
    empty.land(tmp_path / "lake", upsert="key", value=value)
    assert amounts(tmp_path / "lake") == {0: 1.5, 2: 0.5}


@pytest.mark.parametrize(
    ("field", "told"), [("_op string", "d"), ("__op string", "d"), ("__deleted boolean", True), ("_deleted int", 1)]
)
def test_columns_that_say_that_a_row_is_deleted(empty: Changes, tmp_path: Path, field: str, told: Any) -> None:
    value = monedula.Json(f"{ORDER}, {field}")
    name = field.split()[0]
    for number in range(2):
        empty.put(f"{number}", {"id": number, "amount": 1})
    empty.land(tmp_path / "lake", upsert="key", value=value)
    empty.put("0", {"id": 0, "amount": 2, name: told})
    empty.land(tmp_path / "lake", upsert="key", value=value)
    # A field of another name is one of the user's own.
    assert amounts(tmp_path / "lake") == ({0: 2.0, 1: 1.0} if name == "_deleted" else {1: 1.0})


def test_keys_are_fields_of_values_where_change_data_has_them(empty: Changes, tmp_path: Path) -> None:
    value = monedula.Json(f"{ORDER}, __deleted boolean", options={"envelope": "debezium"})
    options: dict[str, Any] = {"upsert": ["id"], "key_column": None, "value": value}
    for number in (1, 2):
        empty.put("x", {"before": None, "after": {"id": number, "amount": 1}, "op": "c"})
    empty.land(tmp_path / "lake", **options)
    empty.put("x", {"before": None, "after": {"id": 2, "amount": 3}, "op": "u"})
    empty.put("x", {"before": {"id": 1, "amount": 1}, "after": None, "op": "d"})
    empty.put("x", None)  # the tombstone behind it names no row
    empty.land(tmp_path / "lake", **options)
    assert amounts(tmp_path / "lake") == {2: 3.0}


def test_keys_of_several_fields(empty: Changes, tmp_path: Path) -> None:
    options: dict[str, Any] = {"upsert": "key", "key": monedula.Json("tenant string, id bigint")}
    for tenant in "ab":
        for number in range(3):
            empty.put(f'{{"tenant": "{tenant}", "id": {number}}}', {"id": number, "amount": 1})
    empty.land(tmp_path / "lake", **options)
    empty.put('{"id": 1, "tenant": "b"}', {"id": 1, "amount": 2})  # other bytes, and the same key
    empty.put('{"tenant": "a", "id": 0}', None)
    empty.land(tmp_path / "lake", **options)
    table = polars.read_delta(str(tmp_path / "lake")).select(polars.col("key").struct.unnest(), "amount")
    assert sorted(table.rows()) == [("a", 1, 1.0), ("a", 2, 1.0), ("b", 0, 1.0), ("b", 1, 2.0), ("b", 2, 1.0)]


@pytest.mark.parametrize(
    ("type_", "values"),
    [("int", [1, 2, 3]), ("date", ["2026-01-01", "2026-01-02", "2026-01-03"]), ("decimal(10,2)", [1.25, 2.5, 3.75])],
)
def test_files_that_cannot_have_a_key_are_not_read(
    empty: Changes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_: str, values: list[Any]
) -> None:
    from monedula.landing.delta_snapshot import DeltaSnapshot

    options: dict[str, Any] = {"upsert": "k", "key_column": None, "value": monedula.Json(f"k {type_}, amount double")}
    for value in values:
        empty.put(None, {"k": value, "amount": 1})
        empty.land(tmp_path / "lake", **options)
    read: list[str] = []
    batches = DeltaSnapshot.batches

    def counted(snapshot: DeltaSnapshot, file: Any, names: Any = None) -> Any:
        read.append(file.path)
        return batches(snapshot, file, names)

    monkeypatch.setattr(DeltaSnapshot, "batches", counted)
    empty.put(None, {"k": values[1], "amount": 2})
    empty.land(tmp_path / "lake", **options)
    assert sorted(polars.read_delta(str(tmp_path / "lake"))["amount"]) == [1.0, 1.0, 2.0]
    assert len(set(read)) == (3 if type_.startswith("decimal") else 1)  # decimals have no statistics


def test_a_row_moves_to_another_partition_of_the_table(empty: Changes, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "upsert": "key",
        "partition_by": "country",
        "value": monedula.Json(f"{ORDER}, country string"),
    }
    for number, country in enumerate(["a/b", "a/b", "ä & ö", None]):
        empty.put(f"{number}", {"id": number, "amount": 0, "country": country})
    empty.land(tmp_path / "lake", **options)
    empty.put("0", {"id": 0, "amount": 1, "country": "ä & ö"})
    empty.put("2", {"id": 2, "amount": 1})
    empty.put("3", {"id": 3, "amount": 1, "country": "new"})
    empty.land(tmp_path / "lake", **options)
    table = polars.read_delta(str(tmp_path / "lake")).sort("id")
    assert table.select("id", "amount", "country").rows() == [
        (0, 1.0, "ä & ö"),
        (1, 0.0, "a/b"),
        (2, 1.0, None),
        (3, 1.0, "new"),
    ]


def test_columns_that_came_since_stay_in_rows_that_are_written_again(empty: Changes, tmp_path: Path) -> None:
    empty.put("0", {"id": 0, "amount": 0})
    empty.put("1", {"id": 1, "amount": 0})
    empty.land(tmp_path / "lake", upsert="key")
    wider = monedula.Json(f"{ORDER}, note string, at struct<x: int>")
    empty.put("2", {"id": 2, "amount": 0, "note": "two", "at": {"x": 2}})
    empty.put("3", {"id": 3, "amount": 0, "note": "three"})
    empty.land(tmp_path / "lake", upsert="key", value=wider)
    # A worker with the old columns writes files of both kinds again.
    empty.put("0", {"id": 0, "amount": 1})
    empty.put("3", None)
    empty.land(tmp_path / "lake", upsert="key")
    table = polars.read_delta(str(tmp_path / "lake")).sort("id")
    assert table.select("id", "amount", "note", "at").rows() == [
        (0, 1.0, None, None),
        (1, 0.0, None, None),
        (2, 0.0, "two", {"x": 2}),
    ]


def test_a_record_without_a_key_ends_the_job_or_is_kept_beside(empty: Changes, tmp_path: Path) -> None:
    empty.put("1", {"id": 1, "amount": 1})
    empty.put(None, {"id": 2, "amount": 2})
    with pytest.raises(LandingError, match=rf"offset 1 of {empty.topic}-0 has no value in key") as failure:
        empty.land(tmp_path / "lake", upsert="key")
    assert "bad_records='column'" in str(failure.value.hint)
    empty.land(tmp_path / "lake", upsert="key", bad_records="column")
    table = polars.read_delta(str(tmp_path / "lake")).sort("id")
    assert table.select("id", "_error").rows() == [
        (1, None),
        (2, "no value in key, the key by which rows are replaced"),
    ]


def test_an_empty_text_by_which_the_table_is_partitioned_is_no_key(empty: Changes, tmp_path: Path) -> None:
    """Delta has null for it: the row could not be found again, and each commit would add another."""
    options: dict[str, Any] = {
        "upsert": ["id", "c"],
        "partition_by": "c",
        "value": monedula.Json("id bigint, c string"),
    }
    empty.put("1", {"id": 1, "c": ""})
    with pytest.raises(LandingError, match="has no value in id, c"):
        empty.land(tmp_path / "lake", **options)
    for _ in range(2):
        empty.put("1", {"id": 1, "c": ""})
        empty.put("2", {"id": 2, "c": "x"})
        empty.land(tmp_path / "lake", bad_records="column", **options)
    table = polars.read_delta(str(tmp_path / "lake")).sort("id", "_kafka")
    told = "no value in id, c, the key by which rows are replaced"
    assert table.select("id", "c", "_error").rows() == [(1, None, told)] * 3 + [(2, "x", None)]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_deletion_that_does_not_say_of_what_is_told(empty: Changes, tmp_path: Path, is_kept: bool) -> None:
    """A tombstone without a key is passed over; Debezium's deletion without `before` would leave its row."""
    options: dict[str, Any] = {"upsert": "id", "unwrap": "debezium", **({"bad_records": "column"} if is_kept else {})}
    empty.put("1", {"op": "c", "before": None, "after": {"id": 1, "amount": 1}, "ts_ms": 1})
    empty.put("1", {"op": "d", "before": None, "after": None, "ts_ms": 2})
    empty.put("1", None)
    if not is_kept:
        with pytest.raises(LandingError, match=r"offset 1 .* has no value in id"):
            empty.land(tmp_path / "lake", **options)
        return
    empty.land(tmp_path / "lake", **options)
    table = polars.read_delta(str(tmp_path / "lake")).sort("id")
    assert table.select("id", "_op", "_error").rows() == [
        (None, "d", "no value in id, the key by which rows are replaced"),
        (1, "c", None),
    ]


def test_a_job_that_has_appended_replaces_nothing(empty: Changes, tmp_path: Path) -> None:
    """The rows of the keys that came after it became one each, and those before them were gone."""
    for amount in range(3):
        empty.put("1", {"id": 1, "amount": amount})
    empty.land(tmp_path / "lake")
    empty.put("1", {"id": 1, "amount": 3})
    with pytest.raises(LandingError, match="has appended rows, which would be replaced"):
        empty.land(tmp_path / "lake", upsert="key")
    assert polars.read_delta(str(tmp_path / "lake")).height == 3


def test_a_truncation_is_told_as_one(empty: Changes, tmp_path: Path) -> None:
    empty.put(None, {"op": "t", "before": None, "after": None, "ts_ms": 2})
    with pytest.raises(LandingError, match=rf"the truncation at offset 0 of {empty.topic}-0 has no value in id"):
        empty.land(tmp_path / "lake", upsert="id", unwrap="debezium")


def test_the_largest_timestamp_of_a_file_may_be_cut_to_milliseconds(empty: Changes, tmp_path: Path) -> None:
    """Spark's statistics are, as Delta's protocol says: the row of a key behind them is in the file all the same."""
    options: dict[str, Any] = {"upsert": "at", "value": monedula.Json("at timestamp, n int")}
    empty.put("1", {"at": "2026-01-01T00:00:00.123456Z", "n": 1})
    empty.land(tmp_path / "lake", **options)
    for entry in (tmp_path / "lake" / "_delta_log").glob("*.json"):
        entry.write_text(entry.read_text().replace("00.123456Z", "00.123Z"))
    empty.put("1", {"at": "2026-01-01T00:00:00.123456Z", "n": 2})
    empty.land(tmp_path / "lake", **options)
    assert polars.read_delta(str(tmp_path / "lake"))["n"].to_list() == [2]


def test_a_plan_of_an_upsert_is_that_of_the_run(changes: Changes, tmp_path: Path) -> None:
    plan = changes.job(tmp_path / "lake", upsert="key").plan()
    assert plan.offsets == 300
    assert plan.files == 1
    changes.land(tmp_path / "lake", upsert="key")
    with pytest.raises(LandingError, match="rows of the job 'lake' replace each other"):
        changes.job(tmp_path / "lake").plan()


def test_bad_records_neither_replace_nor_are_replaced(empty: Changes, tmp_path: Path) -> None:
    options: dict[str, Any] = {"upsert": "key", "bad_records": "column"}
    empty.put("1", {"id": 1, "amount": 1})
    empty.put("1", b"{broken")
    assert empty.land(tmp_path / "lake", **options).bad_records == 1
    empty.put("1", b"{broken too")
    empty.land(tmp_path / "lake", **options)
    table = polars.read_delta(str(tmp_path / "lake"))
    assert table.filter(polars.col("_error").is_null())["amount"].to_list() == [1.0]
    empty.put("1", {"id": 1, "amount": 2})
    empty.land(tmp_path / "lake", **options)
    table = polars.read_delta(str(tmp_path / "lake"))
    assert table.filter(polars.col("_error").is_null())["amount"].to_list() == [2.0]
    assert table.filter(polars.col("_error").is_not_null())["_raw"].struct.field("value").sort().to_list() == [
        b"{broken",
        b"{broken too",
    ]


@pytest.mark.parametrize("is_together", [True, False])
def test_a_key_that_moved_to_another_partition_is_ordered_by_time(
    ground: Ground, tmp_path: Path, is_together: bool
) -> None:
    """The topic got more partitions: of its two last records the one that is landed first may be the later one."""
    changes = Changes(ground.bootstrap, ground.topic(2), 2)
    early, late = (datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2))
    changes.put("1", {"id": 1, "amount": 2}, partition=1, timestamp=late)
    if not is_together:
        changes.land(tmp_path / "lake", upsert="key")
    changes.put("1", {"id": 1, "amount": 1}, partition=0, timestamp=early)
    changes.land(tmp_path / "lake", upsert="key")
    assert amounts(tmp_path / "lake") == {1: 2.0}


def test_timestamps_that_go_back_within_a_partition_do_not_matter(empty: Changes, tmp_path: Path) -> None:
    early, late = (datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2))
    empty.put("1", {"id": 1, "amount": 1}, timestamp=late)
    empty.land(tmp_path / "lake", upsert="key")
    empty.put("1", {"id": 1, "amount": 2}, timestamp=early)
    empty.land(tmp_path / "lake", upsert="key")
    assert amounts(tmp_path / "lake") == {1: 2.0}


def test_another_job_that_reads_all_again_changes_nothing(changes: Changes, tmp_path: Path) -> None:
    changes.land(tmp_path / "lake", upsert="key")
    start = {(changes.topic, partition): 0 for partition in range(3)}
    changes.land(tmp_path / "lake", upsert="key", job="again", start=start, max_memory_bytes=1)
    assert kept(tmp_path / "lake") == changes.left()


def test_commits_are_as_many_as_memory_asks_for(changes: Changes, tmp_path: Path) -> None:
    # The first fetch is all of the topic; what comes while a job runs is not.
    jobs: list[LandingJob] = []

    def more(commit: Any) -> None:
        if commit.positions == dict(jobs[0]._positions) and changes.count < 400:
            changes.send(100)
        elif changes.count == 400 and sum(jobs[0]._positions.values()) == 400:
            jobs[0].stop()

    jobs.append(
        changes.job(tmp_path / "lake", upsert="key", until=None, every=3600, max_memory_bytes=1, on_commit=more)
    )
    assert jobs[0].run().commits > 1
    assert kept(tmp_path / "lake") == changes.left()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"upsert": "id"}, None),
        ({"upsert": "missing"}, "it is no column of the rows"),
        ({"upsert": "amount"}, "a key of the type double cannot be compared"),
        ({"upsert": "key", "key_column": None}, "it is no column of the rows"),
    ],
)
def test_columns_by_which_rows_cannot_be_replaced(
    orders: Orders, tmp_path: Path, options: dict[str, Any], told: str | None
) -> None:
    if told is None:
        assert orders.land(tmp_path / "lake", **options).rows == 300
        return
    with pytest.raises(monedula.ArgumentError, match=told):
        orders.land(tmp_path / "lake", **options)
    assert not (tmp_path / "lake").exists()


def test_a_job_that_upserts_is_not_gone_on_with_by_appends(changes: Changes, tmp_path: Path) -> None:
    changes.land(tmp_path / "lake", upsert="key")
    with pytest.raises(LandingError, match="rows of the job 'lake' replace each other") as failure:
        changes.land(tmp_path / "lake")
    assert "give the table its upsert" in str(failure.value.hint)


def test_rows_that_were_appended_are_replaced(changes: Changes, tmp_path: Path) -> None:
    changes.land(tmp_path / "lake")
    for key in range(40):  # every key once more
        changes.put(f"key-{key}", {"id": key, "amount": key}, partition=key % 3)
    starts = {(changes.topic, partition): 0 for partition in range(3)}
    changes.land(tmp_path / "lake", upsert="key", job="another", start=starts)
    assert kept(tmp_path / "lake") == changes.left()


@pytest.mark.parametrize("name", ["delta.appendOnly", "delta.enableChangeDataFeed"])
def test_a_table_that_only_appends_is_refused(changes: Changes, tmp_path: Path, name: str) -> None:
    target = Delta(tmp_path / "lake", upsert="key", configuration={name: "true"})
    for _ in range(2):  # at the second time it is there
        with pytest.raises(LandingError, match=f"rules that a landing job does not apply: {name}"):
            monedula.land(changes.settings, changes.topic, target, until="latest")


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("error", [OSError, deltalake.exceptions.CommitFailedError])
def test_a_commit_whose_answer_is_lost_is_looked_up(
    changes: Changes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool, error: type[Exception]
) -> None:
    changes.land(tmp_path / "lake", upsert="key")
    changes.send(60)
    lost: list[PendingCommit] = []

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        if lost:
            WRITE(table, pending)
            return
        lost.append(pending)
        if is_written:
            WRITE(table, pending)
        raise error("the connection was reset")

    monkeypatch.setattr(DeltaLandingTable, "_write", write)
    changes.land(tmp_path / "lake", upsert="key")
    assert lost
    assert kept(tmp_path / "lake") == changes.left()


@pytest.mark.parametrize("is_written", [True, False])
def test_a_worker_that_dies_at_its_commit_neither_loses_nor_repeats(
    changes: Changes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    changes.land(tmp_path / "lake", upsert="key")
    changes.send(60)

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        if is_written:
            WRITE(table, pending)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLandingTable, "_write", write)
        patch.setattr(LandingJob, "_discard", lambda _: None)
        with pytest.raises(Killed):
            changes.land(tmp_path / "lake", upsert="key")
    changes.send(30)
    changes.land(tmp_path / "lake", upsert="key")
    assert kept(tmp_path / "lake") == changes.left()


def test_two_workers_with_the_same_partitions(changes: Changes, tmp_path: Path) -> None:
    changes.land(tmp_path / "lake", upsert="key")
    changes.send(100)

    class Upserting:
        def job(self, path: Path, **options: Any) -> LandingJob:
            return changes.job(path, upsert="key", **options)

    conflicts = race(Upserting(), tmp_path / "lake")  # type: ignore[arg-type]
    assert conflicts > 0, "they did not meet"
    assert kept(tmp_path / "lake") == changes.left()


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], at: int = 1) -> list[PendingCommit]:
    """Have something happen to the table between the look at its files and the commit, at that attempt."""
    seen: list[PendingCommit] = []

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        seen.append(pending)
        if len(seen) == at:
            act()
        WRITE(table, pending)

    monkeypatch.setattr(DeltaLandingTable, "_write", write)
    return seen


def test_another_commit_first_has_only_its_files_looked_at(
    changes: Changes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lake"
    changes.land(path, upsert="key")
    changes.send(60)
    without: list[str] = []
    rewrite = Upsert._without

    def counted(upsert: Upsert, snapshot: Any, file: Any) -> Any:
        without.append(file.path)
        return rewrite(upsert, snapshot, file)

    monkeypatch.setattr(Upsert, "_without", counted)
    key = next(iter(changes.left()))
    changes.put(key.decode(), {"id": 1}, partition=int(key[4:]) % 3)
    again = deltalake.DeltaTable(path).to_pyarrow_table().filter(pa.compute.field("key") == key)
    seen = meanwhile(monkeypatch, lambda: deltalake.write_deltalake(path, again, mode="append"))
    changes.land(path, upsert="key")
    assert len(seen) == 2
    assert len(without) == len(set(without)), "a file was written again twice"
    assert kept(path) == changes.left()
    assert live(path) <= on_disk(path)


@pytest.mark.parametrize("how", ["compact", "optimize"])
def test_files_that_are_compacted_meanwhile_are_looked_at_again(
    changes: Changes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    from monedula.landing.maintenance import compact

    path = tmp_path / "lake"
    for _ in range(3):
        changes.send(60)
        changes.land(path, upsert="key")
    changes.send(60)
    acts = {"compact": lambda: compact(Delta(path)), "optimize": deltalake.DeltaTable(path).optimize.compact}
    seen = meanwhile(monkeypatch, acts[how])
    changes.land(path, upsert="key")
    assert len(seen) > 1
    assert kept(path) == changes.left()
    # What was written for the attempt that certainly failed is deleted.
    removed = deltalake.DeltaTable(path).vacuum(0, enforce_retention_duration=False)
    assert on_disk(path) == live(path) | {Path(each).name for each in removed}


def test_planted_an_earlier_offset_that_wins_is_caught(
    changes: Changes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed = Upsert._keyed

    def backwards(upsert: Upsert, table: Any) -> Any:
        made = keyed(upsert, table)
        at = made.schema.get_field_index("offset")
        return made.set_column(at, "offset", pa.compute.negate(made.column("offset")))

    monkeypatch.setattr(Upsert, "_keyed", backwards)
    changes.land(tmp_path / "lake", upsert="key")
    assert kept(tmp_path / "lake") != changes.left()


def test_planted_offsets_in_a_commit_of_their_own_are_caught(
    changes: Changes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.land(tmp_path / "lake", upsert="key")
    changes.send(60)

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        WRITE(table, PendingCommit([], pending.moves, pending.commit_id))
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLandingTable, "_write", write)
        patch.setattr(LandingJob, "_discard", lambda _: None)
        with pytest.raises(Killed):
            changes.land(tmp_path / "lake", upsert="key")
    changes.land(tmp_path / "lake", upsert="key")
    assert kept(tmp_path / "lake") != changes.left()


def test_planted_a_rebase_over_another_upsert_is_caught(
    changes: Changes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The positions are those of other partitions: what refuses the commit is that it is for one version."""
    path = tmp_path / "lake"
    changes.land(path, upsert="key")
    changes.send(60)
    properties = deltalake.CommitProperties
    monkeypatch.setattr(
        "monedula.landing.delta_table.CommitProperties",
        lambda **given: properties(**{**given, "max_commit_retries": 15}),
    )
    rows = deltalake.DeltaTable(path).to_pyarrow_table()
    seen = meanwhile(monkeypatch, lambda: deltalake.write_deltalake(path, rows, mode="append"))
    changes.land(path, upsert="key")
    assert len(seen) == 1
    table = polars.read_delta(str(path))
    assert table["key"].n_unique() < table.height
