"""docs/schemas.md: its examples run as they stand."""

import re
from pathlib import Path

import pytest
from monedula.testing import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs/schemas.md"


@pytest.mark.parametrize("source", re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL))
def test_an_example_runs(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(topics=["orders:2"]) as broker:
        broker.append("orders", ['{"id":1,"items":[{"price":1.5}]}'])
        exec(compile(source.replace("localhost:9092", broker.bootstrap_servers), str(GUIDE), "exec"), {})
    printed = re.search(r"print\(.*\)  # (.*)", source)
    assert capsys.readouterr().out == (f"{printed[1]}\n" if printed else "")
