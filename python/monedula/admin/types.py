"""The types of `Admin`'s arguments and results: frozen dataclasses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from monedula._migration_hints import tells
from monedula.types.partitions import TopicPartition

ResourceType = Literal["topic", "broker", "group", "broker_logger", "client_metrics"]

OffsetSpec = str | datetime | int
"""An offset of a partition to look up: an end of its log, its record with the latest timestamp, or its first record at
or after a time (an aware datetime, or milliseconds since 1970)."""


class ConfigResource(NamedTuple):
    """A resource that has settings. Every function also takes a plain tuple, and a str as the name of a topic."""

    type: ResourceType
    name: str
    """The name; for a broker its id, or empty for all brokers."""


@tells
@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Attributes:
        name: its name.
        partitions: the number of partitions; the broker's `num.partitions` if left out.
        replication_factor: the number of replicas of each partition; the broker's `default.replication.factor` if left
            out.
        configs: settings that differ from the broker's defaults, such as `{"retention.ms": 3_600_000}`.
        assignments: in place of both numbers: for each partition its broker ids, the preferred leader first.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, object] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """More partitions for a topic.

    Attributes:
        total: the total number of partitions, including the existing ones.
        assignments: the broker ids of each new partition, the preferred leader first; Kafka chooses them if left out.
    """

    total: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """An element to add to a setting that is a list, for `alter_configs`."""

    value: str


@dataclass(frozen=True, slots=True)
class Subtract:
    """An element to remove from a setting that is a list, for `alter_configs`."""

    value: str


@dataclass(frozen=True, slots=True)
class Node:
    """A broker."""

    id: int
    host: str
    port: int
    rack: str | None = None


@tells
@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster."""

    cluster_id: str | None
    controller: int | None
    """The broker that takes administrative requests, as Metadata names it; under KRaft any living broker."""
    nodes: tuple[Node, ...]


