"""What happens to a member of a group, for logs, metrics and alarms: `Consumer(..., on_event=hook)`.

The hook gets objects of these classes, in the order in which things happened, in the user's own thread: inside of calls
that wait. `match` tells them apart:

    def hook(event: events.GroupEvent) -> None:
        match event:
            case events.Synced(rebalance=seconds):
                rebalances.observe(seconds)
            case events.Lost(partitions=partitions, reason=reason):
                alarm(f"lost {len(partitions)} partitions: {reason}")
"""

from dataclasses import dataclass

from monedula.partitions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """Anything that happens.

    Attributes:
        time: when, in seconds since 1970.
    """

    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged(GroupEvent):
    """The member's state changed; docs/groups.md lists the states.

    Attributes:
        before: the state that ended.
        after: the state that began.
    """

    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FellBack(GroupEvent):
    """`group.protocol=auto`, and the broker does not offer the protocol of KIP-848: the classic one goes on.

    Attributes:
        reason: what the broker said.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFound(GroupEvent):
    """The group's coordinator is known.

    Attributes:
        node_id: its node id.
    """

    node_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLost(GroupEvent):
    """The coordinator is not known any more; it is looked for.

    Attributes:
        reason: why.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStarted(GroupEvent):
    """A rebalance began for this member.

    Attributes:
        reason: why.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(GroupEvent):
    """The member is part of a new generation; under `group.protocol=consumer`, of the group.

    Attributes:
        generation: its number; under `group.protocol=consumer` the member's epoch, as in every event.
        leader: whether this member computes the assignment.
        assignor: the name of the assignor that all agreed on.
        seconds: how long JoinGroup took.
    """

    generation: int
    leader: bool
    assignor: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced(GroupEvent):
    """The assignment is there: the rebalance is over for this member.

    Attributes:
        generation: the generation's number.
        seconds: how long SyncGroup took.
        rebalance: how long the whole rebalance took, from its notice on, in seconds.
        owned: how many partitions are owned now, those to be revoked left out.
        gained: how many were gained.
        revoked: how many are to be revoked.
    """

    generation: int
    seconds: float
    rebalance: float
    owned: int
    gained: int
    revoked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(GroupEvent):
    """A heartbeat was acknowledged.

    Attributes:
        seconds: how long that took.
    """

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(GroupEvent):
    """A commit was answered.

    Attributes:
        seconds: how long it took, with its repetitions.
        partitions: of how many partitions the offset was committed.
        failed: of how many it was not.
    """

    seconds: float
    partitions: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(GroupEvent):
    """A request failed, and is made again: nobody else is told.

    Attributes:
        api: name of the request.
        reason: what went wrong.
    """

    api: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceWanted(GroupEvent):
    """Partitions are to be given up, as soon as what was handed out of them is finished.

    Attributes:
        partitions: the partitions.
    """

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(GroupEvent):
    """Partitions were lost: others may own them already.

    Attributes:
        partitions: the partitions.
        reason: why.
    """

    partitions: frozenset[TopicPartition]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved(GroupEvent):
    """With the assignor `deferred`: members were lost, and what they had is kept for their return.

    Attributes:
        partitions: the partitions; nobody reads them meanwhile.
        members: how many members are waited for.
        names: who they are, static ids or member ids; empty in groups with too many names to tell.
        seconds: for how long, from then on.
    """

    partitions: frozenset[TopicPartition]
    members: int
    names: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(GroupEvent):
    """Partitions are kept for nobody any more: a member came back for them, or others have them.

    Attributes:
        partitions: the partitions.
    """

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired(GroupEvent):
    """The coordinator was not heard from for so long that others may own the partitions: nothing is handed out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed(GroupEvent):
    """The coordinator was heard from again: records are handed out again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(GroupEvent):
    """The group was left.

    Attributes:
        reason: why.
    """

    reason: str


def event_of(time: float, kind: str, fields: dict[str, object]) -> GroupEvent:
    """The event that the core tells of.

    Args:
        time: when it happened.
        kind: the name of its class.
        fields: its attributes; partitions as plain tuples.
    """
    if "partitions" in fields and isinstance(fields["partitions"], list):
        fields["partitions"] = frozenset(TopicPartition(*partition) for partition in fields["partitions"])
    made: GroupEvent = globals()[kind](time=time, **fields)
    return made
