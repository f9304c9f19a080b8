"""The checker finds each kind of error that is planted into a history, and nothing in one without."""

import copy
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tests.groups.behaviour.checker import SECOND, Checker, Verdict, in_words
from tests.groups.behaviour.history import Event, crc, merged
from tests.groups.behaviour.peers import JavaMember

TOPIC = "t"
TRUTH = {(TOPIC, partition): [f"{partition}:{offset}".encode() for offset in range(40)] for partition in range(2)}
SESSION_SECONDS = 2.0

Plant = Callable[[list[Event]], None]


class Told:
    """Writes a history, an event every millisecond."""

    def __init__(self) -> None:
        self.history: list[Event] = []
        self._numbers = 0

    def __call__(self, member: str, event: str, **fields: object) -> None:
        self.history.append({"t": (len(self.history) + 1) * SECOND // 1000, "member": member, "event": event, **fields})

    def moved(self, member: str, event: str, *partitions: int) -> None:
        self(member, event, partitions=[[TOPIC, partition] for partition in partitions])

    def read(self, member: str, partition: int, first: int, last: int, *, outcome: str = "committed") -> None:
        """A batch with all that follows."""
        self._numbers += 1
        checked = crc(TRUTH[TOPIC, partition][first : last + 1])
        self(member, "batch", n=self._numbers, parts=[[TOPIC, partition, first, last, last + 1 - first, checked]])
        self(member, "finished", n=self._numbers)
        offsets = [[TOPIC, partition, last + 1]]
        self(member, "commit", c=self._numbers, offsets=offsets)
        if outcome:
            self(member, outcome, c=self._numbers, offsets=offsets)


def clean() -> list[Event]:
    """`a` owns both partitions, loses 1 to `b`, and gets it back when `b` leaves."""
    told = Told()
    told.moved("a", "assigned", 0, 1)
    told.read("a", 0, 0, 9)
    told.read("a", 1, 0, 9)
    told.moved("a", "revoked", 1)
    told.moved("b", "assigned", 1)
    told.read("a", 0, 10, 19)
    told.read("b", 1, 10, 19)
    told.read("b", 1, 20, 29)
    told("b", "closing")
    told.moved("b", "revoked", 1)
    told("b", "closed")
    told.moved("a", "assigned", 1)
    told.read("a", 1, 30, 39)
    told.read("a", 0, 20, 39)
    return told.history


def crashed(stopped_seconds: float = 5.0) -> list[Event]:
    """`a` is stopped after a batch that it never committed; `b` reads it again; `a` comes back and learns of it."""
    told = Told()
    told.moved("a", "assigned", 0)
    told.moved("b", "assigned", 1)
    told.read("b", 1, 0, 39)
    told.read("a", 0, 0, 9)
    told.read("a", 0, 10, 19, outcome="")
    told("a", "stopped")
    told.moved("b", "assigned", 0)
    told.read("b", 0, 10, 39)
    told("a", "continued")
    told.moved("a", "lost", 0)
    late = int(stopped_seconds * SECOND)
    for event in told.history[-2:]:
        event["t"] += late
    return told.history


def judge(history: list[Event], **options: bool) -> Verdict:
    return Checker(TRUTH, SESSION_SECONDS, **options).check(history)


def batches(history: list[Event], member: str) -> list[Event]:
    return [event for event in history if event["event"] == "batch" and event["member"] == member]


def at(history: list[Event], member: str, kind: str, number: int = 0) -> int:
    """The index of an event."""
    return [n for n, e in enumerate(history) if e["member"] == member and e["event"] == kind][number]


def put(history: list[Event], index: int, member: str, event: str, **fields: object) -> None:
    """Insert an event right before another."""
    history.insert(index, {"t": history[index]["t"] - 1, "member": member, "event": event, **fields})


def part(partition: int, first: int, last: int) -> list[object]:
    return [TOPIC, partition, first, last, last + 1 - first, crc(TRUTH[TOPIC, partition][first : last + 1])]


def cut_batch(history: list[Event]) -> None:
    """The last batch of `b` begins two records late."""
    batches(history, "b")[-1]["parts"] = [part(1, 22, 29)]


def drop_batch(history: list[Event]) -> None:
    """The last batch of `a` never came."""
    del history[at(history, "a", "batch", 4) :]


def repeat_batch(history: list[Event]) -> None:
    batches(history, "b")[-1]["parts"] = [part(1, 15, 29)]


def begin_early(history: list[Event]) -> None:
    batches(history, "b")[0]["parts"] = [part(1, 5, 19)]


def begin_late(history: list[Event]) -> None:
    batches(history, "b")[0]["parts"] = [part(1, 12, 19)]


def swap_values(history: list[Event]) -> None:
    batches(history, "a")[1]["parts"][0][5] ^= 1


def miss_inside(history: list[Event]) -> None:
    batches(history, "a")[1]["parts"][0][4] -= 1


def commit_beyond(history: list[Event]) -> None:
    for kind in ("commit", "committed"):
        history[at(history, "b", kind)]["offsets"] = [[TOPIC, 1, 21]]


def commit_before_finishing(history: list[Event]) -> None:
    index = at(history, "a", "finished")
    history[index], history[index + 1] = history[index + 1], history[index]


def commit_other(history: list[Event]) -> None:
    history[at(history, "b", "committed")]["offsets"] = [[TOPIC, 1, 19]]


def assign_early(history: list[Event]) -> None:
    index = at(history, "a", "revoked")
    history[index], history[index + 1] = history[index + 1], history[index]


def deliver_late(history: list[Event]) -> None:
    """`a` hands out a record of a partition that was assigned to `b`."""
    put(history, at(history, "b", "batch"), "a", "batch", n=99, parts=[part(1, 10, 10)])


def deliver_without(history: list[Event]) -> None:
    put(history, at(history, "b", "assigned"), "a", "batch", n=99, parts=[part(1, 10, 10)])


def deliver_contested(history: list[Event]) -> None:
    """`b` gets a partition that `a` still counts as its own, and `a` continues."""
    del history[at(history, "a", "revoked")]
    put(history, at(history, "b", "batch"), "a", "batch", n=99, parts=[part(1, 10, 10)])


def commit_late(history: list[Event]) -> None:
    """`a` commits a partition that `b` owns."""
    index = at(history, "b", "batch")
    put(history, index, "a", "committed", c=99, offsets=[[TOPIC, 1, 10]])
    put(history, index, "a", "commit", c=99, offsets=[[TOPIC, 1, 10]])


def revoke_twice(history: list[Event]) -> None:
    put(history, at(history, "b", "assigned"), "a", "revoked", partitions=[[TOPIC, 1]])


def assign_twice(history: list[Event]) -> None:
    put(history, at(history, "a", "revoked"), "a", "assigned", partitions=[[TOPIC, 0]])


def close_without_revoking(history: list[Event]) -> None:
    del history[at(history, "b", "revoked")]


def test_what_java_did_in_one_millisecond_stays_in_its_order() -> None:
    """A record that was handed out just before a revocation was judged as handed out after it."""
    partitions = [{"topic": TOPIC, "partition": 0}]
    record = {"topic": TOPIC, "partition": 0, "offset": 0, "value": "a"}
    member = object.__new__(JavaMember)
    member.driver = SimpleNamespace(  # type: ignore[assignment]
        events=[
            {"name": "partitions_assigned", "timestamp": 7, "partitions": partitions},
            {"name": "record_data", "timestamp": 7, **record},
            {"name": "partitions_revoked", "timestamp": 7, "partitions": partitions},
        ]
    )
    member._clock_ns, member._numbers, member._told, member._heard = 0, 0, [], 0
    told = [event["event"] for event in merged(member.events)]
    assert told == ["assigned", "batch", "finished", "revoked"]


def test_of_two_commits_in_one_millisecond_the_second_counts() -> None:
    """A Java member that was given back what it had committed last was said to begin behind its commit."""
    history = clean()
    first, second = (
        index for index, event in enumerate(history) if event["event"] == "commit" and event["member"] == "b"
    )
    for event in history[first : second + 2]:
        event["t"] = history[second + 1]["t"]
    assert judge(history).findings == []


def leave_unowned(history: list[Event]) -> None:
    index = len(history) - 1
    put(history, index, "a", "revoked", partitions=[[TOPIC, 1]])


def own_twice(history: list[Event]) -> None:
    index = len(history) - 1
    put(history, index, "c", "assigned", partitions=[[TOPIC, 1]])


@pytest.mark.parametrize(
    ("plant", "finding"),
    [
        (cut_batch, "poll-skip"),
        (cut_batch, "lost"),
        (drop_batch, "lost"),
        (repeat_batch, "nonmonotonic"),
        (repeat_batch, "clean-dup"),
        (begin_early, "resume"),
        (begin_early, "clean-dup"),
        (begin_late, "resume"),
        (begin_late, "lost"),
        (swap_values, "corrupt"),
        (miss_inside, "poll-skip"),
        (commit_beyond, "commit-gap"),
        (commit_before_finishing, "commit-gap"),
        (commit_other, "commit-gap"),
        (assign_early, "overlap"),
        (deliver_late, "unowned"),
        (deliver_late, "overlap"),
        (deliver_without, "unowned"),
        (deliver_contested, "overlap"),
        (commit_late, "zombie-commit"),
        (revoke_twice, "unbalanced"),
        (assign_twice, "unbalanced"),
        (close_without_revoking, "unbalanced"),
        (leave_unowned, "liveness"),
        (own_twice, "liveness"),
        (own_twice, "overlap"),
    ],
)
def test_what_is_planted_is_found(plant: Plant, finding: str) -> None:
    history = copy.deepcopy(clean())
    plant(history)
    verdict = judge(history)
    assert finding in verdict.kinds, in_words(verdict.findings)


def test_a_clean_history_has_no_findings() -> None:
    verdict = judge(clean())
    assert verdict.findings == [], in_words(verdict.findings)
    assert (verdict.delivered, verdict.repeated) == (80, 0)
    assert verdict.committed == {(TOPIC, 0): 40, (TOPIC, 1): 40}


def test_what_a_stopped_member_left_may_come_again() -> None:
    verdict = judge(crashed())
    assert verdict.findings == [], in_words(verdict.findings)
    assert verdict.repeated == 10


def test_a_zombie_that_delivers_is_found() -> None:
    history = crashed()
    put(history, at(history, "a", "lost"), "a", "batch", n=99, parts=[part(0, 20, 20)])
    assert {"zombie", "overlap"} <= judge(history).kinds


def test_a_zombie_that_nobody_replaced_must_not_deliver_either() -> None:
    history = [event for event in crashed() if event["event"] != "assigned" or event["t"] < 10 * SECOND // 1000]
    put(history, at(history, "a", "lost"), "a", "batch", n=99, parts=[part(0, 20, 20)])
    assert "zombie" in judge(history).kinds


def test_a_zombie_that_commits_is_found() -> None:
    history = crashed()
    index = at(history, "a", "lost")
    put(history, index, "a", "committed", c=99, offsets=[[TOPIC, 0, 20]])
    put(history, index, "a", "commit", c=99, offsets=[[TOPIC, 0, 20]])
    assert "zombie-commit" in judge(history).kinds


def test_what_was_stored_before_a_pause_may_be_answered_after_it() -> None:
    history = crashed()
    index = at(history, "a", "lost")
    told = max(n for n, e in enumerate(history) if e["event"] == "commit" and e["member"] == "a")
    put(history, index, "a", "committed", c=history[told]["c"], offsets=history[told]["offsets"])
    assert judge(history).findings == []


def test_a_zombie_that_never_hears_of_its_loss_is_found() -> None:
    history = crashed()
    del history[at(history, "a", "lost")]
    assert {"overlap", "liveness"} <= judge(history).kinds


@pytest.mark.parametrize(("ending", "kinds"), [("lost", set()), ("revoked", {"clean-dup", "overlap"})])
def test_what_a_busy_member_lost_may_come_again_before_it_knows(ending: str, kinds: set[str]) -> None:
    told = Told()
    told.moved("a", "assigned", 0)
    told.moved("c", "assigned", 1)
    told.read("c", 1, 0, 39)
    told("a", "batch", n=99, parts=[part(0, 0, 9)])
    told.moved("b", "assigned", 0)
    told.read("b", 0, 0, 39)
    told.moved("a", ending, 0)
    verdict = judge(told.history)
    assert verdict.kinds == kinds
    assert verdict.repeated == (0 if kinds else 10)


def test_a_hiccup_is_no_excuse() -> None:
    """A pause shorter than the session: nothing changes hands, nothing may come again."""
    history = clean()
    index = at(history, "b", "batch", 1)
    put(history, index, "b", "continued")
    put(history, index, "b", "stopped")
    assert judge(history).findings == []
    repeat_batch(history)
    assert "clean-dup" in judge(history).kinds


@pytest.mark.parametrize("outcome", ["commit_failed", ""])
def test_a_commit_that_failed_or_is_in_doubt_may_have_been_stored_or_not(outcome: str) -> None:
    told = Told()
    told.moved("a", "assigned", 0)
    told.moved("c", "assigned", 1)
    told.read("c", 1, 0, 39)
    told.read("a", 0, 0, 9)
    told.read("a", 0, 10, 19, outcome=outcome)
    told("a", "killed")
    told.moved("b", "assigned", 0)
    before = len(told.history)
    for start in (10, 20):
        del told.history[before:]
        told.read("b", 0, start, 39)
        verdict = judge(told.history)
        assert verdict.findings == [], in_words(verdict.findings)
    del told.history[before:]
    told.read("b", 0, 15, 39)
    assert judge(told.history).kinds == {"resume"}


def test_commits_that_are_not_told_are_held_against_what_was_finished() -> None:
    history = [event for event in clean() if not event["event"].startswith("commit")]
    assert judge(history, automatic=True).findings == []
    begin_late(history)
    assert "resume" in judge(history, automatic=True).kinds
