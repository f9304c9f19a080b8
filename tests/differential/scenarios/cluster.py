"""Requests about the cluster besides its topics: ListConfigResources, DescribeQuorum, UpdateFeatures."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.script import Answer, Script

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
METADATA = "__cluster_metadata"


@scenario("ListConfigResources", (0, 1), nodes=3)
def by_type(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic()
    group = script.name("group")
    configs = [{"name": "consumer.session.timeout.ms", "configOperation": 0, "value": "46000"}]
    changed = {"resources": [{"resourceType": GROUP, "resourceName": group, "configs": configs}]}
    member.call("IncrementalAlterConfigs", 1, changed)

    def listed() -> bool | None:
        answer = script.admin.ask("ListConfigResources", 1, {"resourceTypes": [GROUP]})
        return any(found["resourceName"] == group for found in answer["configResources"]) or None

    script.until(listed, "the group's configs")

    def of_this(answer: Answer) -> Any:
        """Topics and groups of other scenarios are not compared."""
        if "configResources" in answer:
            ours = (topic, group)
            kept = [
                found
                for found in answer["configResources"]
                if found["resourceName"] in ours or found.get("resourceType", CLIENT_METRICS) not in (TOPIC, GROUP)
            ]
            answer["configResources"] = kept
        return answer

    if version == 0:
        member.call("ListConfigResources", version, label="client metrics", keep=of_this)
        return
    for label, types in (
        ("all", []),
        ("topics", [TOPIC]),
        ("brokers", [BROKER]),
        ("loggers", [LOGGER]),
        ("client metrics", [CLIENT_METRICS]),
        ("groups", [GROUP]),
        ("two, one of them twice", [GROUP, TOPIC, GROUP]),
        ("no such type", [77]),
        ("one that is and one that is not", [TOPIC, 0]),
    ):
        member.call("ListConfigResources", version, {"resourceTypes": types}, label=label, keep=of_this)


def without_offsets(answer: Answer) -> Any:
    """Offsets, epochs and ports are each cluster's own; that there are such, and who votes, is compared."""
    for topic in answer.get("topics", []):
        for partition in topic["partitions"]:
            voters = partition["currentVoters"]
            leader = partition.pop("leaderId")
            partition["leaderIsAVoter"] = leader in [voter["replicaId"] for voter in voters]
            partition["leaderEpoch"] = partition["leaderEpoch"] > 0
            partition["highWatermark"] = partition["highWatermark"] > 0
            for voter in [*voters, *partition["observers"]]:
                voter["logEndOffset"] = voter["logEndOffset"] > 0
                # The leader fetches from nobody.
                voter["leads"] = voter["replicaId"] == leader
    for node in answer.get("nodes", []):
        for listener in node["listeners"]:
            listener["port"] = listener["port"] > 0
    for topic in answer.get("topics", []):
        for partition in topic["partitions"]:
            # Which node leads differs: the voters are compared by whether they do.
            for voter in partition["currentVoters"]:
                voter.pop("replicaId")
            partition["currentVoters"].sort(key=lambda voter: voter["leads"])
    return answer


@scenario("DescribeQuorum", (0, 1, 2), nodes=3)
def of_the_controllers(script: Script, version: int) -> None:
    member = script.member()

    def ask(label: str, *topics: tuple[str, list[int]]) -> None:
        asked = [
            {"topicName": name, "partitions": [{"partitionIndex": index} for index in indexes]}
            for name, indexes in topics
        ]
        member.call("DescribeQuorum", version, {"topics": asked}, label=label, keep=without_offsets)

    ask("the metadata", (METADATA, [0]))
    ask("another partition", (METADATA, [1]))
    ask("two partitions", (METADATA, [0, 1]))
    ask("another topic", ("other", [0]))
    ask("two topics", (METADATA, [0]), ("other", [3]))
    ask("no partition", (METADATA, []))
    ask("nothing")


@scenario("UpdateFeatures", (0, 1, 2))
def that_stand_still(script: Script, version: int) -> None:
    member = script.member()

    def update(label: str, *features: tuple[str, int, int], validate_only: bool = False) -> None:
        updates: list[dict[str, Any]] = []
        for name, level, kind in features:
            update: dict[str, Any] = {"feature": name, "maxVersionLevel": level}
            if version > 0:
                update["upgradeType"] = kind
            updates.append(update)
        body: dict[str, Any] = {"featureUpdates": updates}
        if version > 0:
            body["validateOnly"] = validate_only
        member.call("UpdateFeatures", version, body, label=label)

    update("to what it is", ("group.version", 1, 1))
    update("two of them", ("group.version", 1, 1), ("transaction.version", 2, 1), validate_only=True)
    update("too high", ("group.version", 99, 1))
    update("too high and one that is", ("group.version", 99, 1), ("transaction.version", 2, 1))
    update("metadata too high", ("metadata.version", 9999, 1))
    update("negative", ("group.version", -1, 1))
    update("down without leave", ("group.version", 0, 1))
    update("unknown", ("no.such.feature", 1, 1))
    update("unknown to nothing", ("no.such.feature", 0, 1))
    update("no such kind", ("group.version", 1, 9))
    update("twice", ("group.version", 99, 1), ("group.version", 1, 1))
    update("nothing")
