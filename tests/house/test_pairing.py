"""Side by side run files whose JVMs fit together, as long as there are such."""

import json
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast

import pytest

from tests.jvms import shared
from tests.pairing import KINDS_OF_FILES, TURNS, Kind, Paired, pytest_collection_finish

FILES = {
    "three_nodes": Kind.THREE_NODES,
    "broker_a": Kind.NO_JVM,
    "spark_a": Kind.SPARK,
    "node_a": Kind.ONE_NODE,
    "helper": Kind.OWN,
    "spark_b": Kind.SPARK,
    "broker_b": Kind.NO_JVM,
    "node_b": Kind.ONE_NODE,
    "broker_c": Kind.NO_JVM,
    "broker_d": Kind.NO_JVM,
}


class Worker:
    def __init__(self) -> None:
        self.files: list[str] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.files += [list(FILES)[index] for index in indexes]


def test_files_whose_jvms_fit_together_run_side_by_side() -> None:
    workers = [Worker() for _ in range(len(TURNS) + 1)]
    scheduler: Any = object.__new__(Paired)
    scheduler._kinds = {file: kind.value for file, kind in FILES.items()}
    scheduler.workqueue = OrderedDict((file, {file: False}) for file in FILES)
    scheduler.assigned_work = {worker: {} for worker in workers}
    scheduler.registered_collections = {worker: list(FILES) for worker in workers}
    while scheduler.workqueue:
        for worker in workers[: len(scheduler.workqueue)]:
            scheduler._assign_work_unit(worker)
    assert [worker.files for worker in workers] == [
        ["spark_a", "spark_b", "helper"],  # Spark, then what starts JVMs itself
        ["three_nodes", "node_a", "node_b"],  # three nodes, then one node
        ["broker_a", "broker_c"],  # no JVM
        ["broker_b", "broker_d"],
    ]


class ItemFactory(Protocol):
    """Makes a test that asks for these fixtures."""

    def __call__(self, name: str, *fixtures: str, jvms: int = 0, **params: str) -> Any:
        """Make one."""


@pytest.fixture
def item(request: pytest.FixtureRequest) -> ItemFactory:
    def make(name: str, *fixtures: str, jvms: int = 0, **params: str) -> Any:
        marks = [pytest.mark.jvms(jvms).mark] if jvms else []
        return SimpleNamespace(
            nodeid=name,
            config=request.config,
            fixturenames=fixtures,
            callspec=SimpleNamespace(params=params),
            iter_markers=lambda _name: marks,
            _fixtureinfo=SimpleNamespace(name2fixturedefs={}),
        )

    return make


def test_a_file_is_of_the_kind_of_the_test_that_needs_most(item: ItemFactory, tmp_path: Path) -> None:
    items = [
        item("tests/test_a.py::test_1", "kafka3"),
        item("tests/test_a.py::test_2", "spark", "kafka"),
        item("tests/test_a.py::test_3"),
        item("tests/test_b.py::test_1[kafka]", "cluster", kind="kafka"),
        item("tests/test_b.py::test_1[embedded]", "cluster", kind="embedded"),
        item("tests/test_c.py::test_1", "spark", jvms=2),
        item("tests/test_d.py::test_1[embedded]", "cluster", kind="embedded"),
        item("tests/test_e.py::test_1", "secured"),
        item("tests/test_e.py::test_2"),
    ]
    written = tmp_path / "kinds.json"
    config = SimpleNamespace(workerinput={KINDS_OF_FILES: str(written)})
    pytest_collection_finish(cast(Any, SimpleNamespace(items=items, config=config)))
    assert json.loads(written.read_text()) == {
        "tests/test_a.py": Kind.SPARK,
        "tests/test_b.py": Kind.THREE_NODES,
        "tests/test_c.py": Kind.OWN,
        "tests/test_d.py": Kind.NO_JVM,
        "tests/test_e.py": Kind.ONE_NODE,
    }


@pytest.mark.parametrize("cluster", ["secured", "secured3", "kafka3"])
def test_a_topic_of_another_cluster_needs_no_permit_for_kafka(item: ItemFactory, cluster: str) -> None:
    assert set(shared(item("tests/test_a.py::test_1", "topic", cluster))) == {cluster}


def test_a_topic_alone_needs_a_permit_for_kafka(item: ItemFactory) -> None:
    assert set(shared(item("tests/test_a.py::test_1", "topic"))) == {"kafka"}
