"""Tests of one kind of JVMs run in one worker, and a cluster is alive only while its tests run."""

import os
import random
import subprocess
import sys
from collections import Counter
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from tests.jvms import Jvms, Unit, clusters

ROOT = Path(__file__).resolve().parents[2]


class ItemFactory(Protocol):
    """Makes a test that asks for these fixtures."""

    def __call__(self, name: str, *fixtures: str, is_marked: bool = False, **params: str) -> Any:
        """Make one."""


@pytest.fixture
def item() -> ItemFactory:
    def make(name: str, *fixtures: str, is_marked: bool = False, **params: str) -> Any:
        return SimpleNamespace(
            nodeid=name,
            config=SimpleNamespace(getoption=lambda *_: None),  # whatever this run itself is on
            fixturenames=fixtures,
            callspec=SimpleNamespace(params=params),
            iter_markers=lambda _name: [pytest.mark.jvm] * is_marked,
        )

    return make


def test_units_begin_by_their_jvms_and_then_by_their_tests(item: ItemFactory) -> None:
    in_order = [
        ("Spark with a Kafka", item("c.py::1", "spark", "kafka")),
        ("Spark with a Kafka", item("a.py::1", "spark", "topic")),
        ("a Kafka of three nodes", item("b.py::1[kafka]", "cluster", kind="kafka")),
        ("a Kafka of three nodes", item("a.py::3", "kafka3")),
        ("a Kafka", item("d.py::3", "topic")),
        # Tests of one cluster come after one another.
        ("another Kafka, or Spark", item("a.py::7", is_marked=True)),
        ("another Kafka, or Spark", item("d.py::4", "kafka", is_marked=True)),
        ("another Kafka, or Spark", item("d.py::1", "protected", kind="kafka")),
        ("another Kafka, or Spark", item("a.py::5", "spark")),
        ("b.py", item("b.py::1[embedded]", "cluster", kind="embedded")),
        ("b.py", item("b.py::2")),
        ("a.py", item("a.py::4")),
    ]
    tests = [test for _, test in in_order]
    shuffled = random.Random(7).sample(tests, len(tests))
    Jvms().pytest_collection_modifyitems(shuffled)
    assert [Unit.of(test).name for test in shuffled] == [unit for unit, _ in in_order]
    assert [test.nodeid for test in shuffled[5:9]] == ["a.py::7", "d.py::4", "d.py::1", "a.py::5"]


@pytest.mark.parametrize("cluster", ["secured", "secured3", "kafka3"])
def test_a_topic_of_another_cluster_needs_no_kafka(item: ItemFactory, cluster: str) -> None:
    assert clusters(item("a.py::1", "topic", cluster)) == {cluster}
    assert clusters(item("a.py::1", "topic")) == {"kafka"}


# Fixtures by our names that only wait, and tests of them. The log has a line when JVMs start, and when they end.
PLUGIN = """
import contextlib, pathlib, pytest, tests.jvms

def pytest_configure(config):
    config.addinivalue_line("markers", "jvm: starts one")
    config.pluginmanager.register(tests.jvms.Jvms())

@contextlib.contextmanager
def jvms(name, count):
    with pathlib.Path(__file__).with_name("log").open("a", buffering=1) as log:
        log.write(f"{name} {count}\\n")
        yield name
        log.write(f"{name} {-count}\\n")

def fixture(name, count):
    def make():
        with jvms(name, count) as made: yield made
    return pytest.fixture(make, scope="session", name=name)

kafka, kafka3, spark = fixture("kafka", 1), fixture("kafka3", 3), fixture("spark", 1)
"""
FILE = """
import pytest
from conftest import jvms

@pytest.fixture(scope="module")
def made_of(kafka):
    with jvms("made of kafka", 0): yield kafka

@pytest.mark.parametrize("turn", range(3))
def test_one(kafka, turn): assert kafka == "kafka"

def test_made_of(made_of, spark): assert (made_of, spark) == ("kafka", "spark")

def test_three(kafka3): assert kafka3 == "kafka3"

@pytest.mark.jvm
def test_own():
    with jvms("own", 1): pass

def test_none(): pass
"""


def run(folder: Path, workers: int) -> str:
    """Run the tests of a folder."""
    (folder / "conftest.py").write_text(PLUGIN)
    (folder / "pytest.ini").write_text("[pytest]\n")
    config = [f"--rootdir={folder}", f"--config-file={folder / 'pytest.ini'}", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "tests", "-q", *config, str(folder)]
    environment = {**os.environ, "MONEDULA_TEST_WORKERS": str(workers)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False
    ).stdout


@pytest.mark.parametrize("workers", [1, 4])
def test_a_cluster_of_many_files_is_started_once_in_a_unit(tmp_path: Path, workers: int) -> None:
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(FILE)
    assert "28 passed" in run(tmp_path, workers)
    lines = (tmp_path / "log").read_text().splitlines()
    started = Counter(line for line in lines if "-" not in line)
    # One worker keeps the `kafka` of Spark's tests for nobody: tests on three nodes come between.
    assert started == {"kafka 1": 2, "kafka3 3": 1, "spark 1": 1, "own 1": 4, "made of kafka 0": 8}
    alive = list(accumulate(int(line.rpartition(" ")[2]) for line in lines))
    assert alive[-1] == 0
    assert max(alive) <= (3 if workers == 1 else 2 + 3 + 1 + 1)


def test_an_unforeseen_kafka_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_late.py").write_text('def test_late(request): request.getfixturevalue("kafka")')
    assert "it starts a `kafka` among tests that need none" in run(tmp_path, 1)
