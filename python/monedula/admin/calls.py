"""The verbs of both faces: what they are given, checked, as the core takes it; and what it answers, as dataclasses."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from monedula._monedula import AdminCore, Operation
from monedula.admin import values
from monedula.admin.results import Results, answered, left_out
from monedula.admin.types import (
    Append,
    ClusterDescription,
    ConfigResource,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    OffsetReset,
    OffsetSpec,
    ResourceType,
    Subtract,
)
from monedula.admin.views import (
    Configs,
    GroupLag,
    GroupOffsets,
    Groups,
    GroupsDescribed,
    Offsets,
    Reassignments,
    Topics,
    TopicsDescribed,
)
from monedula.errors import ArgumentError
from monedula.partitions import TopicPartition, is_pair, raw_partition, raw_partitions, timestamp_ms, whole_number

T = TypeVar("T")

P = TypeVar("P", bound=tuple[str, int])
"""A partition that is a key: keys of a dict have one type, and a `TopicPartition` is to do as well as a plain tuple."""

Errors = Literal["raise", "return"]
"""Whether what went wrong with single items is raised, or returned with what did not."""

Isolation = Literal["read_committed", "read_uncommitted"]

Resource = str | tuple[ResourceType, str]
"""Whose settings; a text stands for a topic."""

R = TypeVar("R", bound=Resource)
"""Such a resource that is a key."""

Change = str | int | float | bool | None | Append | Subtract
"""What is to become of a setting."""

Target = Literal["earliest", "latest"] | datetime | int | Mapping[Any, int]
"""Where a group is to go: the dict is `{"shift": n}` or `{(topic, partition): offset}`."""

RESOURCE_TYPES: dict[str, int] = {"topic": 2, "broker": 4, "broker_logger": 8, "client_metrics": 16, "group": 32}
_TYPE_NAMES: dict[int, ResourceType] = {
    2: "topic",
    4: "broker",
    8: "broker_logger",
    16: "client_metrics",
    32: "group",
}


class Call(NamedTuple, Generic[T]):
    """A call that is to be made."""

    start: Callable[[int | None], Operation]
    """Starts it; takes the socket of an event loop, or nothing."""
    end: Callable[[Any], T]
    """Makes its result of what the core answers."""


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What topics that are given by name are to be like."""

    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, object] | None


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
    given = [topics] if isinstance(topics, (str, NewTopic)) else list(topics)
    new = [_new_topic(topic, defaults) for topic in given]
    raw = [_raw_topic(topic) for topic in new]
    _distinct([topic.name for topic in new], "topic")
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
    names = _names(topics, "topic")
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
    names = _names(topics, "topic")
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
    for topic, wanted in _mapping(topics, "{'orders': 12}").items():
        new = wanted if isinstance(wanted, NewPartitions) else NewPartitions(wanted)
        each = None if new.assignments is None else [[_number(b, "broker") for b in one] for one in new.assignments]
        raw.append((_name(topic, "topic"), _number(new.total, "number of partitions"), each))
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
    single = isinstance(resources, str) or _is_resource(resources)
    given = [resources] if single else list(resources)
    raw = [_raw_resource(resource) for resource in given]
    chosen = None if names is None else _names(names, "setting")
    return Call(
        lambda descriptor: core.describe_configs(descriptor, raw, chosen, documentation, timeout),
        lambda told: answered(Configs(*values.items(told, _resource, values.configs)), errors),
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
    for resource, settings in _mapping(changes, "{'orders': {'retention.ms': 3600000}}").items():
        each = _mapping(settings, "{'retention.ms': 3600000}")
        raw.append((_raw_resource(resource), [_raw_change(name, change) for name, change in each.items()]))
    return Call(
        lambda descriptor: core.alter_configs(descriptor, raw, validate_only, timeout),
        lambda told: answered(Results[ConfigResource, None](*values.items(told, _resource, values.nothing)), errors),
    )


def list_groups(core: AdminCore, states: Iterable[str], types: Iterable[str], timeout: float | None) -> Call[Groups]:
    """See `Admin.list_groups`."""
    wanted = _names(states, "state"), _names(types, "type")
    return Call(
        lambda descriptor: core.list_groups(descriptor, *wanted, timeout),
        lambda told: Groups((group, values.group_listing(group, raw)) for group, raw in told),
    )


def describe_groups(
    core: AdminCore, groups: str | Iterable[str], timeout: float | None, errors: Errors
) -> Call[GroupsDescribed]:
    """See `Admin.describe_groups`."""
    names = _names(groups, "group")
    return Call(
        lambda descriptor: core.describe_groups(descriptor, names, timeout),
        lambda told: answered(GroupsDescribed(*values.items(told, str, values.group)), errors),
    )


def delete_groups(
    core: AdminCore, groups: str | Iterable[str], timeout: float | None, errors: Errors
) -> Call[Results[str, None]]:
    """See `Admin.delete_groups`."""
    names = _names(groups, "group")
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
    name, raw = _name(group, "group"), None if partitions is None else raw_partitions(partitions)
    return Call(
        lambda descriptor: core.list_group_offsets(descriptor, name, raw, timeout),
        lambda told: answered(GroupOffsets(*values.items(told, _partition, values.committed)), errors),
    )


def alter_group_offsets(
    core: AdminCore,
    group: str,
    offsets: Mapping[P, int | tuple[int, str]],
    timeout: float | None,
    errors: Errors,
) -> Call[Results[TopicPartition, int]]:
    """See `Admin.alter_group_offsets`."""
    name, raw = _name(group, "group"), []
    for partition, at in _mapping(offsets, "{('orders', 0): 42}").items():
        offset, metadata = at if isinstance(at, tuple) and len(at) == 2 else (at, "")
        if not isinstance(metadata, str):
            raise ArgumentError(f"{metadata!r}: the metadata of an offset must be a text")
        raw.append((raw_partition(partition), _offset(offset), metadata))
    return Call(
        lambda descriptor: core.alter_group_offsets(descriptor, name, raw, timeout),
        lambda told: answered(Results[TopicPartition, int](*values.items(told, _partition, values.same)), errors),
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
    name, target = _name(group, "group"), _raw_target(to)
    raw_topics, raw = _which(topics, partitions)
    if target[0][0] == "offsets" and (raw_topics is not None or raw is not None):
        raise ArgumentError("the offsets name their partitions; leave topics and partitions out")
    return Call(
        lambda descriptor: core.reset_group_offsets(descriptor, name, target, raw_topics, raw, dry_run, timeout),
        lambda told: answered(
            Results[TopicPartition, OffsetReset](*values.items(told, _partition, values.reset)), errors
        ),
    )


def delete_group_offsets(
    core: AdminCore, group: str, partitions: Iterable[tuple[str, int]], timeout: float | None, errors: Errors
) -> Call[Results[TopicPartition, None]]:
    """See `Admin.delete_group_offsets`."""
    name, raw = _name(group, "group"), raw_partitions(partitions)
    return Call(
        lambda descriptor: core.delete_group_offsets(descriptor, name, raw, timeout),
        lambda told: answered(Results[TopicPartition, None](*values.items(told, _partition, values.nothing)), errors),
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
    name, (raw_topics, raw) = _name(group, "group"), _which(topics, partitions)

    def end(told: tuple[str, values.Items]) -> GroupLag:
        state, items = told
        return answered(GroupLag(*values.items(items, _partition, values.lag), group=name, state=state), errors)

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
    spec = _raw_spec(at)
    topics: list[str] = []
    if isinstance(what, Mapping):
        pairs = [(raw_partition(partition), _raw_spec(each)) for partition, each in what.items()]
    else:
        items = [what] if isinstance(what, str) or is_pair(what) else list(what)
        topics = [_name(item, "topic") for item in items if isinstance(item, str)]
        pairs = [(raw_partition(item), spec) for item in items if not isinstance(item, str)]
    if isolation not in ("read_committed", "read_uncommitted"):
        raise ArgumentError(f"isolation={isolation!r}: expected 'read_committed' or 'read_uncommitted'")
    committed = isolation == "read_committed"
    return Call(
        lambda descriptor: core.list_offsets(descriptor, (pairs, topics, spec), committed, timeout),
        lambda told: answered(Offsets(*values.items(told, _partition, values.listed)), errors),
    )


def delete_records(
    core: AdminCore, before: Mapping[P, int], timeout: float | None, errors: Errors
) -> Call[Results[TopicPartition, int]]:
    """See `Admin.delete_records`."""
    raw = []
    for partition, offset in _mapping(before, "{('orders', 0): 42}").items():
        number = whole_number(offset)
        if number is None or number < -1:
            raise ArgumentError(f"{offset!r} is no offset: expected a whole number, 0 or more, or -1 for the end")
        raw.append((raw_partition(partition), number))
    return Call(
        lambda descriptor: core.delete_records(descriptor, raw, timeout),
        lambda told: answered(Results[TopicPartition, int](*values.items(told, _partition, values.same)), errors),
    )


def describe_cluster(core: AdminCore, timeout: float | None) -> Call[ClusterDescription]:
    """See `Admin.describe_cluster`."""
    return Call(lambda descriptor: core.describe_cluster(descriptor, timeout), values.cluster)


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
        lambda told: answered(Results[TopicPartition, bool](*values.items(told, _partition, values.same)), errors),
    )


def alter_partition_reassignments(
    core: AdminCore, partitions: Mapping[P, Iterable[int] | None], timeout: float | None, errors: Errors
) -> Call[Results[TopicPartition, None]]:
    """See `Admin.alter_partition_reassignments`."""
    raw = []
    for partition, replicas in _mapping(partitions, "{('orders', 0): [1, 2]}").items():
        brokers = None if replicas is None else [_number(broker, "broker") for broker in replicas]
        raw.append((raw_partition(partition), brokers))
    return Call(
        lambda descriptor: core.alter_partition_reassignments(descriptor, raw, timeout),
        lambda told: answered(Results[TopicPartition, None](*values.items(told, _partition, values.nothing)), errors),
    )


def list_partition_reassignments(
    core: AdminCore, partitions: Iterable[tuple[str, int]] | None, timeout: float | None
) -> Call[Reassignments]:
    """See `Admin.list_partition_reassignments`."""
    raw = None if partitions is None else raw_partitions(partitions)
    return Call(
        lambda descriptor: core.list_partition_reassignments(descriptor, raw, timeout),
        lambda told: Reassignments((_partition(at), values.reassignment(moved)) for at, moved in told),
    )


def _new_topic(topic: object, defaults: TopicDefaults) -> NewTopic:
    if isinstance(topic, NewTopic):
        return topic
    return NewTopic(_name(topic, "topic"), defaults.partitions, defaults.replication_factor, defaults.configs or {})


def _raw_topic(
    topic: NewTopic,
) -> tuple[str, int | None, int | None, list[tuple[int, list[int]]], list[tuple[str, str]]]:
    numbers = topic.partitions, topic.replication_factor
    if topic.assignments is not None and numbers != (None, None):
        raise ArgumentError(
            f"{topic.name}: assignments say how many partitions and replicas there are; leave these out"
        )
    partitions, replicas = (
        None if given is None else _number(given, what, least=1)
        for given, what in zip(numbers, ("number of partitions", "replication factor"), strict=True)
    )
    assignments = [
        (_number(partition, "partition"), [_number(broker, "broker") for broker in brokers])
        for partition, brokers in (topic.assignments or {}).items()
    ]
    configs = [(_name(name, "setting"), _text(name, value)) for name, value in topic.configs.items()]
    return _name(topic.name, "topic"), partitions, replicas, assignments, configs


def _raw_change(name: str, change: Change) -> tuple[str, str, str | None]:
    setting = _name(name, "setting")
    match change:
        case None:
            return setting, "delete", None
        case Append(value):
            return setting, "append", value
        case Subtract(value):
            return setting, "subtract", value
        case value:
            return setting, "set", _text(name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise ArgumentError(f"{name}={value!r}: expected a text, a number, a boolean, or a list of texts")


def _is_resource(resource: object) -> bool:
    return isinstance(resource, tuple) and len(resource) == 2 and resource[0] in RESOURCE_TYPES


def _raw_resource(resource: object) -> tuple[int, str]:
    if isinstance(resource, str):
        return RESOURCE_TYPES["topic"], _name(resource, "topic")
    if not isinstance(resource, tuple) or len(resource) != 2 or resource[0] not in RESOURCE_TYPES:
        types = ", ".join(RESOURCE_TYPES)
        raise ArgumentError(
            f"{resource!r} has no settings: expected a topic's name, or (type, name) with one of {types}"
        )
    kind, name = resource
    if kind in ("broker", "broker_logger"):
        text = str(name)
        if text and not text.isdecimal():
            raise ArgumentError(f"{resource!r}: a broker goes by its id, such as ('broker', '1')")
        return RESOURCE_TYPES[kind], text
    return RESOURCE_TYPES[kind], _name(name, kind)


def _resource(raw: tuple[int, str]) -> ConfigResource:
    return ConfigResource(_TYPE_NAMES.get(raw[0], "client_metrics"), raw[1])


def _partition(raw: tuple[str, int]) -> TopicPartition:
    return TopicPartition(*raw)


def _which(
    topics: str | Iterable[str] | None, partitions: Iterable[tuple[str, int]] | None
) -> tuple[list[str] | None, list[tuple[str, int]] | None]:
    if topics is not None and partitions is not None:
        raise ArgumentError("give topics or partitions, not both")
    return (
        None if topics is None else _names(topics, "topic"),
        None if partitions is None else raw_partitions(partitions),
    )


def _raw_spec(at: object) -> tuple[str, int]:
    if isinstance(at, str):
        if at not in ("earliest", "latest", "max_timestamp"):
            raise ArgumentError(f"{at!r}: expected 'earliest', 'latest', 'max_timestamp', a datetime or milliseconds")
        return at, 0
    if isinstance(at, datetime) or whole_number(at) is not None:
        return "timestamp", timestamp_ms(at)  # type: ignore[arg-type]
    raise ArgumentError(f"{at!r}: expected 'earliest', 'latest', 'max_timestamp', a datetime or milliseconds")


def _raw_target(to: object) -> tuple[tuple[str, int], list[tuple[tuple[str, int], int]]]:
    if isinstance(to, Mapping):
        if set(to) == {"shift"}:
            by = whole_number(to["shift"])
            if by is None:
                raise ArgumentError(f"shift={to['shift']!r}: expected a whole number, negative to go back")
            return ("shift", by), []
        return ("offsets", 0), [(raw_partition(partition), _offset(offset)) for partition, offset in to.items()]
    if to == "max_timestamp":
        raise ArgumentError("'max_timestamp' is no place to go on from: expected 'earliest', 'latest' or a time")
    return _raw_spec(to), []


def _offset(offset: object) -> int:
    number = whole_number(offset)
    if number is None or number < 0:
        raise ArgumentError(f"{offset!r} is no offset: expected a whole number, 0 or more")
    return number


def _number(value: object, what: str, least: int = 0) -> int:
    number = whole_number(value)
    if number is None or not least <= number < 1 << 31:
        raise ArgumentError(f"{value!r} is no {what}: expected a whole number, {least} or more")
    return number


def _name(name: object, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"{name!r} is no {what}: expected a name")
    return name


def _names(names: object, what: str) -> list[str]:
    if isinstance(names, str):
        return [_name(names, what)]
    if not isinstance(names, Iterable):
        raise ArgumentError(f"{names!r}: expected the name of a {what}, or several")
    found = [_name(name, what) for name in names]
    return list(dict.fromkeys(found))


def _distinct(names: list[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f"given twice: {what} {', '.join(twice)}")


def _mapping(value: object, example: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{value!r}: expected a dict such as {example}")
    return value
