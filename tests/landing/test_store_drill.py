"""Workers in processes of their own, with the same partitions, which are killed and stopped: on S3 and Azure."""

from pathlib import Path
from typing import Any

import pytest
from monedula.landing import check

from tests.groups.ground import Ground
from tests.landing.drill import Drill
from tests.landing.orders import Target, landed
from tests.landing.stores import AzureStore, S3Store

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

STORES = ["delta", "glue", pytest.param("azure", marks=pytest.mark.thorough)]


@pytest.mark.parametrize("store", STORES)
def test_workers_that_die_and_stall_land_each_record_once(
    ground: Ground, tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    server: Any = request.getfixturevalue("azurite_server" if store == "azure" else "moto_server")
    where: Any = AzureStore(server) if store == "azure" else S3Store(server)
    table: Target = where.glue() if store == "glue" else where.delta()
    drill = Drill(ground, tmp_path / "lake", seed=1, table=table)
    drill.run(steps=4)
    orders = drill.orders
    # Nobody is left: what is missing is landed by one that lives.
    orders.land(table)
    assert landed(table) == orders.offsets(), drill.events
    assert drill.events["deaths"] > 0
    assert check(orders.settings, orders.topic, table, job="lake").ok
