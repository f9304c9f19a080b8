"""Sessions that end while clients work, on a listener of a real Kafka whose sessions last three seconds (KIP-368)."""

import time
from collections.abc import Callable
from typing import Any

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.kafka.secured import ANNA, SecuredKafka

PATIENCE_SECONDS = 60
RENEWALS = 3


@pytest.fixture
def renewals(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """How often a client has logged in again so far."""
    caplog.set_level(10, logger="monedula")
    return lambda: sum("logged in again" in record.getMessage() for record in caplog.records)


def until_renewed(renewals: Callable[[], int], work: Callable[[int], object]) -> int:
    """Does the work again and again until sessions were renewed several times. Returns how often it was done."""
    deadline, done, before = time.monotonic() + PATIENCE_SECONDS, 0, renewals()
    while renewals() < before + RENEWALS:
        assert time.monotonic() < deadline, "sessions are not renewed"
        work(done)
        done += 1
    return done


def opened(client: Any) -> int:
    """Connections that the client has made."""
    return int(client.metrics()["connections_opened"])


@pytest.mark.parametrize("acks", ["all", "0"])
def test_a_producer_goes_on_over_the_same_connections(
    secured: SecuredKafka, topic: TopicFactory, renewals: Callable[[], int], acks: str
) -> None:
    name = topic(cluster=secured)
    settings = secured.client_settings("REAUTH", "SCRAM-SHA-256", ANNA, names="librdkafka")
    with monedula.Producer(settings, acks=acks, enable_idempotence=acks == "all") as producer:
        producer.send(name, value=b"first").result(30)
        connections = opened(producer)
        count = until_renewed(renewals, lambda n: producer.send(name, value=str(n).encode()).result(30))
        producer.flush(30)
        assert opened(producer) == connections
    values = [record.value for batch in monedula.read(settings, name) for record in batch.records()]
    assert values == [b"first", *(str(n).encode() for n in range(count))]


def test_a_group_member_stays_in_its_group(
    secured: SecuredKafka, topic: TopicFactory, renewals: Callable[[], int]
) -> None:
    name = topic(cluster=secured)
    settings = secured.client_settings("REAUTH", "SCRAM-SHA-512", ANNA, names="librdkafka")
    lost: list[object] = []
    with (
        monedula.Producer(settings) as producer,
        monedula.Consumer(settings, group_id=name, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe([name], on_revoked=lost.append, on_lost=lost.append)
        read: list[bytes | None] = []

        def work(n: int) -> None:
            producer.send(name, value=str(n).encode()).result(30)
            batch = consumer.poll(1)
            read.extend(record.value for record in (batch.records() if batch is not None else []))

        count = until_renewed(renewals, work)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(read) < count and time.monotonic() < deadline:
            batch = consumer.poll(1)
            read.extend(record.value for record in (batch.records() if batch is not None else []))
        assert read == [str(n).encode() for n in range(count)]
        assert lost == []


def test_a_transaction_outlives_its_session(
    secured: SecuredKafka, topic: TopicFactory, renewals: Callable[[], int]
) -> None:
    name = topic(cluster=secured)
    settings = secured.client_settings("REAUTH", "PLAIN", ANNA, names="librdkafka")
    with monedula.Producer(settings, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        count = until_renewed(renewals, lambda n: producer.send(name, value=str(n).encode()).result(30))
        producer.commit_transaction()
    committed = monedula.read({**settings, "isolation.level": "read_committed"}, name)
    assert sum(batch.num_rows for batch in committed) == count


def test_an_idle_long_poll_is_renewed_too(
    secured: SecuredKafka, topic: TopicFactory, renewals: Callable[[], int]
) -> None:
    name = topic(cluster=secured)
    settings = secured.client_settings("REAUTH", "PLAIN", ANNA, names="librdkafka")
    with monedula.Consumer(settings, fetch_max_wait_ms=10_000, request_timeout_ms=30_000) as consumer:
        consumer.assign({(name, 0): 0})
        until_renewed(renewals, lambda _: consumer.poll(0.5))
        secured.helper.produce(name, [{"value": "x"}])
        deadline = time.monotonic() + PATIENCE_SECONDS
        batch = None
        while (batch is None or not batch.num_rows) and time.monotonic() < deadline:
            batch = consumer.poll(1)
        assert batch is not None
        assert batch.num_rows == 1
