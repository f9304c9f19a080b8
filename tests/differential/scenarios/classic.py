"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: classic groups of one to four members."""

import base64
import struct
from collections.abc import Sequence
from typing import Any

from tests.differential.registry import scenario
from tests.differential.script import Answer, Member, Script, Waiting, text

JOIN = range(10)
# Where the behaviour of a member changes: ids are asked for first from 4 on, 5 knows static members.
JOIN_STEPS = (0, 1, 3, 4, 5, 7, 9)
SESSION_MS = 20_000
LONG_MS = 60_000
SHORT_MS = 300
NOBODY = ""
UNKNOWN = "nobody-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
Protocols = Sequence[tuple[str, str]]
RANGE: Protocols = (("range", "range metadata"),)
# The versions that go with a JoinGroup's, as clients of that time spoke them.
SYNC_OF = {0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 6: 4, 7: 5, 8: 5, 9: 5}
HEARTBEAT_OF = {0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 6: 4, 7: 4, 8: 4, 9: 4}


def subscription(user_data: str, topics: Sequence[str] = ()) -> str:
    """A consumer's subscription, version 0. Kafka reads it, and never answers a join with garbage."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    data = struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", len(user_data)) + user_data.encode()
    return base64.b64encode(data).decode()


class Classic:
    """A client that is a member of a classic group, or wants to be."""

    def __init__(self, script: Script, group: str, name: str, version: int = 9, instance: str | None = None) -> None:
        self.script = script
        self.group = group
        self.name = name
        self.version = version
        self.instance = instance
        self.topics: tuple[str, ...] = ()
        # In place of a subscription made of the above, if there is one.
        self.metadata: str | None = None
        self.connection: Member = script.member(name)
        self.id = NOBODY
        self.generation = -1

    def joining(self, protocols: Protocols = RANGE, **more: Any) -> dict[str, Any]:
        return {
            "groupId": self.group,
            "sessionTimeoutMs": SESSION_MS,
            "rebalanceTimeoutMs": LONG_MS,
            "memberId": self.id,
            "groupInstanceId": self.instance,
            "protocolType": "consumer",
            "protocols": [
                {"name": name, "metadata": self.metadata or subscription(metadata, self.topics)}
                for name, metadata in protocols
            ],
            **more,
        }

    def send_join(self, protocols: Protocols = RANGE, **more: Any) -> Waiting:
        """Send JoinGroup, with a member id if the version needs one, without waiting for the answer."""
        if self.version >= 4 and self.id == NOBODY and self.instance is None:
            given = self.connection.call(
                "JoinGroup", self.version, self.joining(protocols, **more), label=f"{self.name}: an id"
            )
            self.id = given.get("memberId", NOBODY)
        return self.connection.send(
            "JoinGroup", self.version, self.joining(protocols, **more), label=f"{self.name} joins"
        )

    def joined(self, waiting: Waiting) -> Answer:
        """Read the answer to a join."""
        answer = waiting.receive()
        if answer.get("errorCode") == 0:
            self.id, self.generation = answer["memberId"], answer["generationId"]
        return answer

    def join(self, protocols: Protocols = RANGE, **more: Any) -> Answer:
        return self.joined(self.send_join(protocols, **more))

    def syncing(self, assignments: Sequence[tuple["Classic", str]] = (), **more: Any) -> dict[str, Any]:
        return {
            "groupId": self.group,
            "generationId": self.generation,
            "memberId": self.id,
            "groupInstanceId": self.instance,
            "protocolType": "consumer",
            "protocolName": "range",
            "assignments": [{"memberId": who.id, "assignment": text(what)} for who, what in assignments],
            **more,
        }

    def send_sync(self, assignments: Sequence[tuple["Classic", str]] = (), **more: Any) -> Waiting:
        body = self.syncing(assignments, **more)
        return self.connection.send("SyncGroup", SYNC_OF[self.version], body, label=f"{self.name} syncs")

    def sync(self, assignments: Sequence[tuple["Classic", str]] = (), **more: Any) -> Answer:
        return self.send_sync(assignments, **more).receive()

    def heartbeat(self, label: str = "", **more: Any) -> Answer:
        body = {
            "groupId": self.group,
            "generationId": self.generation,
            "memberId": self.id,
            "groupInstanceId": self.instance,
            **more,
        }
        label = label or f"{self.name} beats"
        return self.connection.call("Heartbeat", HEARTBEAT_OF[self.version], body, label=label, retry_on=())

    def until_rebalance(self) -> None:
        """Send heartbeats until the group rebalances, which another member's join starts a moment later."""

        def rebalances() -> bool | None:
            body = {"groupId": self.group, "generationId": self.generation, "memberId": self.id}
            body |= {"groupInstanceId": self.instance}
            answer = self.connection.ask("Heartbeat", HEARTBEAT_OF[self.version], body, retry_on=())
            return answer.get("errorCode") != 0 or None

        self.script.until(rebalances, f"a rebalance of {self.group}")
        self.heartbeat(f"{self.name} beats in a rebalance")

    def leave(self, version: int = 5, **more: Any) -> Answer:
        """Leave; above version 2 as a member of a list."""
        left = [{"memberId": self.id, "groupInstanceId": self.instance, "reason": "done"}]
        body = {"groupId": self.group, "memberId": self.id, "members": left, **more}
        return self.connection.call("LeaveGroup", version, body, label=f"{self.name} leaves")


