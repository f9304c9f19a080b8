"""Which worker runs which file: side by side run those whose JVMs fit together.

There are permits for five JVMs (`tests.kafka.permits`). Spark with a Kafka of one node has two of them, a Kafka of
three nodes has three, one of one node one. So one worker begins with Spark, another one with what needs three nodes,
and the others with what needs no JVM at all: such tests mostly wait, for sessions and requests to time out. What needs
one node, or starts JVMs itself, comes when one of them is through. Two workers that both want Spark or three nodes
would wait for each other, and close and start their clusters in turn.

The workers tell the scheduler what each file needs, as its tests' fixtures and marks say it.

PYTEST_DONT_REWRITE: `python -m tests` has imported this module before pytest, and it asserts nothing.
"""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.jvms import THREE_NODES, own, shared

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

KINDS_OF_FILES = "monedula_kinds_of_files"
"""The key of `workerinput` with the path at which a worker writes the kind of each file."""


class Kind(StrEnum):
    """What the tests of a file need: the first of these that one of them needs."""

    OWN = "jvms of its own"
    SPARK = "spark"
    THREE_NODES = "three nodes"
    ONE_NODE = "one node"
    NO_JVM = "no jvm"


TURNS = (
    (Kind.SPARK, Kind.OWN, Kind.ONE_NODE, Kind.NO_JVM, Kind.THREE_NODES),
    (Kind.THREE_NODES, Kind.ONE_NODE, Kind.OWN, Kind.NO_JVM, Kind.SPARK),
    (Kind.NO_JVM, Kind.ONE_NODE, Kind.OWN, Kind.THREE_NODES, Kind.SPARK),
)
"""The kinds of files that a worker runs first, second, and so on. Workers beyond these do as the last one."""


class Paired(LoadFileScheduling):
    """Each file runs in one worker. A worker without files of its own takes those of the others.

    Args:
        kinds: where the workers have written the kind of each file.
    """

    def __init__(self, config: pytest.Config, log: Any, kinds: Path) -> None:
        super().__init__(config, log)
        self._written = kinds
        self._kinds: dict[str, str] = {}

    def schedule(self) -> None:
        """Begin: all workers have collected their tests."""
        self._kinds = json.loads(self._written.read_text())
        super().schedule()

    def _assign_work_unit(self, node: "WorkerController") -> None:
        turns = TURNS[min(self.nodes.index(node), len(TURNS) - 1)]
        # The first of those whose turn is nearest.
        file = min(self.workqueue, key=lambda file: turns.index(Kind(self._kinds[file])))
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


# Before xdist tells the scheduler that the worker has collected.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """As a plug-in of a worker: write down the kinds of the files that it has collected."""
    path = getattr(session.config, "workerinput", {}).get(KINDS_OF_FILES)
    if path is None:  # the controller
        return
    kinds: dict[str, Kind] = {}
    for item in session.items:
        file = item.nodeid.partition("::")[0]
        kinds[file] = min(kinds.get(file, Kind.NO_JVM), kind(item), key=list(Kind).index)
    Path(path).write_text(json.dumps(kinds))


def kind(item: pytest.Item) -> Kind:
    """What a test needs."""
    if own(item):
        return Kind.OWN
    wanted = shared(item)
    if "spark" in wanted:
        return Kind.SPARK
    if THREE_NODES in wanted.values():
        return Kind.THREE_NODES
    return Kind.ONE_NODE if any(wanted.values()) else Kind.NO_JVM
