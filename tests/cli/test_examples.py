"""Every example of every `--help` runs as it stands."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import monedula
import pytest
from monedula.cli.app import app
from monedula.testing import Broker
from typer.main import get_command

from tests.cli.processes import environment

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


@pytest.mark.parametrize("example", [example for example in examples() if not needs_security(example)])
def test_an_example_runs(example: str, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders", 3)
    for partition in range(3):
        broker.append("orders", [(f"key-{row}", '{"amount": 1}') for row in range(20)], partition=partition)
    with monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}) as consumer:
        consumer.commit({("orders", partition): 3 for partition in range(3)})
    program = tmp_path / "bin" / "monedula"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m monedula "$@"\n')
    program.chmod(0o755)
    variables = environment(broker.bootstrap_servers)
    variables["PATH"] = f"{program.parent}{os.pathsep}{variables['PATH']}"
    if example.split()[1] in ("broker", "quickstart") and "--port" not in example:
        example += " --port 0"  # its own port may be in use where tests run
    endless = "--once" not in example and any(word in shlex.split(example) for word in ENDLESS)
    with subprocess.Popen(
        f"exec {example}" if endless else example,
        shell=True,
        cwd=tmp_path,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
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


def guide() -> list[str]:
    blocks = re.findall(r"```\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    lines = "".join(blocks).splitlines()
    return [part.strip() for line in lines for part in line.split("|") if part.strip().startswith("monedula ")]


@pytest.mark.parametrize("line", guide() + [example for example in examples() if needs_security(example)])
def test_a_line_of_the_guide_is_understood(line: str) -> None:
    command, words = COMMANDS, shlex.split(line.split(" > ")[0], comments=True)[1:]
    while hasattr(command, "commands"):
        if words[0] == "-v":
            words.pop(0)
        command = command.commands[words.pop(0)]
    command.make_context("monedula", words).close()


def test_help_comes_without_what_only_some_commands_need() -> None:
    code = "import sys; from monedula.cli.app import app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert not {"pyarrow", "rich", "pandas", "polars", "asyncio"} & set(loaded.split())
