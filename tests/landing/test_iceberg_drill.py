"""Workers on a table of Iceberg, with the same partitions, which are killed and stopped: each offset once."""

from pathlib import Path

import pytest

from tests.groups.behaviour.stage import Stage
from tests.landing.drill import Drill

pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 5))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_workers_that_die_and_stall_land_each_record_once(stage: Stage, tmp_path: Path, seed: int) -> None:
    drill = Drill(stage, tmp_path / "ice", seed)
    drill.run()
    drill.verify()
    assert drill.events["deaths"] > 0
