"""Requests on the wire: those of a rebalance, and those that are never sent."""

from typing import Any, Literal

import monedula
import pytest
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import HEARTBEAT, take, until
from tests.relay import Relay

FETCH, OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, SYNC_GROUP = 1, 8, 9, 11, 14
BESIDES = {
    2: "ListOffsets",
    3: "Metadata",
    12: "Heartbeat",
    18: "ApiVersions",
    23: "OffsetForLeaderEpoch",
    FETCH: "Fetch",
}
"""APIs that depend on time, connections and records, and not on the rebalance."""

MEMBERSHIP = ["JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe"]


@pytest.mark.both_protocols
@pytest.mark.req("S075")
def test_a_consumer_that_is_assigned_by_hand_never_joins_its_group(
    broker: Broker, member: MemberFactory, protocol: str
) -> None:
    broker.create_topic("orders", 2)
    broker.append("orders", ["1", "2"], partition=0)
    broker.append("orders", ["3"], partition=1)
    asked = broker.observe(api=MEMBERSHIP, group="etl")
    consumer = member("etl")
    consumer.assign("orders")
    assert sorted(take(consumer, 3)) == [1, 2, 3]
    assert consumer.commit() == {monedula.TopicPartition("orders", 0): 2, monedula.TopicPartition("orders", 1): 1}
    # Within the time of some heartbeats of another group's member, this one could have sent its own.
    beats = broker.observe(api=HEARTBEAT[protocol], group="other")
    other = member("other", "orders")
    until(lambda: beats.hits >= 5, other, consumer)
    assert consumer.assignment() == {("orders", 0), ("orders", 1)}
    health = consumer.health()["group"]
    assert health is None or health["generation"] == -1
    assert not broker.group("etl").members
    consumer.close()
    assert asked.hits == 0
    assert broker.group("etl").offsets == {("orders", 0): 2, ("orders", 1): 1}


@pytest.mark.req("S114")
def test_one_eager_rebalance_is_a_commit_a_join_a_sync_a_lookup_and_a_fetch(
    broker: Broker, member: MemberFactory
) -> None:
    broker.create_topic("orders", 2)
    for partition in range(2):
        broker.append("orders", ["1", "2"], partition=partition)
    settings = {"partition_assignment_strategy": "range", "auto_commit_interval_ms": 600_000}
    with Relay(broker.bootstrap_servers) as relay:
        first = member("etl", "orders", bootstrap_servers=relay.bootstrap_servers, **settings)
        assert sorted(take(first, 4)) == [1, 1, 2, 2]
        # The next poll finishes the rows, and the rebalance commits them, because no other commit is due.
        first.poll(timeout=0)
        before = len(relay.apis())
        second = member("etl", "orders", **settings)
        until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
        for partition in range(2):
            broker.append("orders", ["3"], partition=partition)
        seen: list[int] = []
        until(lambda: len(seen) == 2, first, second, seen=seen)
        assert seen == [3, 3], "nothing is read again: the commit was through before the join"
        sent = relay.apis()[before:]
        first.close()
    # The coordinator is known, so that there is no FindCoordinator either.
    assert [api for api in sent if api not in BESIDES] == [OFFSET_COMMIT, JOIN_GROUP, SYNC_GROUP, OFFSET_FETCH]
    assert FETCH in sent[sent.index(OFFSET_FETCH) :]


@pytest.mark.req("S143")
@pytest.mark.parametrize("is_stored", [False, True])
def test_after_a_crash_in_a_rebalance_the_group_is_whole_as_it_was_or_as_it_was_to_be(
    member: MemberFactory, is_stored: bool
) -> None:
    with Broker(3, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders", 6, replicas=3)
        own: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "partition_assignment_strategy": "range"}
        own["request_timeout_ms"] = 2000
        old = [member("etl", "orders", **own) for _ in range(2)]
        until(lambda: [len(each.assignment()) for each in old] == [3, 3], *old)
        before = broker.group("etl")
        assert before.state == "Stable"
        # The leader's SyncGroup has all assignments: either it is lost, or its answer is.
        on: Literal["answer", "request"] = "answer" if is_stored else "request"
        with broker.fault(api="SyncGroup", group="etl", hold=True, on=on) as held:
            new = member("etl", "orders", **own)
            until(lambda: held.hits >= 3, new, *old)
            broker.stop_node(before.coordinator)
            after = broker.group("etl")
        assert after.state == "Stable"
        assert after.coordinator != before.coordinator
        shares = [(each.assignment or {})["orders"] for each in after.members]
        assert sorted(index for share in shares for index in share) == list(range(6))
        if is_stored:
            assert [len(share) for share in shares] == [2, 2, 2]
            assert {each.member_id for each in before.members} < {each.member_id for each in after.members}
        else:
            assert sorted(after.members, key=lambda each: each.member_id) == sorted(
                before.members, key=lambda each: each.member_id
            )
        until(lambda: sorted(len(each.assignment()) for each in (new, *old)) == [2, 2, 2], new, *old)
        for each in (new, *old):
            each.close()
