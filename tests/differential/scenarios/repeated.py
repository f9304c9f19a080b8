"""Requests that are valid and that few clients send: a topic twice, or without partitions, beside unknown ones."""

import base64
from typing import Any

from tests.differential.batches import batch
from tests.differential.registry import scenario
from tests.differential.scenarios.cluster import CLIENT_METRICS
from tests.differential.scenarios.configs import SET, SUBTRACT
from tests.differential.scenarios.fetch import FULL, fetching, filled, want
from tests.differential.scenarios.log_offsets import EARLIEST, LATEST_OFFSET, timed
from tests.differential.scenarios.members import Consumer, prepared
from tests.differential.scenarios.produce import BY_ID, UNKNOWN_ID, contents
from tests.differential.scenarios.transactions import PASSING, TV1, TV2, Transactional
from tests.differential.script import Script

COMMIT_BY_ID = 10
TXN_COMMIT_BY_ID = 6
ADDS_FROM = 5
ISOLATION_FROM = 2
REPLICA_FROM = 3
NO_SUCH_LEVEL = 2


@scenario("Produce", (3, 9, 12, 13))
def to_a_topic_twice(script: Script, version: int) -> None:
    topic = script.topic(partitions=2)
    named: dict[str, Any] = {"topicId": script.topic_id(topic)} if version >= BY_ID else {"name": topic}
    member = script.member()

    def call(label: str, *topics: tuple[dict[str, Any], list[tuple[int, str]]], acks: int = -1) -> None:
        data = [
            {**name, "partitionData": [{"index": index, "records": records} for index, records in partitions]}
            for name, partitions in topics
        ]
        member.call("Produce", version, {"acks": acks, "timeoutMs": 10_000, "topicData": data}, label=label)

    missing: dict[str, Any] = {"topicId": UNKNOWN_ID} if version >= BY_ID else {"name": script.name("missing")}
    call("no partitions", (named, []))
    call("no partitions of a topic that is missing", (missing, []), (named, [(0, batch())]))
    call("a partition each", (named, [(0, batch(("a", "0")))]), (named, [(1, batch(("b", "1")))]))
    call("the same partition", (named, [(0, batch(("c", "2")))]), (named, [(0, batch(("d", "3"), ("e", "4")))]))
    call("the second is bad", (named, [(0, batch(("f", "5")))]), (named, [(0, batch(crc=1))]))
    call("bad acks", (named, [(0, batch())]), (named, [(0, batch())]), acks=2)
    contents(script, topic)
    contents(script, topic, 1)


@scenario("ListOffsets", (1, 2, 7, 11))
def of_a_topic_twice(script: Script, version: int) -> None:
    topic = timed(script)
    member = script.member()

    def call(label: str, *topics: tuple[str, list[tuple[int, int]]], **more: Any) -> None:
        asked = [
            {"name": name, "partitions": [{"partitionIndex": index, "timestamp": time} for index, time in partitions]}
            for name, partitions in topics
        ]
        member.call("ListOffsets", version, {"replicaId": -1, "topics": asked, **more}, label=label)

    missing = script.name("missing")
    call("no partitions", (topic, []))
    call("no partitions of one that is missing", (missing, []), (topic, [(0, EARLIEST)]))
    call("a partition each", (topic, [(0, EARLIEST)]), (topic, [(1, EARLIEST)]))
    call("the same partition", (topic, [(0, EARLIEST), (1, 100)]), (topic, [(0, LATEST_OFFSET)]))
    if version >= ISOLATION_FROM:
        # Every partition has the error, and what the request names is named.
        call("no such isolation level", (topic, [(0, EARLIEST)]), (missing, [(0, -99)]), isolationLevel=NO_SUCH_LEVEL)