def described(script: Script, group: str, label: str = "described") -> None:
    """Compare descriptions of the group."""
    script.admin.call("DescribeGroups", 5, {"groups": [group]}, label=label)


def stable(script: Script, *names: str, version: int = 9, group: str | None = None, **more: Any) -> list[Classic]:
    """A stable group of these members, the first of which leads."""
    group = group or script.name("group")
    members = [Classic(script, group, names[0], version)]
    members[0].join(**more)
    members[0].sync([(members[0], "all")])
    for name in names[1:]:
        member = Classic(script, group, name, version)
        waiting = member.send_join(**more)
        members[0].until_rebalance()
        again = [(other, other.send_join(**more)) for other in members]
        for other, join in [*again, (member, waiting)]:
            other.joined(join)
        members.append(member)
        syncs = [(other, other.send_sync()) for other in members[1:]]
        members[0].sync([(other, f"of {other.name}") for other in members])
        for _, sync in syncs:
            sync.receive()
    return members


@scenario("JoinGroup", JOIN)
def alone(script: Script, version: int) -> None:
    group = script.name("group")
    member = Classic(script, group, "a", version)
    member.join()
    described(script, group, "waits for the leader")
    member.heartbeat("beats before it syncs")
    member.sync([(member, "everything")])
    member.heartbeat()
    described(script, group, "stable")
    member.sync()
    member.leave()
    member.heartbeat("beats after it left")
    described(script, group, "empty")


@scenario("JoinGroup", JOIN_STEPS, reqs=("S024",))
def second_joins(script: Script, version: int) -> None:
    a, b = stable(script, "a", "b", version=version)
    described(script, a.group)
    a.heartbeat()
    b.heartbeat()
    b.leave()
    a.until_rebalance()
    a.join()
    a.sync([(a, "all again")])
    a.heartbeat()


@scenario("JoinGroup", JOIN_STEPS)
def third_joins(script: Script, version: int) -> None:
    members = stable(script, "a", "b", "c", version=version)
    described(script, members[0].group)
    for member in members:
        member.heartbeat()


@scenario("JoinGroup", (0, 5, 9))
def follower_rejoins(script: Script, version: int) -> None:
    a, b = stable(script, "a", "b", version=version)
    b.join()
    b.sync()
    a.heartbeat("the generation is the same")
    waiting = b.send_join((("range", "other metadata"),))
    a.until_rebalance()
    again = a.send_join()
    a.joined(again)
    b.joined(waiting)
    sync = b.send_sync()
    a.sync([(a, "one"), (b, "two")])
    sync.receive()


@scenario("JoinGroup", (0, 5, 9))
def leader_rejoins(script: Script, version: int) -> None:
    """The leader that joins again, with whatever metadata, has something to change."""
    a, b = stable(script, "a", "b", version=version)
    waiting = a.send_join()
    b.until_rebalance()
    b.joined(b.send_join())
    a.joined(waiting)
    a.sync([(a, "one"), (b, "two")])
    b.sync()


@scenario("JoinGroup", (0, 5, 9))
def leader_leaves(script: Script, version: int) -> None:
    a, b = stable(script, "a", "b", version=version)
    a.leave()
    b.until_rebalance()
    b.join()
    b.sync([(b, "all")])


@scenario("JoinGroup", (1, 5, 9))
def one_does_not_rejoin(script: Script, version: int) -> None:
    """A member that does not join again within the rebalance timeout is removed."""
    a, b = stable(script, "a", "b", version=version, rebalanceTimeoutMs=SHORT_MS)
    b.joined(b.send_join((("range", "changed"),), rebalanceTimeoutMs=SHORT_MS))
    a.heartbeat("dropped")
    b.sync([(b, "all")])
    described(script, b.group)


@scenario("JoinGroup", (0, 5, 9))
def one_is_silent(script: Script, version: int) -> None:
    a, b = stable(script, "a", "b", version=version, sessionTimeoutMs=SHORT_MS)
    a.until_rebalance()
    # Its heartbeats keep only the one of them that rebalances; if both went silent for too long, it is alone too.
    a.join(sessionTimeoutMs=SESSION_MS)
    b.heartbeat("dropped")


