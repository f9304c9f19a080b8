"""Conversion of the core's tuples to the dataclasses of `monedula.admin.types`."""

from collections.abc import Callable
from typing import Any, TypeVar

from monedula.admin import transaction_types, types
from monedula.admin.arguments import RESOURCE_TYPES
from monedula.errors import KafkaError
from monedula.types.partitions import OffsetAndMetadata, TopicPartition

K = TypeVar("K")
V = TypeVar("V")

Items = tuple[list[tuple[Any, Any]], list[tuple[Any, KafkaError]]]
"""The core's result for several items: their values, and the errors of the others, each as pairs by item."""

_SOURCES = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "broker file",
    5: "default",
    6: "broker_logger",
    7: "client_metrics",
    8: "group",
}
_RESOURCE_TYPES: dict[int, Any] = {number: name for name, number in RESOURCE_TYPES.items()}
_SET_HERE = {1, 2, 6, 7, 8}
_TYPES = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


def items(
    answer: Items, key: Callable[[Any], K], value: Callable[[K, Any], V]
) -> tuple[list[tuple[K, V]], dict[K, KafkaError]]:
    """Convert a result for several items, with a function for the item and one for its value."""
    values, errors = answer
    named = [(key(raw), found) for raw, found in values]
    return [(item, value(item, found)) for item, found in named], {key(raw): error for raw, error in errors}


def resource(raw: tuple[int, str]) -> types.ConfigResource:
    """The resource (topic, broker, group ...) of settings."""
    return types.ConfigResource(_RESOURCE_TYPES.get(raw[0], "client_metrics"), raw[1])


def partition(raw: tuple[str, int]) -> TopicPartition:
    """A partition."""
    return TopicPartition(*raw)


def same(_: object, raw: Any) -> Any:
    """Return the core's value unchanged."""
    return raw


def nothing(_: object, __: object) -> None:
    """Return `None`, for calls without a result other than their success."""


def created(name: str, raw: Any) -> types.CreatedTopic:
    """A created topic."""
    topic_id, partitions, replication_factor, configs = raw
    return types.CreatedTopic(name, topic_id, partitions, replication_factor, dict(configs))


def topic(name: str, raw: Any) -> types.TopicDescription:
    """An entry of `describe_topics`."""
    topic_id, internal, partitions = raw
    described = (
        types.PartitionDescription(number, leader, epoch, tuple(replicas), tuple(isr), tuple(offline))
        for number, leader, epoch, replicas, isr, offline in partitions
    )
    return types.TopicDescription(name, topic_id, internal, tuple(described))


def topic_listing(name: str, raw: Any) -> types.TopicListing:
    """An entry of `list_topics`."""
    topic_id, internal, partitions = raw
    replicas = len(partitions[0][3]) if partitions else 0
    return types.TopicListing(name, topic_id, internal, len(partitions), replicas)


def configs(_: object, raw: Any) -> dict[str, types.ConfigEntry]:
    """Settings by name."""
    return {each[0]: _config(each) for each in sorted(raw, key=lambda each: each[0])}


def _config(raw: Any) -> types.ConfigEntry:
    name, value, source, kind, sensitive, read_only, synonyms, documentation = raw
    return types.ConfigEntry(
        name=name,
        value=value,
        source=_SOURCES.get(source, "unknown"),
        is_default=source not in _SET_HERE,
        is_sensitive=sensitive,
        is_read_only=read_only,
        type=_TYPES.get(kind, "unknown"),
        synonyms=tuple(types.ConfigSynonym(other, at, _SOURCES.get(place, "unknown")) for other, at, place in synonyms),
        documentation=documentation,
    )


def group_listing(name: str, raw: Any) -> types.GroupListing:
    """An entry of `list_groups`."""
    state, kind, protocol_type, coordinator = raw
    return types.GroupListing(name, state, kind.lower(), protocol_type, coordinator)


def group(name: str, raw: Any) -> types.GroupDescription:
    """An entry of `describe_groups`."""
    state, kind, protocol_type, assignor, coordinator, epoch, members = raw
    node = None if coordinator is None else types.Node(*coordinator)
    described = tuple(map(_member, members))
    return types.GroupDescription(name, state, kind, protocol_type, assignor, node, epoch, described)


def _member(raw: Any) -> types.MemberDescription:
    member_id, instance_id, client_id, host, rack, epoch, topics, assignment, target = raw
    return types.MemberDescription(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        host=host.removeprefix("/"),
        rack=rack,
        epoch=epoch,
        topics=tuple(topics),
        assignment=_partitions(assignment),
        target_assignment=None if target is None else _partitions(target),
    )


