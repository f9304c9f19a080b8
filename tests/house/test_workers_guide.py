"""docs/workers.md: its examples run as they stand; its service is started, killed and started again."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import monedula
import pytest
from monedula.testing import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs/workers.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
(SERVICE,) = re.findall(r"```python service\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)

SECONDS = 40.0
SESSION_SECONDS = 45.0


@contextmanager
def orders(clock: Literal["system", "manual"] = "system") -> Iterator[Broker]:
    """A broker with ten orders."""
    topics = {"orders": 2, "orders.failed": 1, "orders.done": 1, "orders.once": 1}
    with Broker(topics=topics, settings={"group.initial.rebalance.delay.ms": 0}, clock=clock) as broker:
        for partition in range(2):
            broker.append("orders", [f'{{"id": {number}}}' for number in range(5)], partition=partition)
        yield broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with orders() as broker:
        yield broker


@pytest.fixture
def stopped() -> Iterator[Broker]:
    """A broker whose clock stands still."""
    with orders(clock="manual") as broker:
        yield broker


@pytest.mark.parametrize("source", EXAMPLES)
def test_an_example_runs(broker: Broker, source: str) -> None:
    stored: list[object] = []
    names = {
        "asyncio": asyncio,
        "monedula": monedula,
        "settings": {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"},
        "store": stored.append,
    }
    before = signal.getsignal(signal.SIGTERM)
    try:
        exec(compile(source, str(GUIDE), "exec"), names)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stored


@contextmanager
def service(broker: Broker) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """The service of the guide as a process, and the port of its health."""
    environment = {"BOOTSTRAP_SERVERS": broker.bootstrap_servers, "PATH": ""}
    command = [sys.executable, "-c", SERVICE]
    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            assert process.stderr is not None
            pytest.fail(process.stderr.read())
        try:
            yield process, int(line.rsplit(" ", 1)[1])
        finally:
            process.kill()


def handled(process: "subprocess.Popen[str]", count: int) -> list[tuple[int, int]]:
    """The partitions and offsets of the next records that the process says to have handled."""
    assert process.stdout is not None
    lines = [process.stdout.readline().split() for _ in range(count)]
    return sorted((int(line[1]), int(line[2])) for line in lines)


def health(port: int) -> dict[str, object]:
    """What the health endpoint answers."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=SECONDS) as answer:
        found: dict[str, object] = json.load(answer)
        return found


@pytest.mark.timeout(120)
def test_the_service_ends_in_order_and_a_killed_one_loses_nothing(stopped: Broker) -> None:
    broker = stopped
    everything = [(partition, offset) for partition in range(2) for offset in range(5)]
    with service(broker) as (process, port):
        assert handled(process, 10) == everything
        assert health(port)["state"] == "Stable"
        # No end in order: what is not committed comes again.
        process.kill()
    # The group is rid of the killed member; the next would wait for that.
    broker.advance(SESSION_SECONDS)
    broker.append("orders", ["no JSON", '{"id": 6}'], partition=0)
    with service(broker) as (process, port):
        seen = set[tuple[int, int]]()
        while (0, 6) not in seen:
            seen |= set(handled(process, 1))
        assert (0, 5) not in seen
        while health(port)["lag"] != {"orders-0": 0, "orders-1": 0}:
            pass
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=SECONDS)
        assert out.splitlines()[-1] == "ended in order"
        assert (process.returncode, err) == (0, "")
    assert broker.group("service").members == ()
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, "orders.failed", headers=True) as letters:
        (letter,) = [record for batch in letters for record in batch.records()]
    assert letter.value == b"no JSON"
    assert dict(letter.headers or [])["__dlq.errors.delivery.count"] == b"4"
    with service(broker) as (process, port):
        # Everything was committed.
        broker.append("orders", ['{"id": 7}'], partition=1)
        assert handled(process, 1) == [(1, 5)]
