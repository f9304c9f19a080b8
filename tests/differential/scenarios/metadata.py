"""Metadata and DescribeTopicPartitions."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.script import Answer, Script

UNKNOWN_ID = "u-BKqQ0ARxOYmLxGzsIqPw"
VERSIONS = range(14)


def only(*names: str) -> Any:
    """The part of an answer about these topics, and all fields that are not about topics."""

    def keep(answer: Answer) -> Any:
        if "topics" not in answer:
            return answer
        return {**answer, "topics": [topic for topic in answer["topics"] if topic.get("name") in names]}

    return keep


@scenario("Metadata", VERSIONS)
def of_topics(script: Script, version: int) -> None:
    member = script.member()
    one, three = script.topic("one"), script.topic("three", partitions=3)
    asked = [{"name": one}, {"name": three}]
    member.call("Metadata", version, {"topics": asked, "allowAutoTopicCreation": False})
    member.call(
        "Metadata", version, {"topics": [*asked, {"name": one}], "allowAutoTopicCreation": False}, label="twice"
    )
    everything: dict[str, Any] = {"topics": None if version else [], "allowAutoTopicCreation": False}
    member.call("Metadata", version, everything, label="all", keep=only(one, three))
    if version:
        member.call("Metadata", version, {"topics": []}, label="none")
    internal = {"topics": [{"name": "__consumer_offsets"}, {"name": "__transaction_state"}]}
    member.call("Metadata", version, internal, label="internal")


@scenario("Metadata", VERSIONS)
def errors(script: Script, version: int) -> None:
    member = script.member()
    script.topic("there")
    missing = script.name("missing")
    if version >= 4:
        body = {"topics": [{"name": missing}, {"name": script.name("there")}], "allowAutoTopicCreation": False}
        member.call("Metadata", version, body, label="missing")
    invalid = [{"name": name} for name in ("", ".", "..", "a b", "x" * 250, "ä", "a/b")]
    for topic in invalid:
        body = {"topics": [topic], "allowAutoTopicCreation": version < 4}
        member.call("Metadata", version, body, label=f"invalid {topic['name'][:5]!r}")


@scenario("Metadata", VERSIONS)
def creates_topics(script: Script, version: int) -> None:
    member = script.member()
    missing = script.name("missing")
    body = {"topics": [{"name": missing}], "allowAutoTopicCreation": True}
    member.call("Metadata", version, body, label="creates", keep=only(missing))
    script.wait_led(missing, 1)
    member.call("Metadata", version, body, label="created")


@scenario("Metadata", (12, 13))
def by_id(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic()
    topic_id = script.topic_id(topic)
    member.call("Metadata", version, {"topics": [{"topicId": topic_id, "name": None}]})
    member.call("Metadata", version, {"topics": [{"topicId": UNKNOWN_ID, "name": None}]}, label="unknown")
    member.call("Metadata", version, {"topics": [{"topicId": topic_id, "name": topic}]}, label="name and id")
    member.call("Metadata", version, {"topics": [{"topicId": UNKNOWN_ID, "name": topic}]}, label="name and another id")
    member.call("Metadata", version, {"topics": [{"topicId": topic_id, "name": None}, {"name": topic}]}, label="mixed")
    member.call("Metadata", version, {"topics": [{"name": None}]}, label="neither")


@scenario("Metadata", (10, 11))
def ids_before_their_time(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic()
    member.call(
        "Metadata", version, {"topics": [{"topicId": script.topic_id(topic), "name": topic}]}, label="id and name"
    )
    member.call("Metadata", version, {"topics": [{"name": None}]}, label="null name")


@scenario("Metadata", (8, 10, 13))
def authorized_operations(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic()
    body = {"includeTopicAuthorizedOperations": True, "includeClusterAuthorizedOperations": True}
    member.call("Metadata", version, {"topics": [{"name": topic}], **body})


@scenario("DescribeTopicPartitions")
def pages(script: Script) -> None:
    member = script.member()
    one, three = script.topic("one"), script.topic("three", partitions=3)
    member.call("DescribeTopicPartitions", 0, {"topics": [{"name": one}, {"name": three}]})
    member.call("DescribeTopicPartitions", 0, {"topics": [{"name": three}, {"name": one}]}, label="unordered")
    missing = script.name("missing")
    member.call("DescribeTopicPartitions", 0, {"topics": [{"name": missing}, {"name": one}]}, label="missing")
    body = {"topics": [{"name": one}, {"name": three}], "responsePartitionLimit": 2}
    member.call("DescribeTopicPartitions", 0, body, label="two at a time")
    cursor = {"topicName": three, "partitionIndex": 1}
    member.call("DescribeTopicPartitions", 0, {**body, "cursor": cursor}, label="the rest")
    cursor = {"topicName": three, "partitionIndex": -1}
    member.call("DescribeTopicPartitions", 0, {**body, "cursor": cursor}, label="a negative cursor")
    cursor = {"topicName": script.name("nowhere"), "partitionIndex": 0}
    member.call(
        "DescribeTopicPartitions", 0, {**body, "cursor": cursor}, label="a cursor at a topic that is not asked for"
    )
    for name in ("a b", "", ".", "ä", "x" * 250):
        member.call("DescribeTopicPartitions", 0, {"topics": [{"name": name}]}, label=f"invalid {name[:5]!r}")
    mixed = {"topics": [{"name": "a b"}, {"name": one}]}
    member.call("DescribeTopicPartitions", 0, mixed, label="one invalid")
    member.call("DescribeTopicPartitions", 0, {"topics": [{"name": "__consumer_offsets"}]}, label="internal")
    member.call("DescribeTopicPartitions", 0, {**body, "responsePartitionLimit": 0}, label="none at a time")
