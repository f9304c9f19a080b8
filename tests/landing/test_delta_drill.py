"""Workers in processes of their own, with the same partitions, which are killed and stopped: each offset once."""

from pathlib import Path

import pytest

from tests.groups.behaviour.stage import Stage
from tests.landing.drill import Drill
from tests.landing.worker import BUGS

pytest.importorskip("deltalake", reason="the extra delta is not installed")

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 11))]
ROUNDS = 5
"""In how many rounds a bug has to be found."""


@pytest.mark.also_on_kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_workers_that_die_and_stall_land_each_record_once(stage: Stage, tmp_path: Path, seed: int) -> None:
    drill = Drill(stage, tmp_path / "lake", seed)
    drill.run()
    drill.verify()
    assert drill.events["deaths"] > 0


@pytest.mark.thorough
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
