"""Requests of a user who is not authorized: by request, by topic, group, transactional id and partition."""

from collections.abc import Mapping
from typing import Any

from tests.differential.batches import batch
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


# A field that is left out is "" in a request, not null: each part of a filter has to be said.
NO_FILTER: dict[str, Any] = {
    "resourceTypeFilter": ANY,
    "resourceNameFilter": None,
    "patternTypeFilter": ANY,
    "principalFilter": None,
    "hostFilter": None,
    "operation": ANY,
    "permissionType": ANY,
}


def known_acls(script: Script) -> list[tuple[Any, ...]]:
    """Those that the node's authorizer goes by, which in a real Kafka lag behind the controller's answer."""
    answer = script.admin.ask("DescribeAcls", 3, {**NO_FILTER, "principalFilter": BORIS.principal})
    return [
        (found["resourceType"], found["resourceName"], found["patternType"], one["operation"], one["permissionType"])
        for found in answer["resources"]
        for one in found["acls"]
    ]


def allow(script: Script, *acls: Mapping[str, Any]) -> None:
    """Give the user rights, and wait until they count."""
    answer = script.admin.ask("CreateAcls", 3, {"creations": list(acls)})
    assert all(result["errorCode"] == 0 for result in answer["results"]), answer
    keys = ("resourceType", "resourceName", "resourcePatternType", "operation", "permissionType")
    wanted = {tuple(one[key] for key in keys) for one in acls}
    script.until(lambda: wanted.issubset(known_acls(script)) or None, f"the rights {wanted}")


def forget(script: Script) -> None:
    """Remove all ACLs of the user, and wait until the node has no more."""
    answer = script.admin.ask("DeleteAcls", 3, {"filters": [{**NO_FILTER, "principalFilter": BORIS.principal}]})
    assert all(result["errorCode"] == 0 for result in answer["filterResults"]), answer
    script.until(lambda: not known_acls(script) or None, "no rights")


def boris(script: Script) -> Member:
    return script.member("boris", user=BORIS)


def topics(script: Script) -> tuple[str, str, str]:
    """A resource that is allowed, one that is forbidden, and one that does not exist."""
    return script.topic("mine"), script.topic("theirs"), script.name("missing")


def named(*names: str) -> dict[str, Any]:
    return {"topics": [{"name": name} for name in names]}


@scenario("Metadata", (1, 4, 8, 9, 12, 13), secured=True)
def of_forbidden_topics(script: Script, version: int) -> None:
    mine, theirs, missing = topics(script)
    member = boris(script)
    operations: dict[str, Any] = {"includeTopicAuthorizedOperations": True} if version >= 8 else {}
    if 8 <= version <= 10:
        operations["includeClusterAuthorizedOperations"] = True
    asked = {**named(mine, theirs, missing), **operations}

    def of_the_scenario(answer: Answer) -> Any:
        own = [t for t in answer["topics"] if (t["name"] or "").startswith(script.scenario)]
        return {**answer, "topics": own}

    for label, rights in (
        ("without rights", ()),
        ("describe", (acl(TOPIC, mine, DESCRIBE), acl(TOPIC, missing, DESCRIBE))),
        ("more", (acl(TOPIC, mine, ALTER_CONFIGS), acl(TOPIC, theirs, WRITE), acl(CLUSTER, "kafka-cluster", ALTER))),
        ("denied", (acl(TOPIC, script.scenario, DESCRIBE, pattern=PREFIXED, permission=DENY),)),
    ):
        if rights:
            allow(script, *rights)
        member.call("Metadata", version, asked, label=label)
        member.call("Metadata", version, {"topics": None, **operations}, label=f"{label}: all", keep=of_the_scenario)
    if version >= 12:
        by_id = {"topics": [{"topicId": script.topic_id(mine), "name": None}]}
        member.call("Metadata", version, by_id, label="by id")
    forget(script)


