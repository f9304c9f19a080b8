"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the new protocol (KIP-848)."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.scenarios.classic import SHORT_MS, stable
from tests.differential.scenarios.committed import asking, committing
from tests.differential.scenarios.members import Consumer, described, has, prepared, settled
from tests.differential.script import Answer, Script

HEARTBEAT = (0, 1)
UNKNOWN_ID = "u-BKqQ0ARxOYmLxGzsIqPw"
GROUP_CONFIG = 32


@scenario("ConsumerGroupHeartbeat", HEARTBEAT)
def alone(script: Script, version: int) -> None:
    group, topic = prepared(script)
    member = Consumer(script, group, "a", topic, version=version)
    member.join()
    described(script, group, "joined")
    member.reconcile()
    member.beat()
    member.call("says everything", member.full())
    described(script, group, "stable")
    member.leave()
    member.beat("beats after it left")
    described(script, group, "empty")
    member.id = member.id if version else ""
    member.join()


@scenario("ConsumerGroupHeartbeat", HEARTBEAT)
def begins_again_without_saying_everything(script: Script, version: int) -> None:
    """A member of librdkafka does so if it left while it had partitions assigned; it takes the answer as the end."""
    group, topic = prepared(script)
    member = Consumer(script, group, "a", topic, version=version)
    member.join()
    member.leave()
    names = {"groupId": group, "memberId": member.id, "memberEpoch": 0, "subscribedTopicNames": [topic]}
    owned = [{"topicId": script.topic_id(topic), "partitions": [0]}]
    for label, more in (
        ("as librdkafka", {"topicPartitions": None}),
        ("with a time", {"rebalanceTimeoutMs": 5000, "topicPartitions": None}),
        ("with what it had", {"rebalanceTimeoutMs": 5000, "topicPartitions": owned}),
        ("without topics", {"rebalanceTimeoutMs": 5000, "topicPartitions": [], "subscribedTopicNames": None}),
    ):
        script.member().call("ConsumerGroupHeartbeat", version, {**names, **more}, label=label)
    member.join()


@scenario("ConsumerGroupHeartbeat")
def second_joins(script: Script) -> None:
    """The second member gets a partition only after the first has reported its revocation."""
    group, topic = prepared(script)
    a, b = Consumer(script, group, "a", topic), Consumer(script, group, "b", topic)
    a.join()
    a.reconcile()
    b.join()
    b.beat("waits")
    described(script, group, "b waits")
    a.beat("is told to give up")
    described(script, group, "a gives up")
    b.beat("still waits")
    a.beat("has not given up")
    a.reconcile("gave up")
    b.beat("gets the rest")
    b.reconcile()
    a.beat()
    described(script, group, "stable")


@scenario("ConsumerGroupHeartbeat")
def three_members(script: Script) -> None:
    group, topic = prepared(script, partitions=7)
    members = [Consumer(script, group, name, topic) for name in ("a", "b", "c")]
    for number, member in enumerate(members):
        member.join()
        settled(*members[: number + 1])
        described(script, group, f"{number + 1} members")
    members[0].leave()
    settled(*members[1:])
    described(script, group, "one left")
    members[1].leave()
    settled(members[2])
    described(script, group, "two left")


@scenario("ConsumerGroupHeartbeat")
def range_assignor(script: Script) -> None:
    group, one = prepared(script, partitions=3, stem="one")
    _, two = prepared(script, partitions=2, stem="two")
    members = [Consumer(script, group, name, one, two) for name in ("a", "b", "c")]
    for number, member in enumerate(members):
        member.join(serverAssignor="range")
        settled(*members[: number + 1])
    described(script, group, "range")
    members[0].beat("votes for another", serverAssignor="uniform")
    members[1].beat("votes for another", serverAssignor="uniform")
    settled(*members)
    described(script, group, "voted")


@scenario("ConsumerGroupHeartbeat")
def different_subscriptions(script: Script) -> None:
    group, one = prepared(script, partitions=4, stem="one")
    _, two = prepared(script, partitions=4, stem="two")
    a, b, c = (
        Consumer(script, group, "a", one),
        Consumer(script, group, "b", one, two),
        Consumer(script, group, "c", two),
    )
    for members in ((a,), (a, b), (a, b, c)):
        members[-1].join()
        settled(*members)
        described(script, group, f"{len(members)} members")
    a.topics = (one, two)
    a.beat("subscribes to both", subscribedTopicNames=[one, two])
    settled(a, b, c)
    described(script, group, "both")
    a.beat("subscribes to nothing that is there", subscribedTopicNames=[script.name("missing")])
    settled(a, b, c)
    described(script, group, "nothing")


