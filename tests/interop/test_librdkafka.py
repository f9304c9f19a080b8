"""librdkafka through confluent-kafka."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.interop.conftest import Unique
from tests.interop.process import eventually
from tests.interop.servers import Server

DEADLINE_SECONDS = 60.0

PROTOCOLS: dict[str, dict[str, object]] = {
    "range": {"partition.assignment.strategy": "range", "session.timeout.ms": 6000, "heartbeat.interval.ms": 200},
    "cooperative": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 200,
    },
    "consumer": {"group.protocol": "consumer"},
}


class Member:
    """A member of a group, and the records that it has read."""

    def __init__(self, server: Server, group: str, topics: list[str], **settings: Any) -> None:
        self.owned: set[tuple[str, int]] = set()
        self.records: list[tuple[int, int, bytes | None]] = []
        self.assigned = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,
                "fetch.wait.max.ms": 100,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self.consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned += 1
        self.owned |= {(p.topic, p.partition) for p in partitions}

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {(p.topic, p.partition) for p in partitions}

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        while message is not None:
            if message.error() is not None:
                raise KafkaException(message.error())
            self.records.append((message.partition(), message.offset(), message.value()))
            message = self.consumer.poll(0)


Join = Callable[..., Member]


@pytest.fixture
def join(server: Server) -> Iterator[Join]:
    with ExitStack() as stack:

        def make(group: str, *topics: str, **settings: Any) -> Member:
            member = Member(server, group, list(topics), **settings)
            stack.callback(member.consumer.close)
            return member

        yield make


@pytest.fixture
def admin(server: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap})


def poll_until(members: list[Member], condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        states = [(sorted(member.owned), len(member.records)) for member in members]
        assert time.monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for {what}: {states}"
        for member in members:
            member.poll()


def owned_once(members: list[Member], topic: str, partitions: int) -> Callable[[], bool]:
    """Whether every partition has exactly one owner, and every member has its share."""

    def condition() -> bool:
        owned = [partition for member in members for partition in member.owned]
        shares = [len(member.owned) for member in members]
        return sorted(owned) == [(topic, p) for p in range(partitions)] and max(shares) - min(shares) <= 1

    return condition


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    new = NewTopic(topic, partitions, 1, config={name.replace("_", "."): value for name, value in config.items()})
    admin.create_topics([new])[topic].result(DEADLINE_SECONDS)


def produce(server: Server, topic: str, values: list[str], partitions: int = 1, **settings: Any) -> list[Message]:
    """Produces round robin; returns the acknowledged records."""
    acknowledged: list[Message] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        acknowledged.append(message)

    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 5, **settings})
    for n, value in enumerate(values):
        headers = [("h", b"1"), ("h", None)]
        producer.produce(topic, value, key=f"k{n}", partition=n % partitions, headers=headers, on_delivery=delivered)
    assert producer.flush(DEADLINE_SECONDS) == 0
    return acknowledged


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("settings", [{"acks": "1"}, {"acks": "all"}, {"enable.idempotence": True}], ids=str)
def test_records_of_every_codec_come_back(
    server: Server, join: Join, unique: Unique, codec: str, settings: dict[str, Any]
) -> None:
    topic = unique("topic")
    values = [f"value {n} of {codec}" * 10 for n in range(500)]
    placed = produce(server, topic, values, **{"compression.type": codec, **settings})
    assert [message.offset() for message in placed] == list(range(500))
    member = join(unique("group"), topic, **PROTOCOLS["range"])
    poll_until([member], lambda: len(member.records) >= 500, "500 records")
    assert member.records == [(0, n, value.encode()) for n, value in enumerate(values)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_three_members_share_partitions_and_go_on_when_one_leaves(
    server: Server, join: Join, admin: AdminClient, unique: Unique, protocol: str
) -> None:
    topic, group = unique("topic"), unique("group")
    create(admin, topic, partitions=6)
    values = [f"v{n:04}" for n in range(300)]
    produce(server, topic, values, partitions=6)
    members: list[Member] = []
    for count in (1, 2, 3):
        members.append(join(group, topic, **PROTOCOLS[protocol]))
        poll_until(members, owned_once(members, topic, 6), f"{count} members to own each partition once")
    poll_until(members, lambda: sum(len(m.records) for m in members) >= 300, "300 records")
    gone = members.pop()
    gone.consumer.close()
    poll_until(members, owned_once(members, topic, 6), "two members to own each partition once")
    produce(server, topic, ["after"] * 60, partitions=6)
    poll_until(members, lambda: sum(len(m.records) for m in [*members, gone]) >= 360, "60 more records")
    read = Counter(value for member in [*members, gone] for _, _, value in member.records)
    assert read == Counter([value.encode() for value in values] + [b"after"] * 60)


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_static_member_takes_its_partitions_up_again(
    join: Join, admin: AdminClient, unique: Unique, protocol: str
) -> None:
    topic, group = unique("topic"), unique("group")
    create(admin, topic, partitions=4)
    first = join(group, topic, **PROTOCOLS[protocol], group_instance_id="one")
    second = join(group, topic, **PROTOCOLS[protocol], group_instance_id="two")
    poll_until([first, second], owned_once([first, second], topic, 4), "two owners")
    had, rebalances = set(second.owned), first.assigned
    second.consumer.close()
    again = join(group, topic, **PROTOCOLS[protocol], group_instance_id="two")
    poll_until([first, again], lambda: again.owned == had, "the partitions of before")
    assert first.assigned == rebalances, "no rebalance for the member that stayed"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_commits_outlive_the_member(server: Server, join: Join, unique: Unique, protocol: str) -> None:
    topic, group = unique("topic"), unique("group")
    produce(server, topic, [f"v{n}" for n in range(10)])
    member = join(group, topic, **PROTOCOLS[protocol], enable_auto_commit=False)
    poll_until([member], lambda: len(member.records) == 10, "10 records")
    member.consumer.commit(offsets=[TopicPartition(topic, 0, 7, metadata="so far")], asynchronous=False)
    member.consumer.close()
    member = join(group, topic, **PROTOCOLS[protocol])
    poll_until([member], lambda: len(member.records) == 3, "the other three")
    assert [offset for _, offset, _ in member.records] == [7, 8, 9]
    found = member.consumer.committed([TopicPartition(topic, 0)], timeout=DEADLINE_SECONDS)[0]
    assert (found.offset, found.metadata) == (7, "so far")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_notices_new_partitions(join: Join, admin: AdminClient, unique: Unique, protocol: str) -> None:
    topic, group = unique("topic"), unique("group")
    create(admin, topic, partitions=1)
    member = join(group, topic, **PROTOCOLS[protocol])
    poll_until([member], owned_once([member], topic, 1), "one partition")
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(DEADLINE_SECONDS)
    poll_until([member], owned_once([member], topic, 3), "three partitions")


def test_a_pattern_subscribes_to_topics_as_they_come(join: Join, admin: AdminClient, unique: Unique) -> None:
    stem = unique("p")
    create(admin, f"{stem}.1")
    member = join(unique("group"), f"^{stem}\\..*", **PROTOCOLS["consumer"])
    poll_until([member], lambda: member.owned == {(f"{stem}.1", 0)}, "the first topic")
    create(admin, f"{stem}.2")
    poll_until([member], lambda: member.owned == {(f"{stem}.1", 0), (f"{stem}.2", 0)}, "both topics")


def test_transactions_carry_records_and_offsets(server: Server, join: Join, admin: AdminClient, unique: Unique) -> None:
    source, target, group = unique("source"), unique("target"), unique("group")
    produce(server, source, [f"v{n}" for n in range(10)])
    create(admin, target, partitions=2)
    reader = join(group, source, **PROTOCOLS["range"], enable_auto_commit=False)
    poll_until([reader], lambda: len(reader.records) == 10, "10 records")
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": unique("id")})
    producer.init_transactions(DEADLINE_SECONDS)
    for number, how in enumerate(["commit", "abort", "commit"]):
        producer.begin_transaction()
        for n in range(4):
            producer.produce(target, f"{how} {number} {n}", partition=n % 2)
        producer.flush(DEADLINE_SECONDS)
        offset = TopicPartition(source, 0, number + 4)
        metadata = reader.consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([offset], metadata, DEADLINE_SECONDS)
        if how == "commit":
            producer.commit_transaction(DEADLINE_SECONDS)
        else:
            producer.abort_transaction(DEADLINE_SECONDS)
            found = reader.consumer.committed([TopicPartition(source, 0)], timeout=DEADLINE_SECONDS)[0]
            assert found.offset == 4, "the aborted transaction's offset is not there"
    found = reader.consumer.committed([TopicPartition(source, 0)], timeout=DEADLINE_SECONDS)[0]
    assert found.offset == 6
    committed = join(unique("committed"), target, **PROTOCOLS["range"])
    everything = join(unique("everything"), target, **PROTOCOLS["range"], isolation_level="read_uncommitted")
    poll_until(
        [committed, everything], lambda: len(everything.records) >= 12 and len(committed.records) >= 8, "records"
    )
    assert Counter(value for _, _, value in committed.records) == Counter(
        f"commit {number} {n}".encode() for number in (0, 2) for n in range(4)
    )
    assert len(everything.records) == 12


def test_an_open_transaction_holds_back_who_reads_committed(server: Server, join: Join, unique: Unique) -> None:
    topic = unique("topic")
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": unique("id")})
    producer.init_transactions(DEADLINE_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(DEADLINE_SECONDS)
    produce(server, topic, ["plain"])
    everything = join(unique("everything"), topic, **PROTOCOLS["range"], isolation_level="read_uncommitted")
    committed = join(unique("committed"), topic, **PROTOCOLS["range"])
    both = [everything, committed]
    poll_until(both, lambda: len(everything.records) == 2 and bool(committed.owned), "both records")
    partition = TopicPartition(topic, 0)
    assert committed.consumer.get_watermark_offsets(partition, timeout=DEADLINE_SECONDS)[1] == 0
    assert committed.records == []
    producer.commit_transaction(DEADLINE_SECONDS)
    poll_until(both, lambda: len(committed.records) == 2, "both records, now committed")


def test_a_producer_with_the_same_transactional_id_fences_the_older(server: Server, unique: Unique) -> None:
    topic, settings = unique("topic"), {"bootstrap.servers": server.bootstrap, "transactional.id": unique("id")}
    old, new = Producer(settings), Producer(settings)
    old.init_transactions(DEADLINE_SECONDS)
    old.begin_transaction()
    old.produce(topic, "old")
    old.flush(DEADLINE_SECONDS)
    new.init_transactions(DEADLINE_SECONDS)
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(DEADLINE_SECONDS)
    assert fenced.value.args[0].fatal()
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    new.begin_transaction()
    new.produce(topic, "new")
    new.commit_transaction(DEADLINE_SECONDS)


def test_topics_and_settings_through_the_admin_client(server: Server, admin: AdminClient, unique: Unique) -> None:
    topic = unique("topic")
    create(admin, topic, partitions=2, retention_ms="60000")
    with pytest.raises(KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(DEADLINE_SECONDS)
    assert [(p.id, p.leader.id, [r.id for r in p.isr]) for p in described.partitions] == [(0, 1, [1]), (1, 1, [1])]

    resource = ConfigResource(ResourceType.TOPIC, topic)

    def config(name: str) -> tuple[str, bool]:
        entry = next(iter(admin.describe_configs([resource]).values())).result(DEADLINE_SECONDS)[name]
        return entry.value, entry.is_default

    assert config("retention.ms") == ("60000", False)
    assert config("cleanup.policy") == ("delete", True)
    change = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
            ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET),
        ],
    )
    next(iter(admin.incremental_alter_configs([change]).values())).result(DEADLINE_SECONDS)
    assert config("retention.ms") == ("604800000", True)
    assert config("cleanup.policy") == ("delete,compact", False)
    with pytest.raises(KafkaException) as too_large:
        produce(server, topic, ["x" * 3000])
    assert too_large.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    wrong = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)],
    )
    with pytest.raises(KafkaException) as refused:
        next(iter(admin.incremental_alter_configs([wrong]).values())).result(DEADLINE_SECONDS)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    # AlterConfigs: settings that are not named are removed.
    whole = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "5000"})
    next(iter(admin.alter_configs([whole]).values())).result(DEADLINE_SECONDS)
    eventually("the topic's settings", lambda: config("retention.ms") == ("5000", False))
    assert config("cleanup.policy") == ("delete", True)
    wrong = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "soon"})
    with pytest.raises(KafkaException) as refused:
        next(iter(admin.alter_configs([wrong]).values())).result(DEADLINE_SECONDS)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG

    admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)
    assert topic not in admin.list_topics(timeout=DEADLINE_SECONDS).topics
    cluster = admin.describe_cluster().result(DEADLINE_SECONDS)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [server.bootstrap]


def test_offsets_and_records_through_the_admin_client(server: Server, admin: AdminClient, unique: Unique) -> None:
    topic = unique("topic")
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for n in range(10):
        producer.produce(topic, f"v{n}", timestamp=1000 * (10 - n), partition=0)
    producer.flush(DEADLINE_SECONDS)
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        found = admin.list_offsets({partition: spec})[partition].result(DEADLINE_SECONDS).offset
        assert isinstance(found, int)
        return found

    assert (offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())) == (0, 10)
    assert offset(OffsetSpec.max_timestamp()) == 0
    assert offset(OffsetSpec.for_timestamp(3500)) == 0
    assert offset(OffsetSpec.for_timestamp(99_000)) == -1
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0, 4)].result(DEADLINE_SECONDS)
    assert (deleted.low_watermark, offset(OffsetSpec.earliest())) == (4, 4)
    with pytest.raises(KafkaException) as refused:
        admin.delete_records([TopicPartition(topic, 0, 11)])[TopicPartition(topic, 0, 11)].result(DEADLINE_SECONDS)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_groups_through_the_admin_client(
    server: Server, join: Join, admin: AdminClient, unique: Unique, protocol: str
) -> None:
    topic, group = unique("topic"), unique("group")
    create(admin, topic, partitions=2)
    produce(server, topic, ["v"] * 4, partitions=2)
    member = join(group, topic, **PROTOCOLS[protocol], client_id="me")
    poll_until([member], lambda: len(member.records) == 4, "four records")
    member.consumer.commit(asynchronous=False)
    described = admin.describe_consumer_groups([group])[group].result(DEADLINE_SECONDS)
    kind = ConsumerGroupType.CLASSIC if protocol == "range" else ConsumerGroupType.CONSUMER
    assert (described.state, described.type) == (ConsumerGroupState.STABLE, kind)
    assert described.partition_assignor == ("range" if protocol == "range" else "uniform")
    assert [(m.client_id, sorted(p.partition for p in m.assignment.topic_partitions)) for m in described.members] == [
        ("me", [0, 1])
    ]
    listed = admin.list_consumer_groups(types={kind}).result(DEADLINE_SECONDS).valid
    assert [(g.state, g.type) for g in listed if g.group_id == group] == [(ConsumerGroupState.STABLE, kind)]
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([group])[group].result(DEADLINE_SECONDS)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    member.consumer.close()

    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0), TopicPartition(topic, 1)])

    def offsets() -> list[int]:
        found = admin.list_consumer_group_offsets([wanted])[group].result(DEADLINE_SECONDS)
        return [p.offset for p in found.topic_partitions]

    assert offsets() == [2, 2]
    altered = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1, 1)])
    admin.alter_consumer_group_offsets([altered])[group].result(DEADLINE_SECONDS)
    assert offsets() == [2, 1]
    admin.delete_consumer_groups([group])[group].result(DEADLINE_SECONDS)
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([group])[group].result(DEADLINE_SECONDS)
    assert refused.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