@scenario("Metadata", (12,), secured=True)
def creates_no_forbidden_topic(script: Script, version: int) -> None:
    member = boris(script)
    name, other = script.name("new"), script.name("other")
    allow(script, acl(TOPIC, name, DESCRIBE), acl(TOPIC, other, CREATE))
    asked = {**named(name, other), "allowAutoTopicCreation": True}
    member.call("Metadata", version, asked)
    forget(script)


@scenario("DescribeTopicPartitions", secured=True)
def of_forbidden_topics_in_pages(script: Script) -> None:
    mine, theirs, missing = topics(script)
    allow(script, acl(TOPIC, mine, DESCRIBE))
    asked = {**named(mine, theirs, missing), "responsePartitionLimit": 10, "cursor": None}
    boris(script).call("DescribeTopicPartitions", 0, asked)
    forget(script)


@scenario("Produce", (3, 9, 12, 13), secured=True)
def to_forbidden_topics(script: Script, version: int) -> None:
    mine, theirs, missing = topics(script)
    member = boris(script)
    keys = [{"name": name} for name in (mine, theirs, missing)]
    if version >= 13:
        keys = [{"topicId": script.topic_id(name)} for name in (mine, theirs)]
        keys.append({"topicId": "u-BKqQ0ARxOYmLxGzsIqPw"})
    data = {"partitionData": [{"index": 0, "records": batch((None, "a"))}, {"index": 9, "records": batch((None, "a"))}]}
    body = {"acks": -1, "timeoutMs": 10_000, "topicData": [{**key, **data} for key in keys]}
    member.call("Produce", version, body, label="without rights")
    allow(script, acl(TOPIC, mine, WRITE), acl(TOPIC, missing, READ))
    member.call("Produce", version, body, label="with the right to one")
    forget(script)


@scenario("Fetch", (4, 12, 13, 16), secured=True)
def from_forbidden_topics(script: Script, version: int) -> None:
    mine, theirs, missing = topics(script)
    member = boris(script)
    keys = [{"topic": name} for name in (mine, theirs, missing)]
    if version >= 13:
        keys = [{"topicId": script.topic_id(name)} for name in (mine, theirs)]
    where = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    body: dict[str, Any] = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20}
    body |= {"topics": [{**key, "partitions": [where]} for key in keys]}
    if version < 15:
        body["replicaId"] = -1
    if version >= 7:
        body |= {"sessionId": 0, "sessionEpoch": 0}
    member.call("Fetch", version, body, label="without rights")
    allow(script, acl(TOPIC, mine, READ))
    answer = member.call("Fetch", version, body, label="with the right to one")
    forget(script)
    if version >= 7:
        again = {**body, "topics": [], "sessionId": answer["sessionId"], "sessionEpoch": 1}
        member.call("Fetch", version, again, label="the right is taken away")


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


@scenario("DeleteTopics", (5, 6), secured=True)
def without_rights_to_delete(script: Script, version: int) -> None:
    mine, theirs, missing = topics(script)
    member = boris(script)
    names = [mine, theirs, missing]
    by_name = {"topicNames": names} if version < 6 else named(*names)
    body = {**by_name, "timeoutMs": 20_000}
    member.call("DeleteTopics", version, body, label="forbidden")
    ids = [script.topic_id(name) for name in (mine, theirs)]
    if version >= 6:
        by_id = {"topics": [{"topicId": i, "name": None} for i in ids], "timeoutMs": 20_000}
        member.call("DeleteTopics", version, by_id, label="by id")
    allow(script, acl(TOPIC, mine, DELETE), acl(TOPIC, theirs, DESCRIBE), acl(TOPIC, missing, DESCRIBE))
    if version >= 6:
        by_id = {"topics": [{"topicId": ids[1], "name": None}], "timeoutMs": 20_000}
        member.call("DeleteTopics", version, by_id, label="described, by id")
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


