"""Side by side run files whose JVMs fit together, as long as there are such."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

from tests.pairing import TURNS, Paired

ROOT = Path(__file__).resolve().parents[2]
FILES = ["tests/real/test_leaders.py", "tests/admin/test_b.py", "tests/spark/test_c.py", "tests/runtime/test_d.py"]
FILES += ["tests/kafka/test_helper.py", "tests/spark/test_f.py", "tests/house/test_g.py", "tests/consumer/test_h.py"]


class Worker:
    def __init__(self) -> None:
        self.files: list[str] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.files += [FILES[index] for index in indexes]


def test_files_whose_jvms_fit_together_run_side_by_side() -> None:
    workers = [Worker() for _ in TURNS]
    scheduler: Any = object.__new__(Paired)
    scheduler.workqueue = OrderedDict((file, {file: False}) for file in FILES)
    scheduler.assigned_work = {worker: {} for worker in workers}
    scheduler.registered_collections = dict.fromkeys(workers, FILES)
    while scheduler.workqueue:
        for worker in workers[: len(scheduler.workqueue)]:
            scheduler._assign_work_unit(worker)
    assert [[Path(file).stem for file in worker.files] for worker in workers] == [
        ["test_c", "test_f", "test_helper"],  # Spark, then what starts JVMs itself
        ["test_leaders", "test_d", "test_h"],  # three nodes, then one node
        ["test_b", "test_g"],  # no JVM
    ]


def test_every_name_is_one_of_files_that_there_are() -> None:
    names = {name for turns in TURNS for names in turns for name in names}
    assert not [name for name in names if not list(ROOT.glob(f"{name}*"))]
