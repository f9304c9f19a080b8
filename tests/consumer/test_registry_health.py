"""A registry that hangs or fails: what stops, what does not, and who is told."""

import logging
from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula import Avro
from monedula.testing import Broker

from tests.consumer.test_schema_registry import ORDER, framed, ids, order

HANGING = 5


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(registry=True, topics={"orders": HANGING + 1}) as broker:
        yield broker


def settings(broker: Broker, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "schema.registry.url": broker.schema_registry_url,
        "schema.registry.max.retries": 0,
        **more,
    }


def fill(broker: Broker) -> list[int]:
    """A record in each partition, each with a schema of its own; the ids of these."""
    numbers = []
    for partition in range(HANGING + 1):
        schema = {**ORDER, "doc": str(partition)}
        numbers.append(broker.registry.register(f"s{partition}", schema))
        broker.append("orders", [framed(numbers[-1], schema, order(partition))], partition=partition)
    return numbers


def rows(consumer: monedula.Consumer) -> list[int]:
    return ids(consumer.poll(timeout=20))


def test_ids_that_nobody_answers_stop_no_other(broker: Broker) -> None:
    numbers = fill(broker)
    held = [broker.registry.fault(path=f"/schemas/ids/{number}", hold=True) for number in numbers[:HANGING]]
    with monedula.Consumer(settings(broker), value=Avro(ORDER)) as consumer:
        consumer.assign({("orders", partition): "earliest" for partition in range(HANGING)})
        assert consumer.poll(timeout=0.0).num_rows == 0
        for fault in held:
            while fault.hits == 0:
                consumer.poll(timeout=0.05)
        consumer.assign({("orders", partition): "earliest" for partition in range(HANGING + 1)})
        assert rows(consumer) == [HANGING]
        for fault in held:
            fault.release()
        read: list[int] = []
        while len(read) < HANGING:
            read += rows(consumer)
    assert sorted(read) == list(range(HANGING))


def test_health_and_log_tell_of_a_registry_that_fails(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    fill(broker)
    fault = broker.registry.fault(path="/schemas/ids/*", status=503)
    with (
        caplog.at_level(logging.INFO, "monedula"),
        monedula.Consumer(settings(broker), value=Avro(ORDER)) as consumer,
    ):
        consumer.assign({("orders", 0): "earliest"})
        health = consumer.health()
        assert (health["registry_failing_for"], health["registry_last_error"]) == (None, None)
        with pytest.raises(monedula.errors.SchemaRegistryError):
            consumer.poll(timeout=20)
        health = consumer.health()
        assert health["ok"] is False
        assert health["registry_failing_for"] >= 0
        assert "answered 503" in health["registry_last_error"]
        fault.remove()
        read: list[int] = []
        while not read:
            # For a second, the error stands for all that ask.
            try:
                read = rows(consumer)
            except monedula.errors.SchemaRegistryError:
                continue
        health = consumer.health()
        assert (health["ok"], health["registry_failing_for"], health["registry_last_error"]) == (True, None, None)
    told = [(record.name, vars(record)["event"]) for record in caplog.records if "registry" in record.name]
    assert told[0] == ("monedula.registry", "registry_failed")
    assert told[-1] == ("monedula.registry", "registry_answers")


def test_what_a_registry_refuses_is_no_failure_of_it(broker: Broker) -> None:
    fill(broker)
    with monedula.Consumer(settings(broker), value=Avro(ORDER)) as consumer:
        broker.append("orders", [framed(1000, ORDER, order(1))], partition=1)
        consumer.assign({("orders", 1): "earliest"})
        assert rows(consumer) == [1]
        with pytest.raises(monedula.DecodeError):
            consumer.poll(timeout=20)
        assert consumer.health()["registry_failing_for"] is None


def test_an_admin_client_warns_of_settings_that_it_does_not_use(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "monedula"), monedula.Admin(settings(broker)) as admin:
        admin.list_topics()
    assert any("schema.registry.url is a setting of consumers and producers" in text for text in caplog.messages)


def test_a_schema_with_rules_is_refused(broker: Broker) -> None:
    rules = {"domainRules": [{"name": "pii", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"}]}
    number = broker.registry.register("secret", ORDER, ruleSet=rules)
    broker.append("orders", [framed(number, ORDER, order(1))])
    with monedula.Consumer(settings(broker), value=Avro(ORDER)) as consumer:
        consumer.assign({("orders", 0): "earliest"})
        with pytest.raises(monedula.errors.SchemaRegistryError, match="has rules"):
            consumer.poll(timeout=20)
