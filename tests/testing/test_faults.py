"""Faults and observers from Python."""

from typing import Any

import monedula
import monedula_pytest
import pytest
from monedula.errors import ArgumentError, BrokerCommandError, KafkaTimeoutError
from monedula.testing import Broker


def rows(broker: Broker) -> int:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    return sum(batch.num_rows for batch in monedula.read(settings, "orders"))


@pytest.fixture
def broker(monedula_broker_factory: monedula_pytest.BrokerFactory) -> Broker:
    started = monedula_broker_factory(topics={"orders": 2})
    started.append("orders", ["a", "b"])
    return started


@pytest.mark.parametrize(
    "effect",
    [
        {"error": "NOT_LEADER_OR_FOLLOWER", "topic": "orders", "partition": 0},
        {"error": "UNKNOWN_SERVER_ERROR", "whole": True, "topic": "orders"},
        {"delay_ms": 50},
        {"close": True},
        {"reset": True},
        {"truncate_bytes": 20},
        {"fragment_bytes": 7, "fragment_pause_ms": 1},
        {"throttle_ms": 20},
        {"delay_ms": 50, "on": "answer"},
    ],
)
def test_a_client_gets_over_it(broker: Broker, effect: dict[str, object]) -> None:
    fault = broker.fault(api="Fetch", count=1, **effect)  # type: ignore[arg-type]
    assert rows(broker) == 2
    assert fault.hits == 1


def test_corrupt_records_are_noticed(broker: Broker) -> None:
    broker.fault(api="Fetch", corrupt=True)
    with pytest.raises(monedula.KafkaError):
        rows(broker)


def test_an_observer_counts_and_waits(broker: Broker) -> None:
    observer = broker.observe(api=["Fetch", "ListOffsets"], topic="orders", node=1)
    others = broker.observe(api="Fetch", topic="events")
    with pytest.raises(KafkaTimeoutError, match=r"0 hits of 1 in 0\.01 s"):
        observer.wait(1, timeout=0.01)
    rows(broker)
    assert observer.wait(2) >= 2
    assert (others.hits, [fault.id for fault in broker.faults()]) == (0, [observer.id, others.id])
    broker.remove_faults()
    assert broker.faults() == []
    with pytest.raises(BrokerCommandError, match="no fault"):
        observer.wait(99)


def test_what_is_held_is_released(broker: Broker) -> None:
    with broker.fault(api="Metadata", hold=True, count=1) as hold:
        consumer = monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"})
        consumer.assign("orders")
        assert hold.wait() == 1
        assert consumer.poll(0.1) is None or consumer.poll(0.1).num_rows == 0
        hold.release()
        batch = next(iter(consumer.batches()))
        assert batch.num_rows == 2
        consumer.close()


@pytest.mark.parametrize(
    "arguments",
    [{"count": 0}, {"count": "1"}, {"skip": -1}, {"probability": 1.5}, {"probability": 0}, {"delay_ms": -1}],
)
def test_a_number_out_of_its_range_is_refused(broker: Broker, arguments: dict[str, Any]) -> None:
    ((name, value),) = arguments.items()
    effect: dict[str, Any] = {} if "delay_ms" in arguments else {"hold": True}
    with pytest.raises(ArgumentError, match=f"{name}={value!r}: expected"):
        broker.fault(api="Fetch", **effect, **arguments)
    assert broker.faults() == []


def test_exactly_one_effect_is_given(broker: Broker) -> None:
    with pytest.raises(ArgumentError, match="given: none"):
        broker.fault(api="Fetch")
    with pytest.raises(ArgumentError, match="given: hold, drop"):
        broker.fault(api="Fetch", hold=True, drop=True)
    with pytest.raises(BrokerCommandError, match='no error "OOPS"'):
        broker.fault(error="OOPS")
    with pytest.raises(BrokerCommandError, match='no API "Fetsh"'):
        broker.observe(api="Fetsh")