@scenario("JoinGroup", (1, 5, 9))
def sync_is_waited_for(script: Script, version: int) -> None:
    """Followers that sync wait for the leader; the leader that does not sync is dropped after the rebalance timeout."""
    a, b = stable(script, "a", "b", version=version, rebalanceTimeoutMs=SHORT_MS)
    waiting = b.send_join((("range", "changed"),), rebalanceTimeoutMs=SHORT_MS)
    a.until_rebalance()
    a.joined(a.send_join(rebalanceTimeoutMs=SHORT_MS))
    b.joined(waiting)
    sync = b.send_sync()
    sync.receive()
    a.heartbeat("was dropped")


@scenario("JoinGroup", (0, 5, 9))
def new_member_while_others_sync(script: Script, version: int) -> None:
    a, b = stable(script, "a", "b", version=version)
    waiting = b.send_join((("range", "changed"),))
    a.until_rebalance()
    a.joined(a.send_join())
    b.joined(waiting)
    sync = b.send_sync()
    c = Classic(script, a.group, "c", version)
    joining = c.send_join()
    sync.receive()
    a.sync([(a, "late"), (b, "late")])
    a.heartbeat()
    joins = [(member, member.send_join()) for member in (a, b)]
    for member, join in [*joins, (c, joining)]:
        member.joined(join)
    syncs = [member.send_sync() for member in (b, c)]
    a.sync([(a, "1"), (b, "2"), (c, "3")])
    for one in syncs:
        one.receive()
    described(script, a.group)


@scenario("JoinGroup", JOIN)
def refused(script: Script, version: int) -> None:
    member = Classic(script, script.name("group"), "a", version)

    def call(label: str, protocols: Protocols = RANGE, **more: Any) -> None:
        body = member.joining(protocols, **more)
        member.connection.call("JoinGroup", version, body, label=label, retry_on=())

    call("session too short", sessionTimeoutMs=99)
    call("session too long", sessionTimeoutMs=1_800_001)
    call("session 0", sessionTimeoutMs=0)
    call("empty group", groupId="")
    call("no protocols", ())
    call("no protocol type", protocolType="")
    call("unknown member of an unknown group", memberId=UNKNOWN)
    described(script, member.group, "not made")
    if version >= 5:
        call("instance and an unknown member", memberId=UNKNOWN, groupInstanceId="i")
        call("empty instance", groupInstanceId="")
        call("a bad instance", groupInstanceId="a b", groupId=script.name("another"))
        call("a long instance", groupInstanceId="i" * 300, groupId=script.name("a third"))


@scenario("JoinGroup", JOIN_STEPS)
def refused_by_a_stable_group(script: Script, version: int) -> None:
    (a,) = stable(script, "a", version=version)
    stranger = Classic(script, a.group, "stranger", version)

    def call(label: str, protocols: Protocols = RANGE, **more: Any) -> None:
        body = stranger.joining(protocols, **more)
        stranger.connection.call("JoinGroup", version, body, label=label, retry_on=())

    call("another protocol type", protocolType="connect")
    call("another protocol", (("roundrobin", "x"),))
    call("unknown member", memberId=UNKNOWN)
    call("no protocols", ())
    a.heartbeat("undisturbed")
    body = a.joining((("roundrobin", "x"),))
    a.connection.call("JoinGroup", version, body, label="the member itself with another protocol")


@scenario("JoinGroup", (0, 4, 9))
def too_many(script: Script, version: int) -> None:
    members = stable(script, "a", "b", "c", "d", version=version)
    fifth = Classic(script, members[0].group, "e", version)
    fifth.connection.call("JoinGroup", version, fifth.joining(), label="one too many")
    members[0].heartbeat("undisturbed")


@scenario("JoinGroup", (4, 9))
def pending_member(script: Script, version: int) -> None:
    """A client with an id that has not joined yet is waited for until its session timeout, but is no member."""
    (a,) = stable(script, "a", version=version)
    b = Classic(script, a.group, "b", version)
    b.id = b.connection.call("JoinGroup", version, b.joining(), label="an id").get("memberId", "")
    described(script, a.group)
    a.heartbeat("undisturbed")
    b.generation = a.generation
    b.heartbeat("not a member yet")
    b.sync()
    b.leave()
    waiting = b.connection.send("JoinGroup", version, b.joining(), label="the id is gone")
    waiting.receive()


@scenario("JoinGroup", (4, 9))
def pending_member_is_waited_for(script: Script, version: int) -> None:
    """A rebalance waits for clients that got an id, until their session timeout."""
    group = script.name("group")
    b = Classic(script, group, "b", version)
    b.connection.call("JoinGroup", version, b.joining(sessionTimeoutMs=SHORT_MS), label="an id")
    a = Classic(script, group, "a", version)
    a.join()
    a.sync([(a, "all")])
    described(script, group)


