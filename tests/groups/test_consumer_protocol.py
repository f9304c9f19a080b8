"""Features of `group.protocol=consumer` (KIP-848) and `auto` only."""

import logging
import re
from collections.abc import Iterator
from random import Random
from threading import Thread
from time import monotonic
from typing import Any

import monedula
import pytest
from monedula import events
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import HEARTBEAT, SETTINGS, Ground, committed, take, until

CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}
AUTO: dict[str, Any] = {"group_protocol": "auto"}


@pytest.fixture
def older_broker() -> Iterator[Broker]:
    """A broker of the early access of KIP-848, whose version 0 is another protocol."""
    with Broker(settings=SETTINGS, topics=["orders:2"], max_versions={"ConsumerGroupHeartbeat": 0}) as broker:
        yield broker


@pytest.mark.req("S147")
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_coordinator_assigns_by_the_strategy_that_is_named(
    ground: Ground, member: MemberFactory, caplog: pytest.LogCaptureFixture, assignor: str
) -> None:
    caplog.set_level(logging.DEBUG, "monedula")
    topics, group = [ground.topic(3) for _ in range(2)], ground.name("group")
    members = [member(group, topics, **CONSUMER, group_remote_assignor=assignor) for _ in range(2)]
    everything = {monedula.TopicPartition(topic, index) for topic in topics for index in range(3)}

    def shares() -> list[int]:
        parts = [each.assignment() for each in members]
        whole = set.union(*parts) == everything and sum(map(len, parts)) == len(everything)
        return sorted(map(len, parts)) if whole else []

    # Range assigns two of each topic to the first member; uniform balances.
    until(lambda: shares() == ([2, 4] if assignor == "range" else [3, 3]), *members)
    if assignor == "range":
        for topic in topics:
            parts = [{at.partition for at in each.assignment() if at.topic == topic} for each in members]
            assert sorted(parts, key=len) == [{2}, {0, 1}]
    assert {each.health()["group"]["assignor"] for each in members} == {assignor}
    joined = [record.getMessage() for record in caplog.records if " joined " in record.getMessage()]
    assert len(joined) == 2
    for told in joined:
        # There is no leader.
        assert re.fullmatch(rf".*: joined in epoch \d+, {assignor}, in \d+ ms", told), told


def test_an_assignor_that_the_broker_lacks_is_an_error_on_every_call(ground: Ground, member: MemberFactory) -> None:
    consumer = member(ground.name("group"), ground.topic(), **CONSUMER, group_remote_assignor="rnage")
    for _ in range(2):
        with pytest.raises(monedula.errors.UnsupportedAssignorError, match=r"group\.remote\.assignor=rnage") as caught:
            consumer.poll(timeout=30)
        assert caught.value.code == "UNSUPPORTED_ASSIGNOR"


