"""A schema registry that accepts questions and says nothing is no topic without records."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula import Avro
from monedula.testing import Broker

from tests.consumer.test_schema_registry import ORDER, framed, order


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(registry=True, topics={"orders": 1}) as broker:
        number = broker.registry.register("s", ORDER)
        broker.append("orders", [framed(number, ORDER, order(1))])
        broker.registry.fault(path="/schemas/ids/*", hold=True)
        yield broker


def settings(broker: Broker, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "schema.registry.url": broker.schema_registry_url,
        "default.api.timeout.ms": 3000,
        **more,
    }


def test_a_wait_that_ends_without_records_names_the_registry(broker: Broker) -> None:
    with monedula.Consumer(settings(broker), value=Avro(ORDER)) as consumer:
        consumer.assign({("orders", 0): "earliest"})
        with pytest.raises(monedula.errors.SchemaRegistryError, match="the schema registry has not answered") as told:
            list(consumer.batches(timeout=3))
        assert told.value.retriable


@pytest.mark.parametrize("status", [500, 503])
def test_no_wait_ends_quietly_while_the_registry_fails(broker: Broker, status: int) -> None:
    """Nor the one that ends between two questions, or amid the attempts of one."""
    broker.remove_faults()
    broker.registry.fault(path="/schemas/ids/*", status=status)
    with monedula.Consumer(settings(broker, **{"schema.registry.max.retries": 1}), value=Avro(ORDER)) as consumer:
        consumer.assign({("orders", 0): "earliest"})
        # A wait tells of what has failed for as long as itself, or for two seconds.
        while (consumer.health()["registry_failing_for"] or 0.0) < 2:
            with contextlib.suppress(monedula.errors.SchemaRegistryError):
                consumer.poll(timeout=0.1)
        for seconds in (3, 0.7, 0.4, 1.1, 0.3):
            with pytest.raises(monedula.errors.SchemaRegistryError):
                list(consumer.batches(timeout=seconds))


def test_a_member_of_a_share_group_names_the_registry(broker: Broker) -> None:
    with monedula.Admin(settings(broker)) as admin:
        admin.alter_configs({("group", "workers"): {"share.auto.offset.reset": "earliest"}})
    with monedula.ShareConsumer(settings(broker), ["orders"], group_id="workers", value=Avro(ORDER)) as consumer:

        def wait() -> None:
            while True:  # joining may take the first time
                list(consumer.batches(timeout=3))

        with pytest.raises(monedula.errors.SchemaRegistryError, match="the schema registry has not answered"):
            wait()


def test_a_read_names_the_registry(broker: Broker) -> None:
    with pytest.raises(monedula.errors.SchemaRegistryError, match="the schema registry has not answered"):
        list(monedula.read(settings(broker), "orders", value=Avro(ORDER)))


def test_health_and_log_tell_of_it_from_the_first_time_out_on(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    # So many attempts do not end within any test.
    patient = {"schema.registry.request.timeout.ms": 100, "schema.registry.max.retries": 100}
    with (
        caplog.at_level(logging.INFO, "monedula"),
        monedula.Consumer(settings(broker, **patient), value=Avro(ORDER)) as consumer,
    ):
        consumer.assign({("orders", 0): "earliest"})
        while consumer.health()["registry_failing_for"] is None:
            consumer.poll(timeout=0.05)
        health = consumer.health()
        assert health["ok"] is False
        assert "did not answer within schema.registry.request.timeout.ms" in health["registry_last_error"]
        while not any("the schema registry cannot be asked" in record.message for record in caplog.records):
            consumer.poll(timeout=0.05)
