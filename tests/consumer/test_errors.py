import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.consumer.conftest import ConsumerFactory
from tests.consumer.test_assign import await_position, fill
from tests.consumer.uniform import Uniform, values
from tests.kafka import KafkaCluster


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


VERBS: dict[str, Callable[[Uniform], Any]] = {
    "poll": lambda reader: reader.poll(timeout=30),
    "batches": lambda reader: next(reader.batches()),
    "end_offsets": lambda reader: reader.end_offsets([("orders", 0)]),
    "partitions_of": lambda reader: reader.partitions_of("orders"),
}


@pytest.mark.req("S094")
@pytest.mark.parametrize("verb", VERBS)
def test_an_unreachable_cluster_is_an_error_on_time_that_names_addresses_and_reasons(
    consumer: ConsumerFactory, silent: str, verb: str
) -> None:
    settings: dict[str, Any] = {
        "bootstrap_timeout_ms": 1500,
        "socket_connection_setup_timeout_ms": 500,
        "request_timeout_ms": 600,
    }
    servers = ["127.0.0.1:1", silent, "no-such-host.invalid:9092"]
    reader = consumer("orders", bootstrap_servers=servers, **settings)
    started = time.monotonic()
    with pytest.raises(monedula.errors.BrokerConnectionError) as caught:
        VERBS[verb](reader)
    waited = time.monotonic() - started
    assert 1.0 < waited < 1.5 + 3, waited
    message = str(caught.value)
    assert "127.0.0.1:1: Connection refused" in message
    assert f"{silent}: " in message
    assert "no-such-host.invalid:9092: " in message
    assert "Check bootstrap.servers" in message
    assert caught.value.retriable


def test_an_unreachable_cluster_is_an_error_on_every_call(consumer: ConsumerFactory) -> None:
    reader = consumer("orders", bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=300)
    for _ in range(3):
        with pytest.raises(monedula.errors.BrokerConnectionError):
            reader.poll(timeout=30)


def test_a_shorter_poll_does_not_wait_for_the_cluster(consumer: ConsumerFactory) -> None:
    reader = consumer("orders", bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=60_000)
    assert not reader.poll(timeout=0.3)


@pytest.mark.parametrize("verb", ["end_offsets", "beginning_offsets", "offsets_for_times", "partitions_of"])
def test_a_lookup_ends_with_its_timeout_and_the_last_failure(consumer: ConsumerFactory, verb: str) -> None:
    # Without its timeout, a lookup would end with the time-out of this test.
    reader = consumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=3_600_000)
    arguments = {"offsets_for_times": {("orders", 0): 0}, "partitions_of": "orders"}
    started_ns = time.monotonic_ns()
    with pytest.raises(monedula.KafkaTimeoutError, match=r"within 700 ms; the last attempt: .*refused") as caught:
        getattr(reader, verb)(arguments.get(verb, [("orders", 0)]), timeout=0.7)
    assert time.monotonic_ns() - started_ns >= 700_000_000
    assert isinstance(caught.value, TimeoutError)


def test_a_lookup_without_a_timeout_takes_the_default(consumer: ConsumerFactory) -> None:
    reader = consumer(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=400)
    with pytest.raises(monedula.KafkaTimeoutError, match="within 400 ms"):
        reader.end_offsets([("orders", 0)])


@pytest.mark.parametrize("form", ["topic", "partition"])
def test_an_unknown_topic_is_named_on_every_call(consumer: ConsumerFactory, form: str) -> None:
    reader = consumer()
    reader.assign("no-such-topic" if form == "topic" else [("no-such-topic", 0)])
    for _ in range(3):
        with pytest.raises(monedula.UnknownTopicError, match=r"no-such-topic.*check its name, or create it") as caught:
            reader.poll(timeout=30)
        assert caught.value.topic == "no-such-topic"
        assert isinstance(caught.value, LookupError)


def test_an_unknown_topic_stops_no_other(kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory) -> None:
    name = topic()
    fill(kafka, name, 1)
    reader = consumer(name, "no-such-topic")
    seen, _ = until_error(reader)
    while len(seen) < 5:
        seen += values(reader.poll(timeout=20).records())
    assert seen == [f"0/{n}".encode() for n in range(5)]


def until_error(reader: Uniform) -> tuple[list[bytes | None], monedula.UnknownTopicError]:
    """The records before the error, and the error."""
    seen: list[bytes | None] = []
    try:
        while True:
            seen += values(reader.poll(timeout=30).records())
    except monedula.UnknownTopicError as error:
        return seen, error


def test_an_error_of_what_is_assigned_no_more_is_not_raised(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    fill(kafka, name, 1)
    reader = consumer("no-such-topic")
    deadline = time.monotonic() + 20
    while not reader.metrics()["metadata_updates"] >= 5:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    reader.assign(name)
    assert len(reader.take(5)) == 5


def test_an_unknown_partition_is_named_and_stops_no_other(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    fill(kafka, name, 1)
    reader = consumer()
    reader.assign([(name, 0), (name, 9)])
    seen, error = until_error(reader)
    assert (error.topic, error.partition, error.code) == (name, 9, "UNKNOWN_TOPIC_OR_PARTITION")
    while len(seen) < 5:
        seen += values(reader.poll(timeout=20).records())
    assert f"{name}-9" in reader.health()["partitions"][name, 9]["error"]


@pytest.mark.req("S071")
@pytest.mark.parametrize(
    ("start", "policy", "position"),
    [
        # Beyond the end: the policy decides.
        (100, "earliest", 2),
        (100, "latest", 5),
        # Passed by retention: the next record that is left, whatever the policy, so that nothing is skipped.
        (0, "earliest", 2),
        (0, "latest", 2),
    ],
)
def test_a_position_outside_of_the_log_moves_as_the_policy_says(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory, start: int, policy: str, position: int
) -> None:
    name = topic()
    fill(kafka, name, 1)
    kafka.helper.delete_records(name, {0: 2})
    reader = consumer(auto_offset_reset=policy)
    reader.assign({(name, 0): start})
    if position == 5:
        while reader.metrics()["positions_lost"] == 0:
            assert not reader.poll(timeout=0.05)
        assert await_position(reader, (name, 0)) == 5
    else:
        assert reader.take(3)[0].offset == position
    assert reader.metrics()["positions_lost"] == 1


@pytest.mark.parametrize("start", [0, 100])
def test_a_position_outside_of_the_log_is_an_error_without_a_policy(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory, start: int
) -> None:
    name = topic()
    fill(kafka, name, 1)
    kafka.helper.delete_records(name, {0: 2})
    reader = consumer(auto_offset_reset="none")
    reader.assign({(name, 0): start})
    for _ in range(2):
        with pytest.raises(monedula.errors.OffsetOutOfRangeError, match=re.escape("the log holds 2..5")) as caught:
            reader.poll(timeout=30)
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.code) == (name, 0, start, "OFFSET_OUT_OF_RANGE")
    reader.seek((name, 0), 3)
    assert len(reader.take(2)) == 2


def test_no_position_is_an_error_without_a_policy(topic: TopicFactory, consumer: ConsumerFactory) -> None:
    reader = consumer(topic(), auto_offset_reset="none")
    with pytest.raises(
        monedula.errors.OffsetOutOfRangeError, match=r"no starting offset is known and auto\.offset\.reset is none"
    ):
        reader.poll(timeout=30)
