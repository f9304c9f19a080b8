"""aiokafka, whose protocol code is its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import ProducerFenced

from tests.interop.conftest import Unique
from tests.interop.servers import Server

DEADLINE_SECONDS = 60.0


class Open(Protocol):
    """Starts a client; it is stopped when the test ends."""

    async def __call__(self, kind: type, *topics: str, **settings: Any) -> Any: ...


@pytest.fixture
async def start(server: Server) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def make(kind: type, *topics: str, **settings: Any) -> Any:
            if kind is AIOKafkaConsumer:
                settings = {
                    "auto_offset_reset": "earliest",
                    "session_timeout_ms": 6000,
                    "heartbeat_interval_ms": 200,
                    "fetch_max_wait_ms": 100,
                    "metadata_max_age_ms": 500,
                    **settings,
                }
            client = kind(*topics, bootstrap_servers=server.bootstrap, **settings)
            await client.start()
            stack.push_async_callback(client.close if kind is AIOKafkaAdminClient else client.stop)
            return client

        yield make


async def read(consumers: list[Any], until: Callable[[list[Any]], bool]) -> list[Any]:
    """Reads from all of them until a condition of the records holds."""
    read: list[Any] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not until(read):
            for answer in await asyncio.gather(*(consumer.getmany(timeout_ms=50) for consumer in consumers)):
                read += [record for records in answer.values() for record in records]
    return read


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_records_of_every_codec_come_back(start: Open, unique: Unique, codec: str | None) -> None:
    topic = unique("topic")
    producer = await start(AIOKafkaProducer, compression_type=codec, enable_idempotence=codec is None, linger_ms=5)
    values = [f"value {n}".encode() * 10 for n in range(200)]
    sent = [await producer.send(topic, value, key=b"k", headers=[("h", b"1"), ("h", b"2")]) for value in values]
    assert [(await acknowledged).offset for acknowledged in sent] == list(range(200))
    consumer = await start(AIOKafkaConsumer, topic, group_id=unique("group"))
    records = await read([consumer], lambda read: len(read) >= 200)
    assert [(r.offset, r.key, r.value, r.headers) for r in records] == [
        (n, b"k", value, (("h", b"1"), ("h", b"2"))) for n, value in enumerate(values)
    ]


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, StickyPartitionAssignor], ids=lambda a: a.name)
async def test_three_members_share_partitions(start: Open, unique: Unique, assignor: type) -> None:
    topic, group = unique("topic"), unique("group")
    admin = await start(AIOKafkaAdminClient)
    await admin.create_topics([NewTopic(topic, 6, 1)])
    members: list[Any] = []

    def shared_out() -> bool:
        shares = [member.assignment() for member in members]
        owned = sorted(p.partition for share in shares for p in share)
        return owned == list(range(6)) and len({len(share) for share in shares}) == 1

    for _ in range(3):
        members.append(await start(AIOKafkaConsumer, topic, group_id=group, partition_assignment_strategy=(assignor,)))
        await read(members, lambda _: shared_out())
    producer = await start(AIOKafkaProducer)
    for n in range(60):
        await producer.send_and_wait(topic, b"v%d" % n, partition=n % 6)
    records = await read(members, lambda read: len(read) >= 60)
    assert sorted(r.value for r in records) == sorted(b"v%d" % n for n in range(60))
    await members[2].commit()
    await members.pop().stop()
    await read(members, lambda _: shared_out())


async def test_commits_outlive_the_member(start: Open, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    producer = await start(AIOKafkaProducer)
    for n in range(10):
        await producer.send_and_wait(topic, b"v%d" % n)
    settings = {"group_id": group, "enable_auto_commit": False}
    first = await start(AIOKafkaConsumer, topic, **settings)
    await read([first], lambda read: len(read) == 10)
    partition = TopicPartition(topic, 0)
    await first.commit({partition: (6, "so far")})
    await first.stop()
    second = await start(AIOKafkaConsumer, topic, **settings)
    assert await second.committed(partition) == 6
    assert [r.offset for r in await read([second], lambda read: len(read) >= 4)] == [6, 7, 8, 9]
    assert await second.end_offsets([partition]) == {partition: 10}
    first_record = (await second.offsets_for_times({partition: 0}))[partition]
    assert first_record.offset == 0


@pytest.mark.parametrize("how", ["commit", "abort"])
async def test_transactions_carry_records_and_offsets(start: Open, unique: Unique, how: str) -> None:
    source, topic, group = unique("source"), unique("topic"), unique("group")
    plain = await start(AIOKafkaProducer)
    await plain.send_and_wait(source, b"v")
    producer = await start(AIOKafkaProducer, transactional_id=unique("id"))
    await producer.begin_transaction()
    for n in range(5):
        await producer.send_and_wait(topic, b"t%d" % n)
    await producer.send_offsets_to_transaction({TopicPartition(source, 0): 1}, group)
    await (producer.commit_transaction() if how == "commit" else producer.abort_transaction())
    await plain.send_and_wait(topic, b"last")
    reader = await start(AIOKafkaConsumer, topic, group_id=unique("reader"), isolation_level="read_committed")
    records = await read([reader], lambda read: any(r.value == b"last" for r in read))
    expected = [b"t%d" % n for n in range(5)] if how == "commit" else []
    assert [r.value for r in records] == [*expected, b"last"]
    admin = await start(AIOKafkaAdminClient)
    committed = await admin.list_consumer_group_offsets(group, partitions=[TopicPartition(source, 0)])
    assert committed[TopicPartition(source, 0)].offset == (1 if how == "commit" else -1)


async def test_a_newer_producer_fences_the_older(start: Open, unique: Unique) -> None:
    topic, name = unique("topic"), unique("id")
    old = await start(AIOKafkaProducer, transactional_id=name)
    await old.begin_transaction()
    await old.send_and_wait(topic, b"old")
    new = await start(AIOKafkaProducer, transactional_id=name)
    with pytest.raises(ProducerFenced):
        await old.commit_transaction()
    async with new.transaction():
        await new.send_and_wait(topic, b"new")


async def test_the_admin_client(server: Server, start: Open, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    admin = await start(AIOKafkaAdminClient)
    created = await admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "60000"})])
    assert [error[1] for error in created.topic_errors] == [0]
    created = await admin.create_topics([NewTopic(topic, 2, 1)])
    assert [error[1] for error in created.topic_errors] == [36], "TOPIC_ALREADY_EXISTS"
    await admin.create_partitions({topic: NewPartitions(3)})
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len((described := await admin.describe_topics([topic]))[0]["partitions"]) < 3:
            await asyncio.sleep(0.05)
    assert sorted(part["partition"] for part in described[0]["partitions"]) == [0, 1, 2]
    cluster = await admin.describe_cluster()
    assert [f"{node['host']}:{node['port']}" for node in cluster["brokers"]] == [server.bootstrap]
    configs = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": ""})])
    assert configs[0].resources[0][4][0][:2] == ("retention.ms", "60000")
    # AlterConfigs: settings that are not named are removed.
    altered = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": "delete"})])
    assert altered[0].resources[0][0] == 0

    async def retention() -> str:
        asked = [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": ""})]
        found: str = (await admin.describe_configs(asked))[0].resources[0][4][0][1]
        return found

    async with asyncio.timeout(DEADLINE_SECONDS):
        while await retention() != "604800000":
            await asyncio.sleep(0.05)

    producer = await start(AIOKafkaProducer)
    for n in range(9):
        await producer.send_and_wait(topic, b"v", partition=n % 3)
    partition = TopicPartition(topic, 0)
    assert await admin.delete_records({partition: RecordsToDelete(2)}) == {partition: 2}
    consumer = await start(AIOKafkaConsumer, topic, group_id=group)
    await read([consumer], lambda read: len(read) == 7)
    await consumer.commit()
    assert (group, "consumer") in await admin.list_consumer_groups()
    state = (await admin.describe_consumer_groups([group]))[0].groups[0]
    assert (state[1], state[2], len(state[5])) == (group, "Stable", 1)
    assert await admin.find_coordinator(group) == 1
    offsets = await admin.list_consumer_group_offsets(group)
    assert {p.partition: o.offset for p, o in offsets.items()} == {0: 3, 1: 3, 2: 3}
    await consumer.stop()
    await admin.delete_topics([topic])
    async with asyncio.timeout(DEADLINE_SECONDS):
        while topic in await admin.list_topics():
            await asyncio.sleep(0.05)
