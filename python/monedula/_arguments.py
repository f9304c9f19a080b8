"""Checks of the user's arguments, which turn them into the core's form."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from operator import index

from monedula._config.texts import is_utf8
from monedula._monedula import Batch
from monedula.errors import ArgumentError
from monedula.types.partitions import Assignment, OffsetAndMetadata, Position
from monedula.types.times import EPOCH, EXPECTED_TIME, time_of

_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_OF_PATTERNS = frozenset("*+?|^$()[]{}\\")
"""Characters that regular expressions have and names of topics have not."""
_LONGEST_NAME = 249
_NAMES = 'expected 1 to 249 of the characters a-z, A-Z, 0-9, ".", "_" and "-"'

RawPosition = tuple[str, int]
"""A position in the core's form: its kind, such as "offset" or "timestamp", and the number for it (0 without one)."""


RawOffset = tuple[tuple[str, int], int, int, str]
"""An offset to commit in the core's form: partition, offset, leader epoch or -1, metadata."""


def raw_position(position: Position) -> RawPosition:
    offset = whole_number(position)
    if offset is not None:
        if offset < 0:
            raise ArgumentError(f'offset {offset} is negative; use "earliest" or "latest" for the ends of the log')
        return ("offset", offset)
    if isinstance(position, datetime):
        return ("timestamp", timestamp_ms(position))
    if isinstance(position, str):
        if position in ("earliest", "latest", "committed"):
            return (position, 0)
        if time_of(position) is not None:
            return ("timestamp", timestamp_ms(position))
    expected = f"expected an offset, 'earliest', 'latest', 'committed', or a time: {EXPECTED_TIME}"
    raise ArgumentError(f"{position!r} is no position: {expected}")


def timestamp_ms(time: datetime | int | str) -> int:
    """`time` in milliseconds since 1970, UTC."""
    if isinstance(time, str):
        time = time_of(time) or time
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ArgumentError(f"{time!r} has no time zone; use datetime.now(timezone.utc), or .astimezone()")
        number: int | None = (time - EPOCH) // timedelta(milliseconds=1)
    else:
        number = whole_number(time)
    if number is None:
        raise ArgumentError(f"{time!r} is no time: expected milliseconds since 1970 (64 bits), or {EXPECTED_TIME}")
    if number < 0:
        raise ArgumentError(f"{time!r} is before 1970")
    return number


def raw_partition(partition: object) -> tuple[str, int]:
    if not isinstance(partition, tuple) or len(partition) != 2:
        if hasattr(partition, "topic") and hasattr(partition, "partition"):  # of confluent-kafka
            parts = f"({partition.topic!r}, {partition.partition!r})"
            raise ArgumentError(f"a partition is (topic, partition) here, not {type(partition).__name__}: give {parts}")
        raise ArgumentError(f"{partition!r} is no partition: expected (topic, partition), such as ('orders', 0)")
    topic, index = partition
    if not isinstance(topic, str) or not topic:
        raise ArgumentError(f"{partition!r}: the topic must be a name")
    if not is_name(topic):
        raise ArgumentError(f"{topic!r} is no topic's name: {_NAMES}")
    number = whole_number(index)
    if number is None or not 0 <= number < 1 << 31:
        raise ArgumentError(f"{partition!r}: the partition must be a whole number, 0 or more")
    return (topic, number)


def raw_partitions(partitions: Iterable[tuple[str, int]] | tuple[str, int]) -> list[tuple[str, int]]:
    """One partition or several, checked, as a list."""
    if is_pair(partitions) or isinstance(partitions, str) or not isinstance(partitions, Iterable):
        return [raw_partition(partitions)]
    return [raw_partition(partition) for partition in partitions]


def one_by_one(name: str, partitions: tuple[object, ...]) -> list[tuple[str, int]]:
    """The partitions that were given to a method as its arguments, checked; `name` is the method's."""
    for given in partitions:
        if not isinstance(given, (tuple, str, bytes)) and isinstance(given, Iterable):
            raise ArgumentError(f"{name}({given!r}): partitions are given one by one, such as {name}(*partitions)")
    return [raw_partition(given) for given in partitions]


def split_assignment(
    assignment: Assignment, default: RawPosition
) -> tuple[list[str], list[tuple[tuple[str, int], RawPosition]]]:
    """The argument of `assign`: whole topics, and partitions with positions. One of the lists is empty."""
    if isinstance(assignment, str):
        assignment = [assignment]
    if isinstance(assignment, Mapping):
        pairs = [(raw_partition(key), raw_position(value)) for key, value in assignment.items()]
        return [], pairs
    if is_pair(assignment):
        return [], [(raw_partition(assignment), default)]
    if not isinstance(assignment, Iterable):
        message = f"{assignment!r} cannot be assigned: expected a topic, or partitions such as [('orders', 0)]"
        raise ArgumentError(message)
    items = list(assignment)
    topics = [item for item in items if isinstance(item, str)]
    if not topics:
        return [], [(raw_partition(item), default) for item in items]
    if len(topics) < len(items):
        raise ArgumentError("assign() takes whole topics or single partitions, not both at once")
    topic_names(topics, "assign() takes names, or (topic, partition) pairs")
    return topics, []