@tells
@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or would be with `validate_only`."""

    name: str
    topic_id: str | None
    """The topic id; `None` from brokers before 2.8, which have no topic ids, and with `validate_only`."""
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str | None]
    """All settings of the topic, if the broker returns them."""


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic, as `list_topics` returns it."""

    name: str
    topic_id: str | None
    internal: bool
    """True for one of Kafka's internal topics."""
    partitions: int
    replication_factor: int
    """The number of replicas of the first partition."""


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition of a topic."""

    partition: int
    leader: int | None
    """The broker id of the leader; `None` while there is none."""
    leader_epoch: int
    """The leader epoch; -1 if unknown."""
    replicas: tuple[int, ...]
    """The broker ids of the replicas, the preferred leader first."""
    isr: tuple[int, ...]
    """The broker ids of the in-sync replicas."""
    offline: tuple[int, ...]
    """The broker ids of the offline replicas."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic, as `describe_topics` returns it."""

    name: str
    topic_id: str | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    """The partitions, by number."""


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A source that a setting can have its value from; the first one that is set counts."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting of a topic, broker or group."""

    name: str
    value: str | None
    """The value; `None` for a sensitive setting."""
    source: str
    """The source of the value: `"topic"`, `"broker"` or `"all brokers"` (set dynamically), `"broker file"`,
    `"default"`, `"group"`, `"broker_logger"`, `"client_metrics"` or `"unknown"`."""
    is_default: bool
    """True if the setting is not set for this resource itself."""
    is_sensitive: bool
    is_read_only: bool
    type: str
    """`"boolean"`, `"string"`, `"int"`, `"short"`, `"long"`, `"double"`, `"list"`, `"class"`, `"password"` or
    `"unknown"`."""
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group, as `list_groups` returns it."""

    group_id: str
    state: str
    """The state, such as `"Stable"` or `"Empty"`; empty from brokers before 2.6."""
    type: str
    """The type: `"classic"`, `"consumer"` (KIP-848) or `"share"` (KIP-932), or another type of the broker; empty from
    brokers before 3.8."""
    protocol_type: str
    """The protocol type of the members, such as `"consumer"`; empty for a group that only has committed offsets."""
    coordinator: int
    """The id of the broker that listed the group."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    epoch: int | None
    """The member epoch in groups of type `"consumer"` and `"share"`; else `None`."""
    topics: tuple[str, ...]
    """The topics that the member subscribes to by name."""
    assignment: tuple[TopicPartition, ...]
    """The assigned partitions; empty while a classic group rebalances."""
    target_assignment: tuple[TopicPartition, ...] | None
    """The target assignment in groups of type `"consumer"`; else `None`."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group, as `describe_groups` returns it."""

    group_id: str
    state: str
    """The state, such as `"Stable"`, `"Empty"`, `"PreparingRebalance"`, `"Reconciling"`."""
    type: Literal["classic", "consumer", "share"]
    protocol_type: str
    assignor: str
    """The name of the assignor in use; empty if there is none."""
    coordinator: Node | None
    epoch: int | None
    """The group epoch in groups of type `"consumer"` and `"share"`; else `None`."""
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a group in one partition."""

    partition: TopicPartition
    committed: int | None
    """The committed offset, of the next record to read; of a share group the first offset that is not done with. `None`
    if there is none."""
    log_start_offset: int
    log_end_offset: int
    lag: int | None
    """The number of offsets from `committed` to `log_end_offset`; in a share group without those that are done (from
    Kafka 4.2 on). `None` without a committed offset."""
    member_id: str | None
    """The member that owns the partition; `None` if there is none, or several, as in a share group."""
    client_id: str | None
    host: str | None


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The change of a group's committed offset in one partition."""

    partition: TopicPartition
    before: int | None
    """The committed offset before the reset; `None` if there was none."""
    after: int
    """The committed offset after the reset."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset of a partition."""

    offset: int | None
    """The offset; `None` if no record is at or after the given time."""
    timestamp: int | None
    """The timestamp of the record, in milliseconds since 1970, if the offset was looked up by time; else `None`."""
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """A replica of a partition on a broker's disk."""

    size: int
    """The size of its segments in bytes."""
    offset_lag: int
    """The number of offsets that it is behind the partition's log."""
    is_future: bool
    """True if it is to replace the replica in another log directory of the same broker."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker."""

    path: str
    error: str | None
    """Kafka's name for the error if the directory cannot be read, such as `"KAFKA_STORAGE_ERROR"`; else `None`."""
    total_bytes: int | None
    """The size of its volume in bytes; `None` if the broker does not return it (before Kafka 3.3)."""
    usable_bytes: int | None
    """The usable bytes of the volume; `None` if the broker does not return them (before Kafka 3.3)."""
    replicas: dict[TopicPartition, LogDirReplica]

    @property
    def size(self) -> int:
        """The size of all replicas in the directory, in bytes."""
        return sum(replica.size for replica in self.replicas.values())


class TopicPartitionReplica(NamedTuple):
    """A replica: a partition on one broker. Every function also takes a plain tuple."""

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A replica of the cluster's metadata log."""

    id: int
    """The node id of the controller or broker."""
    directory_id: str | None
    """The id of its log directory; `None` from brokers before 3.9."""
    log_end_offset: int | None
    """The log end offset; `None` if unknown."""
    last_fetch_timestamp: int | None
    """The time of its last fetch, in milliseconds since 1970; `None` for the leader, or if unknown."""
    last_caught_up_timestamp: int | None
    """The last time when it had all of the leader's log, in milliseconds since 1970; `None` if unknown."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The KRaft quorum: the controllers that vote on the cluster's metadata, and the brokers that follow it."""

    leader: int | None
    """The node id of the active controller; `None` while there is none."""
    leader_epoch: int
    high_watermark: int
    """The high watermark of the metadata log."""
    voters: tuple[QuorumReplica, ...]
    """The controllers that vote."""
    observers: tuple[QuorumReplica, ...]
    """The replicas that follow without a vote, such as brokers."""
    endpoints: Mapping[int, tuple[str, ...]]
    """The `LISTENER://host:port` of each controller, by node id; empty from brokers before 3.9."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The current move of a partition to other brokers."""

    replicas: tuple[int, ...]
    """The broker ids of all current replicas, including those of `adding` and `removing`."""
    adding: tuple[int, ...]
    """The broker ids of the replicas that are being added."""
    removing: tuple[int, ...]
    """The broker ids of the replicas that are being removed."""
