"""Permits: never more than five JVMs of all sessions, and no session waits for ever."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import TopicFactory
from tests.jvms import FIXTURES
from tests.kafka import KafkaCluster
from tests.kafka.permits import MOST, NoPermit, Permits

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0

# Holds what a line asks for: `3` waits, `?3` does not. Answers how many it holds then.
HOLDER = """
import sys
from pathlib import Path
from tests.kafka.permits import Permits
permits = Permits(Path(sys.argv[1]))
for line in sys.stdin:
    if line.startswith("?"):
        permits.try_hold(int(line[1:]))
    else:
        permits.hold(int(line))
    print(permits.held, flush=True)
"""


class Holder:
    """Another process with permits."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-c", HOLDER, str(directory)]
        self.process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def holds(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def another(tmp_path: Path) -> Iterator[Callable[[], Holder]]:
    with ExitStack() as stack:

        def start() -> Holder:
            holder = Holder(tmp_path)
            stack.callback(holder.end)
            return holder

        yield start


@pytest.fixture
def permits(tmp_path: Path) -> Permits:
    return Permits(tmp_path)


def test_there_are_five(permits: Permits, another: Callable[[], Holder]) -> None:
    other = another()
    assert permits.try_hold(3)
    assert not Permits(permits._directory).try_hold(3)
    other.ask("?2")
    assert other.holds() == 2
    assert not permits.try_hold(4)
    assert permits.held == 3
    assert sorted(permits.holders()) == sorted([os.getpid()] * 3 + [other.process.pid] * 2)
    other.ask("?1")
    assert other.holds() == 1
    assert permits.try_hold(4)
    with pytest.raises(ValueError, match="6 are wanted"):
        permits.hold(6)


def test_who_waits_holds_none(permits: Permits, another: Callable[[], Holder]) -> None:
    other = another()
    other.ask("3")
    assert other.holds() == 3
    permits.hold(1)
    with pytest.raises(ValueError, match="1 permits are held"):
        permits.hold(3)


def test_the_wait_ends_with_words(permits: Permits, another: Callable[[], Holder]) -> None:
    other = another()
    other.ask("3")
    assert other.holds() == 3
    with pytest.raises(NoPermit, match=rf"3 permits .* {other.process.pid}"):
        permits.hold(3, timeout_seconds=0)
    assert permits.held == 0
    assert permits.try_hold(2)


def test_who_waits_is_served_before_who_comes_later_and_wants_less(
    permits: Permits, another: Callable[[], Holder]
) -> None:
    assert permits.try_hold(4)
    assert not permits.is_awaited()
    big = another()
    big.ask("5")
    awaited = threading.Event()
    while not permits.is_awaited():
        assert not awaited.wait(0.02)
    small = another()
    small.ask("?1")
    assert small.holds() == 0
    permits.try_hold(0)
    assert big.holds() == 5
    assert not permits.is_awaited()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_permits_come_back_however_their_process_ends(
    permits: Permits, another: Callable[[], Holder], how: signal.Signals
) -> None:
    other = another()
    other.ask("5")
    assert other.holds() == 5
    os.kill(other.process.pid, how)
    permits.hold(5, PATIENCE_SECONDS)
    assert permits.holders() == [os.getpid()] * 5


def test_a_forked_child_keeps_none(permits: Permits) -> None:
    permits.hold(5)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        permits.try_hold(0)
        assert Permits(permits._directory).try_hold(5)
    finally:
        os.close(write)
        os.close(read)
        os.waitpid(child, 0)


def test_many_processes_never_hold_more_and_never_wait_for_ever(another: Callable[[], Holder]) -> None:
    """Whoever is to wait gives back what it has before, as sessions do."""
    draw = random.Random(7)
    holders = [another() for _ in range(4)]
    held = dict.fromkeys(range(4), 0)
    for _ in range(60):
        number = draw.randrange(4)
        wanted = draw.randint(0, MOST)
        holders[number].ask(f"?{wanted}")
        got = holders[number].holds()
        free = MOST - sum(each for other, each in held.items() if other != number)
        assert got == (wanted if wanted <= free else held[number])
        held[number] = got
        assert sum(held.values()) <= MOST
    for holder in holders:
        holder.ask("0")
    for holder in holders:
        holder.holds()
    # All want more than there is; each gives back when it has been served.
    for holder in holders:
        holder.ask("4")
        holder.ask("0")
    for holder in holders:
        assert [holder.holds(), holder.holds()] == [4, 0]


# A file of tests whose fixtures are named as ours, and are processes that only wait; each tells how many there are.
FILE = """
import contextlib, fcntl, os, random, subprocess, sys, time
from pathlib import Path
import pytest

LOG = Path(os.environ["JVMS_LOG"])

def change(by):
    with LOG.open("r+") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        alive = int(log.readlines()[-1]) + by
        log.seek(0, 2)
        log.write(f"{alive}\\n")

@contextlib.contextmanager
def jvms(count):
    change(count)
    yield
    change(-count)

@pytest.fixture(scope="session")
def kafka():
    with jvms(1): yield "kafka"

@pytest.fixture(scope="session")
def kafka3():
    with jvms(3): yield "kafka3"

@pytest.fixture(scope="session")
def spark():
    with jvms(1): yield "spark"

@pytest.fixture(scope="module")
def made_of(kafka):
    with jvms(0): yield kafka

@pytest.mark.parametrize("turn", range(3))
@pytest.mark.timeout(20)
def test_one(kafka, turn): assert kafka == "kafka"

def test_made_of(made_of, spark): assert (made_of, spark) == ("kafka", "spark")

def test_three(kafka3): assert kafka3 == "kafka3"

@pytest.mark.jvms(2)
def test_own(kafka, spark):
    with jvms(2): pass

@pytest.mark.jvms(1)
def test_at_the_limit(kafka3):
    with jvms(1): pass

def test_none(): pass
"""
PLUGIN = """
import os
import tests.jvms
from tests.jvms import Jvms

def pytest_configure(config):
    tests.jvms.KEEP_SECONDS = float(os.environ["JVMS_KEEP_SECONDS"])
    config.addinivalue_line("markers", "jvms(count): JVMs of a test")
    config.pluginmanager.register(Jvms())
"""


@pytest.mark.parametrize("keep_seconds", ["0", "3600"])
def test_sessions_side_by_side_have_five_at_most(tmp_path: Path, keep_seconds: str) -> None:
    """Two sessions of two workers each, with every set of fixtures in every file."""
    (tmp_path / "conftest.py").write_text(PLUGIN)
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(FILE)
    log = tmp_path / "alive"
    log.write_text("0\n")
    environment = {
        **os.environ,
        "JVMS_LOG": str(log),
        "JVMS_KEEP_SECONDS": keep_seconds,
        "MONEDULA_JVM_PERMITS": str(tmp_path / "permits"),
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
    sessions = [
        subprocess.Popen(
            [*command, "--rootdir", str(tmp_path), str(tmp_path)],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for _ in range(2)
    ]
    for session in sessions:
        said, _ = session.communicate(timeout=100)
        assert session.returncode == 0, said
        assert "32 passed" in said
    alive = [int(line) for line in log.read_text().split()]
    assert alive[-1] == 0
    assert max(alive) <= MOST
    # Not one after the other where there is room for two.
    assert max(alive) >= 4


UNFORESEEN = """
import pytest

@pytest.fixture(scope="session")
def kafka(): return "kafka"

def test_that_asks_late(request): request.getfixturevalue("kafka")
"""


def test_a_kafka_without_a_permit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(PLUGIN)
    (tmp_path / "test_late.py").write_text(UNFORESEEN)
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "JVMS_KEEP_SECONDS": "0", "MONEDULA_JVM_PERMITS": str(tmp_path), "PYTHONPATH": paths}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stdout
    assert "it starts a `kafka` without a permit" in done.stdout


def test_the_jvms_of_a_cluster_are_counted(kafka: KafkaCluster, topic: TopicFactory) -> None:
    topic()
    alive = [kafka.helper.pid, *(node.pid for node in kafka.nodes.values())]
    assert len(set(alive)) <= FIXTURES["kafka"]
    assert Permits().holders().count(os.getpid()) >= len(set(alive)), json.dumps(Permits().holders())
