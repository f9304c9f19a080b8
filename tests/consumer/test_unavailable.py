"""What is told while brokers do not answer, besides by loops: health, members of groups, bounded reads."""

import pickle
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import monedula
import pytest
from monedula.testing import Broker

from tests.consumer.conftest import ConsumerFactory
from tests.consumer.outages import pause, reading, stop, swallow

Way = Callable[[Broker], object]


def test_a_short_interruption_is_no_end(consumer: ConsumerFactory) -> None:
    with Broker(topics={"orders": 1}) as broker:
        reader = reading(consumer, broker)
        stop(broker)
        assert not reader.poll(timeout=1)
        broker.start_node(1)
        broker.append("orders", ["b"])
        assert [record.value for record in reader.take(1)] == [b"b"]
        assert list(reader.batches(timeout=2)) == []


def test_paused_partitions_need_no_broker(consumer: ConsumerFactory) -> None:
    with Broker(topics={"orders": 1}) as broker:
        reader = reading(consumer, broker)
        reader.pause()
        stop(broker)
        assert list(reader.batches(timeout=2)) == []


@pytest.mark.parametrize("way", [stop, swallow])
def test_a_member_whose_coordinator_does_not_answer_raises(consumer: ConsumerFactory, way: Way) -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ["a"])
        reader = consumer(bootstrap_servers=broker.bootstrap_servers, group_id="etl")
        reader.subscribe("orders")
        reader.take(1)
        way(broker)
        with pytest.raises(monedula.errors.BrokersUnavailableError):
            list(reader.batches(timeout=3))
        # It would wait for an answer to its leaving.
        reader.close(timeout=0)


def test_a_coordinator_that_is_not_reached_before_the_first_assignment(consumer: ConsumerFactory) -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.fault(api="FindCoordinator", error="COORDINATOR_NOT_AVAILABLE")
        reader = consumer(bootstrap_servers=broker.bootstrap_servers, group_id="etl")
        reader.subscribe("orders")
        with pytest.raises(monedula.errors.BrokersUnavailableError, match=r"coordinator.*COORDINATOR_NOT_AVAILABLE"):
            list(reader.batches(timeout=3))


@pytest.mark.parametrize("way", [stop, pause, swallow])
def test_health_says_since_when_and_why(consumer: ConsumerFactory, way: Way) -> None:
    with Broker(topics={"orders": 1}) as broker:
        reader = reading(consumer, broker)
        way(broker)
        before = datetime.now(UTC)
        while (health := reader.health())["ok"]:
            reader.poll(timeout=0.1)
        assert health["failing_for"] >= 0
        assert before - timedelta(seconds=1) <= health["failing_since"] <= datetime.now(UTC)
        assert "127.0.0.1:" in health["last_error"]


def test_health_is_well_again_once_brokers_answer(consumer: ConsumerFactory) -> None:
    with Broker(topics={"orders": 1}) as broker:
        reader = reading(consumer, broker)
        broker.stop_node(1)
        while reader.health()["ok"]:
            reader.poll(timeout=0.1)
        broker.start_node(1)
        broker.append("orders", ["b"])
        reader.take(1)
        deadline = time.monotonic() + 20
        while not reader.health()["ok"]:
            assert time.monotonic() < deadline, reader.health()
            reader.poll(timeout=0.1)


@pytest.mark.parametrize("way", [stop, swallow])
def test_a_bounded_read_says_that_brokers_do_not_answer(way: Way) -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ["a", "b"])
        settings = {"bootstrap.servers": broker.bootstrap_servers, "default.api.timeout.ms": "2000"}
        with broker.fault(api="Fetch", hold=True, on="request") as held:
            stream = monedula.read(settings, "orders")
            held.wait()
            way(broker)
            with pytest.raises(monedula.errors.BrokersUnavailableError, match="no broker that leads"):
                list(stream)


def test_a_partition_without_a_leader_is_not_drained(consumer: ConsumerFactory) -> None:
    with Broker(nodes=3, topics={"orders": 1}) as broker:
        leader = leader_of_orders(broker)
        broker.append("orders", ["a"])
        reader = consumer("orders", bootstrap_servers=broker.bootstrap_servers)
        reader.take(1)
        broker.stop_node(leader)
        with pytest.raises(monedula.errors.BrokersUnavailableError):
            list(reader.batches(timeout=3))


def leader_of_orders(broker: Broker) -> int:
    """The node that leads partition 0."""
    with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        (description,) = admin.describe_topics(["orders"]).values()
        leader = description.partitions[0].leader
    assert leader is not None
    return leader


def test_the_error_survives_pickling() -> None:
    error = monedula.errors.BrokersUnavailableError("no answer", failing_for=12.0, last_error="refused", retriable=True)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.failing_for, copy.last_error, copy.since, copy.retriable) == (12.0, "refused", error.since, True)
