"""KafkaJS: the behaviour in seed 004, from a missing topic to a broker that comes back."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.conftest import KafkaJS, Unique
from tests.interop.process import Event, Refused, eventually
from tests.interop.servers import Server

GROUP = {"sessionTimeout": 6000, "heartbeatInterval": 200, "rebalanceTimeout": 10000, "maxWaitTimeInMs": 200}


def records(events: list[Event], *consumers: str) -> list[Event]:
    return [
        event for event in events if event["event"] == "record" and (not consumers or event["consumer"] in consumers)
    ]


def values(events: list[Event], *consumers: str) -> list[str]:
    return sorted(event["value"] for event in records(events, *consumers))


def assignments(events: list[Event], topic: str) -> dict[str, list[int]]:
    """The last assignment of each consumer."""
    return {
        event["consumer"]: sorted(event["memberAssignment"].get(topic, []))
        for event in events
        if event["event"] == "GROUP_JOIN"
    }


def shared_out(topic: str, consumers: int, partitions: int) -> Callable[[list[Event]], bool]:
    """Whether the consumers stand in one generation in which each partition has one owner and each consumer some."""

    def condition(events: list[Event]) -> bool:
        last = {event["consumer"]: event for event in events if event["event"] == "GROUP_JOIN"}
        members = {event["memberId"] for event in last.values()}
        owned = [partition for parts in assignments(events, topic).values() for partition in parts]
        return (
            len(last) == len(members) == consumers
            and sorted(owned) == list(range(partitions))
            and all(assignments(events, topic).values())
        )

    return condition


def numbered(count: int, partitions: int = 1, **fields: Any) -> list[dict[str, Any]]:
    return [{"key": f"k{n}", "value": f"v{n:05}", "partition": n % partitions, **fields} for n in range(count)]


@pytest.mark.req("S108")
@pytest.mark.parametrize(("acks", "compression"), [(-1, "None"), (1, "None"), (0, "None"), (-1, "GZIP")])
def test_a_topic_that_metadata_creates_is_produced_to_and_consumed(
    server: Server, kafkajs_on: KafkaJS, unique: Unique, acks: int, compression: str
) -> None:
    topic, group = unique("topic"), unique("group")
    kafkajs = kafkajs_on(server)
    sent = numbered(100, headers={"source": "interop"})
    answer = kafkajs.call("produce", topic=topic, messages=sent, acks=acks, compression=compression)
    if acks != 0:
        assert [(part["partition"], part["errorCode"], part["baseOffset"]) for part in answer] == [(0, 0, "0")]
    kafkajs.call("consume", name="c", topics=[topic], settings={"groupId": group, **GROUP})
    kafkajs.wait("100 records", lambda events: len(records(events)) >= 100)
    assert [(r["offset"], r["key"], r["value"], r["headers"]) for r in records(kafkajs.events)] == [
        (n, message["key"], message["value"], {"source": "interop"}) for n, message in enumerate(sent)
    ]


def test_a_topic_that_is_not_created_is_an_error_for_the_producer(server: Server, kafkajs_on: KafkaJS) -> None:
    with pytest.raises(Refused) as refused:
        kafkajs_on(server).call("produce", topic="not a name", messages=[{"value": "v"}])
    assert "invalid topic" in str(refused.value)


@pytest.mark.req("S096")
def test_a_consumer_asks_in_the_order_of_the_protocol(server: Server, kafkajs_on: KafkaJS, unique: Unique) -> None:
    topic = unique("topic")
    kafkajs = kafkajs_on(server)
    kafkajs.call("produce", topic=topic, messages=numbered(3))
    kafkajs.call("consume", name="c", topics=[topic], settings={"groupId": unique("group"), **GROUP})
    kafkajs.wait("a heartbeat", lambda events: [event for event in events if event["event"] == "HEARTBEAT"])
    kafkajs.wait("3 records", lambda events: len(records(events)) == 3)
    asked = [event["api"] for event in list(kafkajs.events) if event["event"] == "REQUEST"]
    # FindCoordinator by its older name.
    story = ["GroupCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "Fetch"]
    assert [api for api in dict.fromkeys(asked) if api in story] == story
    assert "Heartbeat" in asked


def test_a_consumer_goes_on_where_its_group_committed(server: Server, kafkajs_on: KafkaJS, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    kafkajs = kafkajs_on(server)
    kafkajs.call("produce", topic=topic, messages=numbered(20))
    settings = {"groupId": group, **GROUP}
    kafkajs.call("consume", name="first", topics=[topic], settings=settings, run={"autoCommit": False})
    kafkajs.wait("20 records", lambda events: len(records(events)) == 20)
    kafkajs.call("commit", name="first", offsets=[{"topic": topic, "partition": 0, "offset": "15", "metadata": "m"}])
    kafkajs.call("stop", name="first")
    kafkajs.call("consume", name="second", topics=[topic], settings=settings)
    kafkajs.wait("the other five", lambda events: len(records(events, "second")) >= 5)
    assert [r["offset"] for r in records(kafkajs.events, "second")] == [15, 16, 17, 18, 19]
    kafkajs.wait(
        "a heartbeat", lambda events: [e for e in events if e["event"] == "HEARTBEAT" and e["groupId"] == group]
    )
    kafkajs.call("seek", name="second", topic=topic, partition=0, offset="18")
    kafkajs.wait("two records again", lambda events: len(records(events, "second")) >= 7)
    assert [r["offset"] for r in records(kafkajs.events, "second")][5:] == [18, 19]


def test_three_consumers_share_partitions_and_each_record_comes_once(
    server: Server, kafkajs_on: KafkaJS, unique: Unique
) -> None:
    topic, group = unique("topic"), unique("group")
    kafkajs = kafkajs_on(server)
    kafkajs.call("admin", method="createTopics", argument={"topics": [{"topic": topic, "numPartitions": 6}]})
    settings = {"groupId": group, **GROUP}
    for members, name in enumerate(["a", "b", "c"], start=1):
        kafkajs.call("consume", name=name, topics=[topic], settings=settings)
        kafkajs.wait(f"{members} owners", shared_out(topic, members, 6))
    sent = numbered(600, partitions=6)
    kafkajs.call("produce", topic=topic, messages=sent)
    kafkajs.wait("600 records", lambda events: len(records(events)) >= 600)
    owners = assignments(kafkajs.events, topic)
    assert sorted(map(len, owners.values())) == [2, 2, 2]
    assert all(r["partition"] in owners[r["consumer"]] for r in records(kafkajs.events))
    # One leaves: the two that stay go on with all partitions, from where it committed.
    before = len(kafkajs.events)
    kafkajs.call("stop", name="c")
    kafkajs.wait("two owners", lambda events: shared_out(topic, 2, 6)(events[before:]))
    kafkajs.call("produce", topic=topic, messages=[{**message, "value": "again"} for message in sent[:60]])
    kafkajs.wait("60 more", lambda events: len(records(events)) >= 660)
    assert Counter(values(kafkajs.events)) == Counter([m["value"] for m in sent] + ["again"] * 60)


def test_clients_go_on_after_the_broker_came_back(restartable: Server, kafkajs_on: KafkaJS, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    kafkajs = kafkajs_on(restartable)
    settings = {"groupId": group, **GROUP, "sessionTimeout": 30000}
    kafkajs.call("produce", topic=topic, messages=numbered(10))
    kafkajs.call("consume", name="c", topics=[topic], settings=settings, run={"autoCommitThreshold": 1})
    kafkajs.wait("10 records", lambda events: len(records(events)) == 10)
    kafkajs.wait("a commit", lambda events: [e for e in events if e["event"] == "COMMIT_OFFSETS"])
    restartable.stop()
    restartable.start()
    kafkajs.call("produce", topic=topic, messages=[{"value": "after"}])
    kafkajs.wait("the record after the restart", lambda events: "after" in values(events))
    assert values(kafkajs.events) == ["after", *(f"v{n:05}" for n in range(10))]
    assert [r["offset"] for r in records(kafkajs.events)] == list(range(11))


def test_the_admin_client(server: Server, kafkajs_on: KafkaJS, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    kafkajs = kafkajs_on(server)

    def admin(method: str, argument: Any = None) -> Any:
        return kafkajs.call("admin", method=method, argument=argument)

    new = {"topic": topic, "numPartitions": 2, "configEntries": [{"name": "retention.ms", "value": "3600000"}]}
    assert admin("createTopics", {"topics": [new]}) is True
    assert admin("createTopics", {"topics": [new]}) is False, "it is there already"
    assert topic in admin("listTopics")
    admin("createPartitions", {"topicPartitions": [{"topic": topic, "count": 3}]})

    def partitions() -> list[int]:
        metadata = admin("fetchTopicMetadata", {"topics": [topic]})["topics"]
        return sorted(part["partitionId"] for part in metadata[0]["partitions"])

    eventually("three partitions", lambda: partitions() == [0, 1, 2])
    cluster = admin("describeCluster")
    assert [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]] == [server.bootstrap]
    configs = admin("describeConfigs", {"resources": [{"type": 2, "name": topic, "configNames": ["retention.ms"]}]})
    assert [(e["configName"], e["configValue"]) for e in configs["resources"][0]["configEntries"]] == [
        ("retention.ms", "3600000")
    ]

    kafkajs.call("produce", topic=topic, messages=numbered(30, partitions=3))
    ends = {part["partition"]: (part["low"], part["high"]) for part in admin("fetchTopicOffsets", topic)}
    assert ends == {0: ("0", "10"), 1: ("0", "10"), 2: ("0", "10")}
    admin("deleteTopicRecords", {"topic": topic, "partitions": [{"partition": 0, "offset": "4"}]})
    assert {p["partition"]: p["low"] for p in admin("fetchTopicOffsets", topic)} == {0: "4", 1: "0", 2: "0"}

    kafkajs.call("consume", name="c", topics=[topic], settings={"groupId": group, **GROUP})
    kafkajs.wait("26 records", lambda events: len(records(events)) == 26)
    described = admin("describeGroups", [group])["groups"][0]
    assert (described["state"], described["protocolType"], len(described["members"])) == ("Stable", "consumer", 1)
    assert described["members"][0]["clientId"] == "interop"
    assert {"groupId": group, "protocolType": "consumer"} in admin("listGroups")["groups"]
    with pytest.raises(Refused, match="KafkaJSDeleteGroupsError"):
        kafkajs_on(server, KAFKAJS_RETRIES="1").call("admin", method="deleteGroups", argument=[group])
    kafkajs.call("stop", name="c")

    def committed() -> dict[int, str]:
        found = admin("fetchOffsets", {"groupId": group, "topics": [topic]})
        return {part["partition"]: part["offset"] for part in found[0]["partitions"]}

    assert committed() == {0: "10", 1: "10", 2: "10"}
    admin("setOffsets", {"groupId": group, "topic": topic, "partitions": [{"partition": 1, "offset": "5"}]})
    assert committed()[1] == "5"
    assert admin("describeGroups", [group])["groups"][0]["state"] == "Empty"
    admin("deleteGroups", [group])
    assert group not in [g["groupId"] for g in admin("listGroups")["groups"]]
    admin("deleteTopics", {"topics": [topic]})
    eventually("no such topic", lambda: topic not in admin("listTopics"))


@pytest.mark.parametrize("how", ["commit", "abort"])
def test_a_transaction(server: Server, kafkajs_on: KafkaJS, unique: Unique, how: str) -> None:
    topic, group = unique("topic"), unique("group")
    kafkajs = kafkajs_on(server)
    settings = {"transactionalId": unique("id"), "idempotent": True, "maxInFlightRequests": 1}
    kafkajs.call("produce", name="t", topic=topic, messages=numbered(5), settings=settings, transaction=True)
    offsets = {"consumerGroupId": group, "topics": [{"topic": topic, "partitions": [{"partition": 0, "offset": "3"}]}]}
    kafkajs.call("endTransaction", name="t", how=how, offsets=offsets)
    kafkajs.call("produce", topic=topic, messages=[{"value": "plain"}])
    kafkajs.call("consume", name="c", topics=[topic], settings={"groupId": unique("reader"), **GROUP})
    kafkajs.wait("the plain record", lambda events: "plain" in values(events))
    assert values(kafkajs.events) == ["plain", *(f"v{n:05}" for n in range(5) if how == "commit")]
    found = kafkajs.call("admin", method="fetchOffsets", argument={"groupId": group, "topics": [topic]})
    assert [part["offset"] for part in found[0]["partitions"]] == ["3" if how == "commit" else "-1"]
