"""Produce: batches that brokers accept and batches that they refuse."""

from typing import Any

from tests.differential.batches import batch, joined
from tests.differential.registry import scenario
from tests.differential.script import Answer, Member, Script

VERSIONS = range(3, 14)
LATEST = 12
BY_ID = 13
UNKNOWN_ID = "u-BKqQ0ARxOYmLxGzsIqPw"


class Producer:
    """Produces to one topic, by name or by id as the version has it."""

    def __init__(self, script: Script, topic: str, version: int, topic_id: str | None = None) -> None:
        self.member: Member = script.member("producer")
        self.topic = topic
        self.topic_id = topic_id or (script.topic_id(topic) if version >= BY_ID else None)
        self.version = version

    def body(self, records: str | None, partition: int = 0, acks: int = -1, **more: Any) -> dict[str, Any]:
        data = {"index": partition, "records": records}
        topic: dict[str, Any] = {"name": self.topic, "topicId": self.topic_id, "partitionData": [data]}
        if self.topic_id is None:
            del topic["topicId"]
        body: dict[str, Any] = {"acks": acks, "timeoutMs": 10_000, "topicData": [topic]}
        return body | more

    def produce(self, label: str, records: str | None, partition: int = 0, acks: int = -1, **more: Any) -> Answer:
        return self.member.call("Produce", self.version, self.body(records, partition, acks, **more), label=label)


def contents(script: Script, topic: str, partition: int = 0) -> None:
    """Compare the content of the log."""
    where: dict[str, Any] = {"partition": partition, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    body: dict[str, Any] = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20, "sessionEpoch": -1}
    body |= {"topics": [{"topic": topic, "partitions": [where]}]}
    script.member("reader").call("Fetch", 12, body, label="what is there")


@scenario("Produce", VERSIONS)
def appends(script: Script, version: int) -> None:
    topic = script.topic(partitions=2)
    producer = Producer(script, topic, version)
    producer.produce("first", batch())
    producer.produce("second", batch(("a", "1"), ("b", None), (None, "3")))
    producer.produce("acks=1", batch(), acks=1)
    producer.produce("other partition", batch(("x", "y"), base_offset=77, leader_epoch=3), partition=1)
    producer.produce("gzip", batch(("a", "1"), ("b", "2"), codec="gzip"))
    contents(script, topic)
    contents(script, topic, 1)


@scenario("Produce", VERSIONS)
def refuses(script: Script, version: int) -> None:
    topic = script.topic(max_message_bytes="1000")
    producer = Producer(script, topic, version)
    producer.produce("wrong CRC", batch(crc=1))
    producer.produce("two batches", joined(batch(), batch()))
    producer.produce("no batch", "")
    producer.produce("cut", batch()[:-8])
    producer.produce("too large", batch(("k", "x" * 2000)))
    producer.produce("wrong count", batch(("a", "1"), ("b", "2"), count=3))
    producer.produce("wrong count, fewer", batch(("a", "1"), ("b", "2"), count=1))
    producer.produce("wrong last offset", batch(("a", "1"), ("b", "2"), last_offset_delta=5))
    producer.produce("no records", batch(count=0, last_offset_delta=-1))
    producer.produce("control", batch(attributes=0x20))
    producer.produce("gzip that is none", batch(attributes=1))
    producer.produce("an unknown codec", batch(attributes=7))
    producer.produce("a sequence without an id", batch(sequence=5))
    producer.produce("unknown partition", batch(), partition=9)
    producer.produce("negative partition", batch(), partition=-1)
    contents(script, topic)


@scenario("Produce", VERSIONS)
def refuses_old_magic(script: Script, version: int) -> None:
    topic = script.topic()
    for magic in (0, 1, 3, -1):
        Producer(script, topic, version).produce(f"magic {magic}", batch(magic=magic))
    contents(script, topic)


@scenario("Produce", VERSIONS)
def unknown_topics(script: Script, version: int) -> None:
    missing = script.name("missing")
    producer = Producer(script, missing, version, UNKNOWN_ID if version >= BY_ID else None)
    producer.produce("unknown", batch())
    if version < BY_ID:
        Producer(script, "a b", version).produce("invalid", batch())
        Producer(script, "", version).produce("empty", batch())
        Producer(script, "__consumer_offsets", version).produce("internal", batch())
    script.member().call(
        "Metadata", 12, {"topics": [{"name": missing}], "allowAutoTopicCreation": False}, label="not made"
    )


@scenario("Produce", VERSIONS)
def bad_acks(script: Script, version: int) -> None:
    topic = script.topic()
    for acks in (2, -2, 100):
        Producer(script, topic, version).produce(f"acks={acks}", batch(), acks=acks)
    contents(script, topic)


@scenario("Produce", (3, 8, 12))
def acks_0(script: Script, version: int) -> None:
    topic = script.topic()
    producer = Producer(script, topic, version)
    producer.member.send("Produce", version, producer.body(batch(), acks=0))
    producer.produce("goes on", batch())
    contents(script, topic)
    member = producer.member
    member.send("Produce", version, producer.body(batch(crc=1), acks=0))
    member.send("Produce", version, producer.body(batch()), label="closed after an error").receive()


@scenario("Produce", (8, 12, 13))
def not_enough_replicas(script: Script, version: int) -> None:
    topic = script.topic(min_insync_replicas="2")
    producer = Producer(script, topic, version)
    producer.produce("acks=all", batch())
    producer.produce("acks=1", batch(), acks=1)
    contents(script, topic)


