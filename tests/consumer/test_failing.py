"""Errors and health name the reason why a client cannot read."""

from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

STORAGE = "KAFKA_STORAGE_ERROR"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        for partition in range(2):
            broker.append("orders", ["a", "b"], partition=partition)
        yield broker


@pytest.fixture
def settings(broker: Broker) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "bootstrap.timeout.ms": 3_000,
        "default.api.timeout.ms": 3_000,
    }


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"topic": "orders", "partition": 1, "error": STORAGE}, f"orders-1: broker 1 answered {STORAGE}"),
        ({"error": "UNKNOWN_SERVER_ERROR"}, "broker 1 answered UNKNOWN_SERVER_ERROR"),
        ({"close": True}, "the broker closed the connection"),
    ],
)
def test_a_read_that_gets_no_further_says_what_failed(
    broker: Broker, settings: dict[str, Any], fault: dict[str, Any], told: str
) -> None:
    broker.fault(api="Fetch", **fault)
    with pytest.raises(monedula.KafkaTimeoutError, match=told):
        list(monedula.read(settings, "orders"))


def test_health_counts_the_errors_of_partitions_that_are_fetched_again(
    broker: Broker, settings: dict[str, Any]
) -> None:
    fault = broker.fault(api="Fetch", topic="orders", partition=1, error=STORAGE, count=3)
    with monedula.Consumer(settings) as consumer:
        consumer.assign("orders")
        rows = 0
        while rows < 4:
            rows += len(consumer.poll(timeout=20))
        assert fault.hits == 3
        assert consumer.health()["retried_errors"] == {STORAGE: 3}


def test_a_broker_that_connects_and_tells_nothing_of_the_cluster_is_named(
    broker: Broker, settings: dict[str, Any]
) -> None:
    broker.fault(api="Metadata", close=True)
    with monedula.Consumer(settings) as consumer:
        consumer.assign("orders")
        address = broker.bootstrap_servers
        with pytest.raises(monedula.errors.BrokerConnectionError, match=f"{address}: the broker closed the connection"):
            consumer.poll(timeout=20)
