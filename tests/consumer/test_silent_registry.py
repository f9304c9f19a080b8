"""A schema registry that accepts questions and says nothing is no topic without records."""

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
