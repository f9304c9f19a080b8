"""Every example of every `--help`, and of docs/cli.md, runs as it stands."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import monedula
import pytest
from monedula.cli.app import app
from monedula.testing import Broker, Registry
from typer.main import get_command

from tests.cli import forked
from tests.cli.processes import FORKS, environment

GUIDE = Path(__file__).resolve().parents[2] / "docs/cli.md"
COMMANDS = get_command(app)

# These go on until Ctrl-C: it is pressed once they show something, or speak of it.
ENDLESS = ("--follow", "--watch", "broker", "quickstart")

SECURITY = ("acls", "users", "quotas", "tokens")
"""Families whose examples need ACLs, users and quotas that exist, or a login: test_security.py runs these commands."""


def examples() -> list[str]:
    found = []
    commands = [COMMANDS]
    while commands:
        command = commands.pop(0)
        commands.extend(getattr(command, "commands", {}).values())
        if command is not COMMANDS and not hasattr(command, "commands"):
            assert command.epilog, f"{command.name} has no example"
        found += [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
    return found


def needs_security(example: str) -> bool:
    return example.split()[1] in SECURITY


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture
def shell(broker: Broker, registry: Registry, tmp_path: Path) -> Callable[[str], "subprocess.Popen[bytes]"]:
    """Runs a line of a shell beside a broker with `orders` and the group `etl`, in a directory with files for it."""
    broker.create_topic("orders", 3)
    for partition in range(3):
        broker.append("orders", [(f"key-{row}", '{"amount":1}') for row in range(20)], partition=partition)
    with monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}) as consumer:
        consumer.commit({("orders", partition): 3 for partition in range(3)})
    program = tmp_path / "bin" / "monedula"
    program.parent.mkdir()
    control = FORKS.control().fileno()
    words = (sys.executable, "-IS", str(Path(forked.__file__).with_name("forked_command.py")), str(control))
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    with monedula.Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.alter_configs({("group", "etl"): {"consumer.session.timeout.ms": 45_000}})
    (tmp_path / "kafka.properties").write_text(f"bootstrap.servers={broker.bootstrap_servers}\n")
    subject = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    for version in range(3):
        registry.register("orders-value", {**subject, "doc": str(version)})
        registry.register("item", {"type": "record", "name": "Item", "fields": [], "doc": str(version)})
    (tmp_path / "registry.properties").write_text(f"schema.registry.url={registry.url}\n")
    for name in ("order.avsc", "line.avsc"):
        (tmp_path / name).write_text(json.dumps(subject))
    glue = "89791762-2336-4186-9674-299b90a802e2"
    (tmp_path / "schemas.json").write_text(json.dumps({glue: "order.avsc"}))
    (tmp_path / "order.proto").write_text('syntax = "proto3"; message Order { int64 id = 1; }')
    (tmp_path / "secrets.properties").write_text("log.cleaner.threads=1\n")
    variables = environment(broker.bootstrap_servers, KAFKA_PASSWORD="secret")
    variables["PATH"] = f"{program.parent}{os.pathsep}{variables['PATH']}"

    def start(line: str) -> "subprocess.Popen[bytes]":
        if " transactions " in line:
            line = line.replace("--start-offset 20", f"--start-offset {leave_open(broker)}")
        return subprocess.Popen(
            line,
            shell=True,
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[control],
        )

    return start


def leave_open(broker: Broker) -> int:
    """Begin the transaction that examples are about, and end its producer. Returns its first offset in `orders`, 0."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "billing-1"}
    producer = monedula.Producer(settings)
    producer.init_transactions()
    producer.begin_transaction()
    begins = producer.send("orders", '{"amount":1}', partition=0).result().offset
    producer.close()
    assert begins is not None
    return begins


def skip_without_extra(lines: list[str]) -> None:
    """Skip what needs deltalake, where that is not installed; tests/requirements.lock has it."""
    if any(line.startswith("monedula land ") for line in lines):
        pytest.importorskip("deltalake", reason="the extra delta is not installed")
        pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")


def is_endless(line: str) -> bool:
    words = shlex.split(line, comments=True)
    return "--once" not in words and any(word in words if word[0] == "-" else word == words[1] for word in ENDLESS)


@pytest.mark.parametrize("example", [example for example in examples() if not needs_security(example)])
def test_an_example_runs(example: str, shell: Callable[[str], "subprocess.Popen[bytes]"]) -> None:
    skip_without_extra([example])
    if example.split()[1] in ("broker", "quickstart") and "--port" not in example:
        example += " --port 0"  # its own port may be in use where tests run
    endless = is_endless(example)
    with shell(f"exec {example}" if endless else example) as process:
        try:
            if endless:
                assert process.stdout is not None
                shown = process.stdout.readline()
                while shown and "quickstart" in example and b"Ctrl-C" not in shown:
                    shown = process.stdout.readline()
                assert shown
                process.send_signal(signal.SIGINT)
            _, problems = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                process.kill()
    assert process.returncode == (130 if endless and "broker" not in example else 0), problems.decode()


def blocks() -> list[list[str]]:
    """The lines of each block of the guide that call the command."""
    found = re.findall(r"```\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    return [[line for line in block.splitlines() if "monedula " in line] for block in found]


def guide() -> list[str]:
    """Each call of the command in the guide, also in a pipe."""
    lines = [line for block in blocks() for line in block if "$(" not in line]
    parts = [part.strip() for line in lines for part in re.split(r" \| | && ", line)]
    return [part for part in parts if part.startswith("monedula ")]


def runs_here(line: str) -> bool:
    """Whether a line of the guide ends by itself, soon, on the embedded broker without logins."""
    others = needs_security(line) if line.startswith("monedula ") else False
    return not (others or is_endless(line) or line.startswith(("tail ", "monedula bench")) or "client-metrics" in line)


@pytest.mark.parametrize(
    "lines",
    [[line for line in block if runs_here(line)] for block in blocks() if any(map(runs_here, block))],
    ids=lambda lines: lines[0][:40],
)
def test_a_block_of_the_guide_runs(lines: list[str], shell: Callable[[str], "subprocess.Popen[bytes]"]) -> None:
    skip_without_extra(lines)
    for line in lines:
        with shell(line) as process:
            _, problems = process.communicate(timeout=60)
        assert process.returncode == 0, f"{line}: {problems.decode()}"


def test_the_guide_has_every_command() -> None:
    names: list[str] = []
    for name, command in getattr(COMMANDS, "commands", {}).items():
        names += [f"{name} {verb}" for verb in getattr(command, "commands", {})] or [name]
    lines = GUIDE.read_text().splitlines()
    assert [name for name in names if not any(f"monedula {name}" in line for line in lines)] == []


@pytest.mark.parametrize("line", guide() + [example for example in examples() if needs_security(example)])
def test_a_line_of_the_guide_is_understood(line: str) -> None:
    command, words = COMMANDS, shlex.split(line.split(" > ")[0].split(" && ")[0], comments=True)[1:]
    while hasattr(command, "commands"):
        if words[0] == "-v":
            words.pop(0)
        if words[0] not in command.commands:
            words.insert(0, getattr(command, "DEFAULT"))  # noqa: B009 - of LandGroup alone
        command = command.commands[words.pop(0)]
    command.make_context("monedula", words).close()


def test_help_comes_without_what_only_some_commands_need() -> None:
    code = "import sys; from monedula.cli.app import app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert not {"pyarrow", "rich", "pandas", "polars", "asyncio"} & set(loaded.split())
