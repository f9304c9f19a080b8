"""Fetch: bytes, sessions, epochs, ids and isolation."""

from collections.abc import Sequence
from typing import Any

from tests.differential.batches import batch
from tests.differential.registry import scenario
from tests.differential.scenarios.produce import LATEST, Producer
from tests.differential.script import Script

VERSIONS = range(4, 19)
BY_ID = 13
SESSIONS = (7, 12, 13, 16, 18)
NO_SESSION = -1
FULL = 0
MEBIBYTE = 1 << 20
UNKNOWN_ID = "u-BKqQ0ARxOYmLxGzsIqPw"


def want(
    offset: int = 0, partition: int = 0, max_bytes: int = MEBIBYTE, epoch: int = -1, **more: Any
) -> dict[str, Any]:
    return {
        "partition": partition,
        "fetchOffset": offset,
        "partitionMaxBytes": max_bytes,
        "currentLeaderEpoch": epoch,
        **more,
    }


def fetching(
    version: int,
    topics: Sequence[tuple[str, str, Sequence[dict[str, Any]]]],
    *,
    wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = MEBIBYTE,
    **more: Any,
) -> dict[str, Any]:
    """A request for partitions of topics, each by name and id."""
    asked = [
        {**({"topicId": topic_id} if version >= BY_ID else {"topic": name}), "partitions": list(partitions)}
        for name, topic_id, partitions in topics
    ]
    body = {
        "maxWaitMs": wait_ms,
        "minBytes": min_bytes,
        "maxBytes": max_bytes,
        "sessionEpoch": NO_SESSION,
        "topics": asked,
    }
    if version < 15:
        body["replicaId"] = -1
    return body | more


def filled(script: Script, batches: int = 3, partitions: int = 1) -> tuple[str, str]:
    """A topic with batches of two records in each partition; its name and id."""
    topic = script.topic(partitions=partitions)
    producer = Producer(script, topic, LATEST)
    for partition in range(partitions):
        for number in range(batches):
            records = batch((f"k{number}", "first"), (f"k{number}", "second"))
            producer.member.ask("Produce", LATEST, producer.body(records, partition))
    return topic, script.topic_id(topic)


@scenario("Fetch", VERSIONS)
def offsets(script: Script, version: int) -> None:
    topic, topic_id = filled(script)
    member = script.member()

    def call(label: str, *partitions: dict[str, Any], **more: Any) -> None:
        member.call("Fetch", version, fetching(version, [(topic, topic_id, partitions)], **more), label=label)

    call("from the start", want(0))
    call("from inside a batch", want(3))
    call("from the end", want(6))
    call("beyond the end", want(7))
    call("before the start", want(-1))
    call("unknown partition", want(0, partition=9))
    call("one good, one bad", want(0), want(0, partition=9))
    call("current epoch", want(0, epoch=0))
    call("epoch of the future", want(0, epoch=5))
    call("another epoch before", want(0, lastFetchedEpoch=0))
    call("an epoch before that there never was", want(6, lastFetchedEpoch=3))
    call("committed only", want(0), isolationLevel=1)
    call("no such isolation level", want(0), isolationLevel=9)


@scenario("Fetch", VERSIONS)
def bytes_(script: Script, version: int) -> None:
    topic, topic_id = filled(script, partitions=2)
    member = script.member()

    def call(label: str, *partitions: dict[str, Any], **more: Any) -> None:
        member.call("Fetch", version, fetching(version, [(topic, topic_id, partitions)], **more), label=label)

    call("one byte", want(0, max_bytes=1))
    call("one byte altogether", want(0), want(0, 1), max_bytes=1)
    call("a batch and a bit", want(0, max_bytes=100))
    call("two batches", want(0, max_bytes=170))
    call("none", want(0, max_bytes=0))
    call("none altogether", want(0), max_bytes=0)
    call("partitions in this order", want(0, 1), want(0, 0), max_bytes=100)
    call("as many as the first has", want(0), want(0, 1), max_bytes=300)
    call("the end first", want(6), want(0, 1), max_bytes=100)
    call("few, and an error", want(99), want(0, 1), max_bytes=1)


@scenario("Fetch", VERSIONS)
def waits(script: Script, version: int) -> None:
    topic, topic_id = filled(script, batches=0)
    member = script.member()
    body = fetching(version, [(topic, topic_id, [want(0)])], wait_ms=1, min_bytes=1)
    member.call("Fetch", version, body, label="nothing comes")
    body = fetching(version, [(topic, topic_id, [want(0)])], wait_ms=15_000, min_bytes=1)
    waiting = member.send("Fetch", version, body, label="something comes")
    script.member().ask("ApiVersions", 0)
    waiting.waits()
    Producer(script, topic, LATEST).produce("comes", batch())
    waiting.receive()
    body = fetching(version, [(topic, topic_id, [want(9)])], wait_ms=15_000, min_bytes=1)
    member.call("Fetch", version, body, label="an error does not wait")


@scenario("Fetch", (4, 12, 17))
def min_bytes(script: Script, version: int) -> None:
    topic, topic_id = filled(script, batches=0)
    body = fetching(version, [(topic, topic_id, [want(0)])], wait_ms=15_000, min_bytes=150)
    waiting = script.member().send("Fetch", version, body, label="two batches")
    producer = Producer(script, topic, LATEST)
    producer.produce("too little", batch())
    script.member().ask("ApiVersions", 0)
    waiting.waits()
    producer.produce("enough", batch(("k", "x" * 100)))
    waiting.receive()


