"""Clients that others wrote, while the embedded broker misbehaves or its three nodes change places.

No real Kafka here: none fails on demand.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import monedula
import pyarrow
import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from tests.interop.conftest import KafkaJS, Unique
from tests.interop.process import Driver, eventually
from tests.interop.servers import Embedded
from tests.kafka import KafkaHelper

VALUES = [f"v{n:03}" for n in range(100)]


@pytest.fixture
def server() -> Iterator[Embedded]:
    embedded = Embedded(nodes=3)
    yield embedded
    embedded.close()


def read(server: Embedded, topic: str) -> list[str]:
    table = pyarrow.table(monedula.read({"bootstrap.servers": server.bootstrap}, topic))
    return [bytes(value or b"").decode() for value in table["value"].to_pylist()]


def by_librdkafka(server: Embedded, topic: str, _: pytest.FixtureRequest) -> None:
    settings = {"enable.idempotence": True, "batch.num.messages": 10, "retry.backoff.ms": 10}
    producer = Producer({"bootstrap.servers": server.bootstrap, **settings})
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def by_java(_: Embedded, topic: str, request: pytest.FixtureRequest) -> None:
    helper: KafkaHelper = request.getfixturevalue("helper")
    helper.produce(topic, [{"value": value} for value in VALUES], config={"batch.size": 200})


def by_franz(_: Embedded, topic: str, request: pytest.FixtureRequest) -> None:
    franz: Driver = request.getfixturevalue("franz")
    franz.call("produce", topic=topic, values=VALUES)


def by_kafka_python(server: Embedded, topic: str, _: pytest.FixtureRequest) -> None:
    producer = KafkaProducer(bootstrap_servers=server.bootstrap, enable_idempotence=True, batch_size=200)
    sent = [producer.send(topic, value.encode()) for value in VALUES]
    producer.flush(timeout=60)
    assert all(acknowledged.succeeded() for acknowledged in sent)
    producer.close()


@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("produce", [by_librdkafka, by_java, by_franz, by_kafka_python])
def test_an_idempotent_producer_writes_once_what_a_cut_connection_made_it_send_again(
    server: Embedded, unique: Unique, request: pytest.FixtureRequest, produce: Callable[..., None], lost: Any
) -> None:
    topic = unique("topic")
    server.broker.create_topic(topic)
    with server.broker.fault(api="Produce", topic=topic, reset=True, count=2, on=lost) as fault:
        produce(server, topic, request)
        assert fault.hits == 2
    assert read(server, topic) == VALUES


@pytest.mark.parametrize("produce", [by_librdkafka, by_java, by_franz, by_kafka_python])
def test_a_producer_follows_the_leader(
    server: Embedded, unique: Unique, request: pytest.FixtureRequest, produce: Callable[..., None]
) -> None:
    topic = unique("topic")
    server.broker.create_topic(topic, replicas=3)
    # Held until the leader is another, so that it is the old one that answers.
    with server.broker.fault(api="Produce", topic=topic, hold=True, count=1) as fault:
        produced = _in_background(lambda: produce(server, topic, request))
        fault.wait(1, timeout=60)
        server.broker.move_leader(topic, 0, 2)
        server.broker.move_leader(topic, 0, 3)
        fault.release()
        produced()
    assert read(server, topic) == VALUES


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_go_on_when_their_coordinator_and_leaders_die(server: Embedded, unique: Unique, protocol: str) -> None:
    topic, group = unique("topic"), unique("group")
    server.broker.create_topic(topic, 4, replicas=3)
    members = [_member(server, group, topic, protocol) for _ in range(2)]
    seen: Counter[bytes] = Counter()

    def poll() -> None:
        for member in members:
            message = member.poll(0.05)
            while message is not None:
                if message.error() is None:
                    seen[message.value()] += 1
                message = member.poll(0)

    def until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, (seen, [member.assignment() for member in members])
            poll()

    until(lambda: sorted(len(member.assignment()) for member in members) == [2, 2])
    for number, node in enumerate((1, 2, 3)):
        server.broker.stop_node(node)
        producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True})
        for partition in range(4):
            producer.produce(topic, f"{number} {partition}", partition=partition)
        assert producer.flush(60) == 0
        wanted = 4 * (number + 1)
        until(lambda wanted=wanted: seen.total() >= wanted)  # type: ignore[misc]
        server.broker.start_node(node)
    until(lambda: sorted(len(member.assignment()) for member in members) == [2, 2])
    assert seen == Counter(f"{number} {partition}".encode() for number in range(3) for partition in range(4))
    for member in members:
        member.close()


def test_kafkajs_goes_on_through_cut_connections(server: Embedded, kafkajs_on: KafkaJS, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    server.broker.create_topic(topic, 2)
    kafkajs = kafkajs_on(server)
    settings = {"groupId": group, "sessionTimeout": 10000, "heartbeatInterval": 200, "maxWaitTimeInMs": 200}
    kafkajs.call("consume", name="c", topics=[topic], settings=settings, run={"autoCommitThreshold": 1})
    kafkajs.wait("the group", lambda events: [event for event in events if event["event"] == "GROUP_JOIN"])
    faults = [
        server.broker.fault(api="Fetch", topic=topic, truncate_bytes=20, on="answer", skip=1, count=2),
        server.broker.fault(api="Heartbeat", group=group, reset=True, skip=1, count=1),
        server.broker.fault(api="OffsetCommit", group=group, reset=True, on="answer", count=1),
        server.broker.fault(api="Metadata", fragment_bytes=7, count=3),
    ]
    for n in range(10):
        kafkajs.call("produce", topic=topic, messages=[{"value": f"v{n}", "partition": n % 2}])
    # A lost commit is repeated, and records before it are read again: at least once.
    kafkajs.wait("all records", lambda events: {e["value"] for e in events if e["event"] == "record"} >= _ten())
    for fault in faults[:3]:
        eventually("the fault", lambda fault=fault: fault.hits > 0)  # type: ignore[misc]

    def committed() -> int:
        found = kafkajs.call("admin", method="fetchOffsets", argument={"groupId": group, "topics": [topic]})
        return sum(int(partition["offset"]) for partition in found[0]["partitions"])

    eventually("all committed", lambda: committed() == 10)


def _ten() -> set[str]:
    return {f"v{n}" for n in range(10)}


def _member(server: Embedded, group: str, topic: str, protocol: str) -> Consumer:
    classic = {"session.timeout.ms": 10000, "heartbeat.interval.ms": 200}
    member = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
            **(classic if protocol == "classic" else {}),
        }
    )
    member.subscribe([topic])
    return member


def _in_background(work: Callable[[], None]) -> Callable[[], None]:
    """Starts a function on a thread; returns a function that waits for it and raises its error."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)

    def result() -> Any:
        pool.shutdown()
        return future.result(60)

    return result
