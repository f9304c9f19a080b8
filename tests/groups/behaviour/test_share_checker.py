"""The checker of share groups finds each kind of error that is planted into a history, and nothing in one without."""

from collections.abc import Callable

import pytest

from tests.groups.behaviour.checker import SECOND, Verdict, in_words
from tests.groups.behaviour.history import Event, crc
from tests.groups.behaviour.share_checker import STAGE, ShareChecker

TOPIC = "t"
TRUTH = {(TOPIC, 0): [str(offset).encode() for offset in range(8)]}

LOCK_SECONDS = 10

Plant = Callable[[list[Event]], None]


def told() -> list[Event]:
    """`a` releases 1, which `b` accepts; `a` dies with 2, which `b` accepts; a leader dies with 3; `b` rejects 4.

    `b` stands still with 5 beyond its lock; `c` accepts it. An answer about 6 is lost, and `a` gave 7 back unseen.
    """
    history: list[Event] = []

    def add(member: str, event: str, **fields: object) -> None:
        history.append({"t": (len(history) + 1) * SECOND, "member": member, "event": event, **fields})

    def handed(member: str, *rows: tuple[int, int, str]) -> None:
        listed = [[TOPIC, 0, *row, crc(TRUTH[TOPIC, 0][row[0] : row[0] + 1])] for row in rows]
        add(member, "batch", n=rows[0][0], rows=listed, deadline=(len(history) + 1 + LOCK_SECONDS) * SECOND)

    def ended(member: str, number: int, outcome: str = "done") -> None:
        add(member, "finished", n=number)
        add(member, "acknowledged", n=number, outcomes=[[TOPIC, 0, outcome]], reason="why")

    handed("a", (0, 1, "accept"), (1, 1, "release"))
    ended("a", 0)
    handed("b", (1, 2, "accept"))
    ended("b", 1)
    handed("a", (2, 1, "accept"))
    add("a", "killed")
    handed("b", (2, 2, "accept"))
    ended("b", 2)
    handed("b", (3, 1, "accept"))
    add(STAGE, "disturbed")
    ended("b", 3, "failed")
    add(STAGE, "quiet")
    handed("c", (3, 1, "accept"))
    ended("c", 3)
    handed("b", (4, 1, "reject"))
    ended("b", 4)
    handed("b", (5, 1, "accept"))
    add("b", "stopped")
    history[-1]["t"] += 1
    handed("c", (5, 2, "accept"))
    add("b", "continued")
    ended("b", 5, "failed")
    ended("c", 5)
    handed("c", (6, 1, "accept"))
    ended("c", 6, "unknown")
    add("a", "closed")
    handed("b", (7, 2, "accept"))
    ended("b", 7)
    return history


def of(history: list[Event], member: str, kind: str, number: int) -> Event:
    """An event about a batch."""
    return next(e for e in history if (e["member"], e["event"], e.get("n")) == (member, kind, number))


def forget(history: list[Event], member: str, kind: str, number: int | None = None) -> None:
    history.remove(next(e for e in history if (e["member"], e["event"], e.get("n")) == (member, kind, number)))


def swap_value(history: list[Event]) -> None:
    of(history, "c", "batch", 3)["rows"][0][5] += 1


def never_end(history: list[Event]) -> None:
    of(history, "b", "acknowledged", 7)["outcomes"][0][2] = "failed"


def end_twice(history: list[Event]) -> None:
    of(history, "b", "acknowledged", 5)["outcomes"][0][2] = "done"


def hand_out_what_is_done(history: list[Event]) -> None:
    of(history, "a", "batch", 0)["rows"][1][4] = "accept"


def hand_out_what_another_has(history: list[Event]) -> None:
    forget(history, "a", "killed")


def keep_the_count(history: list[Event]) -> None:
    of(history, "b", "batch", 1)["rows"][0][3] = 1


def raise_the_count(history: list[Event]) -> None:
    of(history, "b", "batch", 1)["rows"][0][3] = 3


def refuse(history: list[Event]) -> None:
    of(history, "b", "acknowledged", 4)["outcomes"][0][2] = "failed"


def hand_out_what_was_done_while_brokers_failed(history: list[Event], seconds: float) -> None:
    """`c` has 3 when brokers fail, and ends it; `a` has it after that, asked for so long after `c` got it."""
    place = history.index(of(history, "c", "batch", 3))
    got, ended = history[place], of(history, "c", "acknowledged", 3)
    failing = [{"t": got["t"] + 1, "member": STAGE, "event": event} for event in ("disturbed", "quiet")]
    late = {**got, "t": ended["t"] + 1, "member": "a", "n": 30, "deadline": got["deadline"] + int(seconds * SECOND)}
    history.insert(history.index(ended) + 1, late)
    history[place + 1 : place + 1] = failing


def acquire_what_is_done(history: list[Event]) -> None:
    hand_out_what_was_done_while_brokers_failed(history, 2.5)


def keep_what_came_since_brokers_failed(history: list[Event]) -> None:
    hand_out_what_was_done_while_brokers_failed(history, 0.5)


PLANTED: list[tuple[Plant, set[str]]] = [
    (swap_value, {"corrupt"}),
    (never_end, {"lost", "refused"}),
    (end_twice, {"twice"}),
    (hand_out_what_is_done, {"after-end", "repeated", "twice"}),
    (acquire_what_is_done, {"after-end"}),
    (keep_what_came_since_brokers_failed, {"after-end"}),
    (hand_out_what_another_has, {"overlap", "repeated"}),
    (keep_the_count, {"count"}),
    (raise_the_count, {"count"}),
    (refuse, {"lost", "refused"}),
]


def checked(history: list[Event]) -> Verdict:
    return ShareChecker(TRUTH, lock_seconds=LOCK_SECONDS).check(history)


def test_a_history_without_errors_has_no_findings() -> None:
    verdict = checked(told())
    assert not verdict.findings, in_words(verdict.findings)
    assert (verdict.committed, verdict.repeated) == ({(TOPIC, 0): 8}, 4)


def test_what_a_member_had_before_brokers_failed_may_come_after_its_end() -> None:
    history = told()
    hand_out_what_was_done_while_brokers_failed(history, -0.5)
    assert not checked(history).findings


@pytest.mark.parametrize(("plant", "kinds"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_planted_is_found(plant: Plant, kinds: set[str]) -> None:
    history = told()
    plant(history)
    assert checked(history).kinds == kinds
