"""Three nodes: leaders, followers and coordinators, also when a node stops."""

from typing import Any

from tests.differential.batches import batch
from tests.differential.registry import scenario
from tests.differential.scenarios.classic import Classic
from tests.differential.scenarios.committed import committing
from tests.differential.scenarios.fetch import fetching, want
from tests.differential.scenarios.log_offsets import LATEST_OFFSET
from tests.differential.scenarios.members import partition_of
from tests.differential.scenarios.produce import Producer
from tests.differential.script import Member, Script

NODES = 3
LEADER, FOLLOWER, STRANGER = 1, 2, 3


def replicated(script: Script) -> tuple[str, str]:
    """A topic on the first two nodes of three with two batches in it; its name and id."""
    topic = script.topic(placed=[[LEADER, FOLLOWER]])
    producer = Producer(script, topic, 12)
    for number in range(2):
        producer.member.ask("Produce", 12, producer.body(batch((f"k{number}", "a"), (f"k{number}", "b"))))
    return topic, script.topic_id(topic)


@scenario("Produce", (3, 9, 10, 12, 13), nodes=NODES)
def to_who_does_not_lead(script: Script, version: int) -> None:
    topic, topic_id = replicated(script)
    for node, label in ((FOLLOWER, "follower"), (STRANGER, "no replica")):
        producer = Producer(script, topic, version, topic_id if version >= 13 else None)
        producer.member = script.member("producer", node)
        producer.produce(label, batch())


@scenario("Fetch", (4, 11, 12, 13, 16, 17), nodes=NODES)
def from_who_does_not_lead(script: Script, version: int) -> None:
    topic, topic_id = replicated(script)
    for node, label in ((FOLLOWER, "follower"), (STRANGER, "no replica")):
        member = script.member("reader", node)
        if node == FOLLOWER:
            body = fetching(version, [(topic, topic_id, [want(0)])], wait_ms=2000, min_bytes=1)

            def has(member: Member = member, body: dict[str, Any] = body) -> bool | None:
                return replica_has(member.ask("Fetch", version, body, retry_on=(1, 3, 100)))

            script.until(has, "the follower to have all")
        member.call("Fetch", version, fetching(version, [(topic, topic_id, [want(0)])]), label=label)
        member.call(
            "Fetch", version, fetching(version, [(topic, topic_id, [want(0, epoch=0)])]), label=f"{label}, epoch"
        )
        member.call(
            "Fetch", version, fetching(version, [(topic, topic_id, [want(0, epoch=9)])]), label=f"{label}, future"
        )


def replica_has(answer: dict[str, Any]) -> bool | None:
    """Whether a follower knows the whole log, or does not answer about it."""
    partition = answer["responses"][0]["partitions"][0]
    return partition["errorCode"] != 0 or partition["highWatermark"] == 4 or None


@scenario("Fetch", (11, 12, 17), nodes=NODES)
def from_the_own_rack(script: Script, version: int) -> None:
    topic, topic_id = replicated(script)
    member = script.member()
    for rack in ("", "rack-1", "rack-2", "rack-3"):
        body = fetching(version, [(topic, topic_id, [want(0)])], rackId=rack)
        if rack == "rack-2":
            # The leader names the follower only if it knows that the follower is not behind.
            def sent(body: dict[str, Any] = body) -> bool | None:
                partition = member.ask("Fetch", version, body)["responses"][0]["partitions"][0]
                return partition["preferredReadReplica"] != -1 or None

            script.until(sent, "the follower to be preferred")
        member.call("Fetch", version, body, label=f"rack {rack!r}")


@scenario("ListOffsets", (1, 4, 7, 10), nodes=NODES)
def of_who_does_not_lead(script: Script, version: int) -> None:
    topic, _ = replicated(script)
    for node, label in ((FOLLOWER, "follower"), (STRANGER, "no replica")):
        asked = {"partitionIndex": 0, "timestamp": LATEST_OFFSET, "currentLeaderEpoch": 0}
        body = {"replicaId": -1, "topics": [{"name": topic, "partitions": [asked]}]}
        script.member("reader", node).call("ListOffsets", version, body, label=label)


