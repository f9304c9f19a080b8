"""What needs the same clusters stays in one worker, and five JVMs are enough for those that run side by side."""

import json
import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from tests.__main__ import Units
from tests.jvms import Jvms, Unit, clusters
from tests.kafka.permits import MOST, Permits


class ItemFactory(Protocol):
    """Makes a test that asks for these fixtures."""

    def __call__(self, name: str, *fixtures: str, jvms: int = 0, **params: str) -> Any:
        """Make one."""


@pytest.fixture
def item() -> ItemFactory:
    def make(name: str, *fixtures: str, jvms: int = 0, **params: str) -> Any:
        marks = [pytest.mark.jvms(jvms).mark] if jvms else []
        return SimpleNamespace(
            nodeid=name,
            path=Path(name.partition("::")[0]),
            config=SimpleNamespace(getoption=lambda *_: None),  # whatever this run itself is on
            fixturenames=fixtures,
            callspec=SimpleNamespace(params=params),
            iter_markers=lambda _name: marks,
        )

    return make


def test_units_begin_by_their_jvms_and_then_by_their_tests(item: ItemFactory) -> None:
    in_order = [
        ("spark with a kafka", item("c.py::1", "spark", "kafka")),
        ("spark with a kafka", item("a.py::1", "spark", "kafka", jvms=1)),
        # Many JVMs come last there: three nodes are through, or their turn is over.
        ("spark with a kafka", item("a.py::2", "secured", jvms=3)),
        ("three nodes", item("b.py::1[kafka]", "cluster", kind="kafka")),
        ("three nodes", item("a.py::3", "kafka3")),
        ("b.py", item("b.py::1[embedded]", "cluster", kind="embedded")),
        ("b.py", item("b.py::2")),
        ("a.py", item("a.py::4")),
        ("spark alone", item("a.py::5", "spark")),
        ("spark alone", item("a.py::6", "spark", jvms=1)),
        ("d.py with secured", item("d.py::1", "protected", kind="kafka")),
        ("d.py with secured", item("d.py::2", "secured")),
        ("a.py with", item("a.py::7", jvms=2)),
        ("d.py with kafka", item("d.py::3", "topic")),
    ]
    tests = [test for _, test in in_order]
    shuffled = random.Random(7).sample(tests, len(tests))
    Jvms(Permits(Path(os.devnull))).pytest_collection_modifyitems(shuffled)
    assert [Unit.of(test).name for test in shuffled] == [unit for unit, _ in in_order]
    assert [test.nodeid for test in shuffled[:3]] == ["c.py::1", "a.py::1", "a.py::2"]


@pytest.mark.parametrize("cluster", ["secured", "secured3", "kafka3"])
def test_a_topic_of_another_cluster_needs_no_permit_for_kafka(item: ItemFactory, cluster: str) -> None:
    assert set(clusters(item("a.py::1", "topic", cluster))) == {cluster}
    assert set(clusters(item("a.py::1", "topic"))) == {"kafka"}


def test_a_permit_stays_for_the_next_test_though_nobody_started_its_cluster(item: ItemFactory, tmp_path: Path) -> None:
    permits = Permits(tmp_path / "permits")
    jvms = Jvms(permits)
    for test, held in [(item("a.py::1", "topic"), 1), (item("b.py::1", "topic", "spark"), 2), (item("b.py::2"), 0)]:
        jvms.admit(test)
        assert permits.held == held


JVMS = {"spark with a kafka": 2, "three nodes": 3, "a.py": 0, "b.py": 0, "spark alone": 1, "c.py with kafka": 1}
"""Units of ten tests each, in their order."""


class Worker:
    """xdist's side of a worker."""

    shutting_down = False

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.ahead: list[int] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.ahead += indexes

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def units(tmp_path: Path) -> Any:
    """Handed out to three workers."""
    config: Any = SimpleNamespace(getvalue=lambda _: ["popen"] * 3, option=SimpleNamespace(loadscopereorder=False))
    units: Any = Units(config, None, tmp_path)
    of_each = [(unit, jvms) for unit, jvms in JVMS.items() for _ in range(10)]
    for number in range(3):
        (tmp_path / f"gw{number}").write_text(json.dumps(of_each))
        units.add_node(worker := Worker(number))
        units.add_node_collection(worker, [f"test_{index}" for index in range(len(of_each))])
    units.schedule()
    return units


def run(units: Any) -> dict[Worker, list[int]]:
    """The tests that each worker ran, one of each after the other."""
    ran: dict[Worker, list[int]] = {worker: [] for worker in units.nodes}
    while busy := [worker for worker in units.nodes if worker.ahead]:
        assert sum(list(JVMS.values())[worker.ahead[0] // 10] for worker in busy) <= MOST
        for worker in busy:
            ran[worker].append(worker.ahead.pop(0))
            units.mark_test_complete(worker, ran[worker][-1])
    return ran


def test_units_side_by_side_have_five_jvms_at_most(units: Any) -> None:
    names = [[list(JVMS)[test // 10] for test in tests[::10]] for tests in run(units).values()]
    assert names == [["spark with a kafka", "spark alone"], ["three nodes", "c.py with kafka"], ["a.py", "b.py"]]


def test_what_ends_its_worker_is_left_out_for_the_others(units: Any) -> None:
    first, *_ = units.nodes
    assert units.remove_node(first) == "test_0"
    assert sorted(test for tests in run(units).values() for test in tests) == list(range(1, 60))
