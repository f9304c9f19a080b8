"""A worker of the drill: `python -m tests.landing.worker '{...}'` lands for ever, and dies at planted points.

At each step of the commit protocol it may end itself by SIGKILL, or lose the answer of a commit, which arrived or not.
"""

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from typing import Any

from monedula.landing import Iceberg, LandingJob
from monedula.landing.data_files import DataFiles

from tests.landing.orders import Orders, Target, made

STEPS: tuple[tuple[type, str], ...] = (
    (DataFiles, "finish"),
    (LandingJob, "_note_committed"),
    (LandingJob, "_assigned"),
    (LandingJob, "_revoked"),
    (LandingJob, "_go_back"),
)
"""The steps before and after which it may die, besides those of the table."""


def class_of(table: Target) -> type[Any]:
    """The class by which a job has the table."""
    if isinstance(table, Iceberg):
        from monedula.landing.iceberg_table import IcebergLandingTable

        return IcebergLandingTable
    from monedula.landing.delta_table import DeltaLandingTable

    return DeltaLandingTable


def plant(table: type[Any], odds: random.Random, crash: float, lost: float) -> None:
    """Have each step die with the probability `crash`, and commits lose their answers with `lost`."""
    for owner, name in (*STEPS, (table, "_write"), (table, "_look")):
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


def main() -> None:
    told = json.loads(sys.argv[1])
    table = made(told["table"])
    plant(class_of(table), random.Random(told["seed"]), told["crash"], told["lost"])
    orders = Orders(told["bootstrap"], told["topic"])
    settings = {"group.id": told["group"], "session.timeout.ms": 2000, "heartbeat.interval.ms": 200}
    job = orders.job(table, until=None, every=told["every"], settings=settings)
    signal.signal(signal.SIGTERM, lambda *_: job.stop())
    job.run()


if __name__ == "__main__":
    main()
