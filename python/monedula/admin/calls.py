"""The calls of `Admin` and `AsyncAdmin`: how each is started, and how the core's result becomes dataclasses."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from monedula._monedula import AdminCore, Operation
from monedula.admin import values
from monedula.admin.arguments import (
    Change,
    Errors,
    Isolation,
    P,
    R,
    Resource,
    Target,
    TopicDefaults,
    as_mapping,
    as_several,
    as_topics,
    check_distinct,
    is_resource,
    new_topic,
    raw_brokers,
    raw_change,
    raw_name,
    raw_names,
    raw_number,
    raw_offset,
    raw_resource,
    raw_spec,
    raw_target,
    raw_topic,
    raw_which,
)
from monedula.admin.results import Results, answered, left_out
from monedula.admin.types import (
    ClusterDescription,
    ConfigResource,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    OffsetReset,
    OffsetSpec,
)
from monedula.admin.views import (
    Configs,
    GroupLag,
    GroupOffsets,
    Groups,
    GroupsDescribed,
    LogDirs,
    Offsets,
    Reassignments,
    Topics,
    TopicsDescribed,
)
from monedula.errors import ArgumentError
from monedula.partitions import TopicPartition, is_pair, raw_partition, raw_partitions, whole_number

T = TypeVar("T")


class Call(NamedTuple, Generic[T]):
    """A call with checked arguments, not started yet."""

    start: Callable[[int | None], Operation]
    """Starts the call; takes the file descriptor that wakes an event loop, or `None`."""
    end: Callable[[Any], T]
    """Converts the core's result into that of the call; raises its errors."""


def create_topics(
    core: AdminCore,
    topics: str | NewTopic | Iterable[str | NewTopic],
    defaults: TopicDefaults,
    exist_ok: bool,
    validate_only: bool,
    timeout: float | None,
    errors: Errors,
) -> Call[Results[str, CreatedTopic]]:
    """See `Admin.create_topics`."""
    new = [new_topic(topic, defaults) for topic in as_topics(topics)]
    raw = [raw_topic(topic) for topic in new]
    check_distinct([topic.name for topic in new], "topic")
    spared = ("TOPIC_ALREADY_EXISTS",) if exist_ok else ()
    return Call(
        lambda descriptor: core.create_topics(descriptor, raw, validate_only, timeout),
        lambda told: answered(
            left_out(Results[str, CreatedTopic](*values.items(told, str, values.created)), spared), errors
        ),
    )


def delete_topics(
    core: AdminCore, topics: str | Iterable[str], missing_ok: bool, timeout: float | None, errors: Errors
) -> Call[Results[str, None]]:
    """See `Admin.delete_topics`."""
    names = raw_names(topics, "topic")
    spared = ("UNKNOWN_TOPIC_OR_PARTITION",) if missing_ok else ()
    return Call(
        lambda descriptor: core.delete_topics(descriptor, names, timeout),
        lambda told: answered(left_out(Results[str, None](*values.items(told, str, values.nothing)), spared), errors),
    )


def list_topics(core: AdminCore, internal: bool, timeout: float | None) -> Call[Topics]:
    """See `Admin.list_topics`."""

    def end(told: values.Items) -> Topics:
        listed = values.items(told, str, values.topic_listing)[0]
        return Topics((name, topic) for name, topic in listed if internal or not topic.internal)

    return Call(lambda descriptor: core.list_topics(descriptor, timeout), end)


def describe_topics(
    core: AdminCore, topics: str | Iterable[str], timeout: float | None, errors: Errors
) -> Call[TopicsDescribed]:
    """See `Admin.describe_topics`."""
    names = raw_names(topics, "topic")
    return Call(
        lambda descriptor: core.describe_topics(descriptor, names, timeout),
        lambda told: answered(TopicsDescribed(*values.items(told, str, values.topic)), errors),
    )


