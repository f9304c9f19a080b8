"""Permits: never more than five JVMs of all sessions, and no session waits for ever."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.conftest import TopicFactory
from tests.jvms import FIXTURES, Jvms
from tests.kafka import KafkaCluster
from tests.kafka.permits import MOST, Permits

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0

_OWN: dict[Path, Permits] = {}


def hold(path: Path, wanted: int, timeout_seconds: float = 0.0) -> int:
    """How many permits this process then holds."""
    permits = _OWN.setdefault(path, Permits(path))
    permits.hold(wanted, timeout_seconds)
    return permits.held


class Process(ProcessPoolExecutor):
    """Another process with permits."""

    def __init__(self, path: Path) -> None:
        super().__init__(1, get_context("spawn"))
        self._path = path

    def asks(self, wanted: int, timeout_seconds: float = 0.0) -> Future[int]:
        return self.submit(hold, self._path, wanted, timeout_seconds)

    def holds(self, wanted: int) -> int:
        return self.asks(wanted).result(PATIENCE_SECONDS)


@pytest.fixture
def another(tmp_path: Path) -> Iterator[Callable[[], Process]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Process(tmp_path / "permits"))


@pytest.fixture
def permits(tmp_path: Path) -> Permits:
    return Permits(tmp_path / "permits")


def test_there_are_five(permits: Permits, another: Callable[[], Process]) -> None:
    other = another()
    assert permits.hold(3)
    assert [other.holds(3), other.holds(2)] == [0, 2]
    assert not permits.hold(4)
    assert permits.held == 3
    assert other.holds(1) == 1
    assert permits.hold(4)


def test_who_waits_holds_none(permits: Permits, another: Callable[[], Process]) -> None:
    assert another().holds(3) == 3
    assert permits.hold(1)
    with pytest.raises(ValueError, match="1 permits are held"):
        permits.hold(3, PATIENCE_SECONDS)
    assert permits.hold(0)
    assert not permits.hold(3, 0.01)
    assert permits.held == 0
    assert permits.hold(2)


def test_who_waits_is_served_before_who_comes_later_and_wants_less(
    permits: Permits, another: Callable[[], Process]
) -> None:
    assert permits.hold(4)
    assert not permits.are_awaited()
    big = another().asks(5, PATIENCE_SECONDS)
    while not permits.are_awaited():
        time.sleep(0.02)
    assert another().holds(1) == 0
    assert permits.hold(0)
    assert big.result(PATIENCE_SECONDS) == 5
    assert not permits.are_awaited()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_permits_come_back_however_their_process_ends(
    permits: Permits, another: Callable[[], Process], how: signal.Signals
) -> None:
    other = another()
    assert other.holds(5) == 5
    os.kill(other.submit(os.getpid).result(PATIENCE_SECONDS), how)
    assert permits.hold(5, PATIENCE_SECONDS)


def test_a_forked_child_keeps_none(permits: Permits, another: Callable[[], Process]) -> None:
    assert permits.hold(5)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        assert permits.hold(0)
        assert another().holds(5) == 5
    finally:
        os.close(write)
        os.close(read)
        os.waitpid(child, 0)


def test_many_processes_never_hold_more_and_never_wait_for_ever(another: Callable[[], Process]) -> None:
    """Whoever is to wait gives back what it has before, as sessions do."""
    draw = random.Random(7)
    processes = [another() for _ in range(4)]
    held = [0] * 4
    for _ in range(60):
        number, wanted = draw.randrange(4), draw.randint(0, MOST)
        free = MOST - sum(held) + held[number]
        held[number] = wanted if wanted <= free else held[number]
        assert processes[number].holds(wanted) == held[number]
    assert [each.holds(0) for each in processes] == [0] * 4
    # All want more than there is; each gives back when it has been served.
    served = [(each.asks(4, PATIENCE_SECONDS), each.asks(0)) for each in processes]
    assert [(all_of.result(PATIENCE_SECONDS), none.result(PATIENCE_SECONDS)) for all_of, none in served] == [(4, 0)] * 4


# Fixtures by our names that only wait, and tests of them. The log has a line when JVMs start, and when they end.
PLUGIN = """
import contextlib, os, pathlib, pytest, tests.jvms

