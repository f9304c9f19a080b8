"""Which worker runs which file: side by side run those whose JVMs fit together.

There are permits for five JVMs (`tests.kafka.permits`). A three-node Kafka with its helper has four of them, Spark with
a Kafka of one node three and more, such a Kafka alone two. Two workers that both want what only one of them can have
wait for each other, and close and start their clusters in turn. So one worker begins with three nodes and goes on with
Spark; the other one begins with what needs no JVM at all, and has what needs a single node while Spark runs.
"""

from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

SPARK = ("tests/spark/",)
THREE_NODES = ("tests/groups/behaviour/", "tests/kafka/", "tests/producer/real/", "tests/real/")
NO_JVM = (
    "tests/admin/",
    "tests/arrow/",
    "tests/consumer/",
    "tests/groups/test_",
    "tests/house/",
    "tests/producer/test_",
    "tests/testing/",
)
"""Folders whose files need that, most of them; a wrong guess costs time only. All others need a Kafka of one node."""

TURNS = ((THREE_NODES, SPARK, (), NO_JVM), (NO_JVM, (), SPARK, THREE_NODES))
"""What each of the two workers has first, second, and so on; () are the files that need one node."""


class Paired(LoadFileScheduling):
    """Each file whole in one worker. Whoever has none of its own left takes the last ones of the others."""

    def _assign_work_unit(self, node: "WorkerController") -> None:
        turns = TURNS[self.nodes.index(node) % 2]
        # The first of those whose turn is nearest.
        file = min(self.workqueue, key=lambda file: turns.index(kind(file)))
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


def kind(file: str) -> tuple[str, ...]:
    """What a file needs, as far as its folder says."""
    return next((folders for folders in (SPARK, THREE_NODES, NO_JVM) if file.startswith(folders)), ())
