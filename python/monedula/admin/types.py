"""What `Admin` is given and what it answers: frozen dataclasses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from monedula.partitions import TopicPartition

ResourceType = Literal["topic", "broker", "group", "broker_logger", "client_metrics"]

OffsetSpec = Literal["earliest", "latest", "max_timestamp"] | datetime | int
"""Which offset of a partition: an end of its log, that of its youngest record, or the first record of a time (an aware
datetime, or milliseconds since 1970)."""


class ConfigResource(NamedTuple):
    """Whose settings. A plain tuple does as well, and a text stands for a topic."""

    type: ResourceType
    name: str
    """A broker's is its id; empty stands for all brokers."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int | None = None
    """How many; the broker's `num.partitions` if left out."""
    replication_factor: int | None = None
    """Replicas of each; the broker's `default.replication.factor` if left out."""
    configs: Mapping[str, object] = field(default_factory=dict)
    """Settings other than the broker's, such as `{"retention.ms": 3_600_000}`."""
    assignments: Mapping[int, Sequence[int]] | None = None
    """In place of both numbers: the brokers of each partition, the preferred leader first."""


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """More partitions for a topic."""

    total: int
    """How many it is to have, those that are there included."""
    assignments: Sequence[Sequence[int]] | None = None
    """The brokers of each new one, the preferred leader first; Kafka chooses if left out."""


@dataclass(frozen=True, slots=True)
class Append:
    """For `alter_configs`: add to a setting that is a list."""

    value: str


@dataclass(frozen=True, slots=True)
class Subtract:
    """For `alter_configs`: take from a setting that is a list."""

    value: str


@dataclass(frozen=True, slots=True)
class Node:
    """A broker."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster."""

    cluster_id: str | None
    controller: int | None
    """The broker that takes changes; under KRaft any living one."""
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or would be with `validate_only`."""

    name: str
    topic_id: str | None
    """`None` where the broker is older than topic ids (2.8), or nothing was created."""
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str | None]
    """All of its settings, where the broker tells."""


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in a list."""

    name: str
    topic_id: str | None
    internal: bool
    """Whether it is one of Kafka's own."""
    partitions: int
    replication_factor: int
    """That of the first partition."""


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition of a topic."""

    partition: int
    leader: int | None
    """`None` while nobody leads it."""
    leader_epoch: int
    """-1 unknown."""
    replicas: tuple[int, ...]
    """Brokers that hold it, the preferred leader first."""
    isr: tuple[int, ...]
    """Those in sync with the leader."""
    offline: tuple[int, ...]
    """Those that are not reached."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic."""

    name: str
    topic_id: str | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    """By number."""


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One of the places that a setting could be from; the first that is set counts."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting of a topic, broker or group."""

    name: str
    value: str | None
    """`None` for a secret."""
    source: str
    """Where the value is from: `"topic"`, `"broker"` or `"all brokers"` (set while they run), `"broker file"`,
    `"default"`, `"group"`, `"broker_logger"`, `"client_metrics"` or `"unknown"`."""
    is_default: bool
    """Whether nobody set it for this resource."""
    is_sensitive: bool
    is_read_only: bool
    type: str
    """`"boolean"`, `"string"`, `"int"`, `"short"`, `"long"`, `"double"`, `"list"`, `"class"`, `"password"` or
    `"unknown"`."""
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list."""

    group_id: str
    state: str
    """Such as `"Stable"` or `"Empty"`; empty where the broker is older than 2.6."""
    type: str
    """`"classic"` or `"consumer"` (KIP-848), or another of the broker's; empty where it is older than 3.8."""
    protocol_type: str
    """What kind of clients it has, such as `"consumer"`; empty where it only keeps offsets."""
    coordinator: int
    """The broker that told of it."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    epoch: int | None
    """Of the member, in groups of type `"consumer"`."""
    topics: tuple[str, ...]
    """What it subscribes to by name."""
    assignment: tuple[TopicPartition, ...]
    """What it owns; empty while the group rebalances."""
    target_assignment: tuple[TopicPartition, ...] | None
    """What it is to own in the end, in groups of type `"consumer"`."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group."""

    group_id: str
    state: str
    """Such as `"Stable"`, `"Empty"`, `"PreparingRebalance"`, `"Reconciling"`."""
    type: Literal["classic", "consumer"]
    protocol_type: str
    assignor: str
    """Which one is in use; empty where none is."""
    coordinator: Node | None
    epoch: int | None
    """Of the group, in groups of type `"consumer"`."""
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is behind in a partition."""

    partition: TopicPartition
    committed: int | None
    """The offset of the next record to read; `None` where nothing is committed."""
    log_start_offset: int
    log_end_offset: int
    lag: int | None
    """Records from `committed` to the end; `None` where nothing is committed."""
    member_id: str | None
    """Who owns it, if anybody does."""
    client_id: str | None
    host: str | None


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where a reset takes a group in a partition."""

    partition: TopicPartition
    before: int | None
    """What was committed, `None` for nothing."""
    after: int


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset of a partition."""

    offset: int | None
    """`None` where no record is that young."""
    timestamp: int | None
    """Of its record in milliseconds since 1970, where it was looked up by one."""
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """A replica of a partition on a broker's disk."""

    size: int
    """Bytes of its segments."""
    offset_lag: int
    """How many records it lacks."""
    is_future: bool
    """Whether it is about to replace the one in another directory of the broker."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """A directory in which a broker keeps partitions."""

    path: str
    error: str | None
    """Kafka's name of why it cannot be read, such as `"KAFKA_STORAGE_ERROR"`; `None` if it can."""
    total_bytes: int | None
    """The size of its volume; `None` where the broker does not tell (before Kafka 3.3)."""
    usable_bytes: int | None
    """How much of that can still be used; likewise."""
    replicas: dict[TopicPartition, LogDirReplica]

    @property
    def size(self) -> int:
        """Bytes of all partitions in it."""
        return sum(replica.size for replica in self.replicas.values())


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A move of a partition that is under way."""

    replicas: tuple[int, ...]
    """Brokers that hold it now."""
    adding: tuple[int, ...]
    """Those of them that are new."""
    removing: tuple[int, ...]
    """Those of them that are to go."""
