"""docs/observability.md: its examples run as they stand, its metrics are the collector's."""

import re
from collections.abc import Iterator
from pathlib import Path

import monedula
import pytest
from monedula.testing import Broker

from tests.observability.metric_names import metric_names

GUIDE = Path(__file__).resolve().parents[2] / "docs/observability.md"
TEXT = GUIDE.read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        broker.append("orders", [("key", "value")])
        yield broker


def test_the_examples_run(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, with the names of those before."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "etl",
        "auto.offset.reset": "earliest",
    }
    names = {"monedula": monedula, "settings": settings}
    for source in EXAMPLES:
        exec(compile(source, str(GUIDE), "exec"), names)
        if "print(" in source and "def " not in source:
            assert capsys.readouterr().out
    for client in names.values():
        if isinstance(client, (monedula.Consumer, monedula.Producer)):
            client.close()


def test_every_metric_that_is_named_is_there() -> None:
    named = set(re.findall(r"\bmonedula_[a-z_]+", TEXT))
    assert len(named) > 10
    assert named <= metric_names()