def seconds(name: str, value: object) -> float:
    """A duration in seconds, checked; `name` is the argument's name in the error."""
    try:
        if isinstance(value, (str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
            raise TypeError
        duration = float(value)  # type: ignore[arg-type]
    except OverflowError:
        raise ArgumentError.of(name, value, "expected seconds, fewer of them") from None
    except (TypeError, ValueError):  # a text, an array of numpy, a decimal that is no number
        kind = type(value).__name__
        raise ArgumentError(f"{name}={value!r} ({kind}): expected seconds, a number such as 1.5") from None
    if not duration >= 0:  # NaN is no duration either: what waits for it would wait forever
        raise ArgumentError.of(name, value, "expected seconds, 0 or more")
    return duration


def topic_names(topics: Iterable[object], instead: str, instead_of_pattern: str | None = None) -> list[str]:
    """Topic names, checked; `instead` is the end of the error message, which says what to write.

    `instead_of_pattern` is what it ends with if the name looks like a pattern, where `subscribe` is not meant.
    """
    names = []
    for name in topics:
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"{name!r} is no topic's name; {instead}")
        if not is_name(name):
            meant = instead
            if _OF_PATTERNS.intersection(name):
                meant = instead_of_pattern or f"did you mean subscribe(pattern={name!r})?"
            raise ArgumentError(f"{name!r} is no topic's name: {_NAMES}; {meant}")
        names.append(name)
    return names


def loses_values(topics: object) -> bool:
    """Return true for a dict whose values would be dropped where names are taken.

    Those of what an `Admin` returns about topics, such as `list_topics()`, are no positions.
    """
    if not isinstance(topics, Mapping):
        return False
    is_listing = type(topics).__module__.startswith("monedula.admin.") and all(isinstance(key, str) for key in topics)
    return not is_listing


def is_name(topic: str) -> bool:
    return len(topic) <= _LONGEST_NAME and _CHARACTERS.issuperset(topic) and topic not in (".", "..")


def is_pair(value: object) -> bool:
    """Return true if `value` is meant as one `(topic, partition)`, even if the partition is wrongly a str of digits."""
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], str):
        return False
    second = value[1]
    return second.isdecimal() if isinstance(second, str) else not isinstance(second, tuple)


def whole_number(value: object) -> int | None:
    """`value` as an `int` if it is an integer (also of numpy) that fits 64 bits; else `None`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        number = index(value)
    except TypeError:  # an array of numpy has the method, and is no number; so has the class int
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def as_text(name: str, text: str) -> str:
    """Check that a text can be encoded, which half of a surrogate pair cannot; `name` is the argument's."""
    if not is_utf8(text):
        raise ArgumentError.of(name, text, "it cannot be written as UTF-8")
    return text


def truth(name: str, value: object) -> bool:
    """`value` as a `bool`, also of numpy; no number and no text is one."""
    kind = type(value)
    if kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")):
        return bool(value)
    raise ArgumentError.of(name, value, "expected True or False")


def check_callable(name: str, function: object, awaits: bool) -> None:
    """Refuse a callback that cannot be called, and a coroutine function where its coroutine would not be awaited."""
    if function is None:
        return
    if not callable(function):
        raise ArgumentError(f"{name}={function!r} cannot be called")
    if not awaits:
        from inspect import iscoroutinefunction

        # Also an object with `async def __call__`: its coroutine would be dropped without running.
        if iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
            alternative = (
                "a plain function does"
                if name == "on_event"
                else "the client for asyncio awaits it, or use a plain function"
            )
            raise ArgumentError(f"{name}={function!r} is a coroutine function, which nobody awaits here; {alternative}")


def checked_batch(what: object, otherwise: str) -> Batch:
    """A batch, checked; `otherwise` is what the error says of anything else."""
    if not isinstance(what, Batch):
        raise ArgumentError(f"{what!r} {otherwise}")
    return what


def raw_commit(what: object) -> Batch | list[RawOffset] | None:
    if what is None or isinstance(what, Batch):
        return what
    if isinstance(what, Mapping):
        return [_raw_offset(partition, offset) for partition, offset in what.items()]
    raise ArgumentError(f"{what!r} cannot be committed: expected a batch, {{(topic, partition): offset}}, or nothing")


def _raw_offset(partition: object, value: object) -> RawOffset:
    metadata, epoch = "", -1
    at = value
    if isinstance(value, OffsetAndMetadata):
        at, metadata, epoch = value
    elif isinstance(value, tuple) and len(value) == 2:
        at, metadata = value
    offset = whole_number(at)
    if offset is None or offset < 0 or not isinstance(metadata, str):
        message = f"{value!r} cannot be committed for {partition!r}: expected an offset, or (offset, metadata)"
        raise ArgumentError(message)
    return raw_partition(partition), offset, epoch, as_text("metadata", metadata)