@scenario("OffsetForLeaderEpoch", (2, 4))
def before_the_first_epoch(script: Script, version: int) -> None:
    topic = timed(script)
    for epoch in (-2, -(2**31)):
        asked = {"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": epoch}
        body: dict[str, Any] = {"topics": [{"topic": topic, "partitions": [asked]}]}
        if version >= REPLICA_FROM:
            body["replicaId"] = -1
        script.member().call("OffsetForLeaderEpoch", version, body, label=f"epoch {epoch}")


@scenario("DeleteRecords", (0, 2))
def of_a_partition_twice(script: Script, version: int) -> None:
    topic = timed(script)
    member = script.member()

    def call(label: str, *topics: tuple[str, list[tuple[int, int]]]) -> None:
        asked = [
            {"name": name, "partitions": [{"partitionIndex": index, "offset": offset} for index, offset in partitions]}
            for name, partitions in topics
        ]
        member.call("DeleteRecords", version, {"topics": asked, "timeoutMs": 20_000}, label=label)

    missing = script.name("missing")
    call("no partitions", (topic, []), (missing, []))
    call("the later offset counts", (topic, [(0, 2), (0, 1)]))
    call("also of a topic twice", (topic, [(0, 3)]), (missing, [(0, 0)]), (topic, [(0, 2), (1, 0)]))


@scenario("Fetch", (7, 11, 12, 13, 18))
def refused_as_a_whole(script: Script, version: int) -> None:
    topic, topic_id = filled(script, batches=1)
    member = script.member()
    there, absent = (topic, topic_id, [want(0)]), (topic, topic_id, [want(0, 9)])

    def call(label: str, *topics: tuple[str, str, list[dict[str, Any]]], **more: Any) -> int:
        return int(member.call("Fetch", version, fetching(version, topics, **more), label=label).get("sessionId", 0))

    call("a session that is not there", there, sessionId=4711, sessionEpoch=1)
    session = call("a session", there, sessionEpoch=FULL)
    call("a wrong epoch", there, sessionId=session, sessionEpoch=7)
    call("no such isolation level", there, isolationLevel=NO_SUCH_LEVEL)
    call("no such level, and nothing to read", absent, isolationLevel=NO_SUCH_LEVEL)
    call("no such level, and no session", there, sessionId=4711, sessionEpoch=1, isolationLevel=NO_SUCH_LEVEL)


@scenario("OffsetCommit", (2, 8, 9, 10))
def of_topics_twice(script: Script, version: int) -> None:
    topic = script.topic(partitions=2)
    by_id = version >= COMMIT_BY_ID
    named: dict[str, Any] = {"topicId": script.topic_id(topic)} if by_id else {"name": topic}
    missing: dict[str, Any] = {"topicId": UNKNOWN_ID} if by_id else {"name": script.name("missing")}
    member = script.member()

    def call(label: str, *topics: tuple[dict[str, Any], list[tuple[int, int]]], generation: int = -1) -> None:
        asked = [
            {
                **name,
                "partitions": [{"partitionIndex": index, "committedOffset": offset} for index, offset in partitions],
            }
            for name, partitions in topics
        ]
        body = {
            "groupId": script.name("group"),
            "generationIdOrMemberEpoch": generation,
            "memberId": "",
            "topics": asked,
        }
        member.call("OffsetCommit", version, body, label=label)

    call("twice", (named, [(0, 1)]), (named, [(0, 2), (1, 3)]))
    call("twice, and refused by the group", (named, [(0, 1)]), (named, [(0, 2)]), generation=3)
    call("no partitions", (named, []), (named, [(0, 4)]))
    call("no partitions of one that is missing", (missing, []), (named, [(0, 5)]), (missing, []))
    call("an unknown partition", (named, [(0, 6)]), (named, [(9, 1)]), (named, [(1, 7)]), (missing, [(0, 1)]))


