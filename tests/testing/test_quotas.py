"""Client quotas of `Broker`, and what monedula's own clients do under them."""

import time

import monedula
from monedula.admin import QuotaEntity
from monedula.testing import Broker

PATIENCE_SECONDS = 60.0
CLIENT = "slow"
QUOTA = 10_000
"""Bytes a second; ten seconds' worth are free."""


def limit(broker: Broker, quota: str) -> dict[str, str]:
    """Set a quota for the client id; settings of a client that has it."""
    with monedula.Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.alter_client_quotas({QuotaEntity(client_id=CLIENT): {quota: QUOTA}})
    return {"bootstrap.servers": broker.bootstrap_servers, "client.id": CLIENT}


def test_a_producer_beyond_its_quota_waits_and_loses_nothing() -> None:
    with Broker(topics={"orders": 1}) as broker:
        settings = limit(broker, "producer_byte_rate")
        with monedula.Producer(settings) as producer:
            # Four per cent more than ten seconds' worth, so that the wait is less than half a second.
            producer.send("orders", b"x" * 104_000).result(PATIENCE_SECONDS)
            assert producer.send("orders", b"y").result(PATIENCE_SECONDS).offset == 1
            assert producer.metrics()["throttled"] >= 1
        with monedula.Producer({**settings, "client.id": "other"}) as producer:
            producer.send("orders", b"x" * 204_000).result(PATIENCE_SECONDS)
            assert producer.metrics()["throttled"] == 0


def test_a_consumer_beyond_its_quota_waits_and_reads_on() -> None:
    # Kafka's window is eleven seconds long: the test moves the clock past it.
    with Broker(topics={"orders": 1}, clock="manual") as broker:
        for _ in range(21):
            broker.append("orders", [b"x" * 5_000])  # each a batch, of which ten seconds' worth has nineteen
        settings = limit(broker, "consumer_byte_rate")
        with monedula.Consumer(settings | {"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign("orders")
            rows, deadline = 0, time.monotonic() + PATIENCE_SECONDS
            while not consumer.metrics()["throttled"]:
                assert time.monotonic() < deadline
                rows += consumer.poll(timeout=0.1).num_rows
            assert rows < 21
            while rows < 21:
                assert time.monotonic() < deadline
                broker.advance(11)
                rows += consumer.poll(timeout=0.1).num_rows
