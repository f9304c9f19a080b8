"""Share groups (KIP-932): their members, kinds, offsets, configs and coordinators."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.scenarios.share_members import GROUP, ShareMember, described, filled, offsets, sharing
from tests.differential.script import Answer, Script


@scenario("ShareGroupHeartbeat")
def a_member_joins_and_leaves(script: Script) -> None:
    topic, _ = filled(script, partitions=3)
    group = script.name("group")
    member = ShareMember(script, group, "a", topic)
    member.join(3)
    described(script, group, "joined")
    answer = member.beat("beats", record=False)
    script.record("ShareGroupHeartbeat", {**answer, "memberEpoch": None}, 1, "beats")
    script.admin.call("ListGroups", 5, {"typesFilter": ["share"]}, label="listed", keep=listed(group))
    member.leave()
    described(script, group, "empty")
    script.admin.call("ListGroups", 5, {"statesFilter": ["Empty"]}, label="listed empty", keep=listed(group))
    member.epoch = 1
    member.beat("beats after it left")
    member.join(3)
    described(script, group, "joined again")


def listed(group: str) -> Any:
    """Selects one group of ListGroups."""
    return lambda answer: [found for found in answer["groups"] if found["groupId"] == group]


@scenario("ShareGroupHeartbeat")
def refuses(script: Script) -> None:
    topic, _ = filled(script)
    group = script.name("group")
    member = ShareMember(script, group, "a", topic)
    bad = script.member()
    whole = {"groupId": group, "memberId": "m", "memberEpoch": 0, "subscribedTopicNames": [topic]}
    for label, more in (
        ("no member id", {"memberId": ""}),
        ("a long member id", {"memberId": "m" * 300, "groupId": group + ".long"}),
        ("no group", {"groupId": ""}),
        ("a blank rack", {"rackId": " "}),
        ("no topics", {"subscribedTopicNames": None}),
        ("an empty list of topics", {"subscribedTopicNames": [], "groupId": group + ".none"}),
        ("an epoch below -1", {"memberEpoch": -2}),
        ("an epoch of a group that is not", {"memberEpoch": 3}),
        ("leaving a group that is not", {"memberEpoch": -1}),
    ):
        bad.call("ShareGroupHeartbeat", 1, {**whole, **more}, label=label, keep=without_epoch)
    member.join(1)
    for label, other in (
        ("an unknown member", {"memberEpoch": 1}),
        ("an unknown member leaves", {"memberEpoch": -1}),
        ("a greater epoch", {"memberId": member.id, "memberEpoch": 1000}),
    ):
        bad.call("ShareGroupHeartbeat", 1, {**whole, **other}, label=label)
    described(script, script.name("missing"), "missing")
    described(script, "", "no name")


def without_epoch(answer: Answer) -> Any:
    """An answer without what an initialization in the background may bump."""
    return {key: value for key, value in answer.items() if key not in ("memberEpoch", "assignment")}


@scenario("ShareGroupHeartbeat")
def members_share_partitions(script: Script) -> None:
    topic, _ = filled(script, partitions=2)
    group = script.name("group")
    members = [ShareMember(script, group, name, topic) for name in ("a", "b", "c", "d", "e")]
    members[0].join(2)
    members[1].join(1)
    members[0].join(1)
    script.record("assigned", [sum(len(own) for own in each.assigned.values()) for each in members[:2]])
    for member in members[2:4]:
        member.join()
    for member in members[:4]:
        member.beat(record=False)
    script.record("assigned", sorted(sum(len(own) for own in each.assigned.values()) for each in members[:4]))
    members[4].beat("joins a full group", subscribedTopicNames=[topic])
    for member in members[:4]:
        member.epoch = -1
        member.beat("leaves", record=False)


@scenario("ShareGroupHeartbeat")
def an_assignment_whose_answer_was_lost(script: Script) -> None:
    topic, _ = filled(script, partitions=2)
    group = script.name("group")
    first, second = ShareMember(script, group, "a", topic), ShareMember(script, group, "b", topic)
    first.join(2)
    before = first.epoch
    second.join(1)
    script.until(lambda: first.beat(record=False)["memberEpoch"] != before or None, "a to learn of the next epoch")
    for label, epoch in (("the last epoch", first.epoch), ("the epoch before", before), ("joins again", 0)):
        for name, topics in (("short", None), ("full", [topic])):
            if epoch or topics:
                first.epoch = epoch
                answer = first.beat(record=False, subscribedTopicNames=topics)
                assigned = answer.get("assignment") and len(answer["assignment"]["topicPartitions"][0]["partitions"])
                script.record(
                    "ShareGroupHeartbeat", {"error": answer["errorCode"], "has": assigned}, 1, f"{name}, {label}"
                )


@scenario("ShareGroupHeartbeat")
def groups_of_other_kinds(script: Script) -> None:
    topic, _ = filled(script)
    share, consumer, classic = script.name("share"), script.name("consumer"), script.name("classic")
    member = ShareMember(script, share, "a", topic)
    member.join(1)
    other = script.member()
    joining = {
        "groupId": share,
        "memberId": "m",
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 5000,
        "subscribedTopicNames": [topic],
        "topicPartitions": [],
    }
    other.call("ConsumerGroupHeartbeat", 1, joining, label="a consumer joins a share group")
    other.ask("ConsumerGroupHeartbeat", 1, {**joining, "groupId": consumer})
    ShareMember(script, consumer, "b", topic).beat("joins a consumer group", subscribedTopicNames=[topic])
    committed = {
        "groupId": share,
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{"name": topic, "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}],
    }
    other.call("OffsetCommit", 9, committed, label="a commit to a share group")
    other.ask("OffsetCommit", 9, {**committed, "groupId": classic})
    ShareMember(script, classic, "c", topic).beat("joins a classic group", subscribedTopicNames=[topic])
    fetched = {"groups": [{"groupId": share, "memberId": None, "memberEpoch": -1, "topics": None}]}
    other.call("OffsetFetch", 9, fetched, label="offsets of a share group")
    deleted = {"groupId": share, "topics": [{"name": topic, "partitions": [{"partitionIndex": 0}]}]}
    other.call("OffsetDelete", 0, deleted, label="deletes offsets of a share group")
    other.call("DescribeGroups", 6, {"groups": [share]}, label="described as classic")
    other.call("ConsumerGroupDescribe", 1, {"groupIds": [share]}, label="described as consumer")
    other.call("ShareGroupDescribe", 1, {"groupIds": [consumer]}, label="a consumer group described as share")
    other.call("Heartbeat", 4, {"groupId": share, "generationId": 1, "memberId": "m"}, label="a classic heartbeat")
    join = {
        "groupId": share,
        "sessionTimeoutMs": 10_000,
        "rebalanceTimeoutMs": 10_000,
        "memberId": "",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": ""}],
    }
    other.call("JoinGroup", 9, join, label="a classic member joins")
    script.admin.call("DeleteGroups", 2, {"groupsNames": [share]}, label="deletes a group with members")
    member.leave()
    other.call("JoinGroup", 9, join, label="a classic member joins an empty one")
    other.call("ConsumerGroupHeartbeat", 1, joining, label="a consumer joins an empty one")
    script.admin.call("DeleteGroups", 2, {"groupsNames": [share]}, label="deletes it")
    described(script, share, "deleted")


@scenario("AlterShareGroupOffsets")
def sets_offsets(script: Script) -> None:
    member, topic, topic_id = sharing(script)
    asked: dict[str, Any] = {
        "groupId": member.group,
        "topics": [{"topicName": topic, "partitions": [{"partitionIndex": 0, "startOffset": 4}]}],
    }
    script.admin.call("AlterShareGroupOffsets", 0, asked, label="with members")
    removal = {"groupId": member.group, "topics": [{"topicName": topic}]}
    script.admin.call("DeleteShareGroupOffsets", 0, removal, label="deletes with members")
    member.leave()
    script.admin.call("AlterShareGroupOffsets", 0, asked, label="without members")
    offsets(script, member.group, "four are done")
    member.join(1)
    member.session = 0
    member.take("from the fifth", topic=topic_id)
    member.fetch("closes", epoch=-1)
    member.leave()
    missing = script.name("missing")
    bad = {
        "groupId": member.group,
        "topics": [
            {"topicName": topic, "partitions": [{"partitionIndex": 7, "startOffset": 4}]},
            {"topicName": missing, "partitions": [{"partitionIndex": 0, "startOffset": 4}]},
        ],
    }
    script.admin.call("AlterShareGroupOffsets", 0, bad, label="of what is not there")
    new = script.name("new")
    script.admin.call("AlterShareGroupOffsets", 0, {**asked, "groupId": new}, label="of a new group")
    described(script, new, "the new group")
    offsets(script, new, "of the new group")
    wanted = [
        {"topicName": topic, "partitions": [0, 7]},
        {"topicName": missing, "partitions": [0]},
    ]
    offsets(script, member.group, "by name", wanted)
    offsets(script, missing, "of a group that is not")
    script.admin.call("DeleteShareGroupOffsets", 0, removal, label="deletes")
    offsets(script, member.group, "deleted")
    offsets(script, member.group, "deleted, by name", wanted[:1])
    script.admin.call("DeleteShareGroupOffsets", 0, removal, label="deletes again")
    stray = {"groupId": member.group, "topics": [{"topicName": missing}]}
    script.admin.call("DeleteShareGroupOffsets", 0, stray, label="deletes what is not there")
    gone = {**removal, "groupId": missing}
    script.admin.call("DeleteShareGroupOffsets", 0, gone, label="deletes of a group that is not")
    script.admin.call("DeleteGroups", 2, {"groupsNames": [member.group, new]}, label="deletes both")
    offsets(script, new, "of a group that is gone")


@scenario("IncrementalAlterConfigs")
def of_share_groups(script: Script) -> None:
    member = script.member()
    group = script.name("group")
    names = [
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.topic.name",
        "share.auto.offset.reset",
        "share.delivery.count.limit",
        "share.heartbeat.interval.ms",
        "share.isolation.level",
        "share.partition.max.record.locks",
        "share.record.lock.duration.ms",
        "share.renew.acknowledge.enable",
        "share.session.timeout.ms",
    ]
    described = {"resources": [{"resourceType": GROUP, "resourceName": group, "configurationKeys": names}]}
    member.call("DescribeConfigs", 4, {**described, "includeSynonyms": True}, label="unset")
    for name, values in {
        "share.auto.offset.reset": ("earliest", "by_duration:PT1H", "by_duration:-PT1H", "by_duration:x", "none"),
        "share.delivery.count.limit": ("2", "1", "11", "many"),
        "share.heartbeat.interval.ms": ("6000", "60000"),
        "share.isolation.level": ("read_committed", "read"),
        "share.partition.max.record.locks": ("100", "5000"),
        "share.record.lock.duration.ms": ("20000", "1", "70000"),
        "share.renew.acknowledge.enable": ("false", "no"),
        "share.session.timeout.ms": ("50000", "70000"),
        "share.assignment.interval.ms": ("0", "-1", "15001"),
        "errors.deadletterqueue.topic.name": ("dlq.letters", "letters", "__letters", "bad name"),
        "errors.deadletterqueue.copy.record.enable": ("true",),
    }.items():
        for value in values:
            changes = [{"name": name, "configOperation": 0, "value": value}]
            asked = {"resources": [{"resourceType": GROUP, "resourceName": group, "configs": changes}]}
            member.call("IncrementalAlterConfigs", 1, asked, label=f"{name}={value}")

    def told() -> Answer | None:
        answer = member.ask("DescribeConfigs", 4, described)
        found = {config["name"]: config["value"] for config in answer["results"][0]["configs"]}
        return {"found": found} if found["errors.deadletterqueue.copy.record.enable"] == "true" else None

    script.record("DescribeConfigs", script.until(told, "the configs"), 4, "set")


@scenario("FindCoordinator", (6,))
def of_share_partitions(script: Script, version: int) -> None:
    member, _, topic = sharing(script)
    for key in (f"{member.group}:{topic}:0", "no-key", "a:b:c", f"{member.group}:{topic}:x"):
        asked = {"keyType": 2, "coordinatorKeys": [key]}
        script.admin.call("FindCoordinator", version, asked, label=key.replace(topic, "topic"), keep=without_keys)


def without_keys(answer: Answer) -> Any:
    """An answer of FindCoordinator without the keys, which have ids of topics in them."""
    return [{name: value for name, value in found.items() if name != "key"} for found in answer["coordinators"]]


@scenario("DescribeConfigs")
def of_the_state_topic(script: Script) -> None:
    sharing(script)
    asked = {"resources": [{"resourceType": 2, "resourceName": "__share_group_state", "configurationKeys": None}]}
    script.admin.call("DescribeConfigs", 4, asked, label="what is set", keep=overrides)
    described = {"topics": [{"name": "__share_group_state"}]}
    script.admin.call("Metadata", 12, described, label="described", keep=shape)


def overrides(answer: Answer) -> Any:
    """What differs from the broker's values."""
    configs = answer["results"][0]["configs"]
    return {config["name"]: config["value"] for config in configs if config["configSource"] == 1}


def shape(answer: Answer) -> Any:
    """Whether a topic is internal, and its number of partitions."""
    return [(topic["isInternal"], len(topic["partitions"])) for topic in answer["topics"]]