def create_partitions(
    core: AdminCore,
    topics: Mapping[str, int | NewPartitions],
    validate_only: bool,
    timeout: float | None,
    errors: Errors,
) -> Call[Results[str, None]]:
    """See `Admin.create_partitions`."""
    raw = []
    for topic, wanted in as_mapping(topics, "{'orders': 12}").items():
        new = wanted if isinstance(wanted, NewPartitions) else NewPartitions(wanted)
        each = None if new.assignments is None else [[raw_number(b, "broker") for b in one] for one in new.assignments]
        raw.append((raw_name(topic, "topic"), raw_number(new.total, "number of partitions"), each))
    return Call(
        lambda descriptor: core.create_partitions(descriptor, raw, validate_only, timeout),
        lambda told: answered(Results[str, None](*values.items(told, str, values.nothing)), errors),
    )


def describe_configs(
    core: AdminCore,
    resources: Resource | Iterable[Resource],
    names: Iterable[str] | None,
    documentation: bool,
    timeout: float | None,
    errors: Errors,
) -> Call[Configs]:
    """See `Admin.describe_configs`."""
    single = isinstance(resources, str) or is_resource(resources)
    given = [resources] if single else as_several(resources, "the name of a topic, (type, name), or several")
    raw = [raw_resource(resource) for resource in given]
    chosen = None if names is None else raw_names(names, "setting")
    return Call(
        lambda descriptor: core.describe_configs(descriptor, raw, chosen, documentation, timeout),
        lambda told: answered(Configs(*values.items(told, values.resource, values.configs)), errors),
    )


def alter_configs(
    core: AdminCore,
    changes: Mapping[R, Mapping[str, Change]],
    validate_only: bool,
    timeout: float | None,
    errors: Errors,
) -> Call[Results[ConfigResource, None]]:
    """See `Admin.alter_configs`."""
    raw = []
    for resource, settings in as_mapping(changes, "{'orders': {'retention.ms': 3600000}}").items():
        each = as_mapping(settings, "{'retention.ms': 3600000}")
        raw.append((raw_resource(resource), [raw_change(name, change) for name, change in each.items()]))
    return Call(
        lambda descriptor: core.alter_configs(descriptor, raw, validate_only, timeout),
        lambda told: answered(
            Results[ConfigResource, None](*values.items(told, values.resource, values.nothing)), errors
        ),
    )


def list_groups(core: AdminCore, states: Iterable[str], types: Iterable[str], timeout: float | None) -> Call[Groups]:
    """See `Admin.list_groups`."""
    wanted = raw_names(states, "state"), raw_names(types, "type")
    return Call(
        lambda descriptor: core.list_groups(descriptor, *wanted, timeout),
        lambda told: Groups((group, values.group_listing(group, raw)) for group, raw in told),
    )


def describe_groups(
    core: AdminCore, groups: str | Iterable[str], timeout: float | None, errors: Errors
) -> Call[GroupsDescribed]:
    """See `Admin.describe_groups`."""
    names = raw_names(groups, "group")
    return Call(
        lambda descriptor: core.describe_groups(descriptor, names, timeout),
        lambda told: answered(GroupsDescribed(*values.items(told, str, values.group)), errors),
    )


def delete_groups(
    core: AdminCore, groups: str | Iterable[str], timeout: float | None, errors: Errors
) -> Call[Results[str, None]]:
    """See `Admin.delete_groups`."""
    names = raw_names(groups, "group")
    return Call(
        lambda descriptor: core.delete_groups(descriptor, names, timeout),
        lambda told: answered(Results[str, None](*values.items(told, str, values.nothing)), errors),
    )


def list_group_offsets(
    core: AdminCore,
    group: str,
    partitions: Iterable[tuple[str, int]] | None,
    timeout: float | None,
    errors: Errors,
) -> Call[GroupOffsets]:
    """See `Admin.list_group_offsets`."""
    name, raw = raw_name(group, "group"), None if partitions is None else raw_partitions(partitions)
    return Call(
        lambda descriptor: core.list_group_offsets(descriptor, name, raw, timeout),
        lambda told: answered(GroupOffsets(*values.items(told, values.partition, values.committed)), errors),
    )


