"""Checks of the admin methods' arguments, and their conversion to the core's form.

The functions raise `ArgumentError` for a value that they do not accept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from monedula._arguments import as_text, raw_partition, raw_partitions, timestamp_ms, whole_number
from monedula._config.texts import is_utf8
from monedula.admin.types import Append, NewTopic, ResourceType, Subtract
from monedula.errors import ArgumentError
from monedula.types.times import EXPECTED_TIME, time_of

P = TypeVar("P", bound=tuple[str, int])
"""A partition as a dict key: a type variable, because the key type of a Mapping is invariant.

So a dict may have `TopicPartition`s or plain tuples as keys.
"""

Q = TypeVar("Q", bound=tuple[str, int, int])

Errors = Literal["raise", "return"]
"""Errors of single items: raised, or returned with the results of the others."""

Isolation = Literal["read_committed", "read_uncommitted"]

Resource = str | tuple[ResourceType, str]
"""A resource that has settings; a str is the name of a topic."""

R = TypeVar("R", bound=Resource)

Change = str | int | float | bool | None | Append | Subtract
"""A change of a setting: a new value, `None` for the default, or a change of a list."""

Target = str | datetime | Mapping[Any, int]
"""The target of `reset_group_offsets`: the dict is `{"shift": n}` or `{(topic, partition): offset}`; a str is
`"earliest"`, `"latest"`, or a time such as `"1h ago"`."""

LONGEST_NAME = 32_767
"""Longest name in Kafka's protocol, in bytes: its lengths have 16 bits."""

RESOURCE_TYPES: dict[str, int] = {"topic": 2, "broker": 4, "broker_logger": 8, "client_metrics": 16, "group": 32}


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """Values for new topics that are given by name."""

    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, object] | None


def new_topic(topic: object, defaults: TopicDefaults) -> NewTopic:
    """Convert a new topic to a `NewTopic`; one that is given by name gets the default values."""
    if isinstance(topic, NewTopic):
        return topic
    _refuse_foreign(topic)
    return NewTopic(raw_name(topic, "topic"), defaults.partitions, defaults.replication_factor, defaults.configs or {})


def raw_topic(
    topic: NewTopic,
) -> tuple[str, int | None, int | None, list[tuple[int, list[int]]], list[tuple[str, str]]]:
    """Convert a new topic to the core's form: name, partitions, replication factor, brokers by partition, settings."""
    numbers = topic.partitions, topic.replication_factor
    if topic.assignments is not None and numbers != (None, None):
        raise ArgumentError(
            f"{topic.name}: assignments say how many partitions and replicas there are; leave these out"
        )
    partitions, replicas = (
        None if given is None else raw_number(given, what, least=1)
        for given, what in zip(numbers, ("number of partitions", "replication factor"), strict=True)
    )
    assignments = [
        (raw_number(partition, "partition"), [raw_number(broker, "broker") for broker in brokers])
        for partition, brokers in (topic.assignments or {}).items()
    ]
    configs = [(raw_name(name, "setting"), _text(name, value)) for name, value in topic.configs.items()]
    return raw_name(topic.name, "topic"), partitions, replicas, assignments, configs


