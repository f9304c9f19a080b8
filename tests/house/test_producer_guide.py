"""docs/producer.md: its examples run as they stand; its settings and errors are the client's."""

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import monedula
import polars
import pyarrow
import pytest
from monedula.testing import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs/producer.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)

CLOSED = {"auto.create.topics.enable": False}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2, "orders.avro": 1, "audit": 1, "output": 1}, settings=CLOSED) as broker:
        yield broker


@pytest.mark.parametrize("source", EXAMPLES)
def test_an_example_runs(broker: Broker, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "asyncio": asyncio,
        "dataclass": dataclass,
        "datetime": datetime,
        "json": json,
        "logging": logging,
        "monedula": monedula,
        "polars": polars,
        "pyarrow": pyarrow,
        "settings": {"bootstrap.servers": broker.bootstrap_servers},
        "table": pyarrow.table({"value": ["x"]}),
        "UTC": UTC,
    }
    exec(compile(source, str(GUIDE), "exec"), names)
    printed = capsys.readouterr().out
    if "ordres" in source:
        assert re.search(r"^1 .*ordres", printed)
    if "print(" in source:
        assert printed


def test_read_transform_write_moves_the_records_and_leaves_its_source_alone() -> None:
    (source,) = (source for source in EXAMPLES if "transaction(consumer)" in source)
    with Broker(topics={"orders": 2, "output": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        broker.append("orders", ["a", "b"], partition=0)
        broker.append("orders", ["c"], partition=1)
        names = {"monedula": monedula, "settings": {**settings, "auto.offset.reset": "earliest"}}
        exec(compile(source, str(GUIDE), "exec"), names)
        committed = {**settings, "isolation.level": "read_committed"}
        stored = pyarrow.table(monedula.read(committed, ["orders", "output"], columns=["topic", "value"])).to_pylist()
    values = {name: sorted(row["value"] for row in stored if row["topic"] == name) for name in ("orders", "output")}
    assert values == {"orders": [b"a", b"b", b"c"], "output": [b"a", b"b", b"c"]}


def test_the_settings_have_the_defaults_that_they_have() -> None:
    section = GUIDE.read_text().split("\n## Settings\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ((?:`[a-z.]+`(?:, )?)+) \| *(.*?) *\|", section, flags=re.MULTILINE)
    told = {
        name: default.replace("`", "").strip()
        for names, defaults in rows
        for name, default in zip(re.findall(r"`([a-z.]+)`", names), defaults.split(","), strict=False)
    }
    known = {key.name: key.default or "" for key in monedula.config_keys()}
    assert len(told) > 15
    assert {name: known.get(name) for name in told} == told


def test_every_error_of_sending_is_described() -> None:
    guide = GUIDE.read_text()
    names = [
        "ArgumentError",
        "AuthorizationError",
        "BatchSendError",
        "BrokerConnectionError",
        "BrokerError",
        "BufferFullError",
        "ClosedError",
        "DeliveryTimeoutError",
        "InvalidRecordError",
        "ProducerFencedError",
        "RecordTooLargeError",
        "TransactionAbortedError",
        "TransactionError",
        "UndeliveredRecordsError",
        "UnknownTopicError",
    ]
    assert all(hasattr(monedula.errors, name) for name in names)
    assert [name for name in names if f"`{name}`" not in guide] == []
