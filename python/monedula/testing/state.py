"""What a broker tells of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as Kafka's ListGroups shows it.

    Attributes:
        group: its id.
        state: such as `"Stable"`.
        type: `"classic"` or `"consumer"`.
        protocol_type: what kind of clients it has, `"consumer"` for consumers.
        coordinator: the node that coordinates it.
    """

    group: str
    state: str
    type: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        member_id: its id.
        instance_id: its `group.instance.id`, if it is a static one.
        client_id: the client id that it joined with.
        client_host: the address that it joined from.
        assignment: the partitions that it has, by topic; `None` where that cannot be read.
        target_assignment: the partitions that it is to have (KIP-848).
        member_epoch: its epoch (KIP-848), otherwise `None`.
        subscribed: the topics it subscribes to (KIP-848).
        subscribed_regex: the pattern it subscribes to (KIP-848).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: dict[str, list[int]] | None
    target_assignment: dict[str, list[int]] | None = None
    member_epoch: int | None = None
    subscribed: tuple[str, ...] = ()
    subscribed_regex: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A group, as Kafka's describing APIs show it.

    Attributes:
        group: its id.
        state: such as `"Stable"`.
        type: `"classic"` or `"consumer"` (KIP-848).
        coordinator: the node that coordinates it.
        members: its members.
        offsets: its committed offsets, by topic and partition.
        protocol: the assignor in use.
        group_epoch: its epoch (KIP-848), otherwise `None`.
        assignment_epoch: the group epoch of the target assignment (KIP-848).
    """

    group: str
    state: str
    type: str
    coordinator: int
    members: tuple[Member, ...] = ()
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    protocol: str = ""
    group_epoch: int | None = None
    assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    """A client's connection.

    Attributes:
        node: the node that it is connected to.
        host: the client's address.
        client_id: the client id of its last request.
        requests: how many requests it has sent.
        waits_for: the API of the request that is not answered yet, if there is one.
    """

    node: int
    host: str
    client_id: str
    requests: int
    waits_for: str | None


class LogLine(NamedTuple):
    """A line of the broker's log: seconds since the Unix epoch, level as `logging` has it, text."""

    time: float
    level: int
    message: str


def listing_of(group: Mapping[str, Any]) -> GroupListing:
    """From what the control port says."""
    return GroupListing(
        group["group"], group["state"], group["type"].lower(), group["protocol_type"], group["coordinator"]
    )


def group_of(group: Mapping[str, Any]) -> Group:
    """From what the control port says."""
    topics = group["offsets"].items()
    offsets = {
        (topic, int(index)): found["offset"] for topic, partitions in topics for index, found in partitions.items()
    }
    return Group(
        group=group["group"],
        state=group["state"],
        type=group["type"],
        coordinator=group["coordinator"],
        members=tuple(_member_of(member) for member in group["members"]),
        offsets=offsets,
        protocol=group.get("protocol") or group.get("assignor") or "",
        group_epoch=group.get("group_epoch"),
        assignment_epoch=group.get("assignment_epoch"),
    )


def connection_of(connection: Mapping[str, Any]) -> Connection:
    """From what the control port says."""
    return Connection(
        connection["node"],
        connection["host"],
        connection["client_id"],
        connection["requests"],
        connection["waits_for"],
    )


def _member_of(member: Mapping[str, Any]) -> Member:
    return Member(
        member_id=member["member_id"],
        instance_id=member["instance_id"],
        client_id=member["client_id"],
        client_host=member["client_host"],
        assignment=member["assignment"],
        target_assignment=member.get("target_assignment"),
        member_epoch=member.get("member_epoch"),
        subscribed=tuple(member.get("subscribed", ())),
        subscribed_regex=member.get("subscribed_regex"),
    )
