"""Requests of a user who is not authorized: by request, by topic, group, transactional id and partition."""

from collections.abc import Mapping
from typing import Any

from tests.differential.registry import scenario
from tests.differential.script import Answer, Member, Script
from tests.kafka.secured import BORIS

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(3, 9)
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(9, 13)
DENY, ALLOW = 2, 3
ANY = 1


def acl(kind: int, name: str, operation: int, *, pattern: int = LITERAL, permission: int = ALLOW) -> dict[str, Any]:
    return {
        "resourceType": kind,
        "resourceName": name,
        "resourcePatternType": pattern,
        "principal": BORIS.principal,
        "host": "*",
        "operation": operation,
        "permissionType": permission,
    }


def allow(script: Script, *acls: Mapping[str, Any]) -> None:
    answer = script.admin.ask("CreateAcls", 3, {"creations": list(acls)})
    assert all(result["errorCode"] == 0 for result in answer["results"]), answer


def forget(script: Script) -> None:
    """Remove all ACLs of the user."""
    every = {"resourceTypeFilter": ANY, "patternTypeFilter": ANY, "operation": ANY, "permissionType": ANY}
    script.admin.ask("DeleteAcls", 3, {"filters": [{**every, "principalFilter": BORIS.principal}]})


def boris(script: Script) -> Member:
    return script.member("boris", user=BORIS)


def topics(script: Script) -> tuple[str, str, str]:
    """A resource that is allowed, one that is forbidden, and one that does not exist."""
    return script.topic("mine"), script.topic("theirs"), script.name("missing")


def named(*names: str) -> dict[str, Any]:
    return {"topics": [{"name": name} for name in names]}


@scenario("DescribeTopicPartitions", secured=True)
def of_forbidden_topics_in_pages(script: Script) -> None:
    mine, theirs, missing = topics(script)
    allow(script, acl(TOPIC, mine, DESCRIBE))
    asked = {**named(mine, theirs, missing), "responsePartitionLimit": 10, "cursor": None}
    boris(script).call("DescribeTopicPartitions", 0, asked)
    forget(script)


@scenario("ListOffsets", (1, 7, 10), secured=True)
def of_forbidden_logs(script: Script, version: int) -> None:
    mine, theirs, missing = topics(script)
    allow(script, acl(TOPIC, mine, DESCRIBE))
    where = {"partitions": [{"partitionIndex": 0, "timestamp": -1}]}
    body = {"replicaId": -1, "topics": [{"name": name, **where} for name in (mine, theirs, missing)]}
    boris(script).call("ListOffsets", version, body)
    forget(script)


@scenario("OffsetForLeaderEpoch", (3, 4), secured=True)
def of_forbidden_logs_by_epoch(script: Script, version: int) -> None:
    mine, theirs, missing = topics(script)
    allow(script, acl(TOPIC, mine, DESCRIBE))
    where = {"partitions": [{"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": 0}]}
    body = {"replicaId": -1, "topics": [{"topic": name, **where} for name in (mine, theirs, missing)]}
    boris(script).call("OffsetForLeaderEpoch", version, body)
    forget(script)


