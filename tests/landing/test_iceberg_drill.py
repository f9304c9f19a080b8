"""Workers on a table of Iceberg, with the same partitions, which are killed and stopped: each offset once."""

from pathlib import Path

import polars
import pytest
from monedula.landing import check

from tests.groups.ground import Ground
from tests.landing.drill import Drill
from tests.landing.orders import iceberg, iceberg_table, landed

pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 11))]


@pytest.mark.parametrize("seed", SEEDS)
def test_workers_that_die_and_stall_land_each_record_once(ground: Ground, tmp_path: Path, seed: int) -> None:
    drill = Drill(ground, tmp_path / "ice", seed)
    drill.run(steps=10)
    orders = drill.orders
    # Nobody is left: what is missing is landed by one that lives.
    orders.land(drill.path)
    assert landed(drill.path) == orders.offsets(), drill.events
    assert drill.events["deaths"] > 0
    table = iceberg_table(drill.path)
    assert polars.scan_iceberg(table).select(polars.col("id").n_unique()).collect().item() == orders.count
    assert table.scan().count() == orders.count
    assert check(orders.settings, orders.topic, iceberg(drill.path), job="lake").ok
