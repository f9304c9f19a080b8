"""docs/training.md: its examples run as they stand, in worker processes too, with PyTorch or what stands in for it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import monedula
import numpy
import pyarrow
import pytest
from monedula.testing import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs/training.md"
PARTITIONS = 3
ROWS = 20
TOTAL = float(PARTITIONS * sum(range(ROWS)))

STAND_IN = '''
"""What the guide uses of PyTorch, where that is not installed; worker processes are real ones."""

import multiprocessing
from types import SimpleNamespace

_worker = None


class IterableDataset:
    pass


def get_worker_info():
    return _worker


def _work(dataset, number, count, queue):
    global _worker
    _worker = SimpleNamespace(id=number, num_workers=count, dataset=dataset)
    for item in dataset:
        queue.put(item)
    queue.put(None)


class DataLoader:
    def __init__(self, dataset, batch_size, num_workers, multiprocessing_context):
        assert batch_size is None
        self.dataset, self.count = dataset, num_workers
        self.context = multiprocessing.get_context(multiprocessing_context)

    def __iter__(self):
        queues = [self.context.Queue() for _ in range(self.count)]
        arguments = [(self.dataset, number, self.count, queue) for number, queue in enumerate(queues)]
        workers = [self.context.Process(target=_work, args=each) for each in arguments]
        for worker in workers:
            worker.start()
        while queues:
            for queue in list(queues):
                item = queue.get()
                if item is None:
                    queues.remove(queue)
                else:
                    yield item
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
'''


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": PARTITIONS}) as broker:
        for partition in range(PARTITIONS):
            orders = [json.dumps({"amount": float(number), "items": number % 4}) for number in range(ROWS)]
            broker.append("orders", orders, partition=partition)
        yield broker


def test_the_examples_run_one_after_another(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {
        "monedula": monedula,
        "numpy": numpy,
        "pyarrow": pyarrow,
        "settings": {"bootstrap.servers": broker.bootstrap_servers},
    }
    for source in blocks("python"):
        exec(compile(source, str(GUIDE), "exec"), names)
    assert names["ranges"] == {("orders", partition): (0, ROWS) for partition in range(PARTITIONS)}
    assert not names["amounts"].flags.owndata
    windows = [table.num_rows for table in names["windows"](names["epoch"](), 16)]
    assert windows == [16, 16, 16, 12]
    assert (names["place"], names["left"]) == (("orders", 0, 15), PARTITIONS * ROWS - 16)
    out = capsys.readouterr().out
    assert "float64" in out
    assert str(names["place"]) in out


def test_a_seed_has_the_same_order_each_time_and_all_rows(broker: Broker) -> None:
    names: dict[str, Any] = {
        "monedula": monedula,
        "numpy": numpy,
        "pyarrow": pyarrow,
        "settings": {"bootstrap.servers": broker.bootstrap_servers},
    }
    for source in blocks("python"):
        exec(compile(source, str(GUIDE), "exec"), names)

    def amounts(seed: int, max_rows: int) -> list[float]:
        stream = monedula.read(
            names["settings"], "orders", order="partition", value=names["order"], columns=["amount"], max_rows=max_rows
        )
        return [row for table in names["shuffled"](stream, 16, seed) for row in table["amount"].to_pylist()]

    assert amounts(1, 7) == amounts(1, 1000) != amounts(2, 1000)
    assert sum(amounts(1, 7)) == TOTAL


def run(source: str, folder: Path, broker: Broker, start_method: str, *path: Path) -> str:
    """Run a program of the page as a file, which `spawn` needs."""
    program = folder / "program.py"
    program.write_text(source)
    more = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "START_METHOD": start_method,
        "PYTHONPATH": more,
    }
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize("start_method", ["spawn", "fork", "forkserver"])
def test_worker_processes_share_the_partitions(broker: Broker, tmp_path: Path, start_method: str) -> None:
    (source,) = blocks("python workers")
    assert run(source, tmp_path, broker, start_method) == str(TOTAL)


@pytest.mark.parametrize("start_method", ["spawn", "fork"])
@pytest.mark.parametrize(
    "of",
    ["stand-in", pytest.param("PyTorch", marks=pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch"))],
)
def test_an_iterable_dataset_is_read_by_workers(broker: Broker, tmp_path: Path, of: str, start_method: str) -> None:
    (source,) = blocks("python torch")
    path = []
    if of == "stand-in":
        package = tmp_path / "path/torch"
        (package / "utils").mkdir(parents=True)
        (package / "__init__.py").write_text("def from_numpy(array):\n    return array\n")
        (package / "utils/__init__.py").touch()
        (package / "utils/data.py").write_text(STAND_IN)
        path = [tmp_path / "path"]
    assert run(source, tmp_path, broker, start_method, *path) == f"{PARTITIONS * ROWS} {TOTAL}"
