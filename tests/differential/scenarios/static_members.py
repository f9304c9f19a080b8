"""Static members (KIP-345) of classic groups."""

from tests.differential.registry import scenario
from tests.differential.scenarios.classic import SHORT_MS, UNKNOWN, Classic, described
from tests.differential.script import Script


@scenario("JoinGroup", (5, 7, 9))
def static_alone(script: Script, version: int) -> None:
    group = script.name("group")
    a = Classic(script, group, "a", version, instance="i")
    a.join()
    a.sync([(a, "all")])
    described(script, group)
    old = a.id
    again = Classic(script, group, "a", version, instance="i")
    again.join()
    again.sync()
    again.heartbeat("the new one")
    a.heartbeat("the old one is fenced")
    a.sync([(a, "x")])
    body = a.joining(memberId=old)
    a.connection.call("JoinGroup", version, body, label="the old one joins", retry_on=())
    described(script, group, "replaced")
    a.leave()
    described(script, group, "the old one cannot leave")
    script.admin.call(
        "LeaveGroup", 5, {"groupId": group, "members": [{"memberId": "", "groupInstanceId": "i"}]}, label="by instance"
    )
    described(script, group, "left")


@scenario("JoinGroup", (5, 7, 9))
def static_follower_replaced(script: Script, version: int) -> None:
    """A static follower that returns gets its assignment, and the others are not affected."""
    group = script.name("group")
    a = Classic(script, group, "a", version, instance="i1")
    a.join()
    a.sync([(a, "all")])
    b = Classic(script, group, "b", version, instance="i2")
    waiting = b.send_join()
    a.until_rebalance()
    a.joined(a.send_join())
    b.joined(waiting)
    sync = b.send_sync()
    a.sync([(a, "one"), (b, "two")])
    sync.receive()
    again = Classic(script, group, "b", version, instance="i2")
    again.join()
    again.sync()
    a.heartbeat("undisturbed")
    b.heartbeat("fenced")
    changed = Classic(script, group, "b", version, instance="i2")
    changed.join((("range", "changed"),))
    changed.sync()
    a.heartbeat("undisturbed: the protocol is the same")
    described(script, group)


@scenario("JoinGroup", (5, 7, 9))
def static_leader_replaced(script: Script, version: int) -> None:
    group = script.name("group")
    a = Classic(script, group, "a", version, instance="i1")
    a.join()
    a.sync([(a, "all")])
    b = Classic(script, group, "b", version)
    waiting = b.send_join()
    a.until_rebalance()
    a.joined(a.send_join())
    b.joined(waiting)
    sync = b.send_sync()
    a.sync([(a, "one"), (b, "two")])
    sync.receive()
    again = Classic(script, group, "a", version, instance="i1")
    again.join()
    again.sync([(again, "one"), (b, "two")])
    b.heartbeat("undisturbed")
    described(script, group)


@scenario("JoinGroup", (5, 9))
def static_member_is_silent(script: Script, version: int) -> None:
    group = script.name("group")
    a = Classic(script, group, "a", version, instance="i1")
    a.join(sessionTimeoutMs=SHORT_MS)
    a.sync([(a, "all")])

    def empty() -> bool | None:
        answer = script.admin.ask("DescribeGroups", 5, {"groups": [group]})
        return answer["groups"][0]["groupState"] == "Empty" or None

    script.until(empty, "the session to expire")
    a.heartbeat("dropped")
    a.join()


@scenario("LeaveGroup", (3, 5))
def static_members_leave_together(script: Script, version: int) -> None:
    group = script.name("group")
    a = Classic(script, group, "a", 9, instance="i1")
    a.join()
    a.sync([(a, "all")])
    body = {"groupId": group, "members": [{"memberId": UNKNOWN, "groupInstanceId": "i1"}]}
    a.connection.call("LeaveGroup", version, body, label="instance with another member's id")
    body["members"] = [{"memberId": "", "groupInstanceId": "i1"}, {"memberId": "", "groupInstanceId": "i2"}]
    a.connection.call("LeaveGroup", version, body, label="one there, one not")
    described(script, group)
