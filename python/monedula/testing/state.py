"""The state of an embedded broker as dataclasses: groups, members, connections, log lines."""

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group, as ListGroups returns it.

    Attributes:
        group: the group id.
        state: the state, such as `"Stable"`.
        type: `"classic"`, `"consumer"` (KIP-848) or `"share"` (KIP-932).
        protocol_type: the protocol type of its members, `"consumer"` for consumers.
        coordinator: the id of its coordinator node.
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
        member_id: the member id.
        instance_id: the `group.instance.id` of a static member, otherwise `None`.
        client_id: the client id with which it joined.
        client_host: the address from which it joined.
        assignment: the assigned partitions, by topic; `None` if the broker cannot decode the assignment.
        target_assignment: the target assignment, by topic (KIP-848).
        member_epoch: the member epoch (KIP-848, KIP-932), otherwise `None`.
        subscribed: the topics to which it subscribes (KIP-848, KIP-932).
        subscribed_regex: the pattern to which it subscribes (KIP-848).
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
    """A group with its members and offsets, as DescribeGroups, ConsumerGroupDescribe and ShareGroupDescribe return it.

    Attributes:
        group: the group id.
        state: the state, such as `"Stable"`.
        type: `"classic"`, `"consumer"` (KIP-848) or `"share"` (KIP-932).
        coordinator: the id of its coordinator node.
        members: the members.
        offsets: the committed offsets, by topic and partition; of a share group its stored start offsets, -1 before the
            first acknowledgement.
        protocol: the assignor in use.
        group_epoch: the group epoch (KIP-848, KIP-932), otherwise `None`.
        assignment_epoch: the group epoch of the target assignment (KIP-848, KIP-932).
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
        node: the id of the node.
        host: the client's address.
        client_id: the client id of the last request.
        requests: the number of requests that the client has sent.
        waits_for: the API of the request that is not answered yet; `None` if there is none.
        principal: who the client is, such as `"User:anna"`; `"User:ANONYMOUS"` if it has not logged in.
    """

    node: int
    host: str
    client_id: str
    requests: int
    waits_for: str | None
    principal: str = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class PushedMetrics:
    """Metrics that a client pushed (KIP-714).

    Attributes:
        node: the id of the node that took them.
        client_id: the client id of the request.
        client_instance_id: the id that the broker gave the client.
        subscription_id: the subscription for which they were pushed.
        terminating: whether it was the client's last push.
        compression: the codec of the request, such as `"zstd"`.
        metrics: the metrics, decompressed: `MetricsData` of OpenTelemetry's protocol 1, as protobuf.
    """

    node: int
    client_id: str
    client_instance_id: str
    subscription_id: int
    terminating: bool
    compression: str
    metrics: bytes


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request of a client, and what became of it.

    Attributes:
        node: the id of the node that received it.
        connection: the number of the connection.
        client_id: the client id.
        api: Kafka's name of the API.
        version: the version of the API.
        correlation_id: the correlation id.
        asked_at_ms: when it came, in milliseconds since the Unix epoch by the broker's clock.
        answered_at_ms: when it was answered, or the connection ended; `None` if it waits.
        bytes: the size of the response; `None` if there is none.
        errors: the errors in the response by Kafka's names, each with how often it is there. Those of a response of
            more than 16 KiB, and of one that a fault damaged, are not known.
        faults: the ids of the faults that took effect on the request or the response.
        ended: why the connection ended, if it did.
    """

    node: int
    connection: int
    client_id: str
    api: str
    version: int
    correlation_id: int
    asked_at_ms: int
    answered_at_ms: int | None
    bytes: int | None
    errors: Mapping[str, int]
    faults: tuple[int, ...]
    ended: str | None

    def __str__(self) -> str:
        request = f"node {self.node}: {self.api} v{self.version} of {self.client_id!r}, correlation id"
        by = "".join(f", fault {fault}" for fault in self.faults)
        if self.answered_at_ms is None:
            return f"{request} {self.correlation_id}: not answered{by}"
        errors = "".join(f", {name if count == 1 else f'{count} {name}'}" for name, count in self.errors.items())
        answer = self.ended or ("no response" if self.bytes is None else f"{self.bytes} bytes{errors}")
        return f"{request} {self.correlation_id}: {answer}, after {self.answered_at_ms - self.asked_at_ms} ms{by}"


class LogLine(NamedTuple):
    """A line of the broker's log: seconds since the Unix epoch, level as `logging` has it, text."""

    time: float
    level: int
    message: str


def listing_of(group: Mapping[str, Any]) -> GroupListing:
    """The `GroupListing` for an entry of the command `groups`."""
    return _made(GroupListing, group, type=group["type"].lower())


def exchange_of(exchange: Mapping[str, Any]) -> Exchange:
    """The `Exchange` for an entry of the command `requests`."""
    return _made(Exchange, exchange, faults=tuple(exchange["faults"]))


def pushed_of(push: Mapping[str, Any]) -> PushedMetrics:
    """The `PushedMetrics` for an entry of the command `client_metrics`."""
    return _made(PushedMetrics, push, metrics=b64decode(push["metrics"]))


def group_of(group: Mapping[str, Any]) -> Group:
    """The `Group` for the result of the command `group`."""
    topics = group["offsets"].items()
    return _made(
        Group,
        group,
        members=tuple(map(_member_of, group["members"])),
        offsets={(topic, int(index)): found["offset"] for topic, known in topics for index, found in known.items()},
        protocol=group.get("protocol") or group.get("assignor") or "",
    )


def _member_of(member: Mapping[str, Any]) -> Member:
    subscribed = tuple(member.get("subscribed", ()))
    return _made(Member, {"instance_id": None, **member}, subscribed=subscribed)  # none is static in a share group


def connection_of(connection: Mapping[str, Any]) -> Connection:
    """The `Connection` for an entry of the command `connections`."""
    return _made(Connection, connection)


def _made(kind: Callable[..., T], given: Mapping[str, Any], **converted: Any) -> T:
    """A dataclass of what a command answers, without what it has no field for."""
    known = {each.name: given[each.name] for each in fields(cast("Any", kind)) if each.name in given}
    return kind(**{**known, **converted})
