"""The events of a group membership, for logs, metrics and alarms: `Consumer(..., on_event=hook)`.

The hook is called with objects of these classes, in the order of the events, in the user's own thread, inside calls
that wait. `match` tells the classes apart:

    def hook(event: events.GroupEvent) -> None:
        match event:
            case events.Synced(rebalance=seconds):
                rebalances.observe(seconds)
            case events.Lost(partitions=partitions, reason=reason):
                alarm(f"lost {len(partitions)} partitions: {reason}")
"""

from dataclasses import dataclass

from monedula.types.partitions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """The base class of all events.

    Attributes:
        time: when the event happened, in seconds since 1970.
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
    """With `group.protocol=auto`: the broker does not support KIP-848, so the consumer uses the classic protocol.

    Attributes:
        reason: the broker's error.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFound(GroupEvent):
    """The group's coordinator was found.

    Attributes:
        node_id: the coordinator's node id.
    """

    node_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLost(GroupEvent):
    """The coordinator is no longer known; the client looks for the new one with FindCoordinator.

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
    """The member joined a new generation; under `group.protocol=consumer`, the group.

    Attributes:
        generation: the generation; under `group.protocol=consumer` the member epoch, as in every event.
        leader: whether this member is the group leader, which computes the assignment.
        assignor: the name of the assignor that the coordinator chose.
        seconds: how long JoinGroup took.
    """

    generation: int
    leader: bool
    assignor: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced(GroupEvent):
    """The member received its assignment: the rebalance is over for this member.

    Attributes:
        generation: the generation; under `group.protocol=consumer` the member epoch.
        seconds: how long SyncGroup took.
        rebalance: how long the whole rebalance took in seconds, from the moment this member learnt of it.
        owned: how many partitions the member owns now, without those to be revoked.
        gained: how many partitions are newly assigned.
        revoked: how many partitions are to be revoked.
    """

    generation: int
    seconds: float
    rebalance: float
    owned: int
    gained: int
    revoked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(GroupEvent):
    """A heartbeat was answered without an error.

    Attributes:
        seconds: the time from the request to the response.
    """

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(GroupEvent):
    """An offset commit ended.

    Attributes:
        seconds: how long it took, with all retries.
        partitions: the number of partitions whose offset was committed.
        failed: the number of partitions whose offset was not committed.
    """

    seconds: float
    partitions: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(GroupEvent):
    """A request failed and is retried; no call raises an error for it.

    Attributes:
        api: the name of the request.
        reason: the error.
    """

    api: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceWanted(GroupEvent):
    """Partitions are to be revoked, as soon as the records returned of them are finished.

    Attributes:
        partitions: the partitions.
    """

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(GroupEvent):
    """Partitions were lost: other members may own them already.

    Attributes:
        partitions: the partitions.
        reason: why.
    """

    partitions: frozenset[TopicPartition]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved(GroupEvent):
    """With the assignor `deferred`: members were lost, and their partitions are reserved for their return.

    Attributes:
        partitions: the reserved partitions; no member reads them meanwhile.
        members: how many members the reservation waits for.
        names: the `group.instance.id`s or member ids of these members; empty if they exceed 1 KiB in all.
        seconds: how long the reservation lasts, from the time of the event.
    """

    partitions: frozenset[TopicPartition]
    members: int
    names: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(GroupEvent):
    """Partitions are no longer reserved: a lost member came back for them, or other members have them.

    Attributes:
        partitions: the partitions.
    """

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired(GroupEvent):
    """The coordinator has not answered for nearly `session.timeout.ms`: the consumer returns no records until it does.

    Other members may own the partitions already.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed(GroupEvent):
    """The coordinator answered again: the consumer returns records again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTopic(GroupEvent):
    """A subscribed topic does not exist: the name may be mistyped, or the topic has not been created yet.

    It comes once for each topic, after several answers in a row that do not know it, by default after about two s.
    The topic is asked for again with `retry.backoff.ms`, up to `retry.backoff.max.ms`, and read as soon as it exists.

    Attributes:
        topic: the topic.
        nearest: an existing topic with nearly the same name; `None` if there is none.
    """

    topic: str
    nearest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFound(GroupEvent):
    """A topic that was reported with `UnknownTopic` exists now.

    Attributes:
        topic: the topic.
    """

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(GroupEvent):
    """The member left the group.

    Attributes:
        reason: why.
    """

    reason: str


def event_of(time: float, kind: str, fields: dict[str, object]) -> GroupEvent:
    """The event object for an event of the core.

    Args:
        time: when it happened, in seconds since 1970.
        kind: the name of the event's class.
        fields: its attributes; partitions as a list of plain tuples.
    """
    if "partitions" in fields and isinstance(fields["partitions"], list):
        fields["partitions"] = frozenset(TopicPartition(*partition) for partition in fields["partitions"])
    made: GroupEvent = globals()[kind](time=time, **fields)
    return made
