"""Groups between the protocols: requests of one kind to a group of the other, upgrades, downgrades (KIP-848)."""

import base64
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tests.differential.registry import scenario
from tests.differential.scenarios.classic import Classic
from tests.differential.scenarios.committed import committing
from tests.differential.scenarios.members import Consumer, described, prepared
from tests.differential.script import Answer, Script


@scenario("ConsumerGroupHeartbeat")
def classic_requests_to_a_consumer_group(script: Script) -> None:
    group, topic = prepared(script)
    a = Consumer(script, group, "a", topic)
    a.join()
    a.reconcile()
    stranger = Classic(script, group, "c")
    stranger.id, stranger.generation = a.id, a.epoch
    stranger.heartbeat("a heartbeat")
    stranger.sync()
    stranger.leave()
    a.beat("is undisturbed")


@scenario("ConsumerGroupHeartbeat")
def joins_an_empty_classic_group(script: Script) -> None:
    group, topic = prepared(script)
    classic = Classic(script, group, "c")
    classic.join()
    classic.sync([(classic, "all")])
    script.admin.ask(
        "OffsetCommit", 9, committing(group, topic, "", 9, (0, 5), memberId=classic.id, generationIdOrMemberEpoch=1)
    )
    classic.leave()
    a = Consumer(script, group, "a", topic)
    a.join()
    described(script, group)
    asked = {"groups": [{"groupId": group, "topics": None}]}
    script.admin.call("OffsetFetch", 8, asked, label="its offsets are still there")
    a.leave()
    again = Classic(script, group, "d")
    again.join()
    script.admin.call("DescribeGroups", 6, {"groups": [group]}, label="classic again")


@scenario("ConsumerGroupHeartbeat")
def upgrade_is_refused(script: Script) -> None:
    """A group of another protocol type than consumer cannot be upgraded online."""
    group, topic = prepared(script)
    other = Classic(script, group, "c")
    other.join(protocolType="connect")
    a = Consumer(script, group, "a", topic)
    a.join()
    script.admin.call("DescribeGroups", 6, {"groups": [group]})


def subscribed(version: int, *topics: str, owned: Sequence[tuple[str, Sequence[int]]] = ()) -> str:
    """A classic consumer's subscription; from version 1 on with its owned partitions."""
    data = struct.pack(">hi", version, len(topics)) + b"".join(map(_text, topics)) + struct.pack(">i", -1)
    if version >= 1:
        data += struct.pack(">i", len(owned)) + b"".join(map(_partitions, owned))
    if version >= 2:
        data += struct.pack(">i", -1)
    if version >= 3:
        data += struct.pack(">h", -1)
    return base64.b64encode(data).decode()


def assigned(*partitions: tuple[str, Sequence[int]]) -> str:
    """The assignment of a classic consumer."""
    data = struct.pack(">hi", 0, len(partitions)) + b"".join(map(_partitions, partitions)) + struct.pack(">i", -1)
    return base64.b64encode(data).decode()


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _partitions(topic_partitions: tuple[str, Sequence[int]]) -> bytes:
    topic, partitions = topic_partitions
    return _text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)


def classic_consumer(script: Script, group: str, topic: str, partitions: Sequence[int]) -> Classic:
    """A classic group of one consumer that has these partitions."""
    member = Classic(script, group, "c")
    member.metadata = subscribed(1, topic)
    member.join()
    body = member.syncing()
    body["assignments"] = [{"memberId": member.id, "assignment": assigned((topic, partitions))}]
    member.connection.call("SyncGroup", 5, body, label="c syncs")
    return member


@scenario("ConsumerGroupHeartbeat")
def upgrade(script: Script) -> None:
    """A KIP-848 member joins a classic group of consumers, which becomes a consumer group."""
    group, topic = prepared(script)
    classic = classic_consumer(script, group, topic, range(4))
    a = Consumer(script, group, "a", topic)
    a.join()
    script.admin.call("ListGroups", 5, {"typesFilter": ["consumer"]}, label="its type", keep=only(group))
    classic.heartbeat("is to join again")
    classic.metadata = subscribed(1, topic, owned=[(topic, range(4))])
    classic.join()
    classic.connection.call("SyncGroup", 5, classic.syncing(), label="c syncs")
    classic.heartbeat("may have to give up")
    a.beat("waits")
    classic.metadata = subscribed(1, topic, owned=[(topic, range(2))])
    classic.join()
    classic.connection.call("SyncGroup", 5, classic.syncing(), label="c syncs with less")
    a.beat("gets the rest")
    a.reconcile()
    classic.heartbeat()
    script.admin.call("DescribeGroups", 6, {"groups": [group]}, label="as a classic one")
    classic.leave()
    a.beat("is to have all")
    a.reconcile()


@scenario("ConsumerGroupHeartbeat")
def downgrade(script: Script) -> None:
    """When the last member of the new protocol leaves, the classic ones have a classic group again."""
    group, topic = prepared(script)
    classic = classic_consumer(script, group, topic, range(4))
    a = Consumer(script, group, "a", topic)
    a.join()
    a.leave()
    script.admin.call("ListGroups", 5, {}, label="its type", keep=only(group))
    script.admin.call("DescribeGroups", 6, {"groups": [group]})
    classic.heartbeat("is to join again")
    classic.join()
    script.admin.call("DescribeGroups", 6, {"groups": [group]}, label="joined")


def only(group: str) -> Callable[[Answer], Any]:
    """The entry of a group in ListGroups."""
    return lambda answer: [found for found in answer.get("groups", [answer]) if found.get("groupId") == group]
