"""What is used for the first time: topics that a client names, coordinators of a new cluster, time-outs of nothing."""

from functools import partial
from typing import Any

from tests.differential.batches import batch
from tests.differential.registry import scenario
from tests.differential.script import Answer, Member, Script

METADATA = range(14)
GROUP, TRANSACTIONAL_ID = 0, 1
ZERO = {"timeoutMs": 0}


def named(*names: str) -> dict[str, Any]:
    """A request for the metadata of topics, which creates those that are missing."""
    return {"topics": [{"name": name} for name in names], "allowAutoTopicCreation": True}


def found(member: Member, kind: int, key: str, label: str, version: int = 4) -> Answer:
    """Look for a coordinator, and take the first answer."""
    asked = {"keyType": kind, "key": key} if version < 4 else {"keyType": kind, "coordinatorKeys": [key]}
    return member.send("FindCoordinator", version, asked, label).receive()


@scenario("Metadata", METADATA)
def of_new_topics(script: Script, version: int) -> None:
    member = script.member()
    there, one, two = script.topic("there"), script.name("one"), script.name("two")
    member.send("Metadata", version, named(one, there, "a b", two, one), "two of four are new").receive()
    script.wait_led(one, 1)
    script.wait_led(two, 1)
    member.call("Metadata", version, named(one, two), label="asked again")
    if version >= 4:
        missing = {"topics": [{"name": script.name("missing")}], "allowAutoTopicCreation": False}
        member.send("Metadata", version, missing, "none is wanted").receive()


@scenario("FindCoordinator", fresh=True)
def of_a_new_cluster(script: Script) -> None:
    member, group = script.member(), script.name("group")
    topic = script.name("topic")
    join = {"groupId": group, "sessionTimeoutMs": 6000, "protocolType": "consumer"}
    join["protocols"] = [{"name": "range", "metadata": ""}]
    for label, api, version, body in (
        ("before any coordinator", "JoinGroup", 7, join),
        ("before any coordinator", "Heartbeat", 4, {"groupId": group, "memberId": "m"}),
        ("before any coordinator", "LeaveGroup", 4, {"groupId": group, "members": [{"memberId": "m"}]}),
        ("before any coordinator", "OffsetFetch", 8, {"groups": [{"groupId": group, "topics": None}]}),
        ("before any coordinator", "DescribeGroups", 5, {"groups": [group]}),
        ("before any coordinator", "DeleteGroups", 2, {"groupsNames": [group]}),
        (
            "before any coordinator",
            "ConsumerGroupHeartbeat",
            0,
            {"groupId": group, "memberId": "AAAAAAAAAAAAAAAAAAAAAQ"},
        ),
        ("before any coordinator", "ConsumerGroupDescribe", 0, {"groupIds": [group]}),
        ("before any coordinator", "ListGroups", 4, {}),
        ("before any coordinator", "InitProducerId", 4, {"transactionalId": group, "transactionTimeoutMs": 1000}),
        ("before any coordinator", "DescribeTransactions", 0, {"transactionalIds": [group]}),
        ("before any coordinator", "ListTransactions", 1, {}),
    ):
        member.send(api, version, body, label).receive()
    member.send("Metadata", 12, {"topics": None}, "no topic yet").receive()
    for kind, version in ((GROUP, 4), (TRANSACTIONAL_ID, 3)):
        found(member, kind, group, "first", version)
        script.until(partial(is_found, script, kind, group), "a coordinator")
        found(member, kind, group, "then", version)
        found(member, kind, topic, "of another key", version)
    member.call("Metadata", 12, {"topics": [{"name": "__consumer_offsets"}, {"name": "__transaction_state"}]})


def is_found(script: Script, kind: int, key: str) -> bool | None:
    """Whether a key has a coordinator."""
    asked = {"keyType": kind, "coordinatorKeys": [key]}
    answer = script.admin.send("FindCoordinator", 4, asked).answer()
    return answer["coordinators"][0]["errorCode"] == 0 or None


@scenario("CreateTopics", (2, 7))
def with_no_time(script: Script, version: int) -> None:
    member = script.member()
    name = script.name("topic")
    # Not 1: whether Kafka's controller begins within a millisecond, and so which answer it gives, is chance.
    for timeout in (0, -1000):
        new = {"name": f"{name}.{timeout}", "numPartitions": 1, "replicationFactor": 1}
        asked = {"topics": [new, {**new, "name": "a b"}], "timeoutMs": timeout}
        member.send("CreateTopics", version, asked, f"created {timeout}").receive()
        # A topic that is created after it is there.
        script.topic(f"after{timeout}")
        there = {"topics": [{"name": new["name"]}], "allowAutoTopicCreation": False}
        member.send("Metadata", 12, there, f"there {timeout}").receive()
    new = {"name": name, "numPartitions": 1, "replicationFactor": 1}
    validated = {"topics": [new], **ZERO, "validateOnly": True}
    member.send("CreateTopics", version, validated, "validated").receive()
    member.send("CreateTopics", version, {"topics": [], **ZERO}, "none").receive()


@scenario("CreatePartitions", (0, 3))
def with_no_time_at_all(script: Script, version: int) -> None:
    member, topic = script.member(), script.topic()
    more = [{"name": topic, "count": 2, "assignments": None}]
    member.send("CreatePartitions", version, {"topics": more, **ZERO}, "more").receive()
    script.topic("after")
    member.send("Metadata", 12, {"topics": [{"name": topic}]}, "as many").receive()
    elected = {"electionType": 0, "topicPartitions": [{"topic": topic, "partitions": [0]}], **ZERO}
    member.send("ElectLeaders", 2, elected, "elected").receive()
    moved = [{"name": topic, "partitions": [{"partitionIndex": 0, "replicas": [1]}]}]
    member.send("AlterPartitionReassignments", 0, {"topics": moved, **ZERO}, "moved").receive()
    listed = {"topics": None, **ZERO}
    member.send("ListPartitionReassignments", 0, listed, "listed").receive()
    records = [{"name": topic, "partitions": [{"partitionIndex": 0, "offset": 0}]}]
    member.send("DeleteRecords", 2, {"topics": records, **ZERO}, "records").receive()
    produced = [{"name": topic, "partitionData": [{"index": 0, "records": batch()}]}]
    member.send("Produce", 9, {"acks": -1, **ZERO, "topicData": produced}, "produced").receive()
    features = {"featureUpdates": [{"feature": "group.version", "maxVersionLevel": 1, "upgradeType": 1}]}
    member.send("UpdateFeatures", 1, {**features, **ZERO}, "features").receive()


@scenario("DeleteTopics", (1, 6))
def with_no_time_either(script: Script, version: int) -> None:
    member, topic = script.member(), script.topic()
    asked = {"topicNames": [topic], "topics": [{"name": topic}], **ZERO}
    member.send("DeleteTopics", version, asked, "deleted").receive()
    script.topic("after")
    missing = {"topics": [{"name": topic}], "allowAutoTopicCreation": False}
    member.send("Metadata", 12, missing, "there").receive()


@scenario("Produce", (9, 13), nodes=3)
def with_no_time_for_replicas(script: Script, version: int) -> None:
    topic = script.topic(placed=[[1, 2, 3]])
    data = {"index": 0, "records": batch()}
    of = {"name": topic} if version < 13 else {"topicId": script.topic_id(topic)}
    asked = {"acks": -1, **ZERO, "topicData": [{**of, "partitionData": [data]}]}
    script.member().send("Produce", version, asked, "produced").receive()
