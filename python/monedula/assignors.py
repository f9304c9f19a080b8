"""Your own assignors, which decide which member of a group reads which partitions.

The members of a group send the names of their assignors, the coordinator chooses one that all of them have, and one
member, the leader, computes the assignment with it. So every member needs the assignor, and the assignor must decide by
its arguments alone.

    class Alphabetic:
        name = "alphabetic"

        def assign(self, topics: dict[str, int], members: list[Member]) -> dict[str, list[tuple[str, int]]]:
            first = min(members, key=lambda member: member.member_id)
            everything = [(topic, index) for topic, count in topics.items() for index in range(count)]
            return {first.member_id: everything}


    consumer = monedula.Consumer(settings, topics=["orders"], assignors=[Alphabetic()])
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from monedula._arguments import as_text, raw_partition
from monedula._monedula import AssignorDesk
from monedula._process.fork_safety import WRITING
from monedula._process.threads import start as start_thread
from monedula.errors import ArgumentError
from monedula.types.partitions import TopicPartition

_LOGGER = logging.getLogger("monedula.assignor")


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as the leader knows it.

    Attributes:
        member_id: the member id, the key for the result.
        instance_id: the `group.instance.id` of a static member; else `None`.
        topics: the topics that the member subscribes to.
        owned: the partitions that the member owns; empty with an eager assignor, where all are revoked before the join.
        generation: the generation in which the member owned them; -1 if unknown.
        rack: the member's `client.rack`.
        user_data: the result of the member's `subscription()`.
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
    """The partitions assigned to a member, with data for the member's own assignor.

    Attributes:
        partitions: the partitions.
        user_data: passed to `assigned()` of the member's assignor.
    """

    partitions: Sequence[tuple[str, int]]
    user_data: bytes | None = None


@runtime_checkable
class Assignor(Protocol):
    """Decides which member gets which partitions.

    Besides `name` and `assign` an assignor may have:

    - `cooperative: bool`: if true, a member revokes only the partitions that move to another member, after the join
      (KIP-429). `assign` must then leave out, for one round, a partition that another member still owns. If false or
      left out, each member revokes all partitions before each join (eager).
    - `subscription(topics: set[str], owned: set[TopicPartition], generation: int) -> bytes | None`: returns data of
      this member for the leader's assignor (`Member.user_data`); called before each join.
    - `assigned(partitions: set[TopicPartition], user_data: bytes | None) -> None`: receives the last assignment, with
      the data of the leader's assignor (`Assignment.user_data`); called before `subscription`.

    The methods are called one at a time, in a thread of their own, not in the thread that polls. Their errors are
    logged; the consumer raises those of `assign` as `AssignorError` as well.
    """

    @property
    def name(self) -> str:
        """The name of the assignor in the group protocol; the same for all members."""

    def assign(
        self, topics: dict[str, int], members: list[Member]
    ) -> Mapping[str, Iterable[tuple[str, int]] | Assignment]:
        """Compute the assignment: the partitions of each member, by member id.

        Args:
            topics: the partition count of every existing topic that a member subscribes to.
            members: all members of the group.

        Returns:
            The partitions of each member, by member id.
        """


Strategy = Sequence["Assignor | type[Assignor] | str"]
"""The user's own assignors and names of built-in ones, the preferred one first."""

RawStrategy = list[tuple[str, bool | None]]
"""Assignors in the core's form: the name, and whether it is cooperative; `None` for a built-in assignor."""


def split_strategy(assignors: Strategy) -> tuple[RawStrategy, dict[str, Assignor]]:
    """Split assignors into the list for the core, and the user's own assignors by name."""
    if isinstance(assignors, str) or not isinstance(assignors, Iterable):
        raise ArgumentError.of("assignors", assignors, "expected a list of assignors and names of built-in ones")
    names: RawStrategy = []
    own: dict[str, Assignor] = {}
    for given in assignors:
        if isinstance(given, str):
            names.append((as_text("assignors", given), None))
            continue
        assignor: Any = given() if isinstance(given, type) else given
        name = getattr(assignor, "name", None)
        if not isinstance(name, str) or not name or not callable(getattr(assignor, "assign", None)):
            raise ArgumentError(f"{given!r} is no assignor: it needs a name and a method assign(topics, members)")
        own[as_text("assignors", name)] = assignor
        names.append((name, bool(getattr(assignor, "cooperative", False))))
    if len({name for name, _ in names}) < len(names):
        raise ArgumentError(f"assignors: two have the same name: {', '.join(name for name, _ in names)}")
    if not names:
        raise ArgumentError("assignors is empty: leave it out, or give at least one")
    return names, own


def serve(desk: AssignorDesk, own: Mapping[str, Assignor]) -> None:
    """Start a thread that runs the core's calls of these assignors, for as long as the consumer lives."""
    start_thread(_serve, desk, own, name="monedula-assignor")


def _serve(desk: AssignorDesk, own: Mapping[str, Assignor]) -> None:
    while (job := desk.next()) is not None:
        number, name, kind, arguments = job
        try:
            desk.answer(number, _DO[kind](own[name], *arguments))
        # BaseException: if this thread ended, every later assignment would fail.
        except BaseException as error:
            with WRITING:
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
    user_data = assignor.subscription(set(topics), partitions, generation)
    if user_data is not None and not isinstance(user_data, (bytes, bytearray, memoryview)):
        raise TypeError(f"subscription() returned {user_data!r}, not bytes or None")
    return None if user_data is None else bytes(user_data)


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