@scenario("Fetch", SESSIONS)
def sessions(script: Script, version: int) -> None:
    topic, topic_id = filled(script, batches=1, partitions=3)
    member = script.member()
    producer = Producer(script, topic, LATEST)

    def call(label: str, session: int, epoch: int, *partitions: dict[str, Any], forgotten: Sequence[int] = ()) -> int:
        gone = {"topicId": topic_id} if version >= BY_ID else {"topic": topic}
        more: dict[str, Any] = {"forgottenTopicsData": [{**gone, "partitions": list(forgotten)}]} if forgotten else {}
        topics = [(topic, topic_id, partitions)] if partitions else []
        body = fetching(version, topics, sessionId=session, sessionEpoch=epoch, **more)
        return int(member.call("Fetch", version, body, label=label).get("sessionId", 0))

    session = call("full", 0, FULL, want(0), want(0, 1))
    call("nothing new", session, 1, want(2), want(2, 1))
    producer.produce("new", batch(), partition=1)
    call("only what is new", session, 2)
    call("at the end", session, 3, want(3, 1))
    call("one more partition", session, 4, want(0, 2))
    call("one forgotten", session, 5, want(2, 2), forgotten=[0])
    producer.produce("for nobody", batch())
    call("nothing of the forgotten", session, 6)
    call("wrong epoch", session, 6)
    call("epoch of the future", session, 99)
    call("another session", session + 1, 1)
    call("no session", 0, 1)
    call("an error is told", session, 7, want(99))
    call("again", session, 8)
    call("mended", session, 9, want(0))
    call("closed", session, NO_SESSION)
    call("is closed", session, 10)
    other = call("another full one", 0, FULL, want(0))
    call("full again", other, FULL, want(0, 1))


@scenario("Fetch", (7, 12, 13, 17))
def sessions_of_missing_partitions(script: Script, version: int) -> None:
    topic, topic_id = filled(script, batches=1)
    member = script.member()
    topics = [(topic, topic_id, [want(0), want(0, 9)])]
    body = fetching(version, topics, sessionEpoch=FULL)
    session = member.call("Fetch", version, body, label="one is missing").get("sessionId", 0)
    member.call("Fetch", version, fetching(version, [], sessionId=session, sessionEpoch=1), label="still missing")


@scenario("Fetch", (12, 13, 17))
def unknown_topics(script: Script, version: int) -> None:
    topic, topic_id = filled(script, batches=1)
    member = script.member()
    missing = (script.name("missing"), UNKNOWN_ID, [want(0)])
    member.call("Fetch", version, fetching(version, [missing]), label="missing")
    member.call(
        "Fetch", version, fetching(version, [missing, (topic, topic_id, [want(0)])]), label="and one that is there"
    )
    body = fetching(version, [missing], sessionEpoch=FULL)
    session = member.call("Fetch", version, body, label="in a session").get("sessionId", 0)
    member.call("Fetch", version, fetching(version, [], sessionId=session, sessionEpoch=1), label="goes on")


@scenario("Fetch", (13, 17))
def zero_topic_id(script: Script, version: int) -> None:
    body = fetching(version, [("", "AAAAAAAAAAAAAAAAAAAAAA", [want(0)])])
    script.member().call("Fetch", version, body)


@scenario("Fetch", (12, 13, 17))
def topic_made_again(script: Script, version: int) -> None:
    """A session with a topic's id gets an error once the topic is deleted, whichever topic has its name now."""
    topic, topic_id = filled(script, batches=1)
    member = script.member()
    body = fetching(version, [(topic, topic_id, [want(0)])], sessionEpoch=FULL)
    session = member.call("Fetch", version, body)["sessionId"]
    script.admin.ask("DeleteTopics", 6, {"topics": [{"name": topic}], "timeoutMs": 20_000})
    missing = {"topics": [{"name": topic}], "allowAutoTopicCreation": False}
    gone = lambda: script.admin.ask("Metadata", 12, missing, retry_on=())["topics"][0]["errorCode"] == 3 or None  # noqa: E731
    script.until(gone, "the topic to be gone")
    member.call("Fetch", version, fetching(version, [(topic, topic_id, [want(0)])]), label="gone")
    member.call(
        "Fetch", version, fetching(version, [], sessionId=session, sessionEpoch=1), label="gone, in the session"
    )


@scenario("Fetch", (12, 17))
def replica_fetches(script: Script, version: int) -> None:
    """Only a broker may call itself a replica; this one is none."""
    topic, topic_id = filled(script, batches=1)
    body = fetching(version, [(topic, topic_id, [want(0)])])
    if version < 15:
        body["replicaId"] = -2
    else:
        body["replicaState"] = {"replicaId": -2, "replicaEpoch": -1}
    script.member().call("Fetch", version, body, label="a debugging consumer")


@scenario("Fetch", (4, 12, 17))
def after_deletion(script: Script, version: int) -> None:
    topic, topic_id = filled(script)
    deleted = {"topics": [{"name": topic, "partitions": [{"partitionIndex": 0, "offset": 3}]}], "timeoutMs": 20_000}
    script.member().call("DeleteRecords", 2, deleted)
    member = script.member()
    for offset in (0, 2, 3, 6):
        body = fetching(version, [(topic, topic_id, [want(offset)])])
        member.call("Fetch", version, body, label=f"from {offset}")


@scenario("Fetch", (11, 12, 17))
def same_partition_twice(script: Script, version: int) -> None:
    topic, topic_id = filled(script, batches=1)
    body = fetching(version, [(topic, topic_id, [want(0), want(1)])])
    script.member().call("Fetch", version, body)
