"""Which worker runs which file: side by side run those whose JVMs fit together.

There are permits for five JVMs (`tests.kafka.permits`). Spark with a Kafka of one node has two of them, a Kafka of
three nodes has three, one of one node one. So one worker begins with Spark, another one with what needs three nodes,
and the third with what needs no JVM at all. What needs one node, or starts JVMs itself, comes when one of them is
through. Two workers that both want Spark or three nodes would wait for each other, and close and start their clusters
in turn.
"""

from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

OWN = (
    "tests/cli/test_kafka_directories",
    "tests/interop/test_java_",
    "tests/kafka/test_helper",
    "tests/moving/test_settings",
    "tests/producer/test_transactions_killed",
    "tests/spark/test_connector",
    "tests/spark/test_failures",
    "tests/spark/test_secured",
)
"""Files that start JVMs of their own, besides those of their fixtures."""

SPARK = ("tests/spark/test_", "tests/spark/versions/")
THREE_NODES = (
    "tests/cli/test_kafka_administration",
    "tests/differential/",
    *(f"tests/groups/behaviour/test_{name}" for name in ("deferred", "members", "mixed", "moves", "rolling")),
    "tests/kafka/test_fixture",
    *(f"tests/producer/real/test_{name}" for name in ("acks", "chaos", "codecs")),
    *(f"tests/real/test_{name}" for name in ("group_offsets", "leaders")),
)

NO_JVM = (
    "tests/admin/",
    "tests/cli/",
    "tests/groups/",
    "tests/house/",
    "tests/interop/",
    "tests/kafka/",
    "tests/observability/test_",
    "tests/producer/",
    "tests/testing/",
)
"""The beginnings of the files that need this, most of them; a wrong guess costs time only. All others need one node."""

TURNS = (
    (SPARK, OWN, (), NO_JVM, THREE_NODES),
    (THREE_NODES, (), OWN, NO_JVM, SPARK),
    (NO_JVM, (), OWN, THREE_NODES, SPARK),
)
"""The kinds of files that each worker runs first, second, and so on; () are the files that need one node."""


class Paired(LoadFileScheduling):
    """Each file runs in one worker. A worker without files of its own takes those of the others."""

    def _assign_work_unit(self, node: "WorkerController") -> None:
        turns = TURNS[self.nodes.index(node) % len(TURNS)]
        # The first of those whose turn is nearest.
        file = min(self.workqueue, key=lambda file: turns.index(kind(file)))
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


def kind(file: str) -> tuple[str, ...]:
    """The needs of a file, by its name."""
    return next((names for names in (OWN, SPARK, THREE_NODES, NO_JVM) if file.startswith(names)), ())
