"""Java's console and verifiable producers and consumers, and its transactions."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop import java
from tests.interop.conftest import Unique
from tests.interop.process import Driver, eventually
from tests.interop.servers import Server
from tests.kafka import KafkaHelper

pytestmark = pytest.mark.jvm

COPY = Path(__file__).with_name("java") / "Copy.java"
PROTOCOLS = ["classic", "consumer"]

Run = Callable[..., Driver]


@pytest.fixture
def run(server: Server) -> Iterator[Run]:
    """Starts a tool that keeps running; it is stopped after the test."""
    started: list[Driver] = []

    def start(main: str | Path, *arguments: str, names_server: bool = True) -> Driver:
        where = ("--bootstrap-server", server.bootstrap) if names_server else ()
        started.append(java.running(main, *where, *arguments))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


def consumed(consumers: list[Driver]) -> Counter[str]:
    return Counter(e["value"] for consumer in consumers for e in list(consumer.events) if e["name"] == "record_data")


def owned(consumer: Driver) -> set[int]:
    """The partitions that a verifiable consumer has now."""
    partitions: set[int] = set()
    for event in list(consumer.events):
        named = {p["partition"] for p in event.get("partitions", [])}
        if event["name"] == "partitions_assigned":
            partitions |= named
        elif event["name"] in ("partitions_revoked", "partitions_lost"):
            partitions -= named
    return partitions


def shared_out(consumers: list[Driver], partitions: int) -> bool:
    """Whether each partition has one owner, and all consumers have as many."""
    shares = [owned(consumer) for consumer in consumers]
    everything = sorted(partition for share in shares for partition in share)
    return everything == list(range(partitions)) and len({len(share) for share in shares}) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_console_consumer_reads_what_the_console_producer_wrote(
    server: Server, unique: Unique, protocol: str
) -> None:
    topic, group = unique("topic"), unique("group")
    lines = "".join(f"h:{n}\tk{n}:v{n}\n" for n in range(50))
    reading = ("parse.key=true", "parse.headers=true", "key.separator=:", "headers.key.separator=:")
    given = [argument for setting in reading for argument in ("--reader-property", setting)]
    java.tool(
        java.CONSOLE_PRODUCER, server.bootstrap, "--topic", topic, "--compression-codec", "zstd", *given, given=lines
    )
    shown = ("print.key", "print.offset", "print.headers")
    wanted = [argument for name in shown for argument in ("--formatter-property", f"{name}=true")]
    read = java.tool(
        java.CONSOLE_CONSUMER,
        server.bootstrap,
        "--topic",
        topic,
        "--group",
        group,
        "--from-beginning",
        "--max-messages",
        "50",
        "--timeout-ms",
        "30000",
        "--command-property",
        f"group.protocol={protocol}",
        *wanted,
    )
    assert read.splitlines() == [f"Offset:{n}\th:{n}\tk{n}\tv{n}" for n in range(50)]


@pytest.mark.parametrize(
    "protocol", [*(pytest.param(each, marks=pytest.mark.thorough) for each in ("classic", "cooperative")), "consumer"]
)
def test_verifiable_consumers_share_what_the_verifiable_producer_acknowledged(
    helper: KafkaHelper, run: Run, unique: Unique, protocol: str
) -> None:
    topic, group = unique("topic"), unique("group")
    helper.create_topic(topic, partitions=6)
    arguments = ["--topic", topic, "--group-id", group, "--verbose", "--reset-policy", "earliest"]
    if protocol == "consumer":
        arguments += ["--group-protocol", "consumer"]
    elif protocol == "cooperative":
        arguments += ["--assignment-strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"]
    consumers = [run(java.VERIFIABLE_CONSUMER, *arguments) for _ in range(3)]
    eventually("three owners", lambda: shared_out(consumers, 6))
    producer = run(java.VERIFIABLE_PRODUCER, "--topic", topic, "--max-messages", "600")
    assert producer.wait_ended() == 0
    acknowledged = [e for e in producer.events if e["name"] == "producer_send_success"]
    assert len(acknowledged) == 600
    eventually("all 600", lambda: consumed(consumers).total() >= 600)
    # One leaves; it commits its records, and the others take its partitions.
    leaving = consumers.pop()
    leaving.terminate()
    eventually("two owners", lambda: shared_out(consumers, 6))
    more = run(java.VERIFIABLE_PRODUCER, "--topic", topic, "--max-messages", "60", "--value-prefix", "7")
    assert more.wait_ended() == 0
    eventually("60 more", lambda: consumed([*consumers, leaving]).total() >= 660)
    written = [e["value"] for driver in (producer, more) for e in driver.events if e["name"] == "producer_send_success"]
    assert consumed([*consumers, leaving]) == Counter(written)


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_the_verifiable_producer_is_acknowledged(run: Run, unique: Unique, acks: str) -> None:
    producer = run(java.VERIFIABLE_PRODUCER, "--topic", unique("topic"), "--max-messages", "100", "--acks", acks)
    assert producer.wait_ended() == 0
    totals = [(e["sent"], e["acked"]) for e in producer.events if e["name"] == "tool_data"]
    assert totals == [(100, 100)]


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.thorough), "consumer"])
def test_a_topic_is_copied_exactly_once(
    server: Server, helper: KafkaHelper, run: Run, unique: Unique, protocol: str
) -> None:
    source, target, group = unique("source"), unique("target"), unique("group")
    helper.create_topic(source, partitions=2)
    helper.create_topic(target, partitions=2)
    helper.produce(source, [{"value": f"v{n}", "partition": n % 2} for n in range(200)])
    copy = run(COPY, server.bootstrap, protocol, source, target, group, unique("id"), "200", names_server=False)
    assert copy.wait_ended() == 0, copy.log_tail()
    assert {event["event"] for event in copy.events} == {"committed", "aborted"}
    read = java.tool(
        java.CONSOLE_CONSUMER,
        server.bootstrap,
        "--topic",
        target,
        "--from-beginning",
        "--isolation-level",
        "read_committed",
        "--max-messages",
        "200",
        "--timeout-ms",
        "30000",
    )
    assert Counter(read.splitlines()) == Counter(f"v{n}" for n in range(200))
    offsets = java.table(java.tool(java.GROUPS, server.bootstrap, "--describe", "--group", group))
    assert {row["PARTITION"]: (row["CURRENT-OFFSET"], row["LAG"]) for row in offsets} == {
        "0": ("100", "0"),
        "1": ("100", "0"),
    }


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("transaction", ["none", "commit", "abort"])
def test_records_of_every_codec_are_placed(helper: KafkaHelper, unique: Unique, codec: Any, transaction: Any) -> None:
    topic = unique("topic")
    helper.create_topic(topic)
    records: Any = [{"key": f"k{n}", "value": f"v{n}" * 20, "timestamp": 1000 + n} for n in range(50)]
    placed = helper.produce(topic, records, codec=codec, transaction=transaction)
    assert [(p.offset, p.timestamp) for p in placed] == [(n, 1000 + n) for n in range(50)]
    assert helper.offsets(topic) == {0: (0, 50 if transaction == "none" else 51)}


def test_log_append_time_is_told_to_the_producer(helper: KafkaHelper, unique: Unique) -> None:
    topic = unique("topic")
    helper.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    placed = helper.produce(topic, [{"value": "v", "timestamp": 1000}])
    assert placed[0].timestamp > 1_700_000_000_000


def test_topics_through_the_admin_client(helper: KafkaHelper, unique: Unique) -> None:
    topic = unique("topic")
    made = helper.create_topic(topic, partitions=2, config={"max.message.bytes": 1000})
    assert re.fullmatch(r"[\w-]{22}", made.topic_id)
    assert [(p.partition, p.leader, p.replicas, p.isr) for p in made.partitions] == [
        (0, 1, (1,), (1,)),
        (1, 1, (1,), (1,)),
    ]
    assert len(helper.add_partitions(topic, 4).partitions) == 4
    helper.alter_topic_config(topic, {"max.message.bytes": 100_000})
    helper.produce(topic, [{"value": "x" * 5000, "partition": 3}] * 3)
    helper.delete_records(topic, {3: 2})
    assert helper.offsets(topic)[3] == (2, 3)
    helper.delete_topic(topic)
    again = helper.create_topic(topic)
    assert again.topic_id != made.topic_id
