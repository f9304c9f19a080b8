"""A worker of the drill: `python -m tests.landing.worker '{...}'` lands for ever, and dies at planted points.

At each step of the commit protocol it may end itself by SIGKILL, or lose the answer of a commit, which arrived or not.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from monedula.errors import LandingError
from monedula.landing import Delta, LandingJob, compact
from monedula.landing.data_files import DataFiles

from tests.landing.orders import Orders

STEPS: tuple[tuple[type, str], ...] = (
    (DataFiles, "finish"),
    (LandingJob, "_note_committed"),
    (LandingJob, "_assigned"),
    (LandingJob, "_revoked"),
    (LandingJob, "_go_back"),
)
"""The steps before and after which it may die, besides those of the table."""


def table_of(path: str) -> type[Any]:
    """The class of the table in a folder."""
    if Path(path).name == "ice":
        from monedula.landing.iceberg_table import IcebergLandingTable

        return IcebergLandingTable
    from monedula.landing.delta_table import DeltaLandingTable

    return DeltaLandingTable


def plant(table: type[Any], odds: random.Random, crash: float, lost: float) -> None:
    """Have each step die with the probability `crash`, and commits lose their answers with `lost`."""
    steps = [name for name in ("_write", "_look", "snapshot") if hasattr(table, name)]
    for owner, name in (*STEPS, *((table, step) for step in steps)):
        setattr(owner, name, _deadly(getattr(owner, name), odds, crash))
    write = table._write

    def losing(self: Any, pending: Any) -> None:
        chance = odds.random()
        if chance < lost / 2:
            raise OSError("the request was lost")
        write(self, pending)
        if chance < lost:
            raise OSError("the answer was lost")

    table._write = losing


def _deadly(step: Callable[..., Any], odds: random.Random, crash: float) -> Callable[..., Any]:
    def deadly(*arguments: Any) -> Any:
        if odds.random() < crash:
            os.kill(os.getpid(), signal.SIGKILL)
        result = step(*arguments)
        if odds.random() < crash:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return deadly


def keep_compacting(path: str) -> None:
    """Compact a table of Delta for ever, once it is there."""
    while True:
        with suppress(LandingError):
            compact(Delta(path))
        time.sleep(0.2)


def main() -> None:
    told = json.loads(sys.argv[1])
    plant(table_of(told["path"]), random.Random(told["seed"]), told["crash"], told["lost"])
    if told["compacts"]:
        keep_compacting(told["path"])
    orders = Orders(told["bootstrap"], told["topic"])
    settings = {"group.id": told["group"], "session.timeout.ms": 2000, "heartbeat.interval.ms": 200}
    job = orders.job(told["path"], until=None, every=told["every"], settings=settings, **told["options"])
    signal.signal(signal.SIGTERM, lambda *_: job.stop())
    job.run()


if __name__ == "__main__":
    main()