def raw_change(name: str, change: Change) -> tuple[str, str, str | None]:
    """Convert a change of a setting to the core's form: name, operation, value."""
    setting = raw_name(name, "setting")
    match change:
        case None:
            return setting, "delete", None
        case Append(value):
            return setting, "append", as_text(name, value)
        case Subtract(value):
            return setting, "subtract", as_text(name, value)
        case value:
            return setting, "set", _text(name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return as_text(name, str(value))
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return as_text(name, ",".join(value))
    raise ArgumentError.of(name, value, "expected a text, a number, a boolean, or a list of texts")


def is_resource(resource: object) -> bool:
    """Return true for a pair of a resource type and a name."""
    return isinstance(resource, tuple) and len(resource) == 2 and resource[0] in RESOURCE_TYPES


def raw_resource_type(name: str) -> int:
    """Convert a resource type to the core's form."""
    if name not in RESOURCE_TYPES:
        raise ArgumentError(f"{name!r} is no type of a resource: expected one of {', '.join(RESOURCE_TYPES)}")
    return RESOURCE_TYPES[name]


def raw_resource(resource: object) -> tuple[int, str]:
    """Convert a resource to the core's form: the number of its type, and its name."""
    if isinstance(resource, str):
        return RESOURCE_TYPES["topic"], raw_name(resource, "topic")
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
    return RESOURCE_TYPES[kind], raw_name(name, kind)


def raw_which(
    topics: str | Iterable[str] | None, partitions: tuple[str, int] | Iterable[tuple[str, int]] | None
) -> tuple[list[str] | None, list[tuple[str, int]] | None]:
    """Check the arguments `topics` and `partitions`, of which only one may be given."""
    if topics is not None and partitions is not None:
        raise ArgumentError("give topics or partitions, not both")
    return (
        None if topics is None else raw_names(topics, "topic"),
        None if partitions is None else raw_partitions(partitions),
    )


def raw_spec(at: object) -> tuple[str, int]:
    """Convert an `OffsetSpec` to the core's form: its kind, and the timestamp in milliseconds (else 0)."""
    if isinstance(at, str) and at in ("earliest", "latest", "max_timestamp"):
        return at, 0
    if is_time(at) or whole_number(at) is not None:
        return "timestamp", timestamp_ms(at)  # type: ignore[arg-type]
    raise ArgumentError(
        f"{at!r}: expected 'earliest', 'latest', 'max_timestamp', milliseconds since 1970, or a time: {EXPECTED_TIME}"
    )


def raw_target(to: object) -> tuple[tuple[str, int], list[tuple[tuple[str, int], int]]]:
    """Convert a `Target` to the core's form: its kind with a number, and the offsets by partition, if given."""
    if isinstance(to, Mapping):
        if set(to) == {"shift"}:
            by = whole_number(to["shift"])
            if by is None:
                raise ArgumentError.of("shift", to["shift"], "expected a whole number, negative to go back")
            return ("shift", by), []
        return ("offsets", 0), [(raw_partition(partition), raw_offset(offset)) for partition, offset in to.items()]
    if to in ("earliest", "latest") or is_time(to):
        return raw_spec(to), []
    number = whole_number(to)
    if number is not None:
        # Ambiguous numbers are refused: here a number once was a time, so a group that was reset to an offset began
        # anew.
        raise ArgumentError(
            f"{number} may be an offset or a time: give {{('orders', 0): {number}}} for an offset, by partition, or "
            f"'@{number}' for milliseconds since 1970"
        )
    raise ArgumentError(
        f"{to!r} is no place to go on from: expected 'earliest', 'latest', {{'shift': -100}}, {{('orders', 0): 42}}, "
        f"or a time: {EXPECTED_TIME}"
    )


def is_time(value: object) -> bool:
    """Return true for a datetime, or a text of a time."""
    return isinstance(value, datetime) or (isinstance(value, str) and time_of(value) is not None)


def as_topics(topics: object) -> list[object]:
    """Check one topic or several; returns a list."""
    if isinstance(topics, (str, NewTopic)):
        return [topics]
    _refuse_foreign(topics)
    if isinstance(topics, Mapping):
        name = next(iter(topics), "orders")
        raise ArgumentError(f"a dict of topics: expected names, or NewTopic({name!r}, partitions=3) for each")
    if not isinstance(topics, Iterable):
        raise ArgumentError(f"{topics!r}: expected the name of a topic, a NewTopic, or several of these")
    return list(topics)


def raw_brokers(brokers: object) -> list[int]:
    """Check the broker ids of a partition's replicas."""
    if isinstance(brokers, str) or not isinstance(brokers, Iterable):
        raise ArgumentError(f"{brokers!r}: expected the ids of brokers, the preferred leader first, such as [1, 2]")
    return [raw_number(broker, "broker") for broker in brokers]


def raw_offset(offset: object) -> int:
    """Check an offset."""
    number = whole_number(offset)
    if number is None or number < 0:
        raise ArgumentError(f"{offset!r} is no offset: expected a whole number, 0 or more")
    return number


def raw_number(value: object, what: str, least: int = 0) -> int:
    """Check an integer from `least` to 2^31 - 1."""
    number = whole_number(value)
    if number is None or not least <= number < 1 << 31:
        raise ArgumentError(f"{value!r} is no {what}: expected a whole number, {least} or more")
    return number


def raw_replica(replica: object) -> tuple[tuple[str, int], int]:
    """Convert a replica to the core's form: its partition and its broker."""
    if not isinstance(replica, tuple) or len(replica) != 3:
        raise ArgumentError(f"{replica!r} is no replica: expected (topic, partition, broker), such as ('orders', 0, 1)")
    return raw_partition(replica[:2]), raw_number(replica[2], "broker")


def raw_name(name: object, what: str) -> str:
    """Check that a name is not empty."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"{name!r} is no {what}: expected a name")
    if not is_utf8(name):
        raise ArgumentError(f"{name!r} is no {what}: it cannot be written as UTF-8")
    # A text of n characters has n bytes or more, and four for each at most.
    if len(name) * 4 > LONGEST_NAME and (size := len(name.encode())) > LONGEST_NAME:
        shown = f"{name[:40]!r}..."
        raise ArgumentError(f"{shown} is no {what}: it has {size} bytes; Kafka's protocol has room for {LONGEST_NAME}")
    return name


def as_several(given: Any, expected: str) -> list[Any]:
    """Return the items of an iterable as a list."""
    if not isinstance(given, Iterable):
        raise ArgumentError(f"{given!r}: expected {expected}")
    return list(given)


def raw_names(names: object, what: str) -> list[str]:
    """Check one name or several; returns a list without duplicates."""
    if isinstance(names, str):
        return [raw_name(names, what)]
    if not isinstance(names, Iterable):
        raise ArgumentError(f"{names!r}: expected the name of a {what}, or several")
    found = [raw_name(name, what) for name in names]
    return list(dict.fromkeys(found))


def check_distinct(names: list[str], what: str) -> None:
    """Refuse duplicate names."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f"given twice: {what} {', '.join(twice)}")


def as_mapping(value: object, example: str) -> Mapping[Any, Any]:
    """Check that `value` is a dict."""
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{value!r}: expected a dict such as {example}")
    return value


def _refuse_foreign(topic: object) -> None:
    if type(topic).__name__ == "NewTopic":
        use = "monedula.NewTopic('orders', partitions=3, replication_factor=1, configs={'retention.ms': 60000})"
        raise ArgumentError(f"this NewTopic is that of another client; here: {use}")
