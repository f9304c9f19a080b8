"""`Drill`: workers in processes of their own, which share one table and die in every way, as do brokers.

Others compact the table and add columns meanwhile. At the end each record is in it once.
"""

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
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from monedula.landing import Iceberg, check

from tests.groups.behaviour.stage import Stage
from tests.groups.ground import PATIENCE_SECONDS
from tests.landing import foreign
from tests.landing.changes import Changes
from tests.landing.orders import Orders, Target, described, iceberg_table, landed, table_of
from tests.landing.worker import FAILED

ROOT = Path(__file__).resolve().parents[2]
GROUPS = ("left", "left", "right")
"""The groups of the workers: those in different ones have the same partitions."""

COMPACTION = "compaction"
"""The group of a worker that lands nothing, and compacts."""

HELD_SECONDS = 10.0
"""Time after which a worker that is stopped goes on, if it may hold the lock of the catalog."""

EVERY_SECONDS = 0.2
EVENTS = ("kill", "term", "stop", "stall", "leader", "compaction", "column")
"""What happens between commits: each once, then any of them."""

_NUMBERS = count(1)


class Drill:
    """Three workers over one topic, and what happens to them, to the brokers and to the table.

    Attributes:
        events: how often what happened.

    Args:
        stage: three brokers.
        path: where the table is made; of Iceberg if it is called `ice`.
        seed: of all that is drawn.
        table: another table than that in the folder.
        groups: the group of each worker; those of `COMPACTION` compact besides.
        upserts: whether the topic has changes of few keys, and rows replace each other.
        bug: the name of a bug that the workers have, of `worker.BUGS`.
        **odds: the probabilities of what goes wrong at each step of a worker, as `worker.Odds` has them.
    """

    def __init__(
        self,
        stage: Stage,
        path: Path,
        seed: int,
        *,
        table: Target | None = None,
        groups: tuple[str, ...] = GROUPS,
        upserts: bool = False,
        bug: str | None = None,
        **odds: float,
    ) -> None:
        self._stage = stage
        self.path = path
        self._table = table_of(path, **({"upsert": "key"} if upserts else {})) if table is None else table
        # Others compact tables in folders alone; their commit fences off their own kind, and not the job's compactions.
        compacts = table is None and COMPACTION not in groups
        self._events = [each for each in EVENTS if compacts or each != "compaction"]
        topic = f"drill-{os.getpid()}-{next(_NUMBERS)}"
        stage.create_topic(topic, 3)
        self.orders = (Changes if upserts else Orders)(stage.bootstrap, topic)
        self._groups, self._upserts = groups, upserts
        self.events: Counter[str] = Counter()
        self._draw = random.Random(seed)
        self._told = {"bug": bug, "odds": odds}
        self._log = path.with_suffix(".log").open("wb")
        self._workers: list[subprocess.Popen[bytes]] = []

    def run(self, steps: int = 10) -> None:
        """Let something happen between commits of the workers, so often, and have them land the rest."""
        agenda = [*self._events, *self._draw.choices(self._events, k=max(steps - len(self._events), 0))]
        self._draw.shuffle(agenda)
        try:
            self._workers = [self._start(number) for number in range(len(self._groups))]
            for step, what in enumerate(agenda):
                self.orders.send(self._draw.randrange(20, 200))
                # Orders in transactions have no key; and of a key that moves to a new partition two records may have
                # one timestamp, so that there is no order between them.
                if not self._upserts:
                    self.orders.transact(self._draw.randrange(1, 20), is_committed=bool(step % 2))
                self._wait_for_commits(2)
                if step == len(agenda) // 2 and not self._upserts:
                    self._stage.add_partitions(self.orders.topic, 4)
                    self.events["growth"] += 1
                self.events[what] += 1
                self._happen(what, self._draw.randrange(len(self._groups)))
            # Each partition ends with a marker, behind which the positions have to be.
            if not self._upserts:
                self.orders.transact(8, is_committed=True)
            self._wait_for_all()
        finally:
            for worker in self._workers:
                worker.kill()
                worker.wait()
            self._log.close()

    def verify(self) -> None:
        """Each record is in the table once, as polars, DuckDB and `check` read it."""
        orders = self.orders
        assert landed(self._table) == orders.offsets(), self.events
        rows = _arrow(self._table)  # noqa: F841 - DuckDB finds it by its name
        query = "select count(*), count(distinct id), count(distinct _kafka.partition) from rows"
        assert duckdb.sql(query).fetchall() == [(orders.count, orders.count, 4)], self.events
        assert check(orders.settings, orders.topic, self._table, job="lake").ok, self.events

    def _happen(self, what: str, number: int) -> None:
        if what == "leader":
            node = self._stage.leader(self.orders.topic, self._draw.randrange(3))
            self._stage.kill(node)
            self._wait_for_commits(2)
            self._stage.start(node)
        elif what in ("compaction", "column"):
            self._change(what)
        elif what in ("kill", "term"):
            time.sleep(self._draw.uniform(0, EVERY_SECONDS))  # any moment between two commits, and amid one
            self._workers[number].send_signal(signal.SIGKILL if what == "kill" else signal.SIGTERM)
        else:
            # Stopped for longer than its session, or shorter: others commit its partitions, or wait.
            self._workers[number].send_signal(signal.SIGSTOP)
            self._wait_for_commits(6 if what == "stop" else 1, held_after=HELD_SECONDS)
            self._workers[number].send_signal(signal.SIGCONT)

    def _change(self, what: str) -> None:
        """Have others change the table. Workers may be faster again and again: then nothing is changed."""
        ends = time.monotonic() + HELD_SECONDS

        def is_done() -> bool:
            try:
                if what == "column":
                    foreign.add_column(self._table, f"note_{self.events[what]}")
                else:
                    foreign.compact(self.path)
            except Exception:  # conflicts and a busy catalog are of many classes
                self.events[f"{what} refused"] += 1
                return time.monotonic() >= ends
            self.events[f"{what} done"] += 1
            return True

        self._wait(is_done)

    def _wait_for_commits(self, count: int, held_after: float = math.inf) -> None:
        """Wait for so many versions more, with workers that died started again.

        A worker that is stopped inside a commit holds the lock of SQLite, the catalog of Iceberg's table: nobody else
        commits then. Such a wait ends after `held_after` seconds.
        """
        goal, ends = self._version() + count, time.monotonic() + held_after
        is_held = isinstance(self._table, Iceberg)
        self._wait(lambda: self._version() >= goal or (is_held and time.monotonic() >= ends))

    def _wait_for_all(self) -> None:
        """Wait until the table has the ends of the log as positions."""
        job = self.orders.job(self._table, until=None)

        def is_all() -> bool:
            with suppress(Exception):  # of the catalog, while it is busy
                return job.plan().offsets == 0
            return False

        self._wait(is_all, sends=0)
        job._consumer.close(0.0)

    def _wait(self, is_so: Callable[[], bool], sends: int = 3) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            if sends:
                self.orders.send(sends)
            for number, worker in enumerate(self._workers):
                if worker.poll() is not None:
                    code = worker.returncode
                    if code not in (0, FAILED, -signal.SIGKILL, -signal.SIGTERM):
                        pytest.fail(f"a worker ended with {code}: {self._log_tail()}")
                    self.events["failures" if code == FAILED else "deaths" if code else "ends"] += 1
                    self._workers[number] = self._start(number)
            if time.monotonic() > deadline:
                pytest.fail(f"no commit in {PATIENCE_SECONDS} s: {self._log_tail()}")
            time.sleep(0.05)

    def _log_tail(self) -> str:
        return self.path.with_suffix(".log").read_text(errors="replace")[-4000:]

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
            "bootstrap": self._stage.bootstrap,
            "topic": self.orders.topic,
            "table": described(self._table),
            "group": f"{self.orders.topic}-{self._groups[number]}",
            "compacts": self._groups[number] == COMPACTION,
            "seed": self._draw.random(),
            "every": EVERY_SECONDS,
            **self._told,
        }
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "tests.landing.worker", json.dumps(told)]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=self._log, stderr=self._log)


def _arrow(table: Target) -> Any:
    if isinstance(table, Iceberg):
        return iceberg_table(table).scan().to_arrow()
    return DeltaTable(table.path, storage_options=table.storage_options or None).to_pyarrow_dataset()