@scenario("ConsumerGroupHeartbeat")
def topics_grow_and_come(script: Script) -> None:
    group, topic = prepared(script, partitions=2)
    later = script.name("later")
    a = Consumer(script, group, "a", topic, later)
    a.join()
    a.reconcile()
    script.admin.ask(
        "CreatePartitions", 3, {"topics": [{"name": topic, "count": 3, "assignments": None}], "timeoutMs": 20_000}
    )
    has(a, 3)
    a.call("has three", a.full())
    described(script, group, "grown")
    script.topic("later", partitions=2)
    has(a, 5)
    a.call("has five", a.full())
    described(script, group, "another topic")
    script.admin.ask("DeleteTopics", 6, {"topics": [{"name": topic}], "timeoutMs": 20_000})
    has(a, 2)
    a.call("has two", a.full())


@scenario("ConsumerGroupHeartbeat", HEARTBEAT)
def refused(script: Script, version: int) -> None:
    group, topic = prepared(script)
    member = Consumer(script, group, "a", topic, version=version)

    def call(label: str, **more: Any) -> None:
        body = {key: value for key, value in {**member.full(), **more}.items() if value != "left out"}
        member.connection.call("ConsumerGroupHeartbeat", version, body, label=label, retry_on=())

    call("no group", groupId="")
    call("a blank group", groupId="  ")
    call("no rebalance timeout", rebalanceTimeoutMs=-1)
    call("no rebalance time", rebalanceTimeoutMs=0)
    call("no partitions", topicPartitions=None)
    call("partitions when it joins", topicPartitions=[{"topicId": UNKNOWN_ID, "partitions": [0]}])
    call("no subscription", subscribedTopicNames=None)
    call("an empty subscription", subscribedTopicNames=[])
    call("an empty instance", instanceId="")
    call("an empty rack", rackId="")
    call("an empty assignor", serverAssignor="")
    call("an unknown assignor", serverAssignor="nonsense")
    call("no such epoch", memberEpoch=-3)
    call("to leave without an id", memberEpoch=-1, memberId="")
    call("to leave for a while without an instance", memberEpoch=-2)
    call("to leave", memberEpoch=-1, memberId="nobody")
    call("an unknown member", memberEpoch=5, memberId="nobody")
    call("an unknown group", memberEpoch=5, memberId="nobody", groupId=script.name("missing"))
    if version:
        call("no id", memberId="")
        call("an id that is too long", memberId="m" * 300)
        call("a pattern and names", subscribedTopicRegex="a.*")
        call("an empty pattern", subscribedTopicRegex="", subscribedTopicNames=None)
        call("a bad pattern", subscribedTopicRegex="(", subscribedTopicNames=None)
    described(script, group, "not made")


@scenario("ConsumerGroupHeartbeat")
def fenced(script: Script) -> None:
    group, topic = prepared(script)
    a, b = Consumer(script, group, "a", topic), Consumer(script, group, "b", topic)
    a.join()
    a.reconcile()
    b.join()
    first = a.epoch
    settled(a, b)
    a.beat("an epoch to come", memberEpoch=a.epoch + 5)
    a.beat("the epoch before, owning nothing", memberEpoch=first, topicPartitions=[])
    a.beat("the epoch before", memberEpoch=first)
    a.beat("long ago", memberEpoch=first - 1 or 1, topicPartitions=a.assigned)
    a.beat("owns what is another's", topicPartitions=b.assigned)
    a.beat("goes on")
    a.beat("unknown", memberId="nobody")
    described(script, group)


@scenario("ConsumerGroupHeartbeat")
def joins_again(script: Script) -> None:
    """A member with epoch 0 has lost its answers, and gets its whole assignment."""
    group, topic = prepared(script)
    a = Consumer(script, group, "a", topic)
    a.join()
    a.join()
    a.reconcile()
    a.join()
    described(script, group)


