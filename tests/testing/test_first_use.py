"""What is used for the first time, with the clients: topics that they create, and the first coordinators."""

from itertools import islice
from typing import Literal

import monedula
import pytest
from monedula import ConfigError
from monedula.testing import Broker

USES: tuple[Literal["once", "kafka"], ...] = ("once", "kafka")


@pytest.mark.parametrize("first_use", USES)
def test_a_producer_and_a_group_find_what_they_use_first(first_use: Literal["once", "kafka"]) -> None:
    with Broker(nodes=3, first_use=first_use) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        with monedula.Producer(settings | {"allow.auto.create.topics": True}) as producer:
            producer.send("made", b"1").result()
        with monedula.Consumer(settings | {"group.id": "etl"}) as consumer:
            consumer.subscribe("made")
            (record,) = islice(consumer.records(timeout=30.0), 1)
            assert record.value == b"1"
            consumer.commit({("made", 0): 1})
        assert broker.group("etl").offsets == {("made", 0): 1}


@pytest.mark.parametrize("first_use", USES)
def test_a_transaction_finds_its_coordinator(first_use: Literal["once", "kafka"]) -> None:
    with Broker(nodes=3, first_use=first_use, topics={"orders": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"}
        with monedula.Producer(settings) as producer:
            with producer.transaction():
                producer.send("orders", b"1")
            errors = [error for request in broker.requests() for error in request.errors]
        assert "COORDINATOR_NOT_AVAILABLE" in errors


def test_a_topic_that_an_admin_creates_is_used_at_once() -> None:
    with Broker(nodes=3, first_use="kafka") as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        with monedula.Admin(settings) as admin, monedula.Producer(settings) as producer:
            for number in range(10):
                admin.create_topics(f"new-{number}", partitions=3)
                assert producer.partitions_for(f"new-{number}") == [0, 1, 2]
                producer.send(f"new-{number}", b"1").result()


def test_another_first_use_is_refused() -> None:
    with pytest.raises(ConfigError, match='first_use: "never" is neither once nor kafka'):
        Broker(first_use="never")  # type: ignore[arg-type]
