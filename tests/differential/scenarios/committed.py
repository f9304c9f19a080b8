"""OffsetCommit, OffsetFetch and OffsetDelete."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.scenarios.classic import UNKNOWN, Classic, stable
from tests.differential.script import Script

COMMIT = range(2, 11)
FETCH = range(1, 11)
COMMIT_BY_ID = 10
UNKNOWN_ID = "u-BKqQ0ARxOYmLxGzsIqPw"
Offset = tuple[int, int]


def committing(group: str, topic: str, topic_id: str, version: int, *offsets: Offset, **more: Any) -> dict[str, Any]:
    partitions = [
        {"partitionIndex": partition, "committedOffset": offset, "committedMetadata": "m"}
        for partition, offset in offsets
    ]
    named = {"topicId": topic_id} if version >= COMMIT_BY_ID else {"name": topic}
    body = {
        "groupId": group,
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{**named, "partitions": partitions}],
    }
    return body | more


def asking(group: str, topic: str, topic_id: str, version: int, *partitions: int, **more: Any) -> dict[str, Any]:
    """As the version has it: of one group or of several, by name or by id."""
    named = {"topicId": topic_id} if version >= COMMIT_BY_ID else {"name": topic}
    topics = [{**named, "partitionIndexes": list(partitions)}]
    if version < 8:
        return {"groupId": group, "topics": topics, **more}
    require = {key: more.pop(key) for key in ("requireStable",) if key in more}
    return {"groups": [{"groupId": group, "memberId": None, "memberEpoch": -1, "topics": topics, **more}], **require}


@scenario("OffsetCommit", COMMIT)
def commit_without_a_group(script: Script, version: int) -> None:
    topic = script.topic(partitions=2)
    topic_id = script.topic_id(topic)
    member = script.member()
    group = script.name("group")

    def call(label: str, body: dict[str, Any]) -> None:
        member.call("OffsetCommit", version, body, label=label, retry_on=())

    call("two", committing(group, topic, topic_id, version, (0, 5), (1, 0)))
    member.call("OffsetFetch", 9, asking(group, topic, topic_id, 9, 0, 1), label="are there")
    call("back", committing(group, topic, topic_id, version, (0, 2)))
    call("negative", committing(group, topic, topic_id, version, (0, -1)))
    call("unknown partition", committing(group, topic, topic_id, version, (9, 5), (0, 6)))
    call("unknown topic", committing(group, script.name("missing"), UNKNOWN_ID, version, (0, 5)))
    call("empty group", committing("", topic, topic_id, version, (0, 5)))
    call("unknown member", committing(group, topic, topic_id, version, (0, 5), memberId=UNKNOWN))
    call("a generation", committing(group, topic, topic_id, version, (0, 5), generationIdOrMemberEpoch=3))
    new = script.name("new group")
    call("a generation of a new group", committing(new, topic, topic_id, version, (0, 5), generationIdOrMemberEpoch=3))
    call("a member of a new group", committing(new, topic, topic_id, version, (0, 5), memberId=UNKNOWN))
    call("nothing", {"groupId": group, "generationIdOrMemberEpoch": -1, "topics": []})
    long = committing(group, topic, topic_id, version, (0, 5), (1, 6))
    long["topics"][0]["partitions"][0]["committedMetadata"] = "m" * 4097
    call("metadata too large", long)
    null = committing(group, topic, topic_id, version, (0, 5))
    null["topics"][0]["partitions"][0] |= {"committedMetadata": None, "committedLeaderEpoch": 3}
    call("null metadata and an epoch", null)
    twice = committing(group, topic, topic_id, version, (0, 5), (0, 7))
    call("twice", twice)
    member.call("OffsetFetch", 9, asking(group, topic, topic_id, 9, 0, 1), label="in the end")


@scenario("OffsetCommit", COMMIT, reqs=("S061",))
def commit_of_members(script: Script, version: int) -> None:
    topic = script.topic()
    topic_id = script.topic_id(topic)
    (a,) = stable(script, "a")

    def call(label: str, **more: Any) -> None:
        member = {"generationIdOrMemberEpoch": a.generation, "memberId": a.id, **more}
        body = committing(a.group, topic, topic_id, version, (0, 5), **member)
        a.connection.call("OffsetCommit", version, body, label=label, retry_on=())

    call("good")
    call("generation before", generationIdOrMemberEpoch=a.generation - 1)
    call("generation to come", generationIdOrMemberEpoch=a.generation + 1)
    call("unknown member", memberId=UNKNOWN)
    call("no member", memberId="")
    call("a stranger", memberId="", generationIdOrMemberEpoch=-1)
    call("unknown instance", groupInstanceId="nobody")
    b = Classic(script, a.group, "b")
    waiting = b.send_join()
    a.until_rebalance()
    call("while the group rebalances")
    a.joined(a.send_join())
    b.joined(waiting)
    call("before the leader has synced")
    a.sync([(a, "all")])
    call("stable again")
    a.connection.call("OffsetFetch", 9, asking(a.group, topic, topic_id, 9, 0), label="in the end")


@scenario("OffsetFetch", FETCH, reqs=("S100",))
def fetch_committed(script: Script, version: int) -> None:
    topic, other = script.topic("a", partitions=2), script.topic("b")
    topic_id = script.topic_id(topic)
    member = script.member()
    group = script.name("group")
    epoch = committing(group, topic, topic_id, 9, (0, 5))
    epoch["topics"][0]["partitions"][0]["committedLeaderEpoch"] = 0
    member.ask("OffsetCommit", 9, epoch)
    member.ask("OffsetCommit", 9, committing(group, other, "", 9, (0, 7)))

    def call(label: str, body: dict[str, Any]) -> None:
        member.call("OffsetFetch", version, body, label=label, retry_on=())

    call("both partitions", asking(group, topic, topic_id, version, 0, 1))
    call("unknown partition", asking(group, topic, topic_id, version, 9))
    call("unknown topic", asking(group, script.name("missing"), UNKNOWN_ID, version, 0))
    call("unknown group", asking(script.name("no group"), topic, topic_id, version, 0))
    call("empty group", asking("", topic, topic_id, version, 0))
    call("no partitions", asking(group, topic, topic_id, version))
    call("twice", asking(group, topic, topic_id, version, 0, 0))
    if version >= 7:
        call("stable ones", asking(group, topic, topic_id, version, 0, requireStable=True))
    if 2 <= version < 8:
        call("all", {"groupId": group, "topics": None})
        call("all of an unknown group", {"groupId": script.name("no group"), "topics": None})
        call("none", {"groupId": group, "topics": []})
    if version >= 8:
        mine, unknown = {"groupId": group, "topics": None}, {"groupId": script.name("no group"), "topics": None}
        call("all", {"groups": [mine]})
        call("of two groups", {"groups": [mine, unknown]})
        call("of no group", {"groups": []})
    if version >= 9:
        call("unknown member", asking(group, topic, topic_id, version, 0, memberId=UNKNOWN, memberEpoch=3))
        call("an epoch and no member", asking(group, topic, topic_id, version, 0, memberEpoch=3))


@scenario("OffsetFetch", (9, 10))
def fetch_as_a_classic_member(script: Script, version: int) -> None:
    topic = script.topic()
    topic_id = script.topic_id(topic)
    (a,) = stable(script, "a")

    def call(label: str, member: str | None, epoch: int) -> None:
        body = asking(a.group, topic, topic_id, version, 0, memberId=member, memberEpoch=epoch)
        a.connection.call("OffsetFetch", version, body, label=label, retry_on=())

    call("itself", a.id, a.generation)
    call("another generation", a.id, a.generation + 1)
    call("unknown", UNKNOWN, a.generation)
    call("nobody", None, -1)


@scenario("OffsetDelete")
def delete_offsets(script: Script) -> None:
    topic, other = script.topic("a", partitions=2), script.topic("b")
    member = script.member()
    group = script.name("group")
    member.ask("OffsetCommit", 9, committing(group, topic, "", 9, (0, 5), (1, 6)))
    member.ask("OffsetCommit", 9, committing(group, other, "", 9, (0, 7)))

    def call(label: str, name: str, *partitions: int, group: str = group) -> None:
        asked = {"name": name, "partitions": [{"partitionIndex": index} for index in partitions]}
        member.call("OffsetDelete", 0, {"groupId": group, "topics": [asked]}, label=label, retry_on=())

    call("one", topic, 0)
    call("again", topic, 0)
    call("unknown partition", topic, 9)
    call("unknown topic", script.name("missing"), 0)
    call("unknown group", topic, 0, group=script.name("no group"))
    call("empty group", topic, 0, group="")
    member.call("OffsetDelete", 0, {"groupId": group, "topics": []}, label="nothing")
    member.call("OffsetFetch", 8, {"groups": [{"groupId": group, "topics": None}]}, label="what is left")
    call("another", topic, 1)
    call("the last", other, 0)
    member.call("DescribeGroups", 6, {"groups": [group]}, label="the group")


@scenario("OffsetDelete")
def delete_offsets_of_a_living_group(script: Script) -> None:
    topic, other = script.topic("a"), script.topic("b")
    a = Classic(script, script.name("group"), "a")
    a.topics = (topic,)
    a.join()
    a.sync([(a, "all")])
    for name in (topic, other):
        body = committing(a.group, name, "", 9, (0, 5), generationIdOrMemberEpoch=a.generation, memberId=a.id)
        a.connection.ask("OffsetCommit", 9, body)
    asked = [{"name": name, "partitions": [{"partitionIndex": 0}]} for name in (topic, other)]
    a.connection.call("OffsetDelete", 0, {"groupId": a.group, "topics": asked}, label="one is subscribed to")


@scenario("OffsetFetch")
def offsets_of_a_deleted_topic(script: Script) -> None:
    topic = script.topic()
    member = script.member()
    group = script.name("group")
    member.ask("OffsetCommit", 9, committing(group, topic, "", 9, (0, 5)))
    member.ask("DeleteTopics", 6, {"topics": [{"name": topic}], "timeoutMs": 20_000})

    def gone() -> bool | None:
        answer = member.ask("OffsetFetch", 8, {"groups": [{"groupId": group, "topics": None}]})
        return not answer["groups"][0]["topics"] or None

    script.until(gone, "the offsets to be gone")
    member.call("OffsetFetch", 8, {"groups": [{"groupId": group, "topics": None}]})
    member.call("OffsetFetch", 9, asking(group, topic, "", 9, 0))