def _partitions(raw: list[tuple[str, int]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(*each) for each in raw)


def committed(_: object, raw: Any) -> OffsetAndMetadata | None:
    """A committed offset."""
    return None if raw is None else OffsetAndMetadata(*raw)


def reset(partition: TopicPartition, raw: Any) -> types.OffsetReset:
    """An entry of `reset_group_offsets`."""
    return types.OffsetReset(partition, *raw)


def lag(partition: TopicPartition, raw: Any) -> types.PartitionLag:
    """An entry of `group_lag`."""
    at, start, end, of_share_group, owner = raw
    member_id, client_id, host = owner or (None, None, None)
    return types.PartitionLag(
        partition=partition,
        committed=at,
        log_start_offset=start,
        log_end_offset=end,
        lag=None if at is None else max(end - at, 0) if of_share_group is None else of_share_group,
        member_id=member_id,
        client_id=client_id,
        host=None if host is None else host.removeprefix("/"),
    )


def listed(_: object, raw: Any) -> types.ListedOffset:
    """An entry of `list_offsets`."""
    return types.ListedOffset(*raw)


def cluster(raw: Any) -> types.ClusterDescription:
    """The cluster."""
    cluster_id, controller, nodes = raw
    return types.ClusterDescription(cluster_id, controller, tuple(types.Node(*node) for node in nodes))


def quorum(raw: Any) -> types.QuorumDescription:
    """The KRaft quorum."""
    leader, epoch, high_watermark, voters, observers, controllers = raw
    endpoints = {
        controller: tuple(f"{listener}://{host}:{port}" for listener, host, port in found)
        for controller, found in controllers
    }
    return types.QuorumDescription(
        leader, epoch, high_watermark, _quorum_replicas(voters), _quorum_replicas(observers), endpoints
    )


def _quorum_replicas(raw: list[tuple[int, str | None, int | None, int | None, int | None]]) -> Any:
    return tuple(types.QuorumReplica(*replica) for replica in sorted(raw, key=lambda replica: replica[0]))


def replica(raw: tuple[tuple[str, int], int]) -> types.TopicPartitionReplica:
    """A replica."""
    (topic, partition), broker = raw
    return types.TopicPartitionReplica(topic, partition, broker)


def reassignment(raw: Any) -> types.Reassignment:
    """An entry of `list_partition_reassignments`."""
    replicas, adding, removing = raw
    return types.Reassignment(tuple(replicas), tuple(adding), tuple(removing))


def log_dirs(_: object, raw: Any) -> tuple[types.LogDir, ...]:
    """The log directories of a broker."""
    return tuple(map(_log_dir, raw))


def _log_dir(raw: Any) -> types.LogDir:
    path, error, total_bytes, usable_bytes, replicas = raw
    held = {TopicPartition(*partition): types.LogDirReplica(*replica) for partition, replica in replicas}
    return types.LogDir(path, error, total_bytes, usable_bytes, held)


def transaction_listing(transactional_id: str, raw: Any) -> transaction_types.TransactionListing:
    """An entry of `list_transactions`."""
    return transaction_types.TransactionListing(transactional_id, *raw)


def transaction(transactional_id: str, raw: Any) -> transaction_types.TransactionDescription:
    """An entry of `describe_transactions`."""
    state, producer_id, epoch, timeout_ms, start, partitions, coordinator = raw
    return transaction_types.TransactionDescription(
        transactional_id=transactional_id,
        state=state,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        start_timestamp=start,
        partitions=_partitions(partitions),
        coordinator=None if coordinator is None else types.Node(*coordinator),
    )


def fenced_producer(_: object, raw: tuple[int, int]) -> transaction_types.FencedProducer:
    """An entry of `fence_producers`."""
    return transaction_types.FencedProducer(*raw)


def producers(_: object, raw: Any) -> tuple[transaction_types.ProducerState, ...]:
    """The producers of a partition, by producer id."""
    return tuple(sorted((transaction_types.ProducerState(*each) for each in raw), key=lambda each: each.producer_id))


def hanging(at: TopicPartition, raw: Any) -> tuple[transaction_types.HangingTransaction, ...]:
    """The hanging transactions of a partition."""
    return tuple(
        transaction_types.HangingTransaction(at, transactional_id, transaction_types.ProducerState(*producer))
        for transactional_id, producer in raw
    )
