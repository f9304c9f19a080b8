"""`Drill`: workers in processes of their own, which share one table and die in every way."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from monedula.landing import Iceberg

from tests.groups.ground import PATIENCE_SECONDS, Ground
from tests.landing.orders import Orders, Target, described, iceberg_table, table_of

ROOT = Path(__file__).resolve().parents[2]
GROUPS = ("left", "left", "right")
"""The groups of the workers: those in different ones have the same partitions."""

HELD_SECONDS = 10.0
"""Time after which a worker that is stopped goes on, if it may hold the lock of the catalog."""


class Drill:
    """Three workers over one topic, and what happens to them.

    Attributes:
        events: how often what happened.
    """

    def __init__(
        self,
        ground: Ground,
        path: Path,
        seed: int,
        *,
        crash: float = 0.02,
        lost: float = 0.1,
        table: Target | None = None,
    ) -> None:
        self._ground = ground
        self.path = path
        self._table = table_of(path) if table is None else table
        self.orders = Orders(ground.bootstrap, ground.topic(3))
        self.events: Counter[str] = Counter()
        self._odds = random.Random(seed)
        self._crash, self._lost = crash, lost
        self._log = path.with_suffix(".log").open("wb")
        self._workers: list[subprocess.Popen[bytes]] = []

    def run(self, steps: int) -> None:
        """Let something happen between commits of the workers, so often."""
        try:
            self._workers = [self._start(number) for number in range(len(GROUPS))]
            for step in range(steps):
                self.orders.send(self._odds.randrange(20, 200))
                self._wait_for_commits(2)
                if step == steps // 2:
                    self._ground.grow(self.orders.topic, 4)
                    self.events["growth"] += 1
                self._happen(self._odds.randrange(len(GROUPS)))
        finally:
            for worker in self._workers:
                worker.kill()
                worker.wait()
            self._log.close()

    def _happen(self, number: int) -> None:
        worker = self._workers[number]
        what = self._odds.choice(["kill", "stop", "term", "stall"])
        self.events[what] += 1
        if what == "kill":
            worker.kill()
        elif what == "term":
            worker.terminate()
        else:
            # Stopped for longer than its session, or shorter: others commit its partitions, or wait.
            worker.send_signal(signal.SIGSTOP)
            self._wait_for_commits(6 if what == "stop" else 1, held_after=HELD_SECONDS)
            worker.send_signal(signal.SIGCONT)

    def _wait_for_commits(self, count: int, held_after: float = math.inf) -> None:
        """Wait for so many versions more, with workers that died started again.

        A worker that is stopped inside a commit holds the lock of SQLite, the catalog of Iceberg's table: nobody else
        commits then. Such a wait ends after `held_after` seconds.
        """
        goal, ends = self._version() + count, time.monotonic() + held_after
        is_held = self.path.name == "ice"
        self._wait(lambda: self._version() >= goal or (is_held and time.monotonic() >= ends))

    def _wait(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            self.orders.send(3)
            for number, worker in enumerate(self._workers):
                if worker.poll() is not None:
                    code = worker.returncode
                    if code not in (0, -signal.SIGKILL, -signal.SIGTERM):
                        pytest.fail(f"a worker ended with {code}: {self.path.with_suffix('.log').read_text()[-4000:]}")
                    self.events["deaths" if code else "ends"] += 1
                    self._workers[number] = self._start(number)
            if time.monotonic() > deadline:
                pytest.fail(f"no commit in {PATIENCE_SECONDS} s: {self.path.with_suffix('.log').read_text()[-4000:]}")
            time.sleep(0.05)

    def _version(self) -> int:
        """How many commits the table has; -1 if there is none, or its catalog is busy."""
        try:
            if isinstance(self._table, Iceberg):
                return len(iceberg_table(self._table).snapshots())
            from deltalake import DeltaTable

            return int(DeltaTable(self._table.path, storage_options=self._table.storage_options or None).version())
        except Exception:  # of the store or the catalog, which are of many kinds
            return -1

    def _start(self, number: int) -> "subprocess.Popen[bytes]":
        told = {
            "bootstrap": self._ground.bootstrap,
            "topic": self.orders.topic,
            "table": described(self._table),
            "group": f"{self.orders.topic}-{GROUPS[number]}",
            "seed": self._odds.random(),
            "crash": self._crash,
            "lost": self._lost,
            "every": 0.2,
        }
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "tests.landing.worker", json.dumps(told)]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=self._log, stderr=self._log)