@scenario("Produce", (3, 8, 12))
def log_append_time(script: Script, version: int) -> None:
    topic = script.topic(message_timestamp_type="LogAppendTime")
    producer = Producer(script, topic, version)
    producer.produce("now", batch(("a", "1"), ("b", "2")))
    producer.produce("gzip", batch(("a", "1"), ("b", "2"), codec="gzip"))
    contents(script, topic)


@scenario("Produce", (8, 12))
def timestamps(script: Script, version: int) -> None:
    topic = script.topic(message_timestamp_before_max_ms="1000")
    producer = Producer(script, topic, version)
    producer.produce("long ago", batch(("a", "1"), ("b", "2")))
    producer.produce("far ahead", batch(timestamps=[1 << 52]))
    other = script.topic("any")
    producer = Producer(script, other, version)
    producer.produce("no time", batch(timestamps=[-1]))
    producer.produce("negative", batch(timestamps=[-2]))
    producer.produce("far ahead", batch(timestamps=[1 << 52]))


@scenario("Produce", (3, 8, 12))
def compacted(script: Script, version: int) -> None:
    topic = script.topic(cleanup_policy="compact")
    producer = Producer(script, topic, version)
    producer.produce("no key", batch((None, "value")))
    producer.produce("one without", batch(("a", "1"), (None, "2"), (None, "3")))
    producer.produce("keys", batch(("a", "1"), ("b", None)))
    contents(script, topic)


@scenario("Produce", (3, 9, 12))
def several_partitions(script: Script, version: int) -> None:
    topic = script.topic(partitions=2)
    data = [{"index": index, "records": records} for index, records in ((0, batch()), (1, batch(crc=1)), (7, batch()))]
    body = {"acks": -1, "timeoutMs": 10_000, "topicData": [{"name": topic, "partitionData": data}]}
    script.member().call("Produce", version, body, label="one good, two bad")
    data = [{"index": 0, "records": batch()}, {"index": 0, "records": batch(("second", "x"))}]
    body = {"acks": -1, "timeoutMs": 10_000, "topicData": [{"name": topic, "partitionData": data}]}
    script.member().call("Produce", version, body, label="one twice")
    script.member().call("Produce", version, {"acks": -1, "timeoutMs": 10_000}, label="none")


@scenario("Produce", VERSIONS)
def idempotent(script: Script, version: int) -> None:
    topic = script.topic(partitions=2)
    given = script.member().call("InitProducerId", 4, {"transactionalId": None, "transactionTimeoutMs": 60_000})
    who: dict[str, Any] = {"producer_id": given["producerId"], "producer_epoch": given["producerEpoch"]}
    producer = Producer(script, topic, version)
    producer.produce("first", batch(("a", "0"), ("b", "1"), sequence=0, **who))
    producer.produce("second", batch(("c", "2"), sequence=2, **who))
    producer.produce("first again", batch(("a", "0"), ("b", "1"), sequence=0, **who))
    producer.produce("second again", batch(("c", "2"), sequence=2, **who))
    producer.produce("a gap", batch(("d", "4"), sequence=4, **who))
    for number in range(3, 8):
        producer.produce("on", batch((str(number), "x"), sequence=number, **who))
    producer.produce("one that is forgotten", batch(("a", "0"), ("b", "1"), sequence=0, **who))
    producer.produce("a part of one", batch(("b", "1"), sequence=1, **who))
    other = {**who, "producer_epoch": who["producer_epoch"] + 1}
    producer.produce("a new epoch in the middle", batch(("e", "5"), sequence=5, **other))
    producer.produce("a new epoch from 0", batch(("e", "5"), sequence=0, **other))
    producer.produce("the old epoch", batch(("f", "6"), sequence=8, **who))
    producer.produce("not from 0", batch(("x", "y"), sequence=3, **who), partition=1)
    producer.produce("negative sequence", batch(("x", "y"), sequence=-1, **who), partition=1)
    producer.produce("negative epoch", batch(("x", "y"), sequence=0, producer_id=who["producer_id"]), partition=1)
    stranger: dict[str, Any] = {"producer_id": 1 << 40, "producer_epoch": 3}
    producer.produce("an id that nobody gave", batch(("x", "y"), sequence=0, **stranger), partition=1)
    contents(script, topic)
    contents(script, topic, 1)


@scenario("Produce")
def sequences_wrap(script: Script) -> None:
    topic = script.topic()
    producer = Producer(script, topic, LATEST)
    who: dict[str, Any] = {"producer_id": 1 << 41, "producer_epoch": 0}
    last = (1 << 31) - 1
    producer.produce("near the end", batch(("a", "0"), ("b", "1"), sequence=last - 1, **who))
    producer.produce("from 0", batch(("a", "0"), ("b", "1"), sequence=0, **who))
    producer.produce("over the end", batch(("a", "0"), ("b", "1"), ("c", "2"), sequence=last - 1, **who))


@scenario("DescribeProducers")
def producers(script: Script) -> None:
    topic = script.topic(partitions=2)
    member = script.member()
    producer = Producer(script, topic, LATEST)
    member.call("DescribeProducers", 0, {"topics": [{"name": topic, "partitionIndexes": [0]}]}, label="none")
    who: dict[str, Any] = {"producer_id": 1 << 42, "producer_epoch": 3}
    producer.produce("idempotent", batch(("a", "0"), ("b", "1"), sequence=0, **who))
    producer.produce("plain", batch())
    asked = [{"name": topic, "partitionIndexes": [0, 1, 7]}, {"name": script.name("missing"), "partitionIndexes": [0]}]
    member.call("DescribeProducers", 0, {"topics": asked})
    member.call("DescribeProducers", 0, {"topics": [{"name": "a b", "partitionIndexes": [0]}]}, label="invalid")
