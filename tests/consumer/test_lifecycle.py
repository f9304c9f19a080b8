import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.consumer.conftest import ConsumerFactory
from tests.consumer.test_assign import fill
from tests.consumer.uniform import Uniform
from tests.kafka import KafkaCluster

PARTITION = ("orders", 0)
AFTER_CLOSE: dict[str, Callable[[Uniform], Any]] = {
    "poll": lambda reader: reader.poll(),
    "batches": lambda reader: next(reader.batches()),
    "records": lambda reader: next(reader.records()),
    "assign topic": lambda reader: reader.assign("orders"),
    "assign partition": lambda reader: reader.assign([PARTITION]),
    "unassign": lambda reader: reader.unassign(),
    "assignment": lambda reader: reader.assignment(),
    "seek": lambda reader: reader.seek(PARTITION, 0),
    "seek_to_beginning": lambda reader: reader.seek_to_beginning(PARTITION),
    "pause": lambda reader: reader.pause(PARTITION),
    "position": lambda reader: reader.position(PARTITION),
    "lag": lambda reader: reader.lag(PARTITION),
    "end_offsets": lambda reader: reader.end_offsets([PARTITION]),
    "offsets_for_times": lambda reader: reader.offsets_for_times({PARTITION: 0}),
    "partitions_of": lambda reader: reader.partitions_of("orders"),
}


@pytest.mark.parametrize("verb", AFTER_CLOSE)
def test_a_closed_consumer_says_so(consumer: ConsumerFactory, verb: str) -> None:
    reader = consumer(bootstrap_servers="127.0.0.1:1")
    reader.assign([PARTITION])
    reader.close()
    with pytest.raises(monedula.errors.ClosedError, match="the consumer is closed"):
        AFTER_CLOSE[verb](reader)


@pytest.mark.parametrize("kind", [monedula.Consumer, monedula.Producer, monedula.Admin])
def test_a_closed_client_enters_no_block(kind: Any) -> None:
    client = kind(bootstrap_servers="127.0.0.1:1")
    client.close()
    with pytest.raises(monedula.errors.ClosedError, match="is closed"), client:
        pytest.fail("entered")


@pytest.mark.parametrize("kind", [monedula.AsyncConsumer, monedula.AsyncProducer, monedula.AsyncAdmin])
async def test_a_closed_client_for_asyncio_enters_no_block(kind: Any) -> None:
    client = kind(bootstrap_servers="127.0.0.1:1")
    await client.close()
    with pytest.raises(monedula.errors.ClosedError, match="is closed"):
        async with client:
            pytest.fail("entered")


def test_closing_again_does_nothing(kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory) -> None:
    name = topic()
    fill(kafka, name, 1)
    reader = consumer(name)
    reader.take(5)
    for _ in range(3):
        reader.close()
    assert reader.metrics()["records_delivered"] == 5


def test_closing_is_bounded_when_nothing_answers(consumer: ConsumerFactory) -> None:
    # A close that waited for the attempt to connect would end with the time-out of this test.
    reader = consumer("orders", bootstrap_servers="192.0.2.1:9092", socket_connection_setup_timeout_ms=3_600_000)
    assert not reader.poll(timeout=0.2)
    reader.close(timeout=1.0)


def test_wakeup_ends_the_next_wait_and_only_that(topic: TopicFactory, consumer: ConsumerFactory) -> None:
    reader = consumer(topic())
    reader.wakeup()
    with pytest.raises(monedula.errors.WakeupError):
        reader.poll(timeout=30)
    assert not reader.poll(timeout=0.1)


def test_wakeup_from_another_thread_ends_the_wait_under_way(topic: TopicFactory, consumer: ConsumerFactory) -> None:
    reader = consumer(topic())
    threading.Timer(0.3, reader.consumer.wakeup).start()
    with pytest.raises(monedula.errors.WakeupError):
        reader.poll(timeout=3600)


