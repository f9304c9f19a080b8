"""kafka-python, whose protocol code is its own."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import ProducerFencedError, TopicAlreadyExistsError

from tests.interop.conftest import Unique
from tests.interop.process import eventually
from tests.interop.servers import Server

DEADLINE_SECONDS = 60.0
POLL_MS = 500

Open = Callable[..., Any]


@pytest.fixture
def start(server: Server) -> Iterator[Open]:
    """Makes a client; it is closed when the test ends."""
    with ExitStack() as stack:

        def make(kind: type, *topics: str, **settings: Any) -> Any:
            if kind is KafkaConsumer:
                settings = {
                    "auto_offset_reset": "earliest",
                    "session_timeout_ms": 6000,
                    "heartbeat_interval_ms": 200,
                    "fetch_max_wait_ms": 100,
                    "metadata_max_age_ms": 500,
                    **settings,
                }
            client = kind(*topics, bootstrap_servers=server.bootstrap, **settings)
            stack.callback(client.close)
            for topic in topics:
                # Without its topic's metadata it joins a second time when that comes. If this join ends just as `poll`
                # gives up, it is thrown away (see `read`) and nothing asks for another: no records, no heartbeats.
                assert client.partitions_for_topic(topic)
            return client

        yield make


def read(consumers: list[Any], until: Callable[[list[Any]], bool]) -> list[Any]:
    """Reads from all of them at once until a condition of the records holds.

    kafka-python throws away a join that ends while its member is not in `poll`: the next `poll` finds it done and joins
    again. A leader that joins again starts a new rebalance, and this ends in the `poll` of the member that joins last.
    So members that are polled in turn may rebalance without end, on a real Kafka too.
    """
    read: list[Any] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    with ThreadPoolExecutor(len(consumers)) as pool:
        while not until(read):
            assert time.monotonic() < deadline, f"{len(read)} records in {DEADLINE_SECONDS} s: {read[-5:]}"
            for polled in pool.map(lambda consumer: consumer.poll(timeout_ms=POLL_MS), consumers):
                read += [record for records in polled.values() for record in records]
    return read


def produce(producer: Any, topic: str, values: list[bytes], partitions: int = 1) -> list[int]:
    sent = [producer.send(topic, value, partition=n % partitions) for n, value in enumerate(values)]
    producer.flush(timeout=DEADLINE_SECONDS)
    return [acknowledged.get(DEADLINE_SECONDS).offset for acknowledged in sent]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_come_back(start: Open, unique: Unique, codec: str | None) -> None:
    topic = unique("topic")
    producer = start(KafkaProducer, compression_type=codec, linger_ms=5)
    values = [f"value {n}".encode() * 10 for n in range(200)]
    assert produce(producer, topic, values) == list(range(200))
    consumer = start(KafkaConsumer, topic, group_id=unique("group"))
    records = read([consumer], lambda read: len(read) >= 200)
    assert [(r.offset, r.value) for r in records] == list(enumerate(values))


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, StickyPartitionAssignor], ids=lambda a: a.name)
def test_three_members_share_partitions(start: Open, unique: Unique, assignor: type) -> None:
    topic, group = unique("topic"), unique("group")
    start(KafkaAdminClient).create_topics([NewTopic(topic, 6, 1)])
    members: list[Any] = []

    def shared_out() -> bool:
        shares = [member.assignment() for member in members]
        owned = sorted(p.partition for share in shares for p in share)
        return owned == list(range(6)) and len({len(share) for share in shares}) == 1

    for _ in range(3):
        members.append(start(KafkaConsumer, topic, group_id=group, partition_assignment_strategy=(assignor,)))
        read(members, lambda _: shared_out())
    produce(start(KafkaProducer), topic, [b"v%d" % n for n in range(60)], partitions=6)
    records = read(members, lambda read: len(read) >= 60)
    assert sorted(r.value for r in records) == sorted(b"v%d" % n for n in range(60))
    members.pop().close()
    read(members, lambda _: shared_out())


def test_commits_outlive_the_member(start: Open, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    produce(start(KafkaProducer), topic, [b"v%d" % n for n in range(10)])
    first = start(KafkaConsumer, topic, group_id=group, enable_auto_commit=False)
    read([first], lambda read: len(read) == 10)
    partition = TopicPartition(topic, 0)
    first.commit({partition: OffsetAndMetadata(6, "so far", -1)})
    first.close()
    second = start(KafkaConsumer, topic, group_id=group, enable_auto_commit=False)
    assert [r.offset for r in read([second], lambda read: len(read) >= 4)] == [6, 7, 8, 9]
    assert second.committed(partition) == 6
    assert second.beginning_offsets([partition]) == {partition: 0}
    assert second.end_offsets([partition]) == {partition: 10}
    assert second.offsets_for_times({partition: 0})[partition].offset == 0


@pytest.mark.parametrize("how", ["commit", "abort"])
def test_transactions_carry_records_and_offsets(start: Open, unique: Unique, how: str) -> None:
    source, topic, group, name = unique("source"), unique("topic"), unique("group"), unique("id")
    plain = start(KafkaProducer)
    produce(plain, source, [b"v"])
    producer = start(KafkaProducer, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    produce(producer, topic, [b"t%d" % n for n in range(5)])
    admin = start(KafkaAdminClient)
    described = admin.describe_transactions([name])[name]
    assert described.state.value == "Ongoing"
    assert topic in {p.topic for p in described.topic_partitions}
    states = admin.describe_producers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].active_producers
    assert [(s.producer_id, s.last_sequence) for s in states] == [(described.producer_id, 4)]
    assert name in {t.transactional_id for found in admin.list_transactions().values() for t in found}
    producer.send_offsets_to_transaction({TopicPartition(source, 0): OffsetAndMetadata(1, "", -1)}, group)
    getattr(producer, f"{how}_transaction")()
    produce(plain, topic, [b"last"])
    reader = start(KafkaConsumer, topic, group_id=unique("reader"), isolation_level="read_committed")
    records = read([reader], lambda read: any(r.value == b"last" for r in read))
    expected = [b"t%d" % n for n in range(5)] if how == "commit" else []
    assert [r.value for r in records] == [*expected, b"last"]
    offsets = admin.list_group_offsets(group)[group]
    assert {p.topic: o.offset for p, o in offsets.items()} == ({source: 1} if how == "commit" else {})


def test_a_newer_producer_fences_the_older(start: Open, unique: Unique) -> None:
    topic, name = unique("topic"), unique("id")
    old, new = (start(KafkaProducer, transactional_id=name) for _ in range(2))
    old.init_transactions()
    old.begin_transaction()
    produce(old, topic, [b"old"])
    new.init_transactions()
    with pytest.raises(ProducerFencedError):
        old.commit_transaction()
    new.begin_transaction()
    produce(new, topic, [b"new"])
    new.commit_transaction()


def test_topics_and_settings_through_the_admin_client(server: Server, start: Open, unique: Unique) -> None:
    topic = unique("topic")
    admin = start(KafkaAdminClient)
    admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "60000"})])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 2, 1)])
    admin.create_partitions({topic: 3})
    eventually("three partitions", lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 3)
    assert sorted(p["partition_index"] for p in admin.describe_topics([topic])[0]["partitions"]) == [0, 1, 2]
    page = admin.describe_topic_partitions([topic], response_partition_limit=2)
    assert [p["partition_index"] for p in page["topics"][0]["partitions"]] == [0, 1]
    assert page["next_cursor"]["partition_index"] == 2
    cluster = admin.describe_cluster()
    assert [f"{node['host']}:{node['port']}" for node in cluster["brokers"]] == [server.bootstrap]

    def changed() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    assert changed()["retention.ms"] == "60000"
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": "compact"})])
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    assert (changed().get("retention.ms"), changed()["cleanup.policy"]) == (None, "compact")
    admin.delete_topics([topic])
    eventually("no such topic", lambda: topic not in admin.list_topics())


def test_groups_and_records_through_the_admin_client(start: Open, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    admin = start(KafkaAdminClient)
    admin.create_topics([NewTopic(topic, 3, 1)])
    produce(start(KafkaProducer), topic, [b"v"] * 9, partitions=3)
    partition = TopicPartition(topic, 0)
    assert admin.delete_records({partition: 2})[partition]["low_watermark"] == 2
    consumer = start(KafkaConsumer, topic, group_id=group, client_id="me", group_instance_id="i")
    read([consumer], lambda read: len(read) == 7)
    consumer.commit()
    listed = {g["group_id"]: g["group_state"] for g in admin.list_groups(states_filter=["Stable"])}
    assert listed[group] == "Stable"
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["protocol_type"]) == ("Stable", "consumer")
    assert [(m["client_id"], m["group_instance_id"]) for m in described["members"]] == [("me", "i")]
    assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
    consumer.close()

    def offsets() -> dict[int, int]:
        return {p.partition: o.offset for p, o in admin.list_group_offsets(group)[group].items()}

    assert offsets() == {0: 3, 1: 3, 2: 3}