@scenario("OffsetForLeaderEpoch", (2, 4), nodes=NODES)
def epochs_of_who_does_not_lead(script: Script, version: int) -> None:
    topic, _ = replicated(script)
    for node, label in ((FOLLOWER, "follower"), (STRANGER, "no replica")):
        asked = {"partition": 0, "currentLeaderEpoch": 0, "leaderEpoch": 0}
        body: dict[str, Any] = {"topics": [{"topic": topic, "partitions": [asked]}]}
        if version >= 3:
            body["replicaId"] = -1
        script.member("reader", node).call("OffsetForLeaderEpoch", version, body, label=label)


@scenario("DeleteRecords", (0, 2), nodes=NODES)
def deletes_at_who_does_not_lead(script: Script, version: int) -> None:
    topic, _ = replicated(script)
    asked = {"name": topic, "partitions": [{"partitionIndex": 0, "offset": 1}]}
    for node, label in ((FOLLOWER, "follower"), (STRANGER, "no replica")):
        body = {"topics": [asked], "timeoutMs": 20_000}
        script.member("admin", node).call("DeleteRecords", version, body, label=label)


@scenario("DescribeProducers", nodes=NODES)
def producers_at_who_does_not_lead(script: Script) -> None:
    topic, _ = replicated(script)
    for node, label in ((FOLLOWER, "follower"), (STRANGER, "no replica")):
        asked = {"topics": [{"name": topic, "partitionIndexes": [0]}]}
        script.member("admin", node).call("DescribeProducers", 0, asked, label=label)


@scenario("Metadata", (1, 7, 13), nodes=NODES)
def replicas(script: Script, version: int) -> None:
    one = script.topic("one", placed=[[1, 2], [3, 1], [2, 3]])
    for node in (1, 2, 3):
        script.member("reader", node).call("Metadata", version, {"topics": [{"name": one}]}, label=f"node {node}")


@scenario("FindCoordinator", (0, 3, 4), nodes=NODES)
def same_from_every_node(script: Script, version: int) -> None:
    group = script.name("group")
    answers = []
    for node in (1, 2, 3):
        body = {"key": group, "keyType": 0, "coordinatorKeys": [group]}
        found = script.member("reader", node).ask("FindCoordinator", version, body)
        found = found["coordinators"][0] if version >= 4 else found
        answers.append({key: found[key] for key in ("nodeId", "errorCode")})
    script.record(
        "FindCoordinator", {"agree": answers[0] == answers[1] == answers[2], "error": answers[0]["errorCode"]}, version
    )


def coordinator(script: Script, key: str, kind: int = 0) -> int:
    found = script.admin.ask("FindCoordinator", 4, {"keyType": kind, "coordinatorKeys": [key]})
    return int(found["coordinators"][0]["nodeId"])


