"""docs/admin.md: its examples run as they stand, one after the other; its table has every error."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import monedula
import pytest
from monedula.admin import Admin
from monedula.admin.calls import Method
from monedula.admin.methods import AdminMethods
from monedula.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/admin.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


@pytest.fixture
def names() -> Iterator[dict[str, object]]:
    """The cluster of the examples."""
    settings = {"group.initial.rebalance.delay.ms": 0}
    # A super user for whom the authorizer, which examples of ACLs need, allows everything.
    with Broker(2, settings=settings, super_users=["User:ANONYMOUS"]) as broker:
        found = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        yield {"asyncio": asyncio, "monedula": monedula, "settings": found, "broker": broker, "password": "secret"}


def test_the_examples_run(names: dict[str, object]) -> None:
    first, *others = EXAMPLES
    assert len(others) >= 8
    exec(compile(first, str(GUIDE), "exec"), names)
    settings, broker = names["settings"], names["broker"]
    assert isinstance(settings, dict)
    assert isinstance(broker, Broker)
    for partition in range(6):
        broker.append("orders", [f"order {number}" for number in range(5)], partition=partition)
    with Admin(settings) as admin:
        admin.alter_group_offsets("nightly", {("orders", 0): 3})
    with monedula.Consumer({**settings, "group.id": "etl"}, topics=["orders"]) as consumer:
        while not consumer.assignment():
            consumer.poll(timeout=0.1)
        for source in others:
            exec(compile(source, str(GUIDE), "exec"), names)


def test_every_error_that_an_administrator_raises_is_described() -> None:
    guide = GUIDE.read_text()
    table = set(re.findall(r"`(\w+Error)`", guide))
    source = (ROOT / "rust/python/src/error.rs").read_text()
    refused = source.split("fn class_of_refused", 1)[1].split("\n}\n", 1)[0]
    raised = set(re.findall(r'"(\w+Error)"', refused)) - {"GroupError"}
    assert len(raised) >= 5
    assert raised <= table


def test_every_verb_is_described() -> None:
    guide = GUIDE.read_text()
    verbs = [name for base in AdminMethods.__mro__ for name, each in vars(base).items() if isinstance(each, Method)]
    assert len(verbs) > 40
    assert [verb for verb in verbs if verb not in guide] == []
