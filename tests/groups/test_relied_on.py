"""Behaviour that users of Java's consumer or confluent-kafka rely on."""

import asyncio

import monedula
import pytest
from monedula import TopicPartition
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import HEARTBEAT, Ground, committed, owned, shared, take, until


@pytest.mark.parametrize("whole_topic", [False, True])
def test_assign_starts_at_what_is_committed(ground: Ground, member: MemberFactory, whole_topic: bool) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(10 * partition, 10 * partition + 10), partition)
    member(group).commit({(topic, 0): 7})
    consumer = member(group)
    consumer.assign(topic if whole_topic else [(topic, 0), (topic, 1)])
    assert sorted(take(consumer, 13)) == [7, 8, 9, *range(10, 20)], "and where there is nothing, by the policy"
    consumer.assign({(topic, 0): 9, (topic, 1): "latest"})
    assert take(consumer, 1) == [9], "a position that is named wins"


def test_committed_is_a_position(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    consumer = member(group, auto_offset_reset="latest")
    consumer.assign({(topic, 0): "earliest"})
    assert take(consumer, 10) == list(range(10))
    consumer.commit({(topic, 0): 8})
    consumer.seek((topic, 0), "committed")
    assert take(consumer, 2) == [8, 9]
    consumer.assign({(topic, 0): "committed"})
    assert take(consumer, 2) == [8, 9]
    nobody = member(None)
    with pytest.raises(monedula.ArgumentError, match=r"set group\.id"):
        nobody.assign({(topic, 0): "committed"})
    nobody.assign([(topic, 0)])
    with pytest.raises(monedula.ArgumentError, match=r"set group\.id"):
        nobody.seek((topic, 0), "committed")


async def test_an_async_consumer_starts_there_too(ground: Ground) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    async with monedula.AsyncConsumer(ground.settings(group)) as consumer:
        await consumer.commit({(topic, 0): 6})
        consumer.assign([(topic, 0)])
        batch = await asyncio.wait_for(anext(consumer.batches()), 30)
        assert [record.offset for record in batch.records()] == [6, 7, 8, 9]


@pytest.mark.both_protocols
def test_on_revoked_is_called_for_what_is_lost_without_on_lost(
    broker: Broker, member: MemberFactory, protocol: str
) -> None:
    broker.create_topic("orders", 2)
    revoked: list[set[TopicPartition]] = []
    consumer = member("etl")
    consumer.subscribe("orders", on_revoked=revoked.append)
    until(lambda: len(consumer.assignment()) == 2, consumer)
    with broker.fault(api=HEARTBEAT[protocol], error="UNKNOWN_MEMBER_ID", count=1):
        until(lambda: bool(revoked), consumer)
    assert revoked == [{TopicPartition("orders", 0), TopicPartition("orders", 1)}]


@pytest.mark.both_protocols
def test_what_is_lost_is_reported_before_the_error_that_ends_the_membership(
    broker: Broker, member: MemberFactory, protocol: str
) -> None:
    broker.create_topic("orders")
    lost: list[set[TopicPartition]] = []
    consumer = member("etl")
    consumer.subscribe("orders", on_lost=lost.append)
    until(lambda: len(consumer.assignment()) == 1, consumer)
    with (
        broker.fault(api=HEARTBEAT[protocol], error="GROUP_AUTHORIZATION_FAILED"),
        pytest.raises(monedula.errors.GroupAuthorizationError),
    ):
        until(lambda: False, consumer)
    assert lost == [{TopicPartition("orders", 0)}]


def test_a_group_of_librdkafkas_default_says_what_to_set(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(4), ground.name("group")
    librdkafka = member(group, topic, partition_assignment_strategy="range,roundrobin")
    until(shared(4, librdkafka), librdkafka)
    stranger = member(group, topic)
    with pytest.raises(monedula.errors.InconsistentGroupProtocolError, match=r"range,roundrobin") as caught:
        until(lambda: False, stranger)
    assert "partition.assignment.strategy" in str(caught.value)
    assert "cooperative-sticky" in str(caught.value)


def test_a_list_of_both_moves_a_group_from_librdkafkas_default(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(4), ground.name("group")
    librdkafka = member(group, topic, partition_assignment_strategy="range,roundrobin")
    until(shared(4, librdkafka), librdkafka)
    both = [member(group, topic, partition_assignment_strategy="cooperative-sticky,range") for _ in range(2)]
    until(shared(4, librdkafka, *both), librdkafka, *both)
    assert {consumer.health()["group"]["assignor"] for consumer in both} == {"range"}
    librdkafka.close()
    until(shared(4, *both), *both)
    # Now each member is restarted with only the one assignor.
    last = [member(group, topic) for _ in range(2)]
    for number, old in enumerate(both):
        old.close()
        until(shared(4, *both[number + 1 :], *last), *both[number + 1 :], *last)
    until(shared(4, *last), *last)
    assert {consumer.health()["group"]["assignor"] for consumer in last} == {"cooperative-sticky"}
    assert {len(part) for part in owned(*last)} == {2}


def test_commits_by_hand_that_nobody_waits_for_are_made_in_order_and_by_close(
    broker: Broker, member: MemberFactory
) -> None:
    broker.create_topic("orders")
    consumer = member("etl")
    consumer.assign({("orders", 0): 0})
    told: list[int] = []
    with broker.fault(api="OffsetCommit", delay_ms=50):
        for offset in range(1, 6):
            future = consumer.commit_async({("orders", 0): offset})
            future.add_done_callback(lambda done: told.extend(done.result().values()))
        consumer.close()
    assert told == [1, 2, 3, 4, 5]
    assert committed(member("etl"), "orders") == [5]
