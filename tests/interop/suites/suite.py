"""A suite: what it needs, how it runs, and how its output is read."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from monedula.testing import Broker

from tests.interop.suites import docker, toxics
from tests.interop.suites.expected import LEFT_OUT
from tests.kafka import KafkaUnavailable
from tests.kafka.jars import cache_directory
from tests.kafka.kept import kept

SECONDS = 1500
PLATFORMATIC_VARIABLE = "MONEDULA_PLATFORMATIC_KAFKA"
"""Environment variable: a clone of @platformatic/kafka, whose package has no tests, with its dependencies installed."""

Outcomes = dict[str, str]
"""`passed`, `failed` or `skipped`, by the test's name."""


@dataclass(frozen=True)
class Suite:
    """A suite.

    Attributes:
        prepare: gets and builds it; returns its folder.
        brokers: starts what it expects to be there; gives environment variables.
        commands: the commands that run it, each with the folder within the suite's.
        read: the outcomes in the output of a command.
    """

    prepare: Callable[[], Path]
    brokers: Callable[[], AbstractContextManager[Mapping[str, str]]]
    commands: Callable[[Path], Sequence[tuple[str, Sequence[str]]]]
    read: Callable[[str], Outcomes]
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> Outcomes:
        """Run it against brokers of its own."""
        folder = self.prepare()
        outcomes: Outcomes = {}
        with self.brokers() as variables:
            for inside, command in self.commands(folder):
                ran = subprocess.run(
                    command,
                    cwd=folder / inside,
                    env={**os.environ, **self.environment, **variables},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    timeout=SECONDS,
                )
                log = Path(os.environ.get("MONEDULA_SUITE_LOG", os.devnull))
                with log.open("a") as file:
                    file.write(ran.stdout)
                read = self.read(ran.stdout)
                # A program that crashes reports neither the test in which it did nor those after it.
                if ran.returncode != 0 and "failed" not in read.values():
                    read[f"{' '.join(command)} ended with {ran.returncode}"] = "failed"
                outcomes |= read
        return outcomes


# Go


def go_module(name: str, module: str, version: str, packages: Sequence[str], tags: str = "") -> Callable[[], Path]:
    """Gets a module with its tests, and builds these."""

    def build(folder: Path) -> None:
        if shutil.which("go") is None:
            raise KafkaUnavailable("no `go` in PATH")
        told = _told(["go", "mod", "download", "-json", f"{module}@{version}"], folder)
        shutil.copytree(json.loads(told)["Dir"], folder / "source")
        for path in (folder / "source").rglob("*"):
            path.chmod(path.stat().st_mode | 0o200)
        for package in packages:
            command = ["go", "test", "-mod=mod", f"-tags={tags}", "-c", "-o", "suite.test", "."]
            _told(command, folder / "source" / package)

    return lambda: kept(cache_directory() / f"suite-{name}-{version}", build) / "source"


def _told(command: Sequence[str], folder: Path) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    if ran.returncode != 0:
        raise KafkaUnavailable(f"{' '.join(command)}: {ran.stderr[-2000:]}")
    return ran.stdout


_GO = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
_GO_OUTCOMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def read_go(output: str) -> Outcomes:
    """The outcomes in what `go test -v` prints."""
    return {name: _GO_OUTCOMES[outcome] for outcome, name in _GO.findall(output)}


# Node.js


def platformatic_folder() -> Path:
    """The clone that the environment names."""
    folder = os.environ.get(PLATFORMATIC_VARIABLE)
    if not folder:
        raise KafkaUnavailable(f"{PLATFORMATIC_VARIABLE} names no clone of @platformatic/kafka")
    return Path(folder)


_TAP = re.compile(r"^\s*(not ok|ok) \d+ - (.*?)(?: # (SKIP|TODO).*)?$", re.MULTILINE)


