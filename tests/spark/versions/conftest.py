"""Fixtures of the tests that every Spark must pass."""

import os
from collections.abc import Callable, Iterable

import pytest
from pyspark import __version__
from pyspark.sql import Row

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record

HAS_ADMISSION_CONTROL = tuple(map(int, __version__.split(".")[:2])) >= (4, 2)


@pytest.fixture(scope="session", autouse=True)
def _the_spark_that_was_asked_for() -> None:
    assert __version__ == os.environ.get("MONEDULA_EXPECTED_SPARK", __version__)


@pytest.fixture
def orders(kafka: KafkaCluster, topic: TopicFactory) -> dict[str, str]:
    """Options that read a topic of ten records, `v0` to `v9`, the even ones in partition 0, the odd ones in 1."""
    # The records are of 2023.
    name = topic(2, config={"retention.ms": -1})
    produce(kafka, name, range(10))
    return {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name}


@pytest.fixture
def more(kafka: KafkaCluster, orders: dict[str, str]) -> Callable[[range], None]:
    """Writes further records into the topic of `orders`."""
    return lambda numbers: produce(kafka, orders["subscribe"], numbers)


def produce(kafka: KafkaCluster, topic: str, numbers: range) -> None:
    records: list[Record] = [
        {
            "key": f"k{number}",
            "value": f"v{number}",
            "partition": number % 2,
            "timestamp": 1_700_000_000_000 + number,
            "headers": [("h", b"1"), ("h", None)] if number == 0 else [],
        }
        for number in numbers
    ]
    kafka.helper.produce(topic, records)


def numbers(rows: Iterable[Row]) -> list[int]:
    """Which records of `orders` these rows are."""
    return sorted(2 * row.offset + row.partition for row in rows)