@scenario("ConsumerGroupHeartbeat")
def static_member(script: Script) -> None:
    group, topic = prepared(script)
    a, b = Consumer(script, group, "a", topic, instance="i1"), Consumer(script, group, "b", topic, instance="i2")
    a.join()
    a.reconcile()
    b.join()
    settled(a, b)
    described(script, group)
    twin = Consumer(script, group, "twin", topic, instance="i1")
    twin.join()
    a.leave(-2)
    described(script, group, "a is away")
    b.beat("is not disturbed")
    twin.join()
    twin.reconcile()
    described(script, group, "the twin took over")
    a.beat("the old one")
    b.beat("is not disturbed either")
    body = {"groupId": group, "memberId": a.id, "memberEpoch": 3, "instanceId": "i1"}
    a.call("the old one with its instance", body)
    a.call("with an unknown instance", {**body, "instanceId": "i9"})
    twin.leave(-1)
    settled(b)
    described(script, group, "the twin left")


@scenario("ConsumerGroupHeartbeat")
def static_member_subscribes_to_another(script: Script) -> None:
    group, one = prepared(script, stem="one")
    _, two = prepared(script, stem="two")
    a = Consumer(script, group, "a", one, instance="i1")
    a.join()
    a.reconcile()
    a.leave(-2)
    again = Consumer(script, group, "again", two, instance="i1")
    again.join()
    again.reconcile()
    described(script, group)


@scenario("ConsumerGroupHeartbeat")
def by_pattern(script: Script) -> None:
    group, _ = prepared(script, partitions=2, stem="pattern-one")
    prepared(script, partitions=1, stem="other")
    a = Consumer(script, group, "a")
    pattern = f"{script.scenario}\\.pattern-.*"
    body = {"subscribedTopicNames": None, "subscribedTopicRegex": pattern}
    a.epoch = 0
    a.call("joins", a.full(**body), record=False)
    has(a, 2)
    script.record("pattern", a.assigned)
    a.beat("subscribes to a bad pattern", subscribedTopicRegex="(")
    a.beat("subscribes to names too", subscribedTopicNames=[script.name("other")])
    has(a, 3)
    script.record("pattern", {"topicPartitions": a.assigned})
    a.beat("subscribes to no pattern", subscribedTopicRegex="")
    has(a, 1)
    script.record("pattern", {"topicPartitions": a.assigned})


@scenario("ConsumerGroupHeartbeat")
def too_many(script: Script) -> None:
    group, topic = prepared(script)
    members = [Consumer(script, group, name, topic) for name in "abcd"]
    for member in members:
        member.join()
    Consumer(script, group, "e", topic).join()
    members[0].leave()
    Consumer(script, group, "f", topic).join()


@scenario("ConsumerGroupHeartbeat")
def session_expires(script: Script) -> None:
    group, topic = prepared(script)
    change = {"name": "consumer.session.timeout.ms", "configOperation": 0, "value": str(SHORT_MS)}
    beat = {"name": "consumer.heartbeat.interval.ms", "configOperation": 0, "value": "100"}
    resource = {"resourceType": GROUP_CONFIG, "resourceName": group, "configs": [change, beat]}
    script.admin.call("IncrementalAlterConfigs", 1, {"resources": [resource]})
    a, b = Consumer(script, group, "a", topic), Consumer(script, group, "b", topic)

    def shorter() -> bool | None:
        a.epoch, a.assigned = 0, []
        a.call("joins", a.full(), record=False)
        answer = a.connection.ask(
            "ConsumerGroupHeartbeat", 1, {"groupId": group, "memberId": a.id, "memberEpoch": a.epoch}
        )
        a.connection.ask("ConsumerGroupHeartbeat", 1, {"groupId": group, "memberId": a.id, "memberEpoch": -1})
        return answer["heartbeatIntervalMs"] == 100 or None

    script.until(shorter, "the group's own interval")
    a.join()
    b.call("joins", b.full(), record=False)

    def alone_again() -> bool | None:
        a.call(
            "beats",
            {"groupId": group, "memberId": a.id, "memberEpoch": a.epoch, "topicPartitions": a.assigned},
            record=False,
        )
        answer = script.admin.ask("ConsumerGroupDescribe", 1, {"groupIds": [group]})
        return len(answer["groups"][0]["members"]) == 1 or None

    script.until(alone_again, "the silent member to be dropped")
    b.beat("was dropped")


