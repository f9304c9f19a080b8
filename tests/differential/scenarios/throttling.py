"""Client quotas: what is answered to a client that is beyond its own."""

from itertools import count
from typing import Any

from tests.differential.batches import batch
from tests.differential.registry import scenario
from tests.differential.script import Answer, Member, Script

QUOTA = 10_000.0
"""Bytes a second."""
BEYOND = "x" * 104_000
"""A little more than the ten seconds' worth that are free, so that the wait is half a second."""


def limited(script: Script, key: str) -> Member:
    """A client with a quota. A real Kafka goes by it a moment after its controller has taken it."""
    client = script.name("client")
    entity = [{"entityType": "client-id", "entityName": client}]
    entry = {"entity": entity, "ops": [{"key": key, "value": QUOTA, "remove": False}]}
    answer = script.admin.ask("AlterClientQuotas", 1, {"entries": [entry], "validateOnly": False})
    assert answer["entries"][0]["errorCode"] == 0, answer
    return script.member(client)


def produce(member: Member, topic: str, version: int) -> Answer:
    data = [{"name": topic, "partitionData": [{"index": 0, "records": batch((None, BEYOND))}]}]
    return member.ask("Produce", version, {"acks": -1, "timeoutMs": 10_000, "topicData": data})


def throttled(answer: Answer) -> Answer | None:
    return answer if answer["throttleTimeMs"] > 0 else None


@scenario("Produce", (3, 9, 12))
def beyond_the_quota(script: Script, version: int) -> None:
    topic = script.topic()
    member = limited(script, "producer_byte_rate")
    answer = script.until(lambda: throttled(produce(member, topic, version)), "a throttled answer")
    # The records are taken; how often it was tried is not the same.
    partition = answer["responses"][0]["partitionResponses"][0]
    taken = {"errorCode": partition["errorCode"], "has an offset": partition["baseOffset"] >= 0}
    script.record("Produce", {**taken, "at most": answer["throttleTimeMs"] < 60_000}, version)


@scenario("Fetch", (4, 12))
def beyond_the_quota_too(script: Script, version: int) -> None:
    topic = script.topic()
    where = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    body: dict[str, Any] = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 1, "maxBytes": 1 << 20}
    asked = {**body, "topics": [{"topic": topic, "partitions": [where]}]}
    member = limited(script, "consumer_byte_rate")
    opened = member.call("Fetch", 12, {**asked, "sessionId": 0, "sessionEpoch": 0}, label="nothing to read")
    produce(script.admin, topic, 9)
    epochs = count(1)

    def fetch() -> Answer | None:
        if version < 7:
            return throttled(member.ask("Fetch", version, asked))
        more = {"topics": [], "sessionId": opened["sessionId"], "sessionEpoch": next(epochs)}
        return throttled(member.ask("Fetch", version, {**body, **more}))

    script.record("Fetch", script.until(fetch, "a throttled answer"), version, "beyond the quota")
    full = {**asked, "sessionId": 0, "sessionEpoch": 0} if version >= 7 else asked
    # A pause before it, as of a busy machine, may bring the client under its quota again.
    once_more = script.until(lambda: throttled(member.ask("Fetch", version, full)), "a throttled answer")
    script.record("Fetch", once_more, version, "all of it once more")
