"""Two workers that commit the same partitions at the same moment."""

import threading
from pathlib import Path
from typing import Any

from monedula.landing import LandingJob, LandingResult

from tests.groups.ground import PATIENCE_SECONDS
from tests.landing.orders import Orders, Target


def race(orders: Orders, path: Path | Target) -> int:
    """Two workers of one job in two groups, so that both have all partitions; returns how often they met."""
    return sum(result.conflicts for result in race_results(orders, path))


def race_results(orders: Orders, path: Path | Target, **options: Any) -> list[LandingResult]:
    """What each of the two did."""
    gate = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    jobs = [orders.job(path, settings={"group.id": f"group-{number}"}, **options) for number in range(2)]
    for job in jobs:
        meet_once(job, gate)
        job.start()
    results = [job.wait(PATIENCE_SECONDS) for job in jobs]
    return [result for result in results if result is not None]


def meet_once(job: LandingJob, gate: threading.Barrier) -> None:
    """Have the first commit of rows wait for that of another job."""
    commit = job._commit
    left = [True]

    def meet() -> None:
        if left[0] and job._files is not None:
            left[0] = False
            gate.wait()
        commit()

    job._commit = meet  # type: ignore[method-assign]
