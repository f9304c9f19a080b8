"""Assignors of your own: who gets which partitions of a group.

The members of a group offer assignors by name, the coordinator picks one that all of them offer, and one member, the
leader, computes the assignment with it. So every member must know the assignor, and it must decide by its arguments
alone.

    class Alphabetic:
        name = "alphabetic"

        def assign(self, topics: dict[str, int], members: list[Member]) -> dict[str, list[tuple[str, int]]]:
            first = min(members, key=lambda member: member.member_id)
            everything = [(topic, index) for topic, count in topics.items() for index in range(count)]
            return {first.member_id: everything}


    consumer = monedula.Consumer(settings, topics=["orders"], assignors=[Alphabetic()])
"""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from monedula._monedula import AssignorDesk
from monedula.errors import ArgumentError
from monedula.partitions import TopicPartition, raw_partition

_LOGGER = logging.getLogger("monedula.assignor")


@dataclass(frozen=True, slots=True)
class Member:
    """What the leader knows of a member.

    Attributes:
        member_id: its id, by which the result names it.
        instance_id: its `group.instance.id`, if it is a static one.
        topics: the topics that it subscribes to.
        owned: the partitions that it has; empty where all are given up before the join (eager).
        generation: the generation in which it had them, -1 unknown.
        rack: its `client.rack`.
        user_data: what its `subscription` gave.
    """

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    generation: int
    rack: str | None
    user_data: bytes | None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a member gets, with something for its own assignor to know.

    Attributes:
        partitions: the partitions.
        user_data: what its assignor is told by `assigned`.
    """

    partitions: Sequence[tuple[str, int]]
    user_data: bytes | None = None


@runtime_checkable
class Assignor(Protocol):
    """Decides who gets which partitions.

    Besides what stands here it may have:

    - `cooperative: bool`, true if its members give up only what they are to lose, after the join, and what moves is
      left out for a round (KIP-429). A partition must then not be given to a member while another still owns it.
      False if left out: all is given up before each join.
    - `subscription(topics: set[str], owned: set[TopicPartition], generation: int) -> bytes | None`: what this member
      wants the leader's assignor to know; called before each join.
    - `assigned(partitions: set[TopicPartition], user_data: bytes | None) -> None`: what was assigned last, with what
      the leader's assignor told; called before `subscription`.

    Its methods are called one at a time, in a thread of their own, not in that of whoever polls. What they raise is
    logged; what `assign` raises is raised as `AssignorError` as well.
    """

    @property
    def name(self) -> str:
        """The name that members agree on."""

    def assign(
        self, topics: dict[str, int], members: list[Member]
    ) -> Mapping[str, Iterable[tuple[str, int]] | Assignment]:
        """Who gets what, by member id.

        Args:
            topics: the number of partitions of every topic that a member subscribes to and that exists.
            members: all members.
        """


Strategy = Sequence["Assignor | type[Assignor] | str"]
"""Assignors of one's own and names of built-in ones, the preferred first."""

RawStrategy = list[tuple[str, bool | None]]
"""As the core takes them: a name, and for one's own whether it is cooperative."""


def split_strategy(assignors: Strategy) -> tuple[RawStrategy, dict[str, Assignor]]:
    """Names for the core, and one's own assignors by name.

    Raises:
        ArgumentError: if one is no assignor, or two have the same name.
    """
    if isinstance(assignors, str) or not isinstance(assignors, Iterable):
        raise ArgumentError(f"assignors={assignors!r}: expected a list of assignors and names of built-in ones")
    names: RawStrategy = []
    own: dict[str, Assignor] = {}
    for given in assignors:
        if isinstance(given, str):
            names.append((given, None))
            continue
        assignor: Any = given() if isinstance(given, type) else given
        name = getattr(assignor, "name", None)
        if not isinstance(name, str) or not name or not callable(getattr(assignor, "assign", None)):
            raise ArgumentError(f"{given!r} is no assignor: it needs a name and a method assign(topics, members)")
        own[name] = assignor
        names.append((name, bool(getattr(assignor, "cooperative", False))))
    if len({name for name, _ in names}) < len(names):
        raise ArgumentError(f"assignors: two have the same name: {', '.join(name for name, _ in names)}")
    if not names:
        raise ArgumentError("assignors is empty: leave it out, or give at least one")
    return names, own


def serve(desk: AssignorDesk, own: Mapping[str, Assignor]) -> None:
    """Let a thread of its own do what the core asks of these assignors, for as long as the consumer lives."""
    threading.Thread(target=_serve, args=(desk, own), name="monedula-assignor", daemon=True).start()


def _serve(desk: AssignorDesk, own: Mapping[str, Assignor]) -> None:
    while (job := desk.next()) is not None:
        number, name, kind, arguments = job
        try:
            desk.answer(number, _DO[kind](own[name], *arguments))
        # Whatever it is: without this thread every assignment from now on would fail.
        except BaseException as error:
            _LOGGER.exception("the assignor %s failed", name)
            desk.fail(number, f"{type(error).__name__}: {error}")


def _subscription(
    assignor: Any,
    topics: list[str],
    owned: list[tuple[str, int]],
    generation: int,
    user_data: bytes | None,
) -> bytes | None:
    partitions = {TopicPartition(*partition) for partition in owned}
    if generation >= 0 and hasattr(assignor, "assigned"):
        assignor.assigned(set(partitions), user_data)
    if not hasattr(assignor, "subscription"):
        return None
    told = assignor.subscription(set(topics), partitions, generation)
    if told is not None and not isinstance(told, (bytes, bytearray, memoryview)):
        raise TypeError(f"subscription() returned {told!r}, not bytes or None")
    return None if told is None else bytes(told)


def _assign(
    assignor: Assignor, topics: dict[str, int], members: list[tuple[Any, ...]]
) -> list[tuple[str, list[tuple[str, int]], bytes | None]]:
    assigned = assignor.assign(topics, [_member(*member) for member in members])
    if not isinstance(assigned, Mapping):
        raise TypeError(f"assign() returned {assigned!r}, not a dict of partitions by member id")
    return [_share(member_id, share) for member_id, share in assigned.items()]


def _share(member_id: str, share: object) -> tuple[str, list[tuple[str, int]], bytes | None]:
    partitions, user_data = (share.partitions, share.user_data) if isinstance(share, Assignment) else (share, None)
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise TypeError(f"assign() gave {partitions!r} to {member_id}, not partitions")
    return member_id, [raw_partition(tuple(partition)) for partition in partitions], user_data


def _member(
    member_id: str,
    instance_id: str | None,
    topics: list[str],
    owned: list[tuple[str, int]],
    generation: int,
    rack: str | None,
    user_data: bytes | None,
) -> Member:
    has = tuple(TopicPartition(*partition) for partition in owned)
    return Member(member_id, instance_id, tuple(topics), has, generation, rack, user_data)


_DO: dict[str, Any] = {"subscription": _subscription, "assign": _assign}