def alter_group_offsets(
    core: AdminCore,
    group: str,
    offsets: Mapping[P, int | tuple[int, str]],
    timeout: float | None,
    errors: Errors,
) -> Call[Results[TopicPartition, int]]:
    """See `Admin.alter_group_offsets`."""
    name, raw = raw_name(group, "group"), []
    for partition, at in as_mapping(offsets, "{('orders', 0): 42}").items():
        offset, metadata = at if isinstance(at, tuple) and len(at) == 2 else (at, "")
        if not isinstance(metadata, str):
            raise ArgumentError(f"{metadata!r}: the metadata of an offset must be a text")
        raw.append((raw_partition(partition), raw_offset(offset), metadata))
    return Call(
        lambda descriptor: core.alter_group_offsets(descriptor, name, raw, timeout),
        lambda told: answered(Results[TopicPartition, int](*values.items(told, values.partition, values.same)), errors),
    )


def reset_group_offsets(
    core: AdminCore,
    group: str,
    to: Target,
    topics: str | Iterable[str] | None,
    partitions: Iterable[tuple[str, int]] | None,
    dry_run: bool,
    timeout: float | None,
    errors: Errors,
) -> Call[Results[TopicPartition, OffsetReset]]:
    """See `Admin.reset_group_offsets`."""
    name, target = raw_name(group, "group"), raw_target(to)
    raw_topics, raw = raw_which(topics, partitions)
    if target[0][0] == "offsets" and (raw_topics is not None or raw is not None):
        raise ArgumentError("the offsets name their partitions; leave topics and partitions out")
    return Call(
        lambda descriptor: core.reset_group_offsets(descriptor, name, target, raw_topics, raw, dry_run, timeout),
        lambda told: answered(
            Results[TopicPartition, OffsetReset](*values.items(told, values.partition, values.reset)), errors
        ),
    )


def delete_group_offsets(
    core: AdminCore, group: str, partitions: Iterable[tuple[str, int]], timeout: float | None, errors: Errors
) -> Call[Results[TopicPartition, None]]:
    """See `Admin.delete_group_offsets`."""
    name, raw = raw_name(group, "group"), raw_partitions(partitions)
    return Call(
        lambda descriptor: core.delete_group_offsets(descriptor, name, raw, timeout),
        lambda told: answered(
            Results[TopicPartition, None](*values.items(told, values.partition, values.nothing)), errors
        ),
    )


def group_lag(
    core: AdminCore,
    group: str,
    topics: str | Iterable[str] | None,
    partitions: Iterable[tuple[str, int]] | None,
    timeout: float | None,
    errors: Errors,
) -> Call[GroupLag]:
    """See `Admin.group_lag`."""
    name, (raw_topics, raw) = raw_name(group, "group"), raw_which(topics, partitions)

    def end(told: tuple[str, values.Items]) -> GroupLag:
        state, items = told
        return answered(GroupLag(*values.items(items, values.partition, values.lag), group=name, state=state), errors)

    return Call(lambda descriptor: core.group_lag(descriptor, name, raw_topics, raw, timeout), end)


def list_offsets(
    core: AdminCore,
    what: str | Iterable[str | tuple[str, int]] | Mapping[P, OffsetSpec],
    at: OffsetSpec,
    isolation: Isolation,
    timeout: float | None,
    errors: Errors,
) -> Call[Offsets]:
    """See `Admin.list_offsets`."""
    spec = raw_spec(at)
    topics: list[str] = []
    if isinstance(what, Mapping):
        pairs = [(raw_partition(partition), raw_spec(each)) for partition, each in what.items()]
    else:
        single = isinstance(what, str) or is_pair(what)
        items = [what] if single else as_several(what, "a topic, a partition, or several")
        topics = [raw_name(item, "topic") for item in items if isinstance(item, str)]
        pairs = [(raw_partition(item), spec) for item in items if not isinstance(item, str)]
    if isolation not in ("read_committed", "read_uncommitted"):
        raise ArgumentError(f"isolation={isolation!r}: expected 'read_committed' or 'read_uncommitted'")
    committed = isolation == "read_committed"
    return Call(
        lambda descriptor: core.list_offsets(descriptor, (pairs, topics, spec), committed, timeout),
        lambda told: answered(Offsets(*values.items(told, values.partition, values.listed)), errors),
    )