@pytest.mark.req("S158")
def test_the_interval_that_the_coordinator_sets_is_followed(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    consumer = member(group, topic, **CONSUMER)
    until(lambda: consumer.health()["group"]["heartbeat_interval"] == 0.2, consumer)
    with monedula.Admin({"bootstrap.servers": ground.bootstrap}) as admin:
        admin.alter_configs({("group", group): {"consumer.heartbeat.interval.ms": 100}})
    until(lambda: consumer.health()["group"]["heartbeat_interval"] == 0.1, consumer)


def test_auto_takes_the_new_protocol_where_there_is_one(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    consumer = member(ground.name("group"), topic, **AUTO)
    assert take(consumer, 3) == [0, 1, 2]
    assert consumer.health()["group"]["protocol"] == "consumer"


@pytest.mark.parametrize("subscribed", ["names", "pattern"])
def test_auto_falls_back_and_says_so(
    older_broker: Broker, member: MemberFactory, caplog: pytest.LogCaptureFixture, subscribed: str
) -> None:
    older_broker.append("orders", ["0", "1"])
    seen: list[events.GroupEvent] = []
    consumer = member("etl", bootstrap_servers=older_broker.bootstrap_servers, on_event=seen.append, **AUTO)
    told: list[set[monedula.TopicPartition]] = []
    with caplog.at_level(logging.WARNING, "monedula"):
        what: dict[str, Any] = {"topics": "orders"} if subscribed == "names" else {"pattern": "ord.*"}
        consumer.subscribe(**what, on_assigned=told.append)
        assert take(consumer, 2) == [0, 1]
    consumer.commit()
    assert committed(consumer, "orders") == [2]
    group = consumer.health()["group"]
    assert (group["protocol"], group["assignor"]) == ("classic", "cooperative-sticky")
    assert len(told) == 1
    (fell,) = (event for event in seen if isinstance(event, events.FellBack))
    assert "ConsumerGroupHeartbeat" in fell.reason
    assert any("the classic one is in force" in record.getMessage() for record in caplog.records)
    consumer.unsubscribe()
    consumer.subscribe("orders")
    until(lambda: len(consumer.assignment()) == 2, consumer)


def test_a_broker_without_the_protocol_is_an_error_on_every_call(older_broker: Broker, member: MemberFactory) -> None:
    consumer = member("etl", "orders", bootstrap_servers=older_broker.bootstrap_servers, **CONSUMER)
    for _ in range(2):
        with pytest.raises(monedula.errors.UnsupportedGroupProtocolError, match=r"group\.protocol=classic") as caught:
            consumer.poll(timeout=30)
        assert caught.value.group == "etl"


def test_settings_of_the_classic_protocol_are_taken_and_warned_of_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("orders")
    settings: dict[str, Any] = {
        "partition_assignment_strategy": "range",
        "heartbeat_interval_ms": 3000,
        "group_id": "etl",
    }
    with (
        caplog.at_level(logging.WARNING, "monedula"),
        monedula.Consumer(bootstrap_servers=broker.bootstrap_servers, **settings, **CONSUMER) as consumer,
    ):
        consumer.subscribe("orders")
        until(lambda: bool(consumer.assignment()), consumer)
    for key in ("partition.assignment.strategy", "heartbeat.interval.ms"):
        assert sum(key in record.getMessage() for record in caplog.records) == 1, key


def test_a_session_too_short_for_the_brokers_interval_is_warned_of(
    broker: Broker, member: MemberFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        return [message for message in messages if "heartbeat intervals (200 ms)" in message]

    broker.create_topic("orders")
    for session, warned in ((500, True), (700, False)):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "monedula"):
            consumer = member(f"etl-{session}", "orders", session_timeout_ms=session, **CONSUMER)
            until(lambda consumer=consumer: bool(consumer.assignment()), consumer)  # type: ignore[misc]
            # The warning may come a poll later than the assignment.
            until(lambda warned=warned: len(told()) >= warned, consumer)  # type: ignore[misc]
            assert len(told()) == warned


def test_a_pattern_that_the_broker_matches(ground: Ground, member: MemberFactory) -> None:
    prefix, group = ground.name("server"), ground.name("group")
    wanted = {ground.topic(1, f"{prefix}-{name}") for name in ("eu", "us")}
    ground.topic(1, f"{prefix}-eu-dead")
    consumer = member(group, **CONSUMER)
    consumer.subscribe(server_pattern=f"{prefix}-(eu|us)")
    until(lambda: {at.topic for at in consumer.assignment()} == wanted, consumer)
    for topic in wanted:
        ground.append(topic, [1])
    assert take(consumer, 2) == [1, 1]
    consumer.commit()
    assert consumer.subscription() == wanted
    other = ground.topic(1, f"{prefix}-other")
    consumer.subscribe(other)
    until(lambda: {at.topic for at in consumer.assignment()} == {other}, consumer)


def test_a_pattern_that_the_broker_cannot_read(ground: Ground, member: MemberFactory) -> None:
    consumer = member(ground.name("group"), **CONSUMER)
    consumer.subscribe(server_pattern="orders(")
    for _ in range(2):
        with pytest.raises(monedula.errors.InvalidPatternError, match=r"orders\(") as caught:
            consumer.poll(timeout=30)
        assert caught.value.code == "INVALID_REGULAR_EXPRESSION"
    topic = ground.topic()
    ground.append(topic, [7])
    consumer.unsubscribe()
    consumer.subscribe(topic)
    assert take(consumer, 1) == [7]


def test_a_pattern_for_the_broker_needs_the_protocol(older_broker: Broker, member: MemberFactory) -> None:
    servers = {"bootstrap_servers": older_broker.bootstrap_servers}
    with pytest.raises(monedula.ArgumentError, match=r"group\.protocol=consumer"):
        member("etl", **servers).subscribe(server_pattern="ord.*")
    unused = member("etl", **servers, **CONSUMER)
    wrong: Any
    for wrong in ("", None, 5):
        with pytest.raises(monedula.ArgumentError):
            unused.subscribe(server_pattern=wrong)
    with pytest.raises(monedula.ArgumentError, match="exclude"):
        unused.subscribe(server_pattern="ord.*", exclude="b")
    fallen = member("etl", **servers, **AUTO)
    fallen.subscribe(server_pattern="ord.*")
    with pytest.raises(monedula.ArgumentError, match="classic"):
        fallen.poll(timeout=30)


def test_a_static_id_that_is_in_use_is_refused_and_free_again_after_close(
    ground: Ground, member: MemberFactory
) -> None:
    topic, group = ground.topic(2), ground.name("group")
    static = {"group_instance_id": "worker-1", **CONSUMER}
    first = member(group, topic, **static)
    until(lambda: len(first.assignment()) == 2, first)
    second = member(group, topic, **static)
    for _ in range(2):
        with pytest.raises(monedula.errors.FencedInstanceError, match="worker-1") as caught:
            second.poll(timeout=30)
        assert (caught.value.code, caught.value.instance_id) == ("UNRELEASED_INSTANCE_ID", "worker-1")
    until(lambda: len(first.assignment()) == 2, first)
    first.close()
    third = member(group, topic, **static)
    until(lambda: len(third.assignment()) == 2, third)


def test_a_rebalance_cannot_be_asked_for(
    ground: Ground, member: MemberFactory, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = member(ground.name("group"), ground.topic(), **CONSUMER)
    until(lambda: bool(consumer.assignment()), consumer)
    with caplog.at_level(logging.WARNING, "monedula"):
        consumer.enforce_rebalance("because")
        until(lambda: any("enforce_rebalance()" in record.getMessage() for record in caplog.records), consumer)
    assert consumer.rebalance_wanted == set()


def test_assignors_of_the_client_are_refused(ground: Ground, member: MemberFactory) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"group\.remote\.assignor"):
        member(ground.name("group"), assignors=["range"], **CONSUMER)


def test_members_that_are_closed_while_they_join_leave_nobody_behind(broker: Broker) -> None:
    broker.create_topic("orders", 12)
    random = Random(1)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.protocol": "consumer"}
    for turn in range(150):

        def join_and_close(seconds: float, group: str = f"closing-{turn}") -> None:
            consumer = monedula.Consumer({**settings, "group.id": group}, ["orders"])
            until = monotonic() + seconds
            while monotonic() < until:
                consumer.poll(0.0)
            consumer.close()

        # Three at a time: requests are made in tasks that overtake each other only where there is something to do.
        moments = [random.random() * random.choice([0.005, 0.02, 0.05]) for _ in range(3)]
        threads = [Thread(target=join_and_close, args=(moment,)) for moment in moments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    left_behind = {each.group: broker.group(each.group).members for each in broker.groups()}
    assert {group: members for group, members in left_behind.items() if members} == {}


def test_a_full_group_says_so(member: MemberFactory) -> None:
    with Broker(settings={**SETTINGS, "group.consumer.max.size": 1}, topics=["orders:1"]) as broker:
        first = member("etl", "orders", bootstrap_servers=broker.bootstrap_servers, **CONSUMER)
        until(lambda: bool(first.assignment()), first)
        last = member("etl", "orders", bootstrap_servers=broker.bootstrap_servers, **CONSUMER)
        with pytest.raises(monedula.errors.GroupError, match=r"group\.consumer\.max\.size") as caught:
            last.poll(timeout=30)
        assert caught.value.code == "GROUP_MAX_SIZE_REACHED"
        first.close()


def test_a_commit_with_an_epoch_of_yesterday_waits_for_the_next_heartbeat(
    broker: Broker, member: MemberFactory
) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["0"])
    consumer = member("etl", "orders", enable_auto_commit=False, **CONSUMER)
    take(consumer, 1)
    with (
        broker.fault(api="OffsetCommit", error="STALE_MEMBER_EPOCH", count=1) as stale,
        broker.observe(api=HEARTBEAT["consumer"]) as beats,
    ):
        assert consumer.commit() == {monedula.TopicPartition("orders", 0): 1}
        assert stale.hits == 1
        assert beats.hits >= 1
    assert committed(consumer, "orders") == [1]


def test_a_member_that_is_fenced_loses_its_partitions_and_joins_again(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    lost: list[set[monedula.TopicPartition]] = []
    revoked: list[set[monedula.TopicPartition]] = []
    consumer = member("etl", **CONSUMER)
    consumer.subscribe("orders", on_lost=lost.append, on_revoked=revoked.append)
    until(lambda: bool(consumer.assignment()), consumer)
    before = consumer.health()["group"]["member_id"]
    with broker.fault(api=HEARTBEAT["consumer"], error="FENCED_MEMBER_EPOCH", count=1) as fenced:
        until(lambda: fenced.hits == 1 and bool(lost), consumer)
    until(lambda: bool(consumer.assignment()), consumer)
    assert lost == [{monedula.TopicPartition("orders", 0)}]
    assert revoked == []
    assert consumer.health()["group"]["member_id"] == before, "the id lives as long as the consumer"


def test_a_topic_that_is_made_anew_is_read_from_its_beginning(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, [1, 2])
    consumer = member(group, topic, metadata_max_age_ms=200, **CONSUMER)
    assert take(consumer, 2) == [1, 2]
    with monedula.Admin({"bootstrap.servers": ground.bootstrap}) as admin:
        admin.delete_topics([topic])
    until(lambda: not consumer.assignment(), consumer)
    ground.topic(1, topic)
    ground.append(topic, [3, 4])
    assert take(consumer, 2) == [3, 4]


def test_a_transaction_takes_the_members_offsets_with_it(ground: Ground, member: MemberFactory) -> None:
    source, target, group = ground.topic(2), ground.topic(), ground.name("group")
    for partition in range(2):
        ground.append(source, range(10), partition)
    consumer = member(group, source, enable_auto_commit=False, **CONSUMER)
    with monedula.Producer(bootstrap_servers=ground.bootstrap, transactional_id=group) as producer:
        moved = 0
        while moved < 20:
            batch = consumer.poll(timeout=20, max_rows=7)
            with producer.transaction(consumer):
                for record in batch.records():
                    producer.send(target, record.value)
            moved += batch.num_rows
    until(lambda: committed(consumer, source, [0, 1]) == [10, 10])
    reader = member(ground.name("group"), target, isolation_level="read_committed", **CONSUMER)
    assert sorted(take(reader, 20)) == sorted([*range(10)] * 2)