@scenario("JoinGroup", secured=True)
def of_forbidden_groups(script: Script) -> None:
    """Every request of group members and of clients that describe groups."""
    member, group, topic = boris(script), script.name("group"), script.topic("mine")
    protocol = {"name": "range", "metadata": ""}
    join = {"groupId": group, "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000, "protocolType": "consumer"}
    part = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
    commit = {"groupId": group, "generationIdOrMemberEpoch": -1, "topics": [{"name": topic, "partitions": [part]}]}
    for api, version, body in (
        ("FindCoordinator", 3, {"key": group, "keyType": 0}),
        ("FindCoordinator", 4, {"coordinatorKeys": [group], "keyType": 0}),
        ("FindCoordinator", 4, {"coordinatorKeys": [group], "keyType": 1}),
        ("JoinGroup", 2, {**join, "memberId": "", "protocols": [protocol]}),
        ("JoinGroup", 9, {**join, "memberId": "m", "protocols": [protocol]}),
        ("SyncGroup", 5, {"groupId": group, "memberId": "m", "protocolType": "consumer", "protocolName": "range"}),
        ("Heartbeat", 4, {"groupId": group, "memberId": "m"}),
        ("LeaveGroup", 2, {"groupId": group, "memberId": "m"}),
        ("LeaveGroup", 5, {"groupId": group, "members": [{"memberId": "m"}]}),
        ("OffsetCommit", 8, commit),
        ("OffsetFetch", 1, {"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0]}]}),
        ("OffsetFetch", 7, {"groupId": group, "topics": None}),
        ("OffsetFetch", 9, {"groups": [{"groupId": group, "topics": None}]}),
        ("DescribeGroups", 5, {"groups": [group], "includeAuthorizedOperations": True}),
        ("DescribeGroups", 6, {"groups": [group], "includeAuthorizedOperations": True}),
        ("DeleteGroups", 2, {"groupsNames": [group]}),
        ("OffsetDelete", 0, {"groupId": group, "topics": [{"name": topic, "partitions": [{"partitionIndex": 0}]}]}),
        (
            "ConsumerGroupHeartbeat",
            1,
            {
                "groupId": group,
                "memberId": "m",
                "memberEpoch": 0,
                "rebalanceTimeoutMs": 1000,
                "subscribedTopicNames": [topic],
                "topicPartitions": [],
            },
        ),
        ("ConsumerGroupDescribe", 1, {"groupIds": [group], "includeAuthorizedOperations": True}),
    ):
        member.call(api, version, body, label="forbidden")
    member.call("ListGroups", 5, {"statesFilter": []}, label="no groups")


@scenario("OffsetCommit", (2, 8, 9, 10), secured=True)
def of_forbidden_topics_in_an_allowed_group(script: Script, version: int) -> None:
    mine, theirs, missing = topics(script)
    member, group = boris(script), script.name("group")
    allow(script, acl(GROUP, group, READ), acl(TOPIC, mine, READ))
    keys: list[dict[str, Any]] = [{"name": name} for name in (mine, theirs, missing)]
    if version >= 10:
        keys = [{"topicId": script.topic_id(name)} for name in (mine, theirs)]
    part = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
    body = {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": ""}
    member.call("OffsetCommit", version, {**body, "topics": [{**key, "partitions": [part]} for key in keys]})
    wanted = [{"name": name, "partitionIndexes": [0]} for name in (mine, theirs, missing)]
    member.call("OffsetFetch", 7, {"groupId": group, "topics": wanted}, label="fetched")
    member.call("OffsetFetch", 9, {"groups": [{"groupId": group, "topics": wanted}]}, label="fetched")
    ids = [{"topicId": script.topic_id(name), "partitionIndexes": [0]} for name in (mine, theirs)]
    member.call("OffsetFetch", 10, {"groups": [{"groupId": group, "topics": ids}]}, label="fetched by id")
    script.admin.ask("OffsetCommit", 8, {**body, "topics": [{"name": theirs, "partitions": [part]}]})
    member.call("OffsetFetch", 9, {"groups": [{"groupId": group, "topics": None}]}, label="all")
    allow(script, acl(GROUP, group, DELETE))
    where = {"partitions": [{"partitionIndex": 0}]}
    body = {"groupId": group, "topics": [{"name": name, **where} for name in (mine, theirs, missing)]}
    member.call("OffsetDelete", 0, body, label="deleted")
    member.call("ListGroups", 5, {}, label="groups", keep=lambda answer: len(answer["groups"]))
    forget(script)


@scenario("ConsumerGroupHeartbeat", secured=True)
def of_a_group_with_forbidden_topics(script: Script) -> None:
    mine, theirs, _ = topics(script)
    member, group = boris(script), script.name("group")
    allow(script, acl(GROUP, group, READ), acl(TOPIC, mine, DESCRIBE))
    body = {"groupId": group, "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 1000, "topicPartitions": []}
    member.call("ConsumerGroupHeartbeat", 1, {**body, "subscribedTopicNames": [mine, theirs]}, label="a forbidden one")
    script.admin.ask("ConsumerGroupHeartbeat", 1, {**body, "subscribedTopicNames": [mine, theirs]})
    described = {"groupIds": [group], "includeAuthorizedOperations": True}
    member.call("ConsumerGroupDescribe", 1, described, label="a forbidden one")
    allow(script, acl(TOPIC, theirs, READ))
    script.until(lambda: script.admin.ask("ConsumerGroupDescribe", 1, described)["groups"][0]["members"], "a member")
    member.call(
        "ConsumerGroupDescribe", 1, described, label="allowed", keep=lambda a: a["groups"][0]["authorizedOperations"]
    )
    forget(script)


@scenario("InitProducerId", secured=True)
def with_forbidden_ids(script: Script) -> None:
    """Every request of producers."""
    member, identity = boris(script), script.name("id")
    mine, theirs, missing = topics(script)
    producer = {"producerId": 1, "producerEpoch": 0, "transactionalId": identity}
    commit = {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": ""}
    part = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
    old = {"v3AndBelowTransactionalId": identity, "v3AndBelowProducerId": 1, "v3AndBelowProducerEpoch": 0}
    added = [{"name": name, "partitions": [0, 9]} for name in (mine, theirs, missing)]
    plain = {"transactionalId": None, "transactionTimeoutMs": 1000, "producerId": -1, "producerEpoch": -1}

    def ask(label: str) -> None:
        for api, version, body in (
            ("InitProducerId", 4, plain),
            ("InitProducerId", 4, {**plain, "transactionalId": identity}),
            ("AddPartitionsToTxn", 3, {**old, "v3AndBelowTopics": added}),
            ("AddPartitionsToTxn", 4, {"transactions": [{**producer, "verifyOnly": False, "topics": added}]}),
            ("AddOffsetsToTxn", 3, {**producer, "groupId": "g"}),
            ("TxnOffsetCommit", 3, {**producer, **commit, "topics": [{"name": mine, "partitions": [part]}]}),
            ("EndTxn", 3, {**producer, "committed": True}),
            ("DescribeTransactions", 0, {"transactionalIds": [identity]}),
        ):
            member.call(api, version, body, label=label, keep=without_ids if api == "InitProducerId" else None)

    def without_ids(answer: Answer) -> Any:
        return answer["errorCode"]

    ask("forbidden")
    allow(script, acl(TRANSACTIONAL_ID, identity, WRITE), acl(TOPIC, mine, WRITE))
    ask("allowed for one topic")
    member.call("ListTransactions", 1, {"durationFilter": -1}, label="one", keep=lambda a: len(a["transactionStates"]))
    allow(script, acl(GROUP, "g", READ), acl(TOPIC, mine, READ))
    body = {**producer, **commit, "topics": [{"name": name, "partitions": [part]} for name in (mine, theirs, missing)]}
    member.call("TxnOffsetCommit", 3, body, label="a forbidden topic")
    forget(script)
    member.call("ListTransactions", 1, {"durationFilter": -1}, label="none", keep=lambda a: a["transactionStates"])
    allow(script, acl(CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE))
    member.call("InitProducerId", 4, plain, label="idempotent write", keep=without_ids)
    forget(script)
    allow(script, acl(TOPIC, mine, WRITE), acl(TOPIC, script.scenario, WRITE, pattern=PREFIXED, permission=DENY))
    member.call("InitProducerId", 4, plain, label="denied by a prefix", keep=without_ids)
    forget(script)


@scenario("CreateTopics", (5, 7), secured=True)
def without_rights(script: Script, version: int) -> None:
    member = boris(script)
    name, other, prefix = script.name("new"), script.name("other"), script.name("pre")
    new = {"numPartitions": 1, "replicationFactor": 1}
    names = [name, other, f"{prefix}-1", "__cluster_metadata", "a b"]
    body = {"topics": [{"name": each, **new} for each in names], "timeoutMs": 20_000, "validateOnly": True}
    member.call("CreateTopics", version, body, label="forbidden")
    allow(script, acl(TOPIC, name, CREATE), acl(TOPIC, prefix, CREATE, pattern=PREFIXED))
    member.call("CreateTopics", version, body, label="some")
    allow(script, acl(CLUSTER, "kafka-cluster", CREATE), acl(TOPIC, name, DESCRIBE_CONFIGS))
    only = {"topics": [{"name": other, **new}], "timeoutMs": 20_000}
    member.call("CreateTopics", version, only, label="by the cluster")
    forget(script)


@scenario("DeleteTopics", (5,), secured=True)
def without_rights_to_delete(script: Script, version: int) -> None:
    mine, theirs, missing = topics(script)
    member = boris(script)
    names = [mine, theirs, missing]
    by_name = {"topicNames": names} if version < 6 else named(*names)
    body = {**by_name, "timeoutMs": 20_000}
    member.call("DeleteTopics", version, body, label="forbidden")
    ids = [script.topic_id(name) for name in (mine, theirs)]
    if version >= 6:
        member.call("DeleteTopics", version, {"topics": [{"topicId": i, "name": None} for i in ids]}, label="by id")
    allow(script, acl(TOPIC, mine, DELETE), acl(TOPIC, theirs, DESCRIBE), acl(TOPIC, missing, DESCRIBE))
    if version >= 6:
        member.call("DeleteTopics", version, {"topics": [{"topicId": ids[1], "name": None}]}, label="described, by id")
    member.call("DeleteTopics", version, body, label="one")
    forget(script)


@scenario("CreatePartitions", secured=True)
def without_rights_to_change_topics(script: Script) -> None:
    mine, theirs, missing = topics(script)
    member = boris(script)
    more = {"topics": [{"name": n, "count": 2, "assignments": None} for n in (mine, theirs, missing)]}
    where = {"partitions": [{"partitionIndex": 0, "offset": 0}]}
    delete = {"topics": [{"name": n, **where} for n in (mine, theirs, missing)], "timeoutMs": 10_000}
    described = {"topics": [{"name": n, "partitionIndexes": [0]} for n in (mine, theirs, missing)]}
    for label, rights in (("forbidden", ()), ("one", (acl(TOPIC, mine, ALTER), acl(TOPIC, mine, DELETE)))):
        if rights:
            allow(script, *rights)
        member.call("CreatePartitions", 3, {**more, "timeoutMs": 10_000, "validateOnly": True}, label=label)
        member.call("DeleteRecords", 2, delete, label=label)
        member.call("DescribeProducers", 0, described, label=label)
    forget(script)


@scenario("DescribeConfigs", (1, 4), secured=True)
def of_forbidden_resources(script: Script, version: int) -> None:
    topic = script.topic("mine")
    member = boris(script)
    kinds = ((2, topic), (2, script.name("missing")), (4, "1"), (8, "1"), (32, "g"))
    body = {
        "resources": [{"resourceType": k, "resourceName": n, "configurationKeys": ["retention.ms"]} for k, n in kinds]
    }
    member.call("DescribeConfigs", version, body, label="forbidden")
    allow(script, acl(TOPIC, topic, ALTER_CONFIGS))
    member.call("DescribeConfigs", version, body, label="one")
    forget(script)
