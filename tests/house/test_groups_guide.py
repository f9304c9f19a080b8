"""docs/groups.md: its examples run as they stand."""

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import monedula
import pytest
from monedula.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/groups.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Broker(topics={"orders": 2}, settings=settings) as broker:
        for partition in range(2):
            broker.append("orders", [f"order {number}" for number in range(5)], partition=partition)
        yield broker


class Figure:
    """Replaces a class of Prometheus' client."""

    made: list["Figure"] = []  # noqa: RUF012 - shared on purpose

    def __init__(self, name: str, _: str) -> None:
        self.name, self.values = name, list[float]()
        self.made.append(self)

    def observe(self, value: float) -> None:
        self.values.append(value)

    inc = observe


@pytest.mark.parametrize("source", EXAMPLES)
def test_an_example_runs(broker: Broker, source: str) -> None:
    stored: list[object] = []
    names = {
        "asyncio": asyncio,
        "logging": logging,
        "monedula": monedula,
        "prometheus_client": SimpleNamespace(Histogram=Figure, Counter=Figure),
        "settings": {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"},
        "store": stored.append,
    }
    exec(compile(source, str(GUIDE), "exec"), names)
    if "store(" in source:
        assert stored
    if "Histogram" in source:
        seconds, lost = Figure.made[-2:]
        assert len(seconds.values) >= 1
        assert lost.values == []


def test_every_error_and_every_setting_of_groups_is_described() -> None:
    guide = GUIDE.read_text()
    errors = [
        name
        for name, made in vars(monedula.errors).items()
        if isinstance(made, type) and issubclass(made, monedula.errors.GroupError)
    ]
    assert len(errors) > 10
    guides = guide + (ROOT / "docs/share-groups.md").read_text()
    assert [name for name in errors if f"`{name}`" not in guides and name != "GroupInUseError"] == []
    words = ("group.i", "session", "heartbeat", "max.poll", "auto.commit", "assignment.strategy", "exclude.internal")
    settings = [key.name for key in monedula.config_keys() if any(word in key.name for word in words)]
    of_share_groups = {"max.poll.records"}
    assert [name for name in settings if f"`{name}`" not in (guides if name in of_share_groups else guide)] == []
