"""Workers in processes of their own, with the same partitions, which are killed and stopped: each offset once."""

from pathlib import Path

import duckdb
import polars
import pytest

from tests.groups.ground import Ground

pytest.importorskip("deltalake", reason="the extra delta is not installed")

from deltalake import DeltaTable
from monedula.landing import Delta, check, compact

from tests.landing.changes import Changes, kept
from tests.landing.drill import COMPACTION, GROUPS, Drill
from tests.landing.orders import landed

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 11))]


@pytest.mark.parametrize("seed", SEEDS)
def test_workers_that_die_and_stall_land_each_record_once(ground: Ground, tmp_path: Path, seed: int) -> None:
    drill = Drill(ground, tmp_path / "lake", seed)
    drill.run(steps=10)
    orders = drill.orders
    # Nobody is left: what is missing is landed by one that lives.
    orders.land(drill.path)
    assert landed(drill.path) == orders.offsets(), drill.events
    assert drill.events["deaths"] > 0
    rows = DeltaTable(drill.path).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    told = duckdb.sql("select count(*), count(distinct id), count(distinct _kafka.partition) from rows").fetchall()
    assert told == [(orders.count, orders.count, 4)]
    assert polars.scan_delta(str(drill.path)).select(polars.col("id").n_unique()).collect().item() == orders.count
    assert check(orders.settings, orders.topic, Delta(drill.path), job="lake").ok


@pytest.mark.parametrize("seed", SEEDS)
def test_compactions_beside_them_neither_lose_nor_repeat(ground: Ground, tmp_path: Path, seed: int) -> None:
    drill = Drill(ground, tmp_path / "lake", seed, groups=(*GROUPS, COMPACTION, COMPACTION))
    drill.run(steps=6)
    orders = drill.orders
    orders.land(drill.path)
    compact(Delta(drill.path))
    assert landed(drill.path) == orders.offsets(), drill.events
    assert check(orders.settings, orders.topic, Delta(drill.path), job="lake").ok


@pytest.mark.parametrize("seed", SEEDS)
def test_upserts_leave_the_last_row_of_each_key(ground: Ground, tmp_path: Path, seed: int) -> None:
    drill = Drill(ground, tmp_path / "lake", seed, groups=(*GROUPS, COMPACTION), upserts=True)
    drill.run(steps=6)
    changes = drill.orders
    assert isinstance(changes, Changes)
    changes.land(drill.path, upsert="key")
    assert kept(drill.path) == changes.left(), drill.events
