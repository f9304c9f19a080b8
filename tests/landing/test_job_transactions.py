"""`JobTransactions`: a log is read once for each transaction, and what others commit is known all the same."""

from pathlib import Path
from typing import Any

import pytest
from monedula.landing.commits import PendingCommit
from monedula.types.partitions import TopicPartition

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")

import pyarrow as pa  # noqa: E402
from monedula.landing.delta import Delta  # noqa: E402
from monedula.landing.delta_table import DeltaLandingTable  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64())])
PARTITIONS = [TopicPartition("some-orders", number) for number in range(3)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The transactions that deltalake was asked for."""
    found: list[str] = []
    version_of = deltalake.DeltaTable.transaction_version

    def asking(table: Any, application: str) -> int | None:
        found.append(application)
        version: int | None = version_of(table, application)
        return version

    monkeypatch.setattr(deltalake.DeltaTable, "transaction_version", asking)
    return found


def opened(path: Path, job: str = "lake") -> DeltaLandingTable:
    table = DeltaLandingTable(Delta(path), job)
    table.topic_ids({"some-orders": ("id", 3)})
    table.prepare(SCHEMA)
    return table


def move(table: DeltaLandingTable, start: int | None, to: int) -> bool:
    return table.commit(PendingCommit([], dict.fromkeys(PARTITIONS, (start, to))))


def test_a_worker_asks_once_for_what_it_commits_itself(tmp_path: Path, asked: list[str]) -> None:
    table = opened(tmp_path)
    table.positions(PARTITIONS)
    assert move(table, None, 0)
    assert move(table, 0, 1)
    asked.clear()
    for number in range(1, 5):
        assert move(table, number, number + 1)
        assert table.positions(PARTITIONS) == dict.fromkeys(PARTITIONS, number + 1)
    assert asked == []


def test_what_another_worker_commits_is_known(tmp_path: Path, asked: list[str]) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    assert move(one, None, 0)
    for each in (one, other):
        assert each.positions(PARTITIONS) == dict.fromkeys(PARTITIONS, 0)
    asked.clear()
    assert move(one, 0, 7)
    assert not move(other, 0, 5), "its positions are old ones"
    assert other.positions(PARTITIONS) == dict.fromkeys(PARTITIONS, 7)
    assert move(other, 7, 9)
    assert one.positions(PARTITIONS) == dict.fromkeys(PARTITIONS, 9)
    assert asked == []


def test_another_job_has_positions_of_its_own(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path, job="other")
    assert move(one, None, 5)
    assert move(other, None, 3)
    assert one.positions(PARTITIONS) == dict.fromkeys(PARTITIONS, 5)
    assert other.positions(PARTITIONS) == dict.fromkeys(PARTITIONS, 3)


def test_a_table_that_is_opened_anew_is_asked(tmp_path: Path, asked: list[str]) -> None:
    table = opened(tmp_path)
    assert move(table, None, 5)
    table.open()
    asked.clear()
    assert table.positions(PARTITIONS) == dict.fromkeys(PARTITIONS, 5)
    assert len(asked) == 4, "three partitions, and the topic"
