"""docs/operations.md: its examples run as they stand, and it tells every key of health()."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import monedula
import pytest
from monedula.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/operations.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def _logging_as_it_was() -> Iterator[None]:
    root, groups = logging.getLogger(), logging.getLogger("monedula.groups")
    before = root.level, groups.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    groups.setLevel(before[1])
    root.handlers[:] = before[2]


@pytest.mark.usefixtures("_logging_as_it_was")
@pytest.mark.parametrize("source", EXAMPLES)
def test_an_example_runs(broker: Broker, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(source, "operations.md", "exec"), {"settings": {"bootstrap.servers": broker.bootstrap_servers}})
    if "print(" in source:
        assert capsys.readouterr().out.strip() == "None None Stable"


def test_every_key_of_health_is_told(broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    group = {**settings, "group.id": "etl"}
    with monedula.Consumer(group, topics=["orders"]) as consumer, monedula.Producer(settings) as producer:
        consumer.poll(timeout=5.0)
        health = consumer.health()
        keys = {*health, *producer.health(), *health["group"], *health["partitions"]["orders", 0]}
    with monedula.ShareConsumer({**settings, "group.id": "workers"}, topics=["orders"]) as share_consumer:
        while (health := share_consumer.health())["group"] is None:
            share_consumer.poll(timeout=0.1)
        keys |= {*health, *health["group"]}
    section = GUIDE.split("\n## Health\n")[1].split("\n## ")[0]
    assert len(keys) > 40
    assert [key for key in sorted(keys) if f"`{key}`" not in section] == []
