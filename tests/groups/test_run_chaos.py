"""`run` under chaos: members stall, raise, are woken up, cancelled and killed while they come and go.

The properties that must hold, whatever happens: every record is handled; the records of a key are handled for the first
time in order, and never two of them at once in one member; no offset is committed before all records ahead of it were
handled. Without a kill, a cancellation or a failure that ends a run, nothing is handled twice.
"""

import contextlib
import itertools
import json
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import monedula
import pytest

from tests.groups.ground import PATIENCE_SECONDS, Ground, committed
from tests.groups.running import Runner

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 4


@dataclass(frozen=True)
class Configuration:
    """What a seed decides."""

    seed: int
    face: str
    protocol: str
    order: str
    concurrency: int
    batch_size: int | None
    queued: int
    raises: float
    stalls: float
    ends: str

    @classmethod
    def of(cls, seed: int) -> "Configuration":
        """The configuration of a seed."""
        chance = random.Random(seed)
        return cls(
            seed=seed,
            face=chance.choice(["sync", "async"]),
            protocol=chance.choice(["classic", "consumer"]),
            order=chance.choice(["key", "key", "partition"]),
            concurrency=chance.choice([1, 4, 16]),
            batch_size=chance.choice([None, None, 5]),
            queued=chance.choice([20, 200, 10_000]),
            raises=chance.choice([0.0, 0.02]),
            stalls=chance.choice([0.0, 0.02]),
            ends=("orderly", "cancelled", "failing", "killed")[seed % 4],
        )

    @property
    def is_orderly(self) -> bool:
        """Whether every member finishes what it began."""
        return self.ends == "orderly"


