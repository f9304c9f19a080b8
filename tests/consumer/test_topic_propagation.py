"""Topics that brokers do not know for a while: patience is a time, however many answers come in it."""

import time
from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
MANY = 12
"""More answers than a client ever counted."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ["a", "b"])
        yield broker


def settings(broker: Broker, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 5, "retry.backoff.max.ms": 20, **more}


def read_two(consumer: monedula.Consumer) -> None:
    rows = 0
    while rows < 2:
        rows += len(consumer.poll(timeout=20))


@pytest.mark.parametrize("what", ["orders", {("orders", 0): "earliest"}])
def test_an_assigned_topic_that_many_answers_do_not_know_is_read_when_it_is_known(broker: Broker, what: Any) -> None:
    with monedula.Consumer(settings(broker, auto_offset_reset="earliest")) as consumer:
        unknown = broker.fault(api="Metadata", topic="orders", error=UNKNOWN)
        consumer.assign(what)
        while unknown.hits < MANY:
            assert consumer.poll(timeout=0.05).num_rows == 0
        unknown.remove()
        read_two(consumer)


def test_a_read_waits_for_a_topic_that_many_answers_do_not_know(broker: Broker) -> None:
    unknown = broker.fault(api="Metadata", topic="orders", error=UNKNOWN, count=MANY)
    assert sum(batch.num_rows for batch in monedula.read(settings(broker), "orders")) == 2
    assert unknown.hits == MANY


def test_a_topic_that_is_given_up_is_read_once_it_is_known(broker: Broker) -> None:
    unknown = broker.fault(api="Metadata", topic="orders", error=UNKNOWN)
    with monedula.Consumer(
        settings(broker, topic_metadata_propagation_max_ms=50, auto_offset_reset="earliest")
    ) as consumer:
        consumer.assign("orders")
        with pytest.raises(monedula.UnknownTopicError):
            consumer.poll(timeout=20)
        unknown.remove()
        rows = 0
        while rows < 2:
            try:
                rows += len(consumer.poll(timeout=1.0))
            except monedula.UnknownTopicError:
                assert rows == 0


@pytest.mark.parametrize("what", ["orders", {("orders", 0): "earliest"}])
def test_a_loop_that_asks_on_after_the_error_does_not_spin(broker: Broker, what: Any) -> None:
    broker.fault(api="Metadata", topic="orders", error=UNKNOWN)
    with monedula.Consumer(settings(broker, topic_metadata_propagation_max_ms=50)) as consumer:
        consumer.assign(what)
        raised = 0
        began = time.monotonic()
        while raised < 5:
            try:
                consumer.poll(timeout=0.3)
            except monedula.UnknownTopicError:
                raised += 1
        # The first two errors may come at once: that of the event, and that which lasts.
        assert time.monotonic() - began >= 3 * 0.3


def test_a_record_waits_for_a_topic_that_many_answers_do_not_know(broker: Broker) -> None:
    unknown = broker.fault(api="Metadata", topic="orders", error=UNKNOWN, count=MANY)
    with monedula.Producer(settings(broker)) as producer:
        assert producer.send("orders", b"c").result(timeout=60).offset == 2
    assert unknown.hits == MANY


def test_a_record_of_a_topic_that_stays_unknown_fails_when_its_time_is_over(broker: Broker) -> None:
    with monedula.Producer(settings(broker, topic_metadata_propagation_max_ms=50)) as producer:
        future = producer.send("none", b"c")
        with pytest.raises(monedula.UnknownTopicError, match="does not exist"):
            future.result(timeout=60)