def read_tap(output: str) -> Outcomes:
    """The outcomes in the Test Anything Protocol; a name that occurs several times fails if one of these fails."""
    outcomes: Outcomes = {}
    for outcome, name, directive in _TAP.findall(output):
        told = "skipped" if directive else "passed" if outcome == "ok" else "failed"
        if outcomes.get(name) != "failed":
            outcomes[name] = told
    return outcomes


def _platformatic_commands(folder: Path) -> list[tuple[str, list[str]]]:
    files = sorted(str(path.relative_to(folder)) for path in (folder / "test").rglob("*.test.ts"))
    return [("", ["scripts/node", "--test", "--test-reporter=tap", "--test-concurrency=2", *files])]


# Brokers


@contextmanager
def _of_kafka_go() -> Iterator[Mapping[str, str]]:
    """As its `docker-compose.yml` has it."""
    users = {"adminplain": "admin-secret", "adminscram256": "admin-secret-256", "adminscram512": "admin-secret-512"}
    settings = {"message.max.bytes": 200_000_000}
    super_users = ["User:ANONYMOUS", *users]
    with Broker(
        port=9092,
        listeners=["SASL_PLAINTEXT"],
        users=users,
        super_users=super_users,
        settings=settings,
        # Groups that wait for a topic count on its creation to take a while.
        first_use="kafka",
    ):
        yield {}


@contextmanager
def _of_sarama() -> Iterator[Mapping[str, str]]:
    """Five nodes behind toxiproxy."""
    settings = {"default.replication.factor": 3, "auto.create.topics.enable": False}
    racks = ["1", "2", "3", "4", "5"]
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(5, port=29091, racks=racks, settings=settings))
        url = stack.enter_context(toxics.serving(broker))
        path = docker.install(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        yield {"TOXIPROXY_ADDR": url, "PATH": path}


@contextmanager
def _of_platformatic() -> Iterator[Mapping[str, str]]:
    """As its `docker-compose.yml` has it, but for Kerberos and the proxies that ask for a login to the registry."""
    settings = {"group.consumer.min.heartbeat.interval.ms": 100, "group.consumer.heartbeat.interval.ms": 200}
    secured = Broker(
        port=9002,
        security="SASL_PLAINTEXT",
        users={"admin": "admin"},
        super_users=["admin"],
        max_reauth_ms=5000,
        unsecured_tokens=True,
        settings=settings,
    )
    with (
        secured,
        Broker(port=9001, settings=settings, registry={"port": 8004}),
        # Where the suite creates the user of the one before.
        Broker(port=19002),
        Broker(3, port=9011, settings=settings, super_users=["User:ANONYMOUS"]),
    ):
        yield {"KAFKA_VERSION": "8.1.0"}


def _go_commands(suite: str, *packages: str) -> Callable[[Path], list[tuple[str, list[str]]]]:
    # By levels, as `go test` has it: a pattern of a test, a slash, one of its parts.
    skips = "|".join("/".join(f"^{re.escape(part)}$" for part in name.split("/")) for name in LEFT_OUT[suite])
    command = ["./suite.test", "-test.v", "-test.timeout=20m", f"-test.skip={skips}"]
    return lambda _: [(package, command) for package in packages]


SUITES = {
    "kafka-go": Suite(
        go_module("kafka-go", "github.com/segmentio/kafka-go", "v0.4.51", (".", "sasl", "topics")),
        _of_kafka_go,
        _go_commands("kafka-go", ".", "sasl", "topics"),
        read_go,
        {"KAFKA_VERSION": "4.0.0", "KAFKA_SKIP_NETTEST": "1"},
    ),
    "sarama": Suite(
        go_module("sarama", "github.com/IBM/sarama", "v1.61.1", (".",), "functional"),
        _of_sarama,
        _go_commands("sarama", "."),
        read_go,
        {"KAFKA_VERSION": "4.1.0"},
    ),
    "platformatic": Suite(platformatic_folder, _of_platformatic, _platformatic_commands, read_tap),
}
