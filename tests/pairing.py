"""Which worker runs which tests: side by side run those whose JVMs fit together.

There are permits for five JVMs (`tests.kafka.permits`). Spark with a Kafka of one node has two of them, a Kafka of
three nodes has three, one of one node one. So one worker runs Spark, another one what needs three nodes, and the others
what needs no JVM at all: such tests mostly wait, for sessions and requests to time out. What needs one node, or starts
JVMs itself, comes when one of them is through, and so does a second Spark. Two workers that both want three nodes would
wait for each other, and close and start their clusters in turn. What needs four or five JVMs comes first of all, beside
tests without any: at the end, everyone else waited for it.

What one worker runs in one go are the tests of a file that need the same JVMs. By whole files, twenty files with one or
two tests on three nodes each held back all that needs one node for thirteen minutes, and every one of them started its
cluster anew.

The workers tell the scheduler what each test needs, as its fixtures and marks say it.

PYTEST_DONT_REWRITE: `python -m tests` has imported this module before pytest, and it asserts nothing.
"""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.jvms import THREE_NODES, own, shared

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

NEEDS_OF_TESTS = "monedula_needs_of_tests"
"""The key of `workerinput` with the path at which a worker writes what each test needs."""


class Kind(StrEnum):
    """What a test needs: the first of these that is true of it."""

    MANY = "more than three jvms"
    OWN = "jvms of its own"
    SPARK = "spark with a kafka"
    SPARK_ALONE = "spark alone"
    THREE_NODES = "three nodes"
    ONE_NODE = "one node"
    NO_JVM = "no jvm"


TURNS = (
    (Kind.MANY, Kind.SPARK, Kind.SPARK_ALONE, Kind.OWN, Kind.ONE_NODE, Kind.NO_JVM, Kind.THREE_NODES),
    (Kind.THREE_NODES, Kind.SPARK_ALONE, Kind.ONE_NODE, Kind.OWN, Kind.NO_JVM, Kind.SPARK, Kind.MANY),
    (Kind.NO_JVM, Kind.ONE_NODE, Kind.OWN, Kind.THREE_NODES, Kind.SPARK_ALONE, Kind.SPARK, Kind.MANY),
)
"""The kinds of tests that a worker runs first, second, and so on. Workers beyond these do as the last one."""


class Need(NamedTuple):
    """What a test needs. Tests of a file with equal needs run in one worker, one after the other."""

    kind: Kind
    clusters: tuple[str, ...]
    """The fixtures with JVMs, which the next test with the same ones need not start."""
    jvms: int

    @classmethod
    def of(cls, item: pytest.Item) -> "Need":
        """The need of a test."""
        fixtures = {name: jvms for name, jvms in shared(item).items() if jvms}
        return cls(_kind(own(item), fixtures), tuple(sorted(fixtures)), sum(fixtures.values()) + own(item))


class Paired(LoadFileScheduling):
    """The tests of a file with equal needs run in one worker. A worker without a kind of its own takes those of others.

    Args:
        written: where a worker has written the need of each test.
    """

    def __init__(self, config: pytest.Config, log: Any, written: Path) -> None:
        super().__init__(config, log)
        self._written = written
        self._needs: dict[str, Need] = {}
        self._last: dict[WorkerController, tuple[str, ...]] = {}

    def schedule(self) -> None:
        """Begin: all workers have collected their tests."""
        if not self._needs:
            needs = json.loads(self._written.read_text())
            self._needs = {test: Need(Kind(kind), tuple(names), jvms) for test, (kind, names, jvms) in needs.items()}
        super().schedule()

    def remove_node(self, node: "WorkerController") -> str | None:
        """Leave out the test that ended its worker: xdist would give it to each of the others, which it ends too."""
        crashed: str | None = super().remove_node(node)
        for name, unit in list(self.workqueue.items()):
            unit.pop(crashed, None)
            if not unit:
                del self.workqueue[name]
        return crashed

    def _split_scope(self, nodeid: str) -> str:
        need = self._needs[nodeid]
        return " ".join((super()._split_scope(nodeid), need.kind, *need.clusters))

    def _assign_work_unit(self, node: "WorkerController") -> None:
        turns = TURNS[min(self.nodes.index(node), len(TURNS) - 1)]
        crowded = self._others_run_many(node)

        def turn(unit: str) -> tuple[bool, int, bool, int]:
            need = self._needs[next(iter(self.workqueue[unit]))]
            waits = crowded and need.kind not in (Kind.MANY, Kind.NO_JVM)
            # Those that the worker's clusters serve already, then those with many JVMs: these fit in less often.
            return waits, turns.index(need.kind), need.clusters != self._last.get(node), -need.jvms

        unit = min(self.workqueue, key=turn)
        self._last[node] = self._needs[next(iter(self.workqueue[unit]))].clusters
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)

    def _others_run_many(self, node: "WorkerController") -> bool:
        others = (units for worker, units in self.assigned_work.items() if worker is not node)
        tests = (
            test for units in others for unit in units.values() for test, completed in unit.items() if not completed
        )
        return any(self._needs[test].kind is Kind.MANY for test in tests)


# Before xdist tells the scheduler that the worker has collected.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """As a plug-in of a worker: write down what the tests need that it has collected."""
    path = getattr(session.config, "workerinput", {}).get(NEEDS_OF_TESTS)
    if path is not None:  # None in the controller
        Path(path).write_text(json.dumps({item.nodeid: Need.of(item) for item in session.items}))


def _kind(own_jvms: int, fixtures: dict[str, int]) -> Kind:
    if own_jvms + sum(fixtures.values()) > THREE_NODES:
        return Kind.MANY
    if own_jvms:
        return Kind.OWN
    if "spark" in fixtures:
        return Kind.SPARK if len(fixtures) > 1 else Kind.SPARK_ALONE
    if THREE_NODES in fixtures.values():
        return Kind.THREE_NODES
    return Kind.ONE_NODE if fixtures else Kind.NO_JVM