def delete_records(
    core: AdminCore, before: Mapping[P, int], timeout: float | None, errors: Errors
) -> Call[Results[TopicPartition, int]]:
    """See `Admin.delete_records`."""
    raw = []
    for partition, offset in as_mapping(before, "{('orders', 0): 42}").items():
        number = whole_number(offset)
        if number is None or number < -1:
            raise ArgumentError(f"{offset!r} is no offset: expected a whole number, 0 or more, or -1 for the end")
        raw.append((raw_partition(partition), number))
    return Call(
        lambda descriptor: core.delete_records(descriptor, raw, timeout),
        lambda told: answered(Results[TopicPartition, int](*values.items(told, values.partition, values.same)), errors),
    )


def describe_cluster(core: AdminCore, timeout: float | None) -> Call[ClusterDescription]:
    """See `Admin.describe_cluster`."""
    return Call(lambda descriptor: core.describe_cluster(descriptor, timeout), values.cluster)


def describe_log_dirs(
    core: AdminCore,
    brokers: int | Iterable[int] | None,
    topics: str | Iterable[str] | None,
    partitions: Iterable[tuple[str, int]] | None,
    timeout: float | None,
    errors: Errors,
) -> Call[LogDirs]:
    """See `Admin.describe_log_dirs`."""
    given = brokers if isinstance(brokers, Iterable) or brokers is None else [brokers]
    ids = None if given is None else [raw_number(broker, "broker") for broker in given]
    raw_topics, raw = raw_which(topics, partitions)
    return Call(
        lambda descriptor: core.describe_log_dirs(descriptor, ids, raw_topics, raw, timeout),
        lambda told: answered(LogDirs(*values.items(told, int, values.log_dirs)), errors),
    )


def elect_leaders(
    core: AdminCore,
    partitions: Iterable[tuple[str, int]] | None,
    unclean: bool,
    timeout: float | None,
    errors: Errors,
) -> Call[Results[TopicPartition, bool]]:
    """See `Admin.elect_leaders`."""
    raw = None if partitions is None else raw_partitions(partitions)
    return Call(
        lambda descriptor: core.elect_leaders(descriptor, raw, unclean, timeout),
        lambda told: answered(
            Results[TopicPartition, bool](*values.items(told, values.partition, values.same)), errors
        ),
    )


def alter_partition_reassignments(
    core: AdminCore, partitions: Mapping[P, Iterable[int] | None], timeout: float | None, errors: Errors
) -> Call[Results[TopicPartition, None]]:
    """See `Admin.alter_partition_reassignments`."""
    raw = []
    for partition, replicas in as_mapping(partitions, "{('orders', 0): [1, 2]}").items():
        brokers = None if replicas is None else raw_brokers(replicas)
        raw.append((raw_partition(partition), brokers))
    return Call(
        lambda descriptor: core.alter_partition_reassignments(descriptor, raw, timeout),
        lambda told: answered(
            Results[TopicPartition, None](*values.items(told, values.partition, values.nothing)), errors
        ),
    )


def list_partition_reassignments(
    core: AdminCore, partitions: Iterable[tuple[str, int]] | None, timeout: float | None
) -> Call[Reassignments]:
    """See `Admin.list_partition_reassignments`."""
    raw = None if partitions is None else raw_partitions(partitions)
    return Call(
        lambda descriptor: core.list_partition_reassignments(descriptor, raw, timeout),
        lambda told: Reassignments((values.partition(at), values.reassignment(moved)) for at, moved in told),
    )