@scenario("ConsumerGroupDescribe", (0, 1))
def describe(script: Script, version: int) -> None:
    group, topic = prepared(script)
    a = Consumer(script, group, "a", topic)
    a.join()
    a.reconcile()
    classic = stable(script, "c", group=script.name("classic"))[0]
    member = script.member()
    asked = [group, classic.group, script.name("missing")]
    member.call("ConsumerGroupDescribe", version, {"groupIds": asked}, label="three")
    body = {"groupIds": [group], "includeAuthorizedOperations": True}
    member.call("ConsumerGroupDescribe", version, body, label="operations")
    member.call("ConsumerGroupDescribe", version, {"groupIds": [""]}, label="empty")
    member.call("ConsumerGroupDescribe", version, {"groupIds": []}, label="none")
    member.call("ConsumerGroupDescribe", version, {"groupIds": [group, group]}, label="twice")
    member.call("DescribeGroups", 6, {"groups": [group]}, label="as a classic one")
    member.call("DescribeGroups", 5, {"groups": [group]}, label="as a classic one, before version 6")


@scenario("ListGroups", (0, 4, 5))
def list_both_types(script: Script, version: int) -> None:
    group, topic = prepared(script)
    a = Consumer(script, group, "a", topic)
    a.join()
    empty = Consumer(script, script.name("empty"), "b", topic)
    empty.join()
    empty.leave()
    classic = stable(script, "c", group=script.name("classic"))[0]
    mine = (group, empty.group, classic.group)

    def keep(answer: Answer) -> Any:
        return {**answer, "groups": [found for found in answer["groups"] if found["groupId"] in mine]}

    def call(label: str, **more: Any) -> None:
        script.member().call("ListGroups", version, more, label=label, keep=keep)

    call("all")
    if version >= 4:
        for states in (["Stable"], ["Empty"], ["Reconciling"], ["assigning"]):
            call(f"in {states}", statesFilter=states)
    if version >= 5:
        call("consumer", typesFilter=["Consumer"])
        call("classic", typesFilter=["classic"])


@scenario("OffsetCommit", (8, 9, 10))
def commit_in_a_consumer_group(script: Script, version: int) -> None:
    group, topic = prepared(script)
    topic_id = script.topic_id(topic)
    a = Consumer(script, group, "a", topic)
    a.join()
    a.reconcile()

    def commit(label: str, member: str, epoch: int, **more: Any) -> None:
        who = {"memberId": member, "generationIdOrMemberEpoch": epoch, **more}
        body = committing(group, topic, topic_id, version, (0, 5), **who)
        a.connection.call("OffsetCommit", version, body, label=label, retry_on=())

    commit("good", a.id, a.epoch)
    commit("an epoch to come", a.id, a.epoch + 1)
    commit("an epoch before", a.id, a.epoch - 1)
    commit("unknown", "nobody", a.epoch)
    commit("nobody", "", -1)
    commit("no epoch", a.id, -1)
    commit("unknown instance", a.id, a.epoch, groupInstanceId="i")
    if version >= 9:
        for label, member, epoch in (
            ("itself", a.id, a.epoch),
            ("another epoch", a.id, a.epoch + 1),
            ("unknown", "nobody", a.epoch),
            ("nobody", None, -1),
        ):
            body = asking(group, topic, topic_id, version, 0, memberId=member, memberEpoch=epoch)
            a.connection.call("OffsetFetch", version, body, label=f"fetch: {label}", retry_on=())
    asked = {"groupId": group, "topics": [{"name": topic, "partitions": [{"partitionIndex": 0}]}]}
    a.connection.call("OffsetDelete", 0, asked, label="delete what is subscribed to")
    a.connection.call("DeleteGroups", 2, {"groupsNames": [group]}, label="delete the group")
    a.leave()
    commit("to an empty group", "", -1)
    a.connection.call("OffsetDelete", 0, asked, label="delete of an empty group")
    a.connection.call("DeleteGroups", 2, {"groupsNames": [group]}, label="delete the empty group")
    described(script, group, "gone")