@scenario("FindCoordinator", nodes=NODES)
def requests_to_another_node(script: Script) -> None:
    """NOT_COORDINATOR, in every API that a coordinator answers."""
    group, transactional = script.name("group"), script.name("id")
    topic = script.topic()
    member = script.member("stray", coordinator(script, group) % NODES + 1)
    who = {"groupId": group, "memberId": "m", "generationId": 1}

    def call(api: str, version: int, body: dict[str, Any]) -> None:
        member.call(api, version, body, retry_on=())

    call(
        "JoinGroup",
        9,
        {
            "groupId": group,
            "memberId": "m",
            "sessionTimeoutMs": 10_000,
            "rebalanceTimeoutMs": 10_000,
            "protocolType": "consumer",
            "protocols": [{"name": "range"}],
        },
    )
    call("SyncGroup", 5, {**who, "protocolType": "consumer", "protocolName": "range"})
    call("Heartbeat", 4, who)
    call("LeaveGroup", 2, {"groupId": group, "memberId": "m"})
    call("LeaveGroup", 5, {"groupId": group, "members": [{"memberId": "m"}]})
    call("OffsetCommit", 9, committing(group, topic, "", 9, (0, 5)))
    call("OffsetFetch", 1, {"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0]}]})
    call("OffsetFetch", 5, {"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0]}]})
    call("OffsetFetch", 8, {"groups": [{"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0]}]}]})
    call("OffsetDelete", 0, {"groupId": group, "topics": [{"name": topic, "partitions": [{"partitionIndex": 0}]}]})
    call("DescribeGroups", 5, {"groups": [group]})
    call("DeleteGroups", 2, {"groupsNames": [group]})
    call("ConsumerGroupDescribe", 1, {"groupIds": [group]})
    beat = {"groupId": group, "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 1000, "topicPartitions": []}
    call("ConsumerGroupHeartbeat", 1, {**beat, "subscribedTopicNames": [topic]})
    member = script.member("stray", coordinator(script, transactional, 1) % NODES + 1)
    producer = {"transactionalId": transactional, "producerId": 1, "producerEpoch": 0}
    call("InitProducerId", 4, {"transactionalId": transactional, "transactionTimeoutMs": 1000})
    topics = [{"name": topic, "partitions": [0]}]
    old = {"v3AndBelowTransactionalId": transactional, "v3AndBelowProducerId": 1, "v3AndBelowTopics": topics}
    call("AddPartitionsToTxn", 3, old)
    call("AddOffsetsToTxn", 3, {**producer, "groupId": group})
    call("EndTxn", 4, {**producer, "committed": True})
    call("DescribeTransactions", 0, {"transactionalIds": [transactional]})


@scenario("Metadata", nodes=NODES)
def node_stops(script: Script) -> None:
    """Leaders move in a new epoch, and so do the groups of the node: they go on without a rebalance."""
    topic = script.topic(placed=[[3, 1, 2]])
    producer = Producer(script, topic, 12)
    producer.member = script.member("producer", 3)
    producer.produce("first", batch())
    group = script.name("group")
    script.cluster.move_leader("__consumer_offsets", partition_of(group), 3)
    script.until(lambda: coordinator(script, group) == 3 or None, "the coordinator to be node 3")
    member = Classic(script, group, "a")
    member.connection = script.member("a", 3)
    member.join()
    member.sync([(member, "all")])
    body = committing(group, topic, "", 9, (0, 1), memberId=member.id, generationIdOrMemberEpoch=member.generation)
    member.connection.call("OffsetCommit", 9, body)
    script.cluster.stop(3)
    try:
        script.until(lambda: coordinator(script, group) != 3 or None, "another coordinator")
        script.until(lambda: script.leader_of(topic) == 1 or None, "another leader")
        one = {"topics": [{"name": topic}]}
        script.member().call("Metadata", 12, one, label="another leader")
        member.connection = script.member("a", coordinator(script, group))
        settling = (14, 15, 16)
        beat = {"groupId": group, "generationId": member.generation, "memberId": member.id, "groupInstanceId": None}
        member.connection.call("Heartbeat", 4, beat, label="goes on", retry_on=settling)
        member.sync()
        member.connection.call("OffsetFetch", 8, {"groups": [{"groupId": group, "topics": None}]}, label="offsets")
        member.connection.call("DescribeGroups", 5, {"groups": [group]})
        reader = script.member()
        for epoch, label in ((0, "old epoch"), (1, "new epoch"), (2, "future epoch")):
            reader.call("Fetch", 12, fetching(12, [(topic, "", [want(0, epoch=epoch)])]), label=label)
        producer = Producer(script, topic, 12)
        producer.produce("second", batch())
        for epoch in (0, 1, 2):
            asked = {"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": epoch}
            body = {"replicaId": -1, "topics": [{"topic": topic, "partitions": [asked]}]}
            reader.call("OffsetForLeaderEpoch", 4, body, label=f"end of epoch {epoch}")
        diverging = fetching(12, [(topic, "", [want(2, epoch=1, lastFetchedEpoch=0)])])
        reader.call("Fetch", 12, diverging, label="diverging")
        reader.call("Fetch", 12, fetching(12, [(topic, "", [want(0)])]), label="batches of both epochs")
    finally:
        script.cluster.start(3)

    def in_sync() -> bool | None:
        found = script.admin.ask("Metadata", 12, {"topics": [{"name": topic}]})["topics"][0]["partitions"][0]
        return len(found["isrNodes"]) == 3 or None

    script.until(in_sync, "all replicas to be in sync")
    election: dict[str, Any] = {
        "electionType": 0,
        "topicPartitions": [{"topic": topic, "partitions": [0]}],
        "timeoutMs": 20_000,
    }
    script.admin.call("ElectLeaders", 2, election)
    script.until(lambda: script.leader_of(topic) == 3 or None, "the preferred leader")
    script.member().call("Metadata", 12, {"topics": [{"name": topic}]}, label="the preferred leader")
