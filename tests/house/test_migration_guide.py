"""docs/migration.md and docs/migration/: examples of both clients run, no method is left out in either direction."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import confluent_kafka.aio
import kafka
import monedula
import pytest
from monedula import AsyncConsumer, AsyncProducer, Consumer, Producer
from monedula.testing import Broker

from tests.house import migration_settings_page

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDE = DOCS / "migration.md"
PAGES = [
    "docs/migration.md",
    "docs/migration/confluent-kafka.md",
    "docs/migration/aiokafka.md",
    "docs/migration/kafka-python.md",
]
THEIRS = {
    "confluent-kafka": [confluent_kafka.Consumer, confluent_kafka.Producer],
    "aiokafka": [aiokafka.AIOKafkaConsumer, aiokafka.AIOKafkaProducer],
    "kafka-python": [kafka.KafkaConsumer, kafka.KafkaProducer],
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.append("orders", [("key", f"value {number}") for number in range(10)])
        yield broker


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(broker: Broker, page: str) -> None:
    names: dict[str, object] = {
        "aiokafka": aiokafka,
        "asyncio": asyncio,
        "confluent_kafka": confluent_kafka,
        "json": json,
        "kafka": kafka,
        "monedula": monedula,
        "servers": broker.bootstrap_servers,
        "settings": {"bootstrap.servers": broker.bootstrap_servers},
    }
    examples = re.findall(r"```python\n(.*?)```", (DOCS.parent / page).read_text(), flags=re.DOTALL)
    assert examples
    for source in examples:
        exec(compile(source, page, "exec"), names)
        if "values = " in source:
            assert names.pop("values") == [f"value {number}".encode() for number in range(10)]
    assert not names.get("failed")


@pytest.mark.parametrize("client", THEIRS)
def test_every_method_of_a_client_is_on_its_page(client: str) -> None:
    page = (DOCS / "migration" / f"{client}.md").read_text()
    rows = " ".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| "))
    told = set(re.findall(r"\w+", rows))
    methods = {name for kind in THEIRS[client] for name in dir(kind) if name[0].islower()}
    assert len(methods) > 25
    assert sorted(methods - told) == []


def test_every_method_of_ours_has_its_row() -> None:
    rows = [line.split("|")[1] for line in GUIDE.read_text().splitlines() if line.startswith("| `")]
    told = set(re.findall(r"\w+", " ".join(rows)))
    ours = {name for kind in (Consumer, AsyncConsumer, Producer, AsyncProducer) for name in dir(kind)}
    assert sorted(name for name in ours if not name.startswith("_") and name not in told) == []


def test_the_page_of_settings_is_the_tables() -> None:
    written = migration_settings_page.PAGE.read_text()
    assert written == migration_settings_page.rendered(), "write it anew: python -m tests.house.migration_settings_page"
