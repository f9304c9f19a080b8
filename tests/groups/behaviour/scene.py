"""A group at work: a topic under steady load, and members that read it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.groups.behaviour.checker import Verdict
from tests.groups.behaviour.group import Group, Member
from tests.groups.behaviour.history import Event, Truth, of_kind
from tests.groups.behaviour.stage import Stage
from tests.groups.behaviour.writer import Writer, truth_of


@dataclass
class Scene:
    """The tools of a scenario.

    Attributes:
        stage: the cluster.
        group: the group, whose members share the topic's partitions by now.
        topic: the topic.
        partitions: how many it has.
        writer: writes into each of them.
    """

    stage: Stage
    group: Group
    topic: str
    partitions: int
    writer: Writer

    def __getitem__(self, name: str) -> Member:
        """The living member of that name."""
        return next(member for member in self.group.alive if member.options["settings"]["client.id"] == name)

    def group_member(self, name: str) -> Member:
        """The member of that name in histories."""
        return next(member for member in self.group.members if member.name == name)

    def join(self, *names: str, **options: Any) -> None:
        """Start members, and wait until all share the partitions."""
        for name in names:
            self.group.join(name, **options)
        self.shared()

    def shared(self) -> None:
        """Wait until each partition has one owner, and each member its share."""
        self.group.wait_shared(self.partitions)

    def flows(self, partitions: Iterable[int] | None = None, records: int = 5) -> None:
        """Wait until this many more records were finished in each of the partitions."""
        chosen = range(self.partitions) if partitions is None else partitions
        now = self.group.reached()
        ends = {(self.topic, partition): now.get((self.topic, partition), 0) + records for partition in chosen}
        self.group.wait_finished(ends)

    def truth(self, ends: dict[tuple[str, int], int]) -> Truth:
        """The log below these offsets."""
        return truth_of(self.stage.bootstrap, ends)

    def end(self, *, leave: bool = True, **options: bool) -> Verdict:
        """Stop the load, wait until all of it is read, let all members leave, and have everything judged."""
        ends = self.writer.stop()
        self.group.wait_finished(ends)
        self.shared()
        truth = self.truth(ends)
        verdict = self.group.verify(truth, **options)
        assert verdict.delivered >= sum(ends.values())
        if leave:
            self.group.leave()
            verdict = self.group.verify(truth, **options)
        if not options.get("automatic"):
            assert verdict.committed == ends
        return verdict


def rebalances(member: Member) -> int:
    """How often it joined."""
    return len(member.generations)


def joins(group: Group) -> dict[str, int]:
    """How often each living member joined."""
    return {member.name: rebalances(member) for member in group.alive}


def last(events: Iterable[Event], kind: str) -> Event:
    """The last event of a kind."""
    return list(of_kind(events, kind))[-1]
