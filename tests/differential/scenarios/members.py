"""Clients that are members of a consumer group (KIP-848), and helpers for scenarios with them."""

from itertools import count
from typing import Any

from tests.differential.script import SETTLING, Answer, Member, Script

TIMEOUT_MS = 30_000
GROUP_PARTITIONS = 4


class Consumer:
    """A client that is a member of a consumer group, or wants to be.

    Its id is made of its name, so that assignors, which sort by ids, have the same order on both brokers.
    """

    def __init__(
        self,
        script: Script,
        group: str,
        name: str,
        *topics: str,
        version: int = 1,
        instance: str | None = None,
        rack: str | None = None,
    ) -> None:
        self.script = script
        self.group = group
        self.name = name
        self.topics = topics
        self.version = version
        self.instance = instance
        self.rack = rack
        self.connection: Member = script.member(name)
        self.id = f"member-{name}" if version else ""
        self.epoch = 0
        self.assigned: list[dict[str, Any]] = []

    def full(self, **more: Any) -> dict[str, Any]:
        """A request with all fields."""
        return {
            "groupId": self.group,
            "memberId": self.id,
            "memberEpoch": self.epoch,
            "instanceId": self.instance,
            "rackId": self.rack,
            "rebalanceTimeoutMs": TIMEOUT_MS,
            "subscribedTopicNames": list(self.topics),
            "topicPartitions": self.assigned,
            **more,
        }

    def call(self, label: str, body: dict[str, Any], *, record: bool = True) -> Answer:
        send = self.connection.call if record else self.connection.ask
        answer = send("ConsumerGroupHeartbeat", self.version, body, label=f"{self.name} {label}", retry_on=SETTLING[3:])
        if answer.get("errorCode") == 0:
            self.id, self.epoch = answer["memberId"], answer["memberEpoch"]
            if answer.get("assignment") is not None:
                self.assigned = answer["assignment"]["topicPartitions"]
        return answer

    def join(self, **more: Any) -> Answer:
        self.epoch, self.assigned = 0, []
        return self.call("joins", self.full(**more))

    def beat(self, label: str = "beats", **more: Any) -> Answer:
        """Send a heartbeat without changes."""
        return self.call(label, {"groupId": self.group, "memberId": self.id, "memberEpoch": self.epoch, **more})

    def reconcile(self, label: str = "owns what it was told to") -> Answer:
        return self.beat(label, topicPartitions=self.assigned)

    def leave(self, epoch: int = -1) -> Answer:
        body = {"groupId": self.group, "memberId": self.id, "memberEpoch": epoch, "instanceId": self.instance}
        connection = self.connection
        return connection.call("ConsumerGroupHeartbeat", self.version, body, label=f"{self.name} leaves with {epoch}")


def described(script: Script, group: str, label: str = "described", version: int = 1) -> None:
    script.admin.call("ConsumerGroupDescribe", version, {"groupIds": [group]}, label=label)


def partition_of(group: str) -> int:
    """The partition of `__consumer_offsets`: Java's hash of the name without its sign."""
    value = 0
    for letter in group.encode("utf-16-be")[1::2]:
        value = (value * 31 + letter) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return abs(signed) % GROUP_PARTITIONS


def prepared(script: Script, partitions: int = 4, stem: str = "topic", group: str = "group") -> tuple[str, str]:
    """A group's name, and a topic that its coordinator knows, which learns of topics a moment after the brokers."""
    topic = script.topic(stem, partitions)
    name = script.name(group)
    tries = (f"{name}.probe-{stem}-{number}" for number in count())
    probe = Consumer(
        script, next(probe for probe in tries if partition_of(probe) == partition_of(name)), "probe", topic
    )

    def known() -> bool | None:
        probe.epoch, probe.assigned = 0, []
        probe.call("probes", probe.full(), record=False)
        probe.connection.ask(
            "ConsumerGroupHeartbeat", 1, {"groupId": probe.group, "memberId": probe.id, "memberEpoch": -1}
        )
        return sum(len(assigned["partitions"]) for assigned in probe.assigned) == partitions or None

    script.until(known, f"the coordinator of {name} to know {topic}")
    script.admin.ask("DeleteGroups", 2, {"groupsNames": [probe.group]})
    return name, topic


def settled(*members: Consumer) -> None:
    """Let the members follow their targets until no target changes; nothing of it is compared."""

    def quiet() -> bool | None:
        before = [(member.epoch, member.assigned) for member in members]
        for member in members:
            body = {"groupId": member.group, "memberId": member.id, "memberEpoch": member.epoch}
            member.call("settles", {**body, "topicPartitions": member.assigned}, record=False)
        after = [(member.epoch, member.assigned) for member in members]
        return (before == after and len({epoch for epoch, _ in after}) == 1) or None

    members[0].script.until(quiet, f"{members[0].group} to settle")


def has(member: Consumer, partitions: int) -> None:
    """Let the member report its partitions until its target has this many; nothing of it is compared."""

    def seen() -> bool | None:
        body = {"groupId": member.group, "memberId": member.id, "memberEpoch": member.epoch}
        member.call("looks", {**body, "topicPartitions": member.assigned}, record=False)
        return sum(len(assigned["partitions"]) for assigned in member.assigned) == partitions or None

    member.script.until(seen, f"{partitions} partitions")