class History:
    """All calls of handlers, of all members."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int, bytes, int, int]] = []
        self._lock = threading.Lock()

    def add(self, member: int, partition: int, offset: int, key: bytes, begun: int, ended: int) -> None:
        with self._lock:
            self.calls.append((member, partition, offset, key, begun, ended))

    def handled(self) -> dict[int, set[int]]:
        """The offsets of each partition that were handled so far."""
        with self._lock:
            calls = list(self.calls)
        offsets: dict[int, set[int]] = defaultdict(set)
        for _, partition, offset, *_ in calls:
            offsets[partition].add(offset)
        return offsets


class Worker:
    """The handler of a member, with the troubles of a configuration."""

    def __init__(self, history: History, number: int, made: Configuration) -> None:
        self._history = history
        self._number = number
        self._made = made
        self._chance = random.Random(made.seed * 1000 + number)
        self._failed: set[tuple[int, int]] = set()
        self.fails_at: int | None = None
        self.count = 0

    def __call__(self, given: Any) -> None:
        records = given if isinstance(given, list) else [given]
        begun = time.monotonic_ns()
        first = (records[0].partition, records[0].offset)
        draw = self._chance.random()
        if draw < self._made.stalls:
            time.sleep(0.05)
        elif draw < self._made.stalls + self._made.raises and first not in self._failed:
            self._failed.add(first)
            raise TimeoutError("tried again")
        self.count += 1
        if self.fails_at is not None and self.count >= self.fails_at:
            raise LookupError("for good")
        time.sleep(0.0005)
        ended = time.monotonic_ns()
        for record in records:
            self._history.add(self._number, record.partition, record.offset, record.key, begun, ended)


class Scene:
    """A group of members that come and go, until everything is handled."""

    def __init__(self, ground: Ground, made: Configuration, records: int) -> None:
        self.ground = ground
        self.made = made
        self.records = records
        self.topic, self.group = ground.topic(PARTITIONS), ground.name("chaos")
        self.history = History()
        self.settings = ground.settings(
            self.group, group_protocol=made.protocol, auto_commit_interval_ms=20, session_timeout_ms=6000
        )
        if made.protocol == "consumer":
            del self.settings["heartbeat.interval.ms"]
        self._numbers = 0
        self._chance = random.Random(made.seed)
        with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
            for partition in range(PARTITIONS):
                for number in range(records):
                    producer.send(self.topic, str(number), key=f"key {number % 11}", partition=partition)

    def member(self, fails_at: int | None = None, **more: Any) -> Runner:
        """Start a member."""
        made, self._numbers = self.made, self._numbers + 1
        worker = Worker(self.history, self._numbers, made)
        worker.fails_at = fails_at
        retries = monedula.Retry(5, backoff=0.005, on=TimeoutError)
        return Runner(
            made.face if not more.pop("cancellable", False) else "async",
            self.settings,
            self.topic,
            worker,
            concurrency=made.concurrency,
            order=made.order,
            batch_size=made.batch_size,
            max_queued_records=made.queued,
            retries=retries,
            **more,
        )

    @contextlib.contextmanager
    def process(self) -> Iterator["subprocess.Popen[str]"]:
        """A member in a process of its own, whose calls become part of the history, too."""
        self._numbers += 1
        number = self._numbers
        arguments = json.dumps({"settings": self.settings, "topic": self.topic, "made": vars(self.made)})
        command = [sys.executable, "-m", "tests.groups.test_run_chaos", arguments]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            reader = threading.Thread(target=self._listen, args=(process, number))
            reader.start()
            try:
                yield process
            finally:
                process.kill()
                reader.join(PATIENCE_SECONDS)

    def _listen(self, process: "subprocess.Popen[str]", number: int) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # the last one may be cut off by the kill
                partition, offset, key, begun, ended = line.split("|")
                self.history.add(number, int(partition), int(offset), key.encode(), int(begun), int(ended))

    def wait_for(self, count: int) -> None:
        """Wait until so many calls more were made."""
        until = len(self.history.calls) + count
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.history.calls) < until and not self.is_done():
            assert time.monotonic() < deadline, f"{len(self.history.calls)} calls of {until}: {self.made}"
            time.sleep(0.005)

    def is_done(self) -> bool:
        """Whether every record was handled."""
        return sum(map(len, self.history.handled().values())) == PARTITIONS * self.records

    def play(self) -> None:
        """Let members come and go; the last one handles what is left."""
        made = self.made
        standing = [self.member()]
        self.wait_for(50)
        for _ in range(3):
            standing.append(self.member())
            self.wait_for(60)
            match made.ends:
                case "cancelled":
                    doomed = self.member(cancellable=True)
                    self.wait_for(60)
                    doomed.cancel()
                    with contextlib.suppress(BaseException):
                        doomed.join()
                case "failing":
                    doomed = self.member(fails_at=self._chance.randrange(20, 60))
                    self.wait_for(60)
                    doomed.wakeup()
                    with contextlib.suppress(LookupError):
                        doomed.join()
                case "killed":
                    with self.process() as process:
                        self.wait_for(100)
                        process.kill()
            leaving = standing.pop(self._chance.randrange(len(standing)))
            leaving.wakeup()
            leaving.join()
            self.wait_for(30)
        for runner in standing:
            runner.wakeup()
            runner.join()
        self.member(until="latest").join()


@contextlib.contextmanager
def watched(scene: Scene, problems: list[str]) -> Iterator[None]:
    """Compares committed offsets with what was handled, all the time."""
    stopped = threading.Event()

    def watch() -> None:
        with monedula.Consumer({"bootstrap.servers": scene.ground.bootstrap, "group.id": scene.group}) as watching:
            while not stopped.wait(0.01):
                offsets = committed(watching, scene.topic, range(PARTITIONS))
                # What a member in another process has handled may still be in its pipe.
                deadline = time.monotonic() + (5 if scene.made.ends == "killed" else 0)
                for partition, offset in enumerate(offsets):
                    while missing := set(range(offset or 0)) - scene.history.handled()[partition]:
                        if time.monotonic() > deadline:
                            break
                        time.sleep(0.01)
                    if missing:
                        problems.append(f"committed {offset} of {partition}, and {sorted(missing)[:5]} are not handled")

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(PATIENCE_SECONDS)


def check(scene: Scene) -> list[str]:
    """What must not be, in the history of a scene."""
    problems = []
    made, calls = scene.made, sorted(scene.history.calls, key=lambda call: call[5])
    everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(scene.records)}
    missing = everything - {(call[1], call[2]) for call in calls}
    if missing:
        problems.append(f"not handled: {sorted(missing)[:10]}")
    highest: dict[tuple[int, bytes | None], int] = {}
    seen: set[tuple[int, int]] = set()
    by_member: dict[tuple[int, int, bytes | None], set[tuple[int, int]]] = defaultdict(set)
    for member, partition, offset, key, begun, ended in calls:
        lane = (partition, key if made.order == "key" else None)
        if (partition, offset) not in seen and offset < highest.get(lane, -1):
            problems.append(f"{lane}: offset {offset} for the first time after {highest[lane]}")
        highest[lane] = max(highest.get(lane, -1), offset)
        by_member[(member, *lane)].add((begun, ended))  # the records of one list have the same times
        if made.is_orderly and (partition, offset) in seen:
            problems.append(f"{partition}: offset {offset} was handled twice")
        seen.add((partition, offset))
    for where, spans in by_member.items():
        for before, after in itertools.pairwise(sorted(spans)):
            if after[0] < before[1]:
                problems.append(f"{where}: two calls at once: {before}, {after}")
    return problems


def play(ground: Ground, seed: int, records: int) -> None:
    """Play the scene of a seed, and check it."""
    made = Configuration.of(seed)
    scene = Scene(ground, made, records)
    problems: list[str] = []
    with watched(scene, problems):
        scene.play()
    problems += check(scene)
    assert problems == [], made
    with monedula.Consumer({"bootstrap.servers": ground.bootstrap, "group.id": scene.group}) as watching:
        assert committed(watching, scene.topic, range(PARTITIONS)) == [records] * PARTITIONS, made


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_and_keys_keep_their_order(ground: Ground, seed: int) -> None:
    play(ground, seed, records=250)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 60))
def test_nothing_is_lost_under_more_seeds(ground: Ground, seed: int) -> None:
    play(ground, seed, records=400)


def serve(arguments: str) -> None:
    """A member in a process of its own: prints its calls."""
    given = json.loads(arguments)
    made = Configuration(**given["made"])

    class Printed(History):
        def add(self, member: int, partition: int, offset: int, key: bytes, begun: int, ended: int) -> None:
            del member
            sys.stdout.write(f"{partition}|{offset}|{key.decode()}|{begun}|{ended}\n")
            sys.stdout.flush()

    with monedula.Consumer(given["settings"], topics=given["topic"]) as consumer:
        consumer.run(
            Worker(Printed(), 0, made),
            concurrency=made.concurrency,
            order=made.order,  # type: ignore[arg-type]
            batch_size=made.batch_size,
            max_queued_records=made.queued,
            retries=monedula.Retry(5, backoff=0.005, on=TimeoutError),
        )


if __name__ == "__main__":
    serve(sys.argv[1])
