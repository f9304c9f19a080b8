"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from typing import Any

from tests.differential.batches import batch
from tests.differential.registry import scenario
from tests.differential.scenarios.produce import LATEST, Producer
from tests.differential.script import Script

LIST = range(1, 12)
EARLIEST, LATEST_OFFSET, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -3, -4, -5


def timed(script: Script) -> str:
    """A topic with records of known times in three batches, one of them compressed."""
    topic = script.topic(partitions=2)
    producer = Producer(script, topic, LATEST)
    for records in (
        batch(("a", "0"), ("b", "1"), timestamps=[100, 200]),
        batch(("c", "2"), ("d", "3"), ("e", "4"), timestamps=[500, 300, 400], codec="gzip"),
        batch(("f", "5"), timestamps=[250]),
    ):
        producer.member.ask("Produce", LATEST, producer.body(records))
    return topic


@scenario("ListOffsets", LIST)
def list_offsets(script: Script, version: int) -> None:
    topic = timed(script)
    member = script.member()

    def call(label: str, timestamp: int, partition: int = 0, name: str = topic, epoch: int = -1, **more: Any) -> None:
        asked = {"partitionIndex": partition, "timestamp": timestamp, "currentLeaderEpoch": epoch}
        body = {"replicaId": -1, "topics": [{"name": name, "partitions": [asked]}], **more}
        member.call("ListOffsets", version, body, label=label)

    for label, timestamp in (
        ("earliest", EARLIEST),
        ("latest", LATEST_OFFSET),
        ("max timestamp", MAX_TIMESTAMP),
        ("earliest local", EARLIEST_LOCAL),
        ("latest tiered", LATEST_TIERED),
        ("earliest pending upload", -6),
        ("no such timestamp", -7),
    ):
        call(label, timestamp)
        call(f"{label}, empty", timestamp, partition=1)
    for timestamp in (0, 100, 101, 200, 201, 250, 251, 301, 400, 401, 500, 501):
        call(f"at {timestamp}", timestamp)
    call("unknown partition", LATEST_OFFSET, partition=9)
    call("unknown topic", LATEST_OFFSET, name=script.name("missing"))
    call("invalid topic", LATEST_OFFSET, name="a b")
    call("committed only", LATEST_OFFSET, isolationLevel=1)
    call("current epoch", LATEST_OFFSET, epoch=0)
    call("future epoch", LATEST_OFFSET, epoch=3)
    twice = [{"partitionIndex": 0, "timestamp": EARLIEST}, {"partitionIndex": 0, "timestamp": LATEST_OFFSET}]
    member.call(
        "ListOffsets", version, {"replicaId": -1, "topics": [{"name": topic, "partitions": twice}]}, label="twice"
    )
    member.call("ListOffsets", version, {"replicaId": -1}, label="none")


@scenario("ListOffsets", (4, 7, 11))
def as_a_debugging_consumer(script: Script, version: int) -> None:
    topic = timed(script)
    asked = {"partitionIndex": 0, "timestamp": LATEST_OFFSET}
    body = {"replicaId": -2, "topics": [{"name": topic, "partitions": [asked]}]}
    script.member().call("ListOffsets", version, body)


@scenario("OffsetForLeaderEpoch", range(2, 5))
def epochs(script: Script, version: int) -> None:
    topic = timed(script)
    member = script.member()

    def call(label: str, epoch: int, partition: int = 0, current: int = -1, name: str = topic) -> None:
        asked = {"partition": partition, "currentLeaderEpoch": current, "leaderEpoch": epoch}
        body: dict[str, Any] = {"topics": [{"topic": name, "partitions": [asked]}]}
        if version >= 3:
            body["replicaId"] = -1
        member.call("OffsetForLeaderEpoch", version, body, label=label)

    call("the only epoch", 0)
    call("with the current one", 0, current=0)
    call("a future current one", 0, current=2)
    call("a future one", 5)
    call("a negative one", -1)
    call("empty partition", 0, partition=1)
    call("empty partition, a future one", 3, partition=1)
    call("unknown partition", 0, partition=9)
    call("unknown topic", 0, name=script.name("missing"))


@scenario("DeleteRecords", range(3))
def delete_records(script: Script, version: int) -> None:
    topic = timed(script)
    member = script.member()

    def call(label: str, offset: int, partition: int = 0, name: str = topic) -> None:
        asked = {"partitionIndex": partition, "offset": offset}
        body = {"topics": [{"name": name, "partitions": [asked]}], "timeoutMs": 20_000}
        member.call("DeleteRecords", version, body, label=label)

    def ends() -> None:
        asked = [{"partitionIndex": 0, "timestamp": timestamp} for timestamp in (EARLIEST,)]
        member.call(
            "ListOffsets", 7, {"replicaId": -1, "topics": [{"name": topic, "partitions": asked}]}, label="start"
        )

    call("before 1", 1)
    ends()
    call("before 0, which is gone", 0)
    ends()
    call("before the end", 6)
    call("beyond the end", 7)
    call("negative", -2)
    call("unknown partition", 0, partition=9)
    call("unknown topic", 0, name=script.name("missing"))
    call("up to the high watermark", -1)
    ends()
    call("of an empty partition", -1, partition=1)
    compacted = script.topic("compacted", cleanup_policy="compact")
    call("of a compacted topic", 0, name=compacted)
    both = script.topic("both", cleanup_policy="compact,delete")
    call("of a topic with both policies", 0, name=both)
    call("of an internal topic", 0, name="__consumer_offsets")