@scenario("WriteTxnMarkers", secured=True)
def without_rights_to_end_transactions(script: Script) -> None:
    mine, _, missing = topics(script)
    member = boris(script)
    where = [{"name": name, "partitionIndexes": [0]} for name in (mine, missing)]
    marker = {"producerId": 987654321, "producerEpoch": 0, "transactionResult": False, "topics": where}
    for label, rights in (
        ("forbidden", ()),
        ("for topics", (acl(TOPIC, mine, ALTER),)),
        ("for the cluster", (acl(CLUSTER, "kafka-cluster", ALTER),)),
    ):
        if rights:
            allow(script, *rights)
        member.call("WriteTxnMarkers", 1, {"markers": [{**marker, "coordinatorEpoch": 0}]}, label=label)
    forget(script)
    allow(script, acl(CLUSTER, "kafka-cluster", CLUSTER_ACTION))
    member.call("WriteTxnMarkers", 1, {"markers": [{**marker, "coordinatorEpoch": 0}]}, label="as brokers may")
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


@scenario("IncrementalAlterConfigs", secured=True)
def of_forbidden_resources_too(script: Script) -> None:
    topic = script.topic("mine")
    member = boris(script)
    kinds = ((2, topic), (2, script.name("missing")), (4, "1"), (32, "g"))
    change = {"name": "retention.ms", "configOperation": 0, "value": "1000"}
    changes = {"resources": [{"resourceType": k, "resourceName": n, "configs": [change]} for k, n in kinds]}
    whole = {"name": "retention.ms", "value": "1000"}
    replaced = {"resources": [{"resourceType": k, "resourceName": n, "configs": [whole]} for k, n in kinds]}
    for label, rights in (("forbidden", ()), ("one", (acl(TOPIC, topic, ALTER_CONFIGS),))):
        if rights:
            allow(script, *rights)
        member.call("IncrementalAlterConfigs", 1, {**changes, "validateOnly": True}, label=label)
        member.call("AlterConfigs", 2, {**replaced, "validateOnly": True}, label=label)
    forget(script)


@scenario("DescribeCluster", secured=True)
def of_a_forbidden_cluster(script: Script) -> None:
    """Every request about the cluster as a whole."""
    member, topic = boris(script), script.topic("mine")
    for api, version, body in (
        ("DescribeCluster", 1, {"includeClusterAuthorizedOperations": True}),
        ("DescribeLogDirs", 2, {"topics": None}),
        ("DescribeLogDirs", 4, {"topics": None}),
        ("AlterReplicaLogDirs", 2, {"dirs": [{"path": "/x", "topics": [{"name": topic, "partitions": [0]}]}]}),
        ("ElectLeaders", 2, {"electionType": 0, "topicPartitions": [{"topic": topic, "partitions": [0]}]}),
        ("AlterPartitionReassignments", 0, {"topics": [{"name": topic, "partitions": [{"partitionIndex": 0}]}]}),
        ("ListPartitionReassignments", 0, {"topics": None}),
        ("DescribeQuorum", 2, {"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]}),
        ("UpdateFeatures", 1, {"featureUpdates": []}),
        ("ListConfigResources", 1, {"resourceTypes": []}),
        ("DescribeAcls", 3, NO_FILTER),
        ("CreateAcls", 3, {"creations": [acl(TOPIC, topic, READ)]}),
        ("DeleteAcls", 3, {"filters": [NO_FILTER]}),
        ("DescribeClientQuotas", 1, {"components": [], "strict": False}),
        ("AlterClientQuotas", 1, {"entries": [{"entity": [{"entityType": "user", "entityName": "x"}], "ops": []}]}),
        # With null in place of the list, a Kafka that refuses gives no answer at all.
        ("DescribeUserScramCredentials", 0, {"users": []}),
        ("AlterUserScramCredentials", 0, {"deletions": [{"name": "x", "mechanism": 1}], "upsertions": []}),
    ):
        member.call(api, version, body, label="forbidden")
    allow(script, acl(CLUSTER, "kafka-cluster", ALTER))
    operations = {"includeClusterAuthorizedOperations": True}
    member.call("DescribeCluster", 1, operations, keep=lambda a: a["clusterAuthorizedOperations"], label="allowed")
    forget(script)
