"""Workers in processes of their own, with the same partitions, which are killed and stopped: on S3 and Azure."""

from pathlib import Path
from typing import Any

import pytest

from tests.groups.behaviour.stage import Stage
from tests.landing.drill import Drill
from tests.landing.orders import Target
from tests.landing.stores import AzureStore, S3Store

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

STORES = ["delta", "glue", pytest.param("azure", marks=pytest.mark.thorough)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", STORES)
def test_workers_that_die_and_stall_land_each_record_once(
    stage: Stage, tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    server: Any = request.getfixturevalue("azurite_server" if store == "azure" else "moto_server")
    where: Any = AzureStore(server) if store == "azure" else S3Store(server)
    table: Target = where.glue() if store == "glue" else where.delta()
    drill = Drill(stage, tmp_path / "lake", seed=1, table=table)
    drill.run(steps=0)
    drill.verify()
    assert drill.events["deaths"] > 0