@scenario("TxnOffsetCommit", (4, 5, 6))
def of_topics_twice_in_a_transaction(script: Script, version: int) -> None:
    topic, group = script.topic(partitions=2), script.name("group")
    by_id = version >= TXN_COMMIT_BY_ID
    named: dict[str, Any] = {"topicId": script.topic_id(topic)} if by_id else {"name": topic}
    missing: dict[str, Any] = {"topicId": UNKNOWN_ID} if by_id else {"name": script.name("missing")}
    producer = Transactional(script, "p", TV1 if version < ADDS_FROM else TV2, topic)
    producer.init()
    if version < ADDS_FROM:
        producer.member.call("AddOffsetsToTxn", 3, {**producer.who, "groupId": group}, retry_on=PASSING)

    def call(label: str, *topics: tuple[dict[str, Any], list[int]]) -> None:
        asked = [
            {**name, "partitions": [{"partitionIndex": index, "committedOffset": 1} for index in partitions]}
            for name, partitions in topics
        ]
        body = {**producer.who, "groupId": group, "topics": asked}
        producer.member.call("TxnOffsetCommit", version, body, label=label, retry_on=PASSING)

    call("twice", (named, [0]), (named, [0, 1]))
    call("no partitions", (named, []), (missing, []))
    call("an unknown partition", (named, [0]), (named, [9]), (missing, [0]), (missing, [1]))
    producer.end(True)


@scenario("DescribeTopicPartitions")
def with_a_name_before_the_cursor(script: Script) -> None:
    member = script.member()
    topic = script.topic()
    names = [{"name": ""}, {"name": topic}]
    for label, cursor in (("an empty one", topic), ("a cursor that nobody asked for", script.name("nowhere"))):
        body = {"topics": names, "cursor": {"topicName": cursor, "partitionIndex": 0}}
        member.call("DescribeTopicPartitions", 0, body, label=label)


@scenario("DescribeConfigs", (1, 4))
def of_client_metrics(script: Script, version: int) -> None:
    member = script.member()
    name = script.name("metrics")

    def change(label: str, operation: int, value: str) -> None:
        config = {"name": "metrics", "configOperation": operation, "value": value}
        asked = {"resourceType": CLIENT_METRICS, "resourceName": name, "configs": [config]}
        member.call("IncrementalAlterConfigs", 1, {"resources": [asked]}, label=label)

    def described(label: str) -> None:
        asked = {"resourceType": CLIENT_METRICS, "resourceName": name, "configurationKeys": None}
        member.call("DescribeConfigs", version, {"resources": [asked], "includeSynonyms": True}, label=label)

    def is_set() -> bool | None:
        asked = {"resources": [{"resourceType": CLIENT_METRICS, "resourceName": name, "configurationKeys": None}]}
        found = script.admin.ask("DescribeConfigs", 4, asked)["results"][0]["configs"]
        return any(config["value"] == "a,b" for config in found) or None

    described("the defaults")
    change("subtract", SUBTRACT, "a")
    change("set", SET, "a,b")
    script.until(is_set, "the subscription")
    described("what is set")


@scenario("JoinGroup", (3, 5, 9))
def is_given_an_id_by_a_consumer_group(script: Script, version: int) -> None:
    group, topic = prepared(script)
    member = Consumer(script, group, "a", topic)
    member.join()
    metadata = base64.b64encode(b"\0\0\0\0\0\0\0\0\0\0").decode()
    body: dict[str, Any] = {
        "groupId": group,
        "sessionTimeoutMs": 30_000,
        "rebalanceTimeoutMs": 30_000,
        "memberId": "",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }
    script.member("classic").call("JoinGroup", version, body, retry_on=())


@scenario("Produce", (TV2,))
def begins_a_transaction_in_the_middle(script: Script, kind: int) -> None:
    """The first batch of a transaction with an epoch of its own has the first sequence number."""
    topic = script.topic(partitions=2)
    producer = Transactional(script, "p", kind, topic)
    producer.init()
    producer.send("of an unknown producer", sequence=1)
    producer.send("from the start")
    producer.send("another partition", 1, sequence=3)
    producer.end(True)
    producer.completed()
    producer.send("the next one", sequence=1)
    producer.end(False)
