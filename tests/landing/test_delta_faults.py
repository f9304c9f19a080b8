"""Commits that fail, whose answers are lost, or that meet another worker's: each offset once, none missing.

The same faults with a bug planted into the protocol are caught: what these tests look at can tell.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import monedula
import polars
import pytest
from monedula.errors import LandingError
from monedula.landing import LandingJob
from monedula.landing.commits import PendingCommit
from monedula.landing.data_files import DataFiles

from tests.landing.orders import Orders, landed
from tests.landing.race import race, race_results

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")

from monedula.landing.delta_table import DeltaLandingTable  # noqa: E402 - needs the extra

Write = Callable[[DeltaLandingTable, PendingCommit], None]
WRITE: Write = DeltaLandingTable._write


class Killed(BaseException):
    """Ends a job as kill -9 does: nothing is committed or deleted after it."""


def killed_at(monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    monkeypatch.setattr(DeltaLandingTable, "_write", write)
    monkeypatch.setattr(LandingJob, "_discard", lambda _: None)


def die_before(table: DeltaLandingTable, pending: PendingCommit) -> None:
    if pending.files:
        raise Killed
    WRITE(table, pending)


def die_after(table: DeltaLandingTable, pending: PendingCommit) -> None:
    WRITE(table, pending)
    if pending.files:
        raise Killed


@pytest.mark.parametrize("write", [die_before, die_after])
def test_a_worker_that_dies_at_its_commit_neither_loses_nor_repeats(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    with monkeypatch.context() as patch:
        killed_at(patch, write)
        with pytest.raises(Killed):
            orders.land(tmp_path / "lake")
    orders.send(30)
    orders.land(tmp_path / "lake")
    assert landed(tmp_path / "lake") == orders.offsets()


def lose_answer(is_written: bool, times: int = 1) -> Write:
    """A commit that arrives, or does not, and whose answer is lost."""
    left = [times]

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        if not pending.files or not left[0]:
            WRITE(table, pending)
            return
        left[0] -= 1
        if is_written:
            WRITE(table, pending)
        raise OSError("the connection was reset")

    return write


@pytest.mark.parametrize("is_written", [True, False])
def test_a_commit_whose_answer_is_lost_is_looked_up(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    monkeypatch.setattr(DeltaLandingTable, "_write", lose_answer(is_written))
    assert orders.land(tmp_path / "lake").rows == 300
    assert landed(tmp_path / "lake") == orders.offsets()


def test_a_commit_that_looks_like_a_conflict_with_itself_is_looked_up(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        WRITE(table, pending)
        if pending.files:
            raise deltalake.exceptions.CommitFailedError("Concurrent transaction failed.")

    monkeypatch.setattr(DeltaLandingTable, "_write", write)
    result = orders.land(tmp_path / "lake")
    assert (result.rows, result.conflicts) == (300, 0)
    assert landed(tmp_path / "lake") == orders.offsets()


def test_a_late_commit_is_found_by_the_attempt_after_it(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[tuple[Any, PendingCommit]] = []

    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        if not pending.files:
            WRITE(table, pending)
        elif not late:
            other = DeltaLandingTable(table._target, table._job)
            other.open()
            other.topic_ids(table._topics)
            other._schema = table._schema
            late.append((other, pending))
            raise OSError("timed out")
        else:
            if len(late) == 1:  # the first request arrives after it was looked for
                late.append(late[0])
                WRITE(*late[0])
            WRITE(table, pending)

    monkeypatch.setattr(DeltaLandingTable, "_write", write)
    assert orders.land(tmp_path / "lake").rows == 300
    assert landed(tmp_path / "lake") == orders.offsets()


def test_a_store_that_fails_for_good_ends_the_job_and_keeps_the_files(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monedula.landing.delta_table.ATTEMPT_PAUSES_S", (0.0, 0.0))
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLandingTable, "_write", lose_answer(is_written=False, times=100))
        with pytest.raises(LandingError, match="the commit failed: the connection was reset"):
            orders.land(tmp_path / "lake")
    assert list((tmp_path / "lake").glob("*.parquet")), "they may be in the table: only a certain failure deletes them"
    orders.land(tmp_path / "lake")
    assert landed(tmp_path / "lake") == orders.offsets()


@pytest.mark.parametrize("step", ["write", "finish"])
@pytest.mark.parametrize("path", ["lake", "ice"])
def test_a_full_disk_loses_nothing(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, path: str
) -> None:
    if path == "ice":
        pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(DataFiles, step, full)
        with pytest.raises(OSError, match="No space left on device"):
            orders.land(tmp_path / path)
    orders.land(tmp_path / path)
    assert landed(tmp_path / path) == orders.offsets()


def test_ctrl_c_between_a_batch_and_its_rows_loses_nothing(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LandingJob, "_advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            orders.land(tmp_path / "lake")
    orders.land(tmp_path / "lake")
    assert landed(tmp_path / "lake") == orders.offsets()


def test_two_workers_with_the_same_partitions_repeat_nothing(orders: Orders, tmp_path: Path) -> None:
    conflicts = race(orders, tmp_path / "lake")
    assert landed(tmp_path / "lake") == orders.offsets()
    assert conflicts > 0, "they did not meet"
    # The files of commits that certainly failed are deleted.
    live = {Path(file).name for file in deltalake.DeltaTable(tmp_path / "lake").file_uris()}
    assert {file.name for file in (tmp_path / "lake").glob("*.parquet")} == live


def test_two_workers_that_create_the_table_at_once_go_on(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # deltalake then writes the metadata of the second one as a version of its own, with another id of the table.
    job = orders.job(tmp_path / "lake")
    commit = job._commit

    def commit_behind_another_creation() -> None:
        versions = sorted((tmp_path / "lake" / "_delta_log").glob("*.json"))
        name = deltalake.DeltaTable(tmp_path / "lake").metadata().id
        created = versions[0].read_text().replace(name, "107cbdd8-80b3-4b7c-869e-23d33fd2f463")
        versions[0].with_name(f"{len(versions):020}.json").write_text(created)
        monkeypatch.setattr(job, "_commit", commit)
        commit()

    monkeypatch.setattr(job, "_commit", commit_behind_another_creation)
    assert job.run().rows == 300
    assert landed(tmp_path / "lake") == orders.offsets()


def test_planted_a_rebase_after_a_conflict_is_caught(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeltaLandingTable, "_moved", lambda *_: False)
    race(orders, tmp_path / "lake")
    assert landed(tmp_path / "lake") != orders.offsets()


def test_planted_offsets_before_files_are_caught(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(table: DeltaLandingTable, pending: PendingCommit) -> None:
        WRITE(table, PendingCommit([], pending.moves, pending.commit_id))
        if pending.files:
            raise Killed

    with monkeypatch.context() as patch:
        killed_at(patch, write)
        with pytest.raises(Killed):
            orders.land(tmp_path / "lake")
    orders.send(30)
    orders.land(tmp_path / "lake")
    assert landed(tmp_path / "lake") != orders.offsets()


def test_planted_files_deleted_on_an_unknown_outcome_are_caught(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = DeltaLandingTable.commit

    def give_up(table: DeltaLandingTable, pending: PendingCommit) -> bool:
        if not pending.files:
            return commit(table, pending)
        try:
            WRITE(table, pending)
            raise OSError("the connection was reset")
        except OSError:
            return False  # taken for a conflict

    monkeypatch.setattr(DeltaLandingTable, "commit", give_up)
    orders.land(tmp_path / "lake")
    with pytest.raises(FileNotFoundError):
        polars.read_delta(str(tmp_path / "lake"))


def test_planted_the_last_offset_and_one_as_position_is_caught(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monedula.Producer({**orders.settings, "transactional.id": orders.topic}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(orders.topic, '{"id": 1}', partition=0)
        producer.commit_transaction()
    rows_of = DeltaLandingTable.write
    last: dict[int, int] = {}

    def write(table: DeltaLandingTable, files: Any, rows: Any) -> None:
        for origin in rows.column("_kafka").to_pylist():
            last[origin["partition"]] = origin["offset"] + 1
        rows_of(table, files, rows)

    def advance(job: LandingJob, *_: object, **__: object) -> None:
        for partition, offset in last.items():
            job._positions[monedula.TopicPartition(orders.topic, partition)] = offset

    assert orders.land(tmp_path / "right").positions[monedula.TopicPartition(orders.topic, 0)] == orders.ends()[0]
    monkeypatch.setattr(DeltaLandingTable, "write", write)
    monkeypatch.setattr(LandingJob, "_advance", advance)
    assert (
        orders.land(tmp_path / "wrong", job="wrong").positions[monedula.TopicPartition(orders.topic, 0)]
        != orders.ends()[0]
    )


def test_bad_records_are_counted_where_their_rows_are(orders: Orders, tmp_path: Path) -> None:
    """The worker that was second discards its rows, also those of bad records."""
    orders.send_bad()
    results = race_results(orders, tmp_path / "lake", bad_records="column")
    assert sum(result.conflicts for result in results) > 0, "they did not meet"
    assert sum(result.bad_records for result in results) == 1
