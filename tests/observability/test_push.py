"""`enable.metrics.push`: what consumers and producers push to the embedded broker, and how they take its errors."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

from tests.observability.pushed import decoded, eventually, receiver, subscribe, total

CONSUMED = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
REQUESTS = "org.apache.kafka.producer.request.total"
ACKNOWLEDGED = "monedula.producer.records.acknowledged.total"
SHARE = "org.apache.kafka.consumer.share"


def reading(settings: dict[str, str], **more: Any) -> monedula.Consumer:
    return monedula.Consumer({**settings, "group.id": "etl", "auto.offset.reset": "earliest", **more}, topics="orders")


def has_pushed(broker: Broker, times: int) -> bool:
    return len(broker.client_metrics()) >= times


def was_pushed(broker: Broker, name: str) -> bool:
    return any(name in decoded(push.metrics).points for push in broker.client_metrics())


def knows_its_id(client: monedula.Producer) -> bool:
    return client.health()["client_instance_id"] is not None


def test_a_consumer_pushes_what_it_counts() -> None:
    with receiver() as (broker, settings):
        broker.append("orders", [("key", "value")] * 5)
        with reading(settings, **{"client.id": "shop", "client.rack": "a"}) as consumer:
            rows = 0
            while rows < 5:
                rows += len(consumer.poll(5.0))
            consumer.commit()
            eventually(lambda: len(broker.client_metrics()) >= 2, "two pushes")
            known = consumer.health()["client_instance_id"]
        pushes = broker.client_metrics()
        counted = consumer.metrics()
    assert {push.client_instance_id for push in pushes} == {known}
    assert {push.client_id for push in pushes} == {"shop"}
    assert {push.compression for push in pushes} == {"zstd"}, "what Kafka's broker prefers"
    assert decoded(pushes[0].metrics).attributes == {"group_id": "etl", "client_rack": "a"}
    assert total(pushes, CONSUMED) == 5
    assert total(pushes, "org.apache.kafka.consumer.coordinator.rebalance.total") == counted["group_rebalance_count"]
    assert total(pushes, "org.apache.kafka.consumer.coordinator.commit.total") == counted["group_commit_count"]
    assigned = [
        decoded(push.metrics).points["org.apache.kafka.consumer.coordinator.assigned.partitions"] for push in pushes
    ]
    assert 2 in [point.value for point in assigned]


def test_a_share_consumer_pushes_what_it_counts() -> None:
    with receiver() as (broker, settings):
        broker.append("orders", ["value"] * 5)
        with monedula.Admin(settings) as admin:
            admin.alter_configs({("group", "workers"): {"share.auto.offset.reset": "earliest"}})
        with monedula.ShareConsumer({**settings, "group.id": "workers", "client.rack": "a"}, "orders") as consumer:
            rows = 0
            while rows < 5:
                rows += len(consumer.poll(5.0))
            assert sum(consumer.commit().values()) == 5
            eventually(lambda: consumer.health()["client_instance_id"] is not None, "the subscription")
            known = consumer.health()["client_instance_id"]
        pushes = [push for push in broker.client_metrics() if push.client_instance_id == known]
        fetches, beats = consumer.metrics()["fetches_sent"], consumer.health()["group"]["heartbeats"]
    assert decoded(pushes[0].metrics).attributes == {"group_id": "workers", "client_rack": "a"}
    assert total(pushes, f"{SHARE}.fetch.manager.records.consumed.total") == 5
    assert total(pushes, f"{SHARE}.fetch.manager.fetch.total") == fetches
    assert total(pushes, f"{SHARE}.fetch.manager.acknowledgements.error.total") == 0
    assert total(pushes, "monedula.consumer.share.records.acknowledged.total") == 5
    assert total(pushes, f"{SHARE}.coordinator.heartbeat.total") == beats


def test_the_last_push_has_what_was_counted_since() -> None:
    """franz-go lost it (its changelog of 2026)."""
    with receiver(interval_ms=3_600_000) as (broker, settings):
        asked = broker.observe(api="GetTelemetrySubscriptions")
        with monedula.Producer(settings) as producer:
            producer.send("orders", b"value").result()
            asked.wait(1, timeout=30)
            eventually(lambda: producer.health()["client_instance_id"], "the subscription")
            producer.send("orders", b"value")
        (push,) = broker.client_metrics()
    assert push.terminating
    assert decoded(push.metrics).points[ACKNOWLEDGED].value == 2


def test_rates_are_of_the_time_since_the_last_push() -> None:
    """franz-go pushed the same rates again and again (its changelog of 2026)."""
    with receiver() as (broker, settings), monedula.Producer(settings) as producer:
        for turn in range(1, 4):
            producer.send("orders", b"value").result()
            eventually(partial(has_pushed, broker, 3 * turn), "three more pushes")
        points = [decoded(push.metrics).points for push in broker.client_metrics()]
    rates = [found["monedula.producer.records.acknowledged.rate"].value for found in points]
    assert 0.0 in rates
    assert max(rates) > 0.0
    for found in points:
        seconds = (found[ACKNOWLEDGED].end - found[ACKNOWLEDGED].start) / 1e9
        expected = found[ACKNOWLEDGED].value / seconds
        assert found["monedula.producer.records.acknowledged.rate"].value == pytest.approx(expected, rel=0.05)


def test_deltas_follow_each_other_without_a_gap() -> None:
    with receiver() as (broker, settings):
        with monedula.Producer(settings) as producer:
            producer.send("orders", b"value").result()
            eventually(lambda: len(broker.client_metrics()) >= 3, "three pushes")
        pushes = broker.client_metrics()
        sent = producer.metrics()["requests_sent"]
    points = [decoded(push.metrics).points[REQUESTS] for push in pushes]
    assert all(point.is_sum and point.is_delta for point in points)
    assert [point.start for point in points[1:]] == [point.end for point in points[:-1]]
    assert sum(point.value for point in points) == sent - 1, "all but the last push itself"


def test_only_metrics_with_the_prefixes_are_pushed() -> None:
    prefix = "org.apache.kafka.producer.connection"
    with receiver(metrics=prefix) as (broker, settings), monedula.Producer(settings) as producer:
        producer.send("orders", b"value").result()
        (push, *_) = eventually(broker.client_metrics, "a push")
    names = set(decoded(push.metrics).points)
    assert names
    assert all(name.startswith(prefix) for name in names)


def test_each_client_gets_the_subscriptions_that_match_it() -> None:
    with receiver(metrics="org.apache.kafka.producer.request", match="client_id=shop.*") as (broker, settings):
        with (
            monedula.Producer({**settings, "client.id": "shop-1"}) as shop,
            monedula.Producer({**settings, "client.id": "other"}) as other,
        ):
            for producer in (shop, other):
                producer.send("orders", b"value").result()
            eventually(broker.client_metrics, "a push")
            eventually(lambda: other.health()["client_instance_id"], "a subscription without metrics")
        assert {push.client_id for push in broker.client_metrics()} == {"shop-1"}


def test_a_changed_subscription_is_taken_at_once() -> None:
    with receiver(metrics="org.apache.kafka.producer.request") as (broker, settings):
        with monedula.Producer(settings) as producer:
            producer.send("orders", b"value").result()
            (first, *_) = eventually(broker.client_metrics, "a push")
            subscribe(settings, "all", "org.apache.kafka.producer.buffer")

            def newer() -> bool:
                return any(push.subscription_id != first.subscription_id for push in broker.client_metrics())

            eventually(newer, "a push for the new subscription")
        last = broker.client_metrics()[-1]
    assert set(decoded(last.metrics).points) == {
        "org.apache.kafka.producer.buffer.total.bytes",
        "org.apache.kafka.producer.buffer.available.bytes",
    }
    assert last.client_instance_id == first.client_instance_id


@pytest.mark.parametrize(
    "error",
    ["UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE", "TELEMETRY_TOO_LARGE", "THROTTLING_QUOTA_EXCEEDED"],
)
def test_after_an_error_that_passes_the_client_subscribes_again(error: str) -> None:
    with receiver() as (broker, settings), monedula.Producer(settings) as producer:
        asked = broker.observe(api="GetTelemetrySubscriptions")
        broker.fault(api="PushTelemetry", error=error, count=1)
        producer.send("orders", b"value").result()
        (push, *_) = eventually(broker.client_metrics, "a push after the error")
        assert asked.wait(2, timeout=30) >= 2
        assert decoded(push.metrics).points[ACKNOWLEDGED].value == 1, "no delta is lost"


@pytest.mark.parametrize("error", ["INVALID_RECORD", "INVALID_REQUEST", "UNSUPPORTED_VERSION"])
def test_after_an_error_for_good_nothing_is_pushed(error: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "monedula")
    with receiver() as (broker, settings):
        asked = broker.observe(api="GetTelemetrySubscriptions")
        refused = broker.fault(api="PushTelemetry", error=error, count=1)
        with monedula.Producer(settings) as producer:
            producer.send("orders", b"value").result()
            assert refused.wait(1, timeout=30) >= 1
            eventually(
                lambda: (producer.health(), "no more metrics are pushed" in caplog.text)[1], "the line in the log"
            )
        assert broker.client_metrics() == []
        assert asked.hits == 1


def test_without_a_receiver_nothing_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(5, "monedula")
    with Broker(topics={"orders": 1}) as broker:
        with monedula.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"value").result()
            assert producer.health()["client_instance_id"] is None
        assert not re.search("Telemetry", " ".join(line.message for line in broker.log()))
        assert broker.client_metrics() == []


def test_who_does_not_want_to_push_does_not() -> None:
    with receiver() as (broker, settings):
        asked = broker.observe(api="GetTelemetrySubscriptions")
        with monedula.Producer({**settings, "enable.metrics.push": "false"}) as producer:
            producer.send("orders", b"value").result()
            assert producer.health()["client_instance_id"] is None
        with monedula.Producer(settings) as producer:
            producer.send("orders", b"value").result()
            eventually(lambda: producer.health()["client_instance_id"], "the subscription")
            assert asked.hits == 1
        assert {push.client_instance_id for push in broker.client_metrics()} == {
            producer.health()["client_instance_id"]
        }


def test_closing_does_not_wait_for_a_broker_that_is_silent() -> None:
    with receiver() as (broker, settings):
        producer = monedula.Producer(settings)
        producer.send("orders", b"value").result()
        eventually(broker.client_metrics, "a push")
        held = broker.fault(api="PushTelemetry", hold=True)
        producer.close()
        assert held.hits >= 1


def test_the_guide_names_what_is_pushed() -> None:
    guide = (Path(__file__).parents[2] / "docs/observability.md").read_text()
    named: set[str] = set()
    for row in re.findall(
        r"^\| (`(?:org\.apache|monedula\.producer|monedula\.consumer\.share)\..*?) \|", guide, flags=re.MULTILINE
    ):
        for part in row.split("; "):
            first, *others = re.findall(r"`([\w.]+)`", part)
            if not first.startswith("."):
                whole = first
                prefix = re.match(
                    r"org\.apache\.kafka\.(?:consumer\.share|consumer\.coordinator|consumer|producer)"
                    r"|monedula\.(?:producer|consumer\.share)",
                    first,
                )
                assert prefix is not None
                base = prefix[0]
            else:
                whole = base + first
            named |= {whole, *(whole.rpartition(".")[0] + other for other in others)}
    with receiver() as (broker, settings):
        broker.append("orders", ["value"])
        share_group = {**settings, "group.id": "workers"}
        with (
            reading(settings) as consumer,
            monedula.ShareConsumer(share_group, "orders") as share_consumer,
            monedula.Producer(settings) as producer,
        ):
            producer.send("orders", b"value").result()
            share_consumer.poll(0.0)
            consumer.poll(5.0)
            consumer.commit()
            lag = "org.apache.kafka.consumer.fetch.manager.records.lag.max"
            eventually(partial(was_pushed, broker, lag), "a push before the partitions are given up")
            eventually(partial(knows_its_id, producer), "the subscription")
            eventually(partial(was_pushed, broker, f"{SHARE}.fetch.manager.fetch.total"), "a push of each")
        names = {name for push in broker.client_metrics() for name in decoded(push.metrics).points}
    of_producers = {name for name in names if name.startswith("org.apache.kafka.producer.")}
    shared = {name for name in of_producers if name.replace(".producer.", ".consumer.") in names}
    assert named == names - shared


def test_librdkafka_pushes_to_the_embedded_broker() -> None:
    from confluent_kafka import Producer

    with receiver() as (broker, settings):
        producer = Producer({**settings, "client.id": "librdkafka"})
        producer.produce("orders", b"value")
        producer.flush(30)
        eventually(lambda: (producer.poll(0.05), broker.client_metrics())[1], "a push")
        pushes = broker.client_metrics()
    assert pushes[0].client_id == "librdkafka"
    assert any(name.startswith("org.apache.kafka.producer.") for name in decoded(pushes[0].metrics).points)
