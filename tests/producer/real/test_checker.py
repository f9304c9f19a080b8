"""The checker finds each kind of error that is planted, and nothing where there is none."""

from collections.abc import Callable

import pytest

from tests.producer.real.checker import Sent, Stored, check, in_words

History = tuple[dict[int, list[Sent]], dict[int, list[Stored]]]


def clean() -> History:
    """Two partitions; a record in each failed, one of which was written all the same."""
    sent = {partition: [Sent(f"{partition}:{n}".encode(), n) for n in range(10)] for partition in range(2)}
    log = {partition: [Stored(n, f"{partition}:{n}".encode()) for n in range(10)] for partition in range(2)}
    sent[0][5] = Sent(b"0:5", error="timed out")
    sent[1][9] = Sent(b"1:9", error="timed out")
    del log[1][9]
    return sent, log


def lose(history: History) -> None:
    del history[1][0][3]


def repeat(history: History) -> None:
    history[1][1].append(Stored(10, b"1:4"))


def repeat_failed(history: History) -> None:
    history[1][0].append(Stored(10, b"0:5"))


def swap(history: History) -> None:
    sent, log = history
    log[1][3], log[1][4] = Stored(3, b"1:4"), Stored(4, b"1:3")
    sent[1][3], sent[1][4] = Sent(b"1:3", 4), Sent(b"1:4", 3)


def swap_failed(history: History) -> None:
    """A failed record was written behind later ones."""
    sent, log = history
    log[0][5], log[0][6] = Stored(5, b"0:6"), Stored(6, b"0:5")
    sent[0][6] = Sent(b"0:6", 5)


def name_other_offset(history: History) -> None:
    history[0][0][2] = Sent(b"0:2", 3)


def name_no_offset(history: History) -> None:
    history[0][0][2] = Sent(b"0:2", None)


def write_unsent(history: History) -> None:
    history[1][1].append(Stored(9, b"1:x"))


def leave_undone(history: History) -> None:
    history[0][0][2] = Sent(b"0:2", is_done=False)


def lose_whole_partition(history: History) -> None:
    del history[1][1]


def write_elsewhere(history: History) -> None:
    history[1][2] = [Stored(0, b"0:0")]


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (lose, {"lost"}),
        (repeat, {"duplicate", "reordered"}),
        (repeat_failed, {"duplicate", "reordered"}),
        (swap, {"reordered"}),
        (swap_failed, {"reordered"}),
        (name_other_offset, {"misplaced"}),
        (name_no_offset, {"misplaced"}),
        (write_unsent, {"alien"}),
        (leave_undone, {"undone"}),
        (lose_whole_partition, {"lost"}),
        (write_elsewhere, {"alien"}),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_what_is_planted_is_found(plant: Callable[[History], None], kinds: set[str]) -> None:
    history = clean()
    plant(history)
    findings = check(*history, may_fail=True)
    assert {finding.kind for finding in findings} == kinds, in_words(findings)


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert check(*clean(), may_fail=True) == []


def test_failures_are_findings_unless_they_were_to_be_expected() -> None:
    assert {finding.kind for finding in check(*clean())} == {"failed"}


def test_values_must_differ() -> None:
    with pytest.raises(ValueError, match="sent twice"):
        check({0: [Sent(b"a", 0), Sent(b"a", 1)]}, {})
