"""docs/consumer.md: its examples run as they stand, its errors and texts for times are the client's."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import monedula
import pandas
import polars
import pyarrow
import pytest
from monedula.testing import Broker
from monedula.types.times import time_of

GUIDE = Path(__file__).resolve().parents[2] / "docs/consumer.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        for partition in range(2):
            broker.append("orders", [("key", f"value {number}") for number in range(20)], partition=partition)
        yield broker


@pytest.mark.parametrize("source", EXAMPLES)
def test_an_example_runs(broker: Broker, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "asyncio": asyncio,
        "duckdb": duckdb,
        "monedula": monedula,
        "pandas": pandas,
        "polars": polars,
        "pyarrow": pyarrow,
        "settings": {"bootstrap.servers": broker.bootstrap_servers},
    }
    exec(compile(source, str(GUIDE), "exec"), names)
    if "print(" in source:
        assert capsys.readouterr().out
    if "some =" in source:
        assert [names[name].num_rows for name in ("recent", "last_ten", "some")] == [40, 20, 2]


def test_every_error_that_is_named_is_there() -> None:
    section = GUIDE.read_text().split("\n## Errors\n")[1].split("\n## ")[0]
    names = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
    assert len(names) >= 10
    assert [name for name in names if not issubclass(getattr(monedula.errors, name), monedula.KafkaError)] == []


def test_every_text_for_a_time_is_understood() -> None:
    section = GUIDE.read_text().split("\n## Positions and times\n")[1].split("\n## ")[0]
    texts = [
        text for row in re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE) for text in re.findall("`(.*?)`", row)
    ]
    assert len(texts) >= 9
    assert [text for text in texts if time_of(text) is None] == []
