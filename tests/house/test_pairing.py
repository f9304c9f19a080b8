"""A worker that starts JVMs runs beside one that starts none, as long as there are files of both kinds."""

from collections import OrderedDict
from typing import Any

from tests.pairing import Paired

FILES = ["tests/real/test_a.py", "tests/consumer/test_b.py", "tests/spark/test_c.py", "tests/runtime/test_d.py"]
FILES += ["tests/kafka/test_e.py", "tests/interop/test_f.py"]


class Worker:
    def __init__(self) -> None:
        self.files: list[str] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.files += [FILES[index] for index in indexes]


def test_files_that_need_jvms_run_beside_files_that_need_none() -> None:
    first, second = Worker(), Worker()
    scheduler: Any = object.__new__(Paired)
    scheduler.workqueue = OrderedDict((file, {file: False}) for file in FILES)
    scheduler.assigned_work = {first: {}, second: {}}
    scheduler.registered_collections = {first: FILES, second: FILES}
    for worker in (first, second, second, first, second, first):
        scheduler._assign_work_unit(worker)
    assert first.files == ["tests/real/test_a.py", "tests/spark/test_c.py", "tests/kafka/test_e.py"]
    assert second.files == ["tests/consumer/test_b.py", "tests/runtime/test_d.py", "tests/interop/test_f.py"]
    assert not scheduler.workqueue
