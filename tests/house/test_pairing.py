"""Side by side run tests whose JVMs fit together, as long as there are such."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast

import pytest

from tests.jvms import Jvms, shared
from tests.kafka.permits import Permits
from tests.pairing import NEEDS_OF_TESTS, TURNS, Kind, Need, Paired, pytest_collection_finish

NEEDS = {
    "three_nodes::1": Need(Kind.THREE_NODES, ("kafka3",), 3),
    "three_nodes::2": Need(Kind.NO_JVM, (), 0),
    "broker_a::1": Need(Kind.NO_JVM, (), 0),
    "broker_a::2": Need(Kind.NO_JVM, (), 0),
    "spark_a::1": Need(Kind.SPARK_ALONE, ("spark",), 1),
    "spark_b::1": Need(Kind.SPARK, ("kafka", "spark"), 2),
    "secured::1": Need(Kind.ONE_NODE, ("secured",), 1),
    "node_a::1": Need(Kind.ONE_NODE, ("kafka",), 1),
    "secured::2": Need(Kind.THREE_NODES, ("secured3",), 3),
    "helper::1": Need(Kind.OWN, (), 2),
    "drivers::1": Need(Kind.MANY, ("secured",), 4),
    "spark_c::1": Need(Kind.SPARK, ("kafka", "spark"), 2),
    "broker_b::1": Need(Kind.NO_JVM, (), 0),
    "leaders::1": Need(Kind.THREE_NODES, ("kafka3",), 3),
    "node_b::1": Need(Kind.ONE_NODE, ("kafka",), 1),
    "broker_c::1": Need(Kind.NO_JVM, (), 0),
    "refusals::1": Need(Kind.ONE_NODE, ("secured",), 1),
    "broker_d::1": Need(Kind.NO_JVM, (), 0),
    "broker_e::1": Need(Kind.NO_JVM, (), 0),
}


class Worker:
    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.tests: list[str] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.tests += [list(NEEDS)[index] for index in indexes]


@pytest.fixture
def scheduler(tmp_path: Path) -> Any:
    written = tmp_path / "needs.json"
    written.write_text(json.dumps(NEEDS))
    config = SimpleNamespace(
        getvalue=lambda _: ["popen"] * (len(TURNS) + 1), option=SimpleNamespace(loadscopereorder=False)
    )
    scheduler: Any = Paired(cast(Any, config), None, written)
    scheduler._reschedule = lambda _worker: None
    return scheduler


def test_tests_whose_jvms_fit_together_run_side_by_side(scheduler: Any) -> None:
    workers = [Worker(number) for number in range(len(TURNS) + 1)]
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.registered_collections[worker] = list(NEEDS)
    scheduler.schedule()
    while scheduler.workqueue:
        for worker in workers[: len(scheduler.workqueue)]:
            for unit in scheduler.assigned_work[worker].values():
                unit.update(dict.fromkeys(unit, True))
            scheduler._assign_work_unit(worker)
    assert [worker.tests for worker in workers] == [
        # Four JVMs, Spark with its Kafka, Spark alone, and what starts JVMs itself.
        ["drivers::1", "spark_b::1", "spark_c::1", "spark_a::1", "helper::1"],
        # No JVM while another worker has four; three nodes and once more the same, others, then one node.
        ["three_nodes::2", "three_nodes::1", "leaders::1", "secured::2", "node_b::1"],
        # No JVM; then one node.
        ["broker_a::1", "broker_a::2", "broker_c::1", "broker_e::1", "node_a::1"],
        ["broker_b::1", "broker_d::1", "secured::1", "refusals::1"],
    ]


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
            _fixtureinfo=SimpleNamespace(name2fixturedefs={}),
        )

    return make


def test_a_worker_writes_down_what_each_test_needs(item: ItemFactory, tmp_path: Path) -> None:
    needs = [
        (item("tests/test_a.py::test_1", "kafka3"), (Kind.THREE_NODES, ["kafka3"], 3)),
        (item("tests/test_a.py::test_2", "spark", "kafka"), (Kind.SPARK, ["kafka", "spark"], 2)),
        (item("tests/test_a.py::test_3"), (Kind.NO_JVM, [], 0)),
        (item("tests/test_a.py::test_4", "spark"), (Kind.SPARK_ALONE, ["spark"], 1)),
        (item("tests/test_a.py::test_5", "spark", "kafka3"), (Kind.MANY, ["kafka3", "spark"], 4)),
        (item("tests/test_b.py::test_1[kafka]", "cluster", kind="kafka"), (Kind.THREE_NODES, ["cluster"], 3)),
        (item("tests/test_b.py::test_1[embedded]", "cluster", kind="embedded"), (Kind.NO_JVM, [], 0)),
        (item("tests/test_c.py::test_1", "spark", jvms=2), (Kind.OWN, ["spark"], 3)),
        (item("tests/test_d.py::test_1", "secured"), (Kind.ONE_NODE, ["secured"], 1)),
    ]
    written = tmp_path / "needs.json"
    config = SimpleNamespace(workerinput={NEEDS_OF_TESTS: str(written)})
    pytest_collection_finish(cast(Any, SimpleNamespace(items=[test for test, _ in needs], config=config)))
    assert json.loads(written.read_text()) == {test.nodeid: list(need) for test, need in needs}


@pytest.mark.parametrize("cluster", ["secured", "secured3", "kafka3"])
def test_a_topic_of_another_cluster_needs_no_permit_for_kafka(item: ItemFactory, cluster: str) -> None:
    assert set(shared(item("tests/test_a.py::test_1", "topic", cluster))) == {cluster}


def test_a_topic_alone_needs_a_permit_for_kafka(item: ItemFactory) -> None:
    assert set(shared(item("tests/test_a.py::test_1", "topic"))) == {"kafka"}


def test_a_permit_stays_for_the_next_test_though_nobody_started_its_cluster(item: ItemFactory, tmp_path: Path) -> None:
    permits = Permits(tmp_path)
    jvms = Jvms(permits)
    first, second = item("tests/test_a.py::test_1", "topic"), item("tests/test_a.py::test_2", "topic")
    jvms.admit(first)
    jvms.leave(first, second)
    assert permits.held == 1
    jvms.admit(second)
    jvms.leave(second, item("tests/test_b.py::test_1", "topic"))
    assert permits.held == 0
