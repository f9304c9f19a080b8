"""Side by side run files whose JVMs fit together, as long as there are such."""

from collections import OrderedDict
from typing import Any

from tests.pairing import Paired

FILES = ["tests/real/test_a.py", "tests/consumer/test_b.py", "tests/spark/test_c.py", "tests/runtime/test_d.py"]
FILES += ["tests/spark/test_e.py", "tests/house/test_f.py"]


class Worker:
    def __init__(self) -> None:
        self.files: list[str] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.files += [FILES[index] for index in indexes]


def test_files_whose_jvms_fit_together_run_side_by_side() -> None:
    first, second = Worker(), Worker()
    scheduler: Any = object.__new__(Paired)
    scheduler.workqueue = OrderedDict((file, {file: False}) for file in FILES)
    scheduler.assigned_work = {first: {}, second: {}}
    scheduler.registered_collections = {first: FILES, second: FILES}
    for worker in (first, second, first, second, first, second):
        scheduler._assign_work_unit(worker)
    # Three nodes and then Spark; no JVM and then one node.
    assert first.files == ["tests/real/test_a.py", "tests/spark/test_c.py", "tests/spark/test_e.py"]
    assert second.files == ["tests/consumer/test_b.py", "tests/house/test_f.py", "tests/runtime/test_d.py"]
    assert not scheduler.workqueue