@scenario("JoinGroup", JOIN_STEPS)
def protocol_of_all(script: Script, version: int) -> None:
    """Each member votes for its first protocol among those that all have."""
    group = script.name("group")
    a, b = Classic(script, group, "a", version), Classic(script, group, "b", version)
    both = (("sticky", "s"), ("range", "r"), ("roundrobin", "rr"))
    a.join(both)
    a.sync([(a, "all")], protocolName="sticky")
    waiting = b.send_join((("roundrobin", "rr"), ("range", "r")))
    a.until_rebalance()
    a.joined(a.send_join(both))
    b.joined(waiting)
    described(script, group, "waits for the leader")
    sync = b.send_sync()
    a.sync([(a, "one"), (b, "two")])
    sync.receive()
    described(script, group)


@scenario("SyncGroup", range(6))
def sync_refused(script: Script, version: int) -> None:
    (a,) = stable(script, "a")

    def call(label: str, **more: Any) -> None:
        body = a.syncing([(a, "x")], **more)
        a.connection.call("SyncGroup", version, body, label=label, retry_on=())

    call("again", protocolName="range")
    call("generation before", generationId=a.generation - 1)
    call("generation to come", generationId=a.generation + 1)
    call("unknown member", memberId=UNKNOWN)
    call("no member", memberId="")
    call("unknown group", groupId=script.name("missing"))
    call("empty group", groupId="")
    call("another protocol", protocolName="sticky")
    call("another protocol type", protocolType="connect")
    call("no protocol", protocolName=None, protocolType=None)
    call("unknown instance", groupInstanceId="nobody")
    a.heartbeat("undisturbed")


@scenario("SyncGroup", range(6))
def assignment_for_a_stranger(script: Script, version: int) -> None:
    group = script.name("group")
    a = Classic(script, group, "a")
    a.join()
    body = a.syncing([(a, "mine")])
    body["assignments"].append({"memberId": UNKNOWN, "assignment": text("not his")})
    a.connection.call("SyncGroup", version, body)
    described(script, group)


@scenario("SyncGroup", (0, 3, 5))
def leader_assigns_nothing(script: Script, version: int) -> None:
    group = script.name("group")
    a = Classic(script, group, "a")
    a.join()
    a.connection.call("SyncGroup", version, a.syncing())
    a.heartbeat()
    described(script, group)


@scenario("Heartbeat", range(5))
def heartbeat_refused(script: Script, version: int) -> None:
    (a,) = stable(script, "a")

    def call(label: str, **more: Any) -> None:
        body = {"groupId": a.group, "generationId": a.generation, "memberId": a.id, "groupInstanceId": None, **more}
        a.connection.call("Heartbeat", version, body, label=label, retry_on=())

    call("good")
    call("generation before", generationId=a.generation - 1)
    call("generation to come", generationId=a.generation + 1)
    call("generation -1", generationId=-1)
    call("unknown member", memberId=UNKNOWN)
    call("no member", memberId="")
    call("unknown group", groupId=script.name("missing"))
    call("empty group", groupId="")
    call("unknown instance", groupInstanceId="nobody")


@scenario("LeaveGroup", range(6))
def leave_refused(script: Script, version: int) -> None:
    a, b = stable(script, "a", "b")

    def call(label: str, *members: tuple[str, str | None], group: str = a.group) -> None:
        left = [{"memberId": who, "groupInstanceId": instance} for who, instance in members]
        body = {"groupId": group, "memberId": members[0][0] if members else "", "members": left}
        a.connection.call("LeaveGroup", version, body, label=label, retry_on=())

    call("unknown member", (UNKNOWN, None))
    call("no member", ("", None))
    call("unknown group", (a.id, None), group=script.name("missing"))
    call("empty group", (a.id, None), group="")
    if version >= 3:
        call("nobody")
        call("unknown instance", ("", "nobody"))
        call("member with an unknown instance", (a.id, "nobody"))
        call("one unknown, one good", (UNKNOWN, None), (b.id, None))
        call("twice", (a.id, None), (a.id, None))
    else:
        call("good", (b.id, None))
        call("again", (b.id, None))
    described(script, a.group, "after")


@scenario("JoinGroup")
def client_ids(script: Script) -> None:
    """A member's id begins with its client id, or with its instance's."""
    for client_id in ("", "a b", "ä", None):
        member = Classic(script, script.name(f"group-{client_id!r}"), "x", 3)
        member.connection = script.member(client_id)
        member.join()
    static = Classic(script, script.name("static"), "x", 9, instance="inst")
    static.join()


@scenario("JoinGroup")
def generation_goes_on(script: Script) -> None:
    """A group that was empty does not start again."""
    (a,) = stable(script, "a")
    a.leave()
    again = Classic(script, a.group, "a")
    again.join()
    again.sync([(again, "all")])
    described(script, a.group)
