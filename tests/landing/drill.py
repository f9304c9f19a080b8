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

from tests.groups.ground import PATIENCE_SECONDS, Ground
from tests.landing.changes import Changes
from tests.landing.orders import Orders, iceberg_table

ROOT = Path(__file__).resolve().parents[2]
GROUPS = ("left", "left", "right")
"""The groups of the workers: those in different ones have the same partitions."""

COMPACTION = "compaction"
"""The group of a worker that lands nothing, and compacts."""

HELD_SECONDS = 10.0
"""Time after which a worker that is stopped goes on, if it may hold the lock of the catalog."""


class Drill:
    """Three workers over one topic, and what happens to them.

    Args:
        groups: the group of each worker.
        upserts: whether the topic has changes of few keys, and rows replace each other.

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
        groups: tuple[str, ...] = GROUPS,
        upserts: bool = False,
    ) -> None:
        self._ground = ground
        self.path = path
        self.orders = (Changes if upserts else Orders)(ground.bootstrap, ground.topic(3))
        self._groups, self._upserts = groups, upserts
        self.events: Counter[str] = Counter()
        self._odds = random.Random(seed)
        self._crash, self._lost = crash, lost
        self._log = path.with_suffix(".log").open("wb")
        self._workers: list[subprocess.Popen[bytes]] = []

    def run(self, steps: int) -> None:
        """Let something happen between commits of the workers, so often."""
        try:
            self._workers = [self._start(number) for number in range(len(self._groups))]
            for step in range(steps):
                self.orders.send(self._odds.randrange(20, 200))
                self._wait_for_commits(2)
                # Of a key that moves to a new partition two records may have one timestamp: no order between them.
                if step == steps // 2 and not self._upserts:
                    self._ground.grow(self.orders.topic, 4)
                    self.events["growth"] += 1
                self._happen(self._odds.randrange(len(self._groups)))
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
        if self.path.name == "ice":
            try:
                return len(iceberg_table(self.path).snapshots())
            except Exception:  # of the catalog, which is of many kinds
                return -1
        return len(list(self.path.glob("_delta_log/*.json"))) - 1

    def _start(self, number: int) -> "subprocess.Popen[bytes]":
        told = {
            "bootstrap": self._ground.bootstrap,
            "topic": self.orders.topic,
            "path": str(self.path),
            "group": f"{self.orders.topic}-{self._groups[number]}",
            "compacts": self._groups[number] == COMPACTION,
            "options": {"upsert": "key"} if self._upserts else {},
            "seed": self._odds.random(),
            "crash": self._crash,
            "lost": self._lost,
            "every": 0.2,
        }
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "tests.landing.worker", json.dumps(told)]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=self._log, stderr=self._log)