def test_wakeup_ends_an_iteration_without_an_error(topic: TopicFactory, consumer: ConsumerFactory) -> None:
    reader = consumer(topic())
    for iterator in (reader.batches(), reader.records()):
        reader.wakeup()
        assert list(iterator) == []


@pytest.mark.req("S076")
def test_metrics_and_health_tell_what_happened(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    fill(kafka, name, 1)
    reader = consumer(name)
    reader.take(5)
    metrics = reader.metrics()
    assert metrics["records_delivered"] == 5
    assert metrics["batches_delivered"] >= 1
    for counter in ("connections_opened", "requests_sent", "responses_received", "bytes_received", "fetches_sent"):
        assert metrics[counter] > 0, counter
    health = reader.health()
    assert health["group"] is None
    assert set(health) == {
        "group",
        "connections",
        "brokers",
        "bootstrapped",
        "certificate_expires",
        "client_instance_id",
        "ok",
        "failing_for",
        "failing_since",
        "last_error",
        "budget_used_bytes",
        "budget_bytes",
        "retried_errors",
        "partitions",
        "registry_failing_for",
        "registry_last_error",
    }
    assert (health["bootstrapped"], health["brokers"], health["last_error"]) == (True, 1, None)
    partition = health["partitions"][name, 0]
    assert (partition["position"], partition["high_watermark"], partition["log_start_offset"]) == (5, 5, 0)
    assert (partition["paused"], partition["error"]) == (False, None)


def test_health_tells_for_how_long_and_why_the_cluster_cannot_be_reached(consumer: ConsumerFactory) -> None:
    reader = consumer("orders", bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=60_000)
    reader.poll(timeout=0.5)
    health = reader.health()
    assert not health["bootstrapped"]
    assert health["failing_for"] > 0
    assert "refused" in health["last_error"]
    assert health["retried_errors"]


@pytest.mark.req("S076", "S175")
def test_a_failed_connection_is_logged_with_broker_attempt_and_next_delay(
    consumer: ConsumerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def failed() -> list[logging.LogRecord]:
        return [record for record in caplog.records if vars(record).get("event") == "connection_failed"]

    # At other levels than DEBUG, repetitions are counted.
    with caplog.at_level(logging.DEBUG, logger="monedula"):
        reader = consumer("orders", bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=60_000)
        while len(failed()) < 2:
            reader.poll(timeout=0.1)
    first, second = (record.getMessage() for record in failed()[:2])
    assert first.startswith("127.0.0.1:1: Connection refused")
    assert "attempt 1, next in" in first
    assert "attempt 2, next in" in second
    assert {(record.name, record.levelname) for record in failed()} == {("monedula.network", "WARNING")}


def test_the_debug_log_shows_connections_requests_and_answers(
    topic: TopicFactory, consumer: ConsumerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic()
    with caplog.at_level(logging.DEBUG, logger="monedula"):
        consumer().end_offsets([(name, 0)])
    text = caplog.text
    for part in ("connecting to 127.0.0.1:", "sent ListOffsets v", "(key 2)", "answer to ListOffsets", " bytes"):
        assert part in text, part


def test_a_level_set_later_is_followed(
    topic: TopicFactory, consumer: ConsumerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic()
    with caplog.at_level(logging.WARNING, logger="monedula"):
        reader = consumer()
        reader.end_offsets([(name, 0)])
        assert "ListOffsets" not in caplog.text
    with caplog.at_level(logging.DEBUG, logger="monedula"):
        reader.end_offsets([(name, 0)])
        reader.end_offsets([(name, 0)])
    assert "sent ListOffsets" in caplog.text


def test_memory_is_given_back(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "x" * 100_000} for _ in range(50)])
    with monedula.Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as reader:
        reader.assign(name)
        batches = list(reader.batches(timeout=1.0))
        held, _ = reader._core.pool_bytes()
        assert held > 5_000_000
        del batches
        gc.collect()
        left, idle = reader._core.pool_bytes()
        # Memory that a waiting fetch has reserved is not memory of batches.
        assert left < held - 4_000_000
        assert idle <= reader.health()["budget_bytes"]
