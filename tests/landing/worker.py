"""A worker of the drill: `python -m tests.landing.worker '{...}'` lands for ever, and dies at planted points.

At each step of the commit protocol it may end itself by SIGKILL or stand still for longer than its session; the store
may fail, or lose the answer of a commit, which arrived or not.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from monedula.errors import LandingError
from monedula.landing import Iceberg, LandingJob, compact
from monedula.landing.commits import PendingCommit
from monedula.landing.data_files import DataFiles
from monedula.types.partitions import TopicPartition

from tests.landing.orders import Orders, Target, made

STEPS: tuple[tuple[type, str], ...] = (
    (DataFiles, "finish"),
    (LandingJob, "_note_committed"),
    (LandingJob, "_assigned"),
    (LandingJob, "_revoked"),
    (LandingJob, "_go_back"),
)
"""The steps before and after which it may die, besides those of the table."""

STORE_STEPS = ("finish", "_look")
"""The steps in which the store may fail."""

STALL_SECONDS = 4.0
SETTINGS = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200, "max.poll.interval.ms": 3000}
FAILED = 75
"""The exit code of a worker that a planted failure of the store has ended."""


class Odds(NamedTuple):
    """The probability at each step that it dies, stalls or fails, and of each commit that its answer is lost."""

    crash: float = 0.02
    stall: float = 0.005
    fail: float = 0.01
    lost: float = 0.1


class StoreFailure(OSError):
    """A planted failure of the store."""


def class_of(table: Target) -> type[Any]:
    """The class by which a job has the table."""
    if isinstance(table, Iceberg):
        from monedula.landing.iceberg_table import IcebergLandingTable

        return IcebergLandingTable
    from monedula.landing.delta_table import DeltaLandingTable

    return DeltaLandingTable


def plant(table: type[Any], draw: random.Random, odds: Odds) -> None:
    """Have each step go wrong now and then, and commits lose their answers."""
    steps = [name for name in ("_write", "_look", "snapshot") if hasattr(table, name)]
    for owner, name in (*STEPS, *((table, step) for step in steps)):
        setattr(owner, name, _faulty(getattr(owner, name), draw, odds, may_fail=name in STORE_STEPS))
    write = table._write

    def losing(self: Any, pending: Any) -> None:
        chance = draw.random()
        if chance < odds.lost / 2:
            raise StoreFailure("the request was lost")
        write(self, pending)
        if chance < odds.lost:
            raise StoreFailure("the answer was lost")

    table._write = losing


def _faulty(step: Callable[..., Any], draw: random.Random, odds: Odds, *, may_fail: bool) -> Callable[..., Any]:
    def happen() -> None:
        if draw.random() < odds.crash:
            os.kill(os.getpid(), signal.SIGKILL)
        if draw.random() < odds.stall:
            time.sleep(draw.uniform(0, STALL_SECONDS))

    def faulty(*arguments: Any, **named: Any) -> Any:
        happen()
        if may_fail and draw.random() < odds.fail:
            raise StoreFailure("the store failed")
        result = step(*arguments, **named)
        happen()
        return result

    return faulty


def _offsets_first(table: type[Any]) -> None:
    """Positions are committed before files."""
    write = table._write

    def positions_then_files(self: Any, pending: PendingCommit) -> None:
        write(self, PendingCommit([], pending.moves, pending.commit_id))
        if pending.files:
            write(self, PendingCommit(pending.files, {}, pending.commit_id))

    table._write = positions_then_files


def _rebase(table: type[Any]) -> None:
    """A commit after a conflict extends whatever is the newest version."""
    table._moved = lambda *_: False


def _last_offset(table: type[Any]) -> None:
    """The position is that behind the last row, not that of the reader."""
    write = table.write
    last: dict[TopicPartition, int] = {}

    def noting(self: Any, files: Any, rows: Any) -> None:
        for origin in rows.column("_kafka").to_pylist():
            last[TopicPartition(origin["topic"], origin["partition"])] = origin["offset"] + 1
        write(self, files, rows)

    def by_rows(self: Any, *_: object, **__: object) -> None:
        self._positions.update(last)
        last.clear()

    table.write = noting
    LandingJob._advance = by_rows  # type: ignore[method-assign]


def _files_deleted(table: type[Any]) -> None:
    """A commit without an answer is taken for a conflict, so its files are deleted."""
    commit = table.commit

    def hasty(self: Any, pending: PendingCommit) -> bool:
        if not pending.files:
            return bool(commit(self, pending))
        try:
            self._write(pending)
        except Exception:  # that of the store, and conflicts
            return False
        return True

    table.commit = hasty


BUGS = {
    "offsets first": _offsets_first,
    "rebase": _rebase,
    "last offset": _last_offset,
    "files deleted": _files_deleted,
}
"""What a worker may do wrong, and the drill has to find."""


def _is_planted(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, StoreFailure) or _is_planted(error.__cause__ or error.__context__))


def keep_compacting(target: Target) -> None:
    """Compact a table of Delta for ever, once it is there."""
    while True:
        with suppress(LandingError, StoreFailure):
            compact(target)
        time.sleep(0.2)


def main() -> None:
    told = json.loads(sys.argv[1])
    target = made(told["table"])
    table = class_of(target)
    plant(table, random.Random(told["seed"]), Odds(**told["odds"]))
    if told["bug"] is not None:
        BUGS[told["bug"]](table)  # on top: a bug may be that something goes wrong between two steps
    if told["compacts"]:
        keep_compacting(target)
    orders = Orders(told["bootstrap"], told["topic"])
    settings = {"group.id": told["group"], **SETTINGS}
    job = orders.job(target, until=None, every=told["every"], settings=settings)
    signal.signal(signal.SIGTERM, lambda *_: job.stop())
    try:
        job.run()
    except Exception as error:
        if not _is_planted(error):
            raise
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
