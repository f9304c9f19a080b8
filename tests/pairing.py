"""Which worker runs which file: one begins with those that need JVMs, the other with those that need none.

There are permits for five JVMs (`tests.kafka.permits`), and a three-node Kafka with its helper has four of them: two
workers that both want one wait for each other. Beside a file without JVMs nobody waits.
"""

from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

WITHOUT_JVMS = (
    "tests/admin/",
    "tests/arrow/",
    "tests/consumer/",
    "tests/groups/test_",
    "tests/house/",
    "tests/producer/test_",
    "tests/runtime/",
    "tests/testing/",
)
"""Folders whose files need no JVM, or hardly any; a wrong guess costs time only."""


class Paired(LoadFileScheduling):
    """Each file whole in one worker. Whoever has none of its own kind left takes the last one of the others."""

    def _assign_work_unit(self, node: "WorkerController") -> None:
        files = list(self.workqueue)
        is_for_jvms = self.nodes.index(node) % 2 == 0
        of_its_kind = (file for file in files if needs_jvms(file) == is_for_jvms)
        self.workqueue.move_to_end(next(of_its_kind, files[-1]), last=False)
        super()._assign_work_unit(node)


def needs_jvms(file: str) -> bool:
    """Whether the tests of a file start JVMs, as far as its folder says."""
    return not file.startswith(WITHOUT_JVMS)
