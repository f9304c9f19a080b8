"""Workers in processes of their own, with the same partitions, which are killed and stopped: each offset once."""

from pathlib import Path

import pytest

from tests.groups.behaviour.stage import Stage
from tests.landing.drill import Drill
from tests.landing.worker import BUGS

pytest.importorskip("deltalake", reason="the extra delta is not installed")

from monedula.landing import Delta, compact

from tests.landing.changes import Changes, kept
from tests.landing.drill import COMPACTION, GROUPS

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 4))]
ROUNDS = 5
"""In how many rounds a bug has to be found."""


def hold(drill: Drill) -> None:
    """Run a drill, in which workers have to die, and look at the table."""
    drill.run()
    drill.verify()
    assert drill.events["deaths"] > 0


@pytest.mark.also_on_kafka
@pytest.mark.timeout(600)
def test_workers_that_die_and_stall_land_each_record_once(stage: Stage, tmp_path: Path) -> None:
    hold(Drill(stage, tmp_path / "lake", seed=1))


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 6))
def test_other_seeds_land_each_record_once(stage: Stage, tmp_path: Path, seed: int) -> None:
    hold(Drill(stage, tmp_path / "lake", seed))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", BUGS)
def test_the_drill_finds_a_planted_bug(stage: Stage, tmp_path: Path, bug: str) -> None:
    def is_found(seed: int) -> bool:
        folder = tmp_path / str(seed)
        folder.mkdir()
        drill = Drill(stage, folder / "lake", seed, bug=bug, lost=0.3)
        try:
            drill.run()
            drill.verify()
        except (AssertionError, FileNotFoundError, OSError, pytest.fail.Exception):
            return True
        return False

    assert any(is_found(seed) for seed in range(1, ROUNDS + 1))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_compactions_beside_them_neither_lose_nor_repeat(stage: Stage, tmp_path: Path, seed: int) -> None:
    drill = Drill(stage, tmp_path / "lake", seed, groups=(*GROUPS, COMPACTION, COMPACTION))
    drill.run(steps=0)
    compact(Delta(drill.path))
    drill.verify()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_upserts_leave_the_last_row_of_each_key(stage: Stage, tmp_path: Path, seed: int) -> None:
    drill = Drill(stage, tmp_path / "lake", seed, groups=(*GROUPS, COMPACTION), upserts=True)
    drill.run(steps=0)
    changes = drill.orders
    assert isinstance(changes, Changes)
    assert kept(drill.path) == changes.left(), drill.events