def pytest_configure(config):
    tests.jvms.KEEP_SECONDS = {keep_seconds}
    config.addinivalue_line("markers", "jvms(count): JVMs of a test")
    config.pluginmanager.register(tests.jvms.Jvms())

@contextlib.contextmanager
def jvms(name, count):
    with pathlib.Path(__file__).with_name("log").open("a", buffering=1) as log:
        log.write(f"{{name}} {{count}}\\n")
        yield name
        log.write(f"{{name}} {{-count}}\\n")

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
@pytest.mark.timeout(20)
def test_one(kafka, turn): assert kafka == "kafka"

def test_made_of(made_of, spark): assert (made_of, spark) == ("kafka", "spark")

def test_three(kafka3): assert kafka3 == "kafka3"

@pytest.mark.jvms(2)
def test_own(kafka, spark):
    with jvms("own", 2): pass

@pytest.mark.jvms(1)
def test_at_the_limit(kafka3):
    with jvms("own", 1): pass

def test_none(): pass
"""


def session(folder: Path, keep_seconds: float, *options: str) -> subprocess.Popen[str]:
    """Begin to run the tests of a folder, in two workers."""
    (folder / "conftest.py").write_text(PLUGIN.format(keep_seconds=keep_seconds))
    (folder / "pytest.ini").write_text("[pytest]\n")
    config = [f"--rootdir={folder}", f"--config-file={folder / 'pytest.ini'}", "-p", "no:cacheprovider"]
    variables = {"MONEDULA_JVM_PERMITS": str(folder / "permits"), "MONEDULA_TEST_WORKERS": "2"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests", "-q", *config, *options, str(folder)],
        cwd=ROOT,
        env={**os.environ, **variables},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.parametrize("keep_seconds", [0, 3600])
def test_sessions_side_by_side_have_five_at_most(tmp_path: Path, keep_seconds: float) -> None:
    """With every set of fixtures in every file."""
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(FILE)
    sessions = [session(tmp_path, keep_seconds) for _ in range(2)]
    for each in sessions:
        said, _ = each.communicate(timeout=100)
        assert each.returncode == 0, said
        assert "32 passed" in said
    counts = [int(line.rpartition(" ")[2]) for line in (tmp_path / "log").read_text().splitlines()]
    assert sum(counts) == 0
    # Not one after the other where there is room for two.
    assert 4 <= max(accumulate(counts)) <= MOST


def test_a_cluster_of_many_files_is_started_once(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(FILE)
    said, _ = session(tmp_path, 3600, "-k", "three or made_of or none").communicate(timeout=100)
    assert "12 passed" in said
    started = Counter((tmp_path / "log").read_text().splitlines())
    assert started == {"kafka3 3": 1, "kafka3 -3": 1, "kafka 1": 1, "kafka -1": 1, "spark 1": 1, "spark -1": 1} | {
        "made of kafka 0": 8
    }


def test_a_kafka_without_a_permit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_late.py").write_text('def test_late(request): request.getfixturevalue("kafka")')
    said, _ = session(tmp_path, 0).communicate(timeout=60)
    assert "it starts a `kafka` without a permit" in said


def test_the_jvms_of_a_cluster_are_counted(
    kafka: KafkaCluster, topic: TopicFactory, request: pytest.FixtureRequest
) -> None:
    topic()
    alive = {kafka.helper.pid, *(node.pid for node in kafka.nodes.values())}
    assert len(alive) <= FIXTURES["kafka"]
    jvms: Jvms = request.config.pluginmanager.getplugin("monedula-jvms")
    assert jvms.permits.held >= len(alive)
