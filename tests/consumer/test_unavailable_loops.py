"""A dead broker is no drained topic: a loop that ends without records raises while brokers do not answer."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import monedula
import pytest
from monedula.testing import Broker

from tests.consumer.conftest import ConsumerFactory
from tests.consumer.outages import pause, reading, stop, swallow

NODES = [1, pytest.param(3, marks=pytest.mark.thorough), 9]


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("way", [stop, pause, swallow])
def test_a_loop_that_ends_while_no_broker_answers_raises(
    consumer: ConsumerFactory, way: Callable[[Broker], object], nodes: int
) -> None:
    with Broker(nodes=nodes, topics={"orders": nodes}) as broker:
        reader = reading(consumer, broker)
        way(broker)
        began = datetime.now(UTC)
        with pytest.raises(monedula.errors.BrokersUnavailableError, match="no broker that leads") as raised:
            list(reader.batches(timeout=3))
        assert raised.value.failing_for >= 1
        assert abs(raised.value.since - began) < timedelta(seconds=3)
        assert raised.value.last_error
        assert "127.0.0.1:" in str(raised.value)
        assert isinstance(raised.value, monedula.KafkaTimeoutError)
        assert isinstance(raised.value, monedula.errors.BrokerConnectionError)
        assert raised.value.retriable


def test_records_and_long_polls_raise_too(consumer: ConsumerFactory) -> None:
    with Broker(topics={"orders": 1}) as broker:
        reader = reading(consumer, broker)
        stop(broker)
        with pytest.raises(monedula.errors.BrokersUnavailableError, match="refused"):
            list(reader.records(timeout=2))
        with pytest.raises(monedula.errors.BrokersUnavailableError, match="refused"):
            reader.poll(timeout=5)


def test_a_loop_that_never_reached_a_broker_raises(consumer: ConsumerFactory) -> None:
    with Broker(topics={"orders": 1}) as broker:
        swallow(broker)
        reader = consumer("orders", bootstrap_servers=broker.bootstrap_servers)
        with pytest.raises(monedula.errors.BrokersUnavailableError, match="no broker has answered yet"):
            list(reader.batches(timeout=2))


def test_an_idle_topic_stays_quiet(consumer: ConsumerFactory) -> None:
    with Broker(nodes=3, topics={"orders": 3}) as broker:
        reader = reading(consumer, broker)
        assert list(reader.batches(timeout=3)) == []
        assert not reader.poll(timeout=0.1)
        health = reader.health()
        assert health["ok"]
        assert health["failing_for"] is health["failing_since"] is health["last_error"] is None


def test_one_leader_that_answers_is_enough(consumer: ConsumerFactory) -> None:
    with Broker(nodes=3, topics={"orders": 3}) as broker:
        reader = reading(consumer, broker)
        broker.fault(black_hole="both", node=[1, 2])
        assert list(reader.batches(timeout=3)) == []


@pytest.mark.parametrize("nodes", NODES[1:])
def test_a_leader_whose_long_poll_is_in_time_is_enough(consumer: ConsumerFactory, nodes: int) -> None:
    with Broker(nodes=nodes, topics={"orders": nodes}) as broker:
        reader = reading(consumer, broker, fetch_max_wait_ms=25_000)
        assert list(reader.batches(timeout=1)) == []
        broker.stop_node(1)
        assert list(reader.batches(timeout=3)) == []
        assert reader.health()["ok"]


def test_a_broker_that_is_back_has_the_time_of_its_long_poll(consumer: ConsumerFactory) -> None:
    with Broker(topics={"orders": 1}) as broker:
        reader = reading(consumer, broker, fetch_max_wait_ms=25_000)
        assert list(reader.batches(timeout=1)) == []
        broker.stop_node(1)
        while reader.health()["ok"]:
            reader.poll(timeout=0.1)
        broker.start_node(1)
        while not reader.health()["ok"]:
            reader.poll(timeout=0.1)
        assert list(reader.batches(timeout=3)) == []


@pytest.mark.parametrize("nodes", NODES)
def test_a_loop_with_long_polls_that_ends_while_no_broker_answers_raises(consumer: ConsumerFactory, nodes: int) -> None:
    with Broker(nodes=nodes, topics={"orders": nodes}) as broker:
        reader = reading(consumer, broker, fetch_max_wait_ms=25_000)
        assert list(reader.batches(timeout=1)) == []
        stop(broker)
        with pytest.raises(monedula.errors.BrokersUnavailableError, match="no broker that leads"):
            list(reader.batches(timeout=3))
