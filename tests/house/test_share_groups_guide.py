"""docs/share-groups.md: its examples run as they stand."""

import re
from collections.abc import Iterator
from pathlib import Path

import monedula
import pytest
from monedula.testing import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs/share-groups.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with jobs, and a share group that reads them from the start."""
    with Broker(topics={"jobs": 2}) as broker:
        broker.append("jobs", ["good", "bad", "x" * 200])
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_configs({("group", "resizers"): {"share.auto.offset.reset": "earliest"}})
        yield broker


@pytest.mark.parametrize("source", EXAMPLES)
def test_an_example_runs_as_it_stands(broker: Broker, source: str) -> None:
    exec(compile(source.replace("localhost:9092", broker.bootstrap_servers), str(GUIDE), "exec"), {})
