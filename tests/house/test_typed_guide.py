"""docs/typed-columns.md: its examples run as they stand, one after the other."""

import re
from pathlib import Path

import monedula
import pytest
from monedula.testing import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs/typed-columns.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    good = '{"id": 1, "customer": "c", "amount": 2.5, "more": [1, {"a": 2}]}'
    with Broker(topics={"orders": 1, "orders.avro": 1, "orders.json": 1}) as broker:
        broker.append("orders", [good, good])
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        names = {"settings": settings, "monedula": monedula}
        for source in EXAMPLES:
            exec(compile(source, str(GUIDE), "exec"), names)
            broker.append("orders", ['{"id": "x"}', good])
    printed = capsys.readouterr().out.splitlines()
    avro = ["Avro(id: int64, customer: utf8, framing='confluent')", "Avro(utf8)"]
    avro += ["""Avro(after: struct("id": int64), op: utf8, framing='confluent', flatten=True)"""]
    avro += ["Protobuf(id: int64, customer: utf8, framing='confluent')"]
    bad = ["id no JSON value for a field of type int64", "1"]
    written = "1"
    assert printed == ["[2.5, 2.5]", *avro, "2", *bad, *bad, *bad, *bad, *bad, written]
