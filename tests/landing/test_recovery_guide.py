"""docs/landing-recovery.md: each story happens, and what the page says goes on, with each record once."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import monedula
import polars
import pytest
from monedula.testing import Broker

from tests.groups.ground import SETTINGS
from tests.landing.orders import Orders, landed
from tests.landing.store_away import store_away
from tests.landing.test_command import landed_or_none, start

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")

GUIDE = Path(__file__).resolve().parents[2] / "docs/landing-recovery.md"
TABLE = Path("lake/orders")

Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def orders(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    """A topic of two partitions, which nothing has landed; the folder of the test is the current one."""
    monkeypatch.chdir(tmp_path)
    broker.create_topic("orders", 2)
    broker.create_topic("orders.failed", 1)
    made = Orders(broker.bootstrap_servers, "orders")
    made.send(40)
    return made


@pytest.fixture
def shell(orders: Orders) -> Shell:
    """Runs a command of the page."""

    def run(command: str, code: int = 0, **variables: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(["sh", "-c", command], env=environment(orders, variables), **CAPTURED)
        assert done.returncode == code, done.stderr
        return done

    return run


CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120}


def environment(orders: Orders, variables: dict[str, str]) -> dict[str, str]:
    """With a command `monedula` that runs this checkout."""
    folder = Path("bin")
    folder.mkdir(exist_ok=True)
    command = folder / "monedula"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m monedula "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder.resolve()}{os.pathsep}{os.environ['PATH']}",
        "MONEDULA_BOOTSTRAP_SERVERS": orders.settings["bootstrap.servers"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        **variables,
    }


def story(heading: str) -> list[str]:
    """The commands and programs of a section."""
    section = GUIDE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```(?:python)?\n(.*?)```", section, flags=re.DOTALL)


DECODED = ("--value", "json", "--schema", "id bigint")
LAND = "monedula land orders ./lake/orders --value json --schema 'id bigint' --until now"


def test_a_worker_was_killed(orders: Orders, shell: Shell) -> None:
    with start(orders, "orders", str(TABLE), *DECODED, "--every", "1s") as process:
        while not TABLE.exists() or not landed_or_none(str(TABLE)):
            assert process.poll() is None
        orders.send(20)
        process.kill()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    (command,) = story("A worker was killed")
    shell(command)
    assert landed(TABLE) == orders.offsets()


def test_the_store_is_away(orders: Orders, shell: Shell) -> None:
    shell(LAND)
    orders.send(20)
    (command,) = story("The store is away")
    with store_away(TABLE):
        loop = subprocess.Popen(
            ["sh", "-c", command],
            env=environment(orders, {}),
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert loop.stderr is not None
        said = loop.stderr.readline()
    _, rest = loop.communicate(timeout=120)
    assert loop.returncode == 0, said + rest
    assert "monedula land topic: " in said
    assert "Traceback" not in said + rest
    assert landed(TABLE) == orders.offsets()


@pytest.mark.parametrize("number", [0, 1])
def test_records_that_cannot_be_decoded(orders: Orders, shell: Shell, number: int) -> None:
    orders.send_bad()
    failed = shell(LAND, 1)
    assert "cannot be decoded" in failed.stderr or "orders-0" in failed.stderr
    shell(story("Records that cannot be decoded")[number])
    rows = polars.read_delta(str(TABLE))
    if number == 0:
        assert landed(TABLE) == orders.offsets()
        assert rows["_error"].is_not_null().sum() == 1
    else:
        assert rows.height == orders.count
        with monedula.read(orders.settings, "orders.failed") as stream:
            assert [record.value for batch in stream for record in batch.records()] == [b"{broken"]


def test_the_group_was_renamed(orders: Orders, shell: Shell) -> None:
    shell(f"{LAND} -X group.id=etl")
    orders.send(20)
    assert "but no position" in shell(f"{LAND} -X group.id=etl-2", 1).stderr
    (command,) = story("The group was renamed")
    shell(command)
    assert landed(TABLE) == orders.offsets()


@pytest.mark.parametrize("number", [0, 1])
def test_the_table_was_restored(orders: Orders, shell: Shell, number: int) -> None:
    shell(LAND)
    version = deltalake.DeltaTable(TABLE).version()
    orders.send(20)
    shell(LAND)
    deltalake.DeltaTable(TABLE).restore(version)
    assert "was restored to an earlier version" in shell(LAND, 1).stderr
    program = story("The table was restored")[number]
    exec(compile(program, str(GUIDE), "exec"), {"settings": orders.settings})
    orders.send(20)
    shell(LAND if number == 0 else f"{LAND} --job again")
    assert landed(TABLE) == orders.offsets()


def test_the_topic_was_created_again(orders: Orders, shell: Shell, broker: Broker) -> None:
    shell(LAND)
    broker.delete_topic("orders")
    broker.create_topic("orders", 2)
    orders.send(60)
    assert "was deleted and created again" in shell(LAND, 1).stderr
    (command,) = story("The topic was created again")
    shell(command)
    assert sorted(ids_in(TABLE)) == list(range(100))
    assert "more than once" in shell("monedula land check ./lake/orders --topic orders --job orders-2", 1).stderr


def test_the_log_is_behind(orders: Orders, shell: Shell) -> None:
    shell(LAND)
    orders.send(40)
    with monedula.Admin(orders.settings) as admin:
        admin.delete_records({("orders", 0): 30})
    assert "the log begins at 30" in shell(LAND, 1).stderr
    (command,) = story("The log is behind")
    assert "what is between is lost" in shell(command).stderr
    assert landed(TABLE) == {0: [*range(20), *range(30, 40)], 1: list(range(40))}


def test_another_cluster(orders: Orders, shell: Shell) -> None:
    shell(LAND)
    orders.send(20)
    with Broker(settings=SETTINGS, topics={"orders": 2}) as new:
        moved = Orders(new.bootstrap_servers, "orders")
        moved.count = orders.count
        moved.send(30)
        first, second = story("Another cluster")
        brokers = {"OLD": orders.settings["bootstrap.servers"], "NEW": new.bootstrap_servers}
        shell(first, **brokers)
        shell(second, **brokers)
    assert sorted(ids_in(TABLE)) == list(range(90))


def ids_in(path: Path) -> list[int]:
    return polars.read_delta(str(path))["id"].drop_nulls().to_list()


def test_every_story_is_run_here() -> None:
    told = re.findall(r"^## (.*)$", GUIDE.read_text(), flags=re.MULTILINE)
    tests = {name.removeprefix("test_").replace("_", " ") for name in globals() if name.startswith("test_")}
    assert {heading.lower() for heading in told} <= tests
