"""Errors planted into the history of a real group: the checker finds them among everything else that happened."""

import copy
from collections.abc import Callable

import pytest

from tests.groups.behaviour.checker import Checker, in_words
from tests.groups.behaviour.conftest import SceneFactory
from tests.groups.behaviour.history import Event, Truth, of_kind, partitions_of

History = list[Event]

BATCHES_LEAST = 10


def handover(history: History) -> tuple[Event, Event]:
    """A revocation, and the assignment of one of its partitions to another member."""
    for revoked in of_kind(history, "revoked"):
        if len(batches_before(history, revoked)) < BATCHES_LEAST:
            continue
        for assigned in of_kind(history, "assigned"):
            later = assigned["t"] > revoked["t"] and assigned["member"] != revoked["member"]
            if later and set(partitions_of(assigned)) & set(partitions_of(revoked)):
                return revoked, assigned
    raise AssertionError("nothing was handed over")


def batches_before(history: History, revoked: Event) -> History:
    """The batches of the member that gave something up."""
    mine = [event for event in of_kind(history, "batch") if event["member"] == revoked["member"]]
    return [event for event in mine if event["t"] < revoked["t"]]


def skip_a_batch(history: History) -> None:
    """One batch was fetched, and never handed out."""
    revoked, _ = handover(history)
    gone = batches_before(history, revoked)[-5]
    history.remove(gone)


def hand_out_twice(history: History) -> None:
    revoked, _ = handover(history)
    again = dict(batches_before(history, revoked)[-5])
    history.insert(history.index(revoked), {**again, "t": revoked["t"] - 1, "n": 10**6})


def mix_up_values(history: History) -> None:
    revoked, _ = handover(history)
    batches_before(history, revoked)[-5]["parts"][0][5] ^= 1


def commit_one_more(history: History) -> None:
    """Off by one: every commit."""
    for event in of_kind(history, "commit", "committed"):
        event["offsets"] = [[topic, partition, offset + 1] for topic, partition, offset in event["offsets"]]


def skip_the_commit(history: History) -> None:
    """What was committed before the handover was not: the new owner cannot know where to begin."""
    revoked, _ = handover(history)
    skipped = [event for event in of_kind(history, "commit", "committed") if event["member"] == revoked["member"]]
    for event in skipped:
        if event["t"] < revoked["t"]:
            history.remove(event)


def commit_before_the_work(history: History) -> None:
    """What was fetched is committed, not what was finished."""
    for event in of_kind(history, "finished"):
        event["t"] += 10**9
    history.sort(key=lambda event: int(event["t"]))


def give_up_after_the_other_has_it(history: History) -> None:
    revoked, assigned = handover(history)
    revoked["t"] = assigned["t"] + 1
    history.sort(key=lambda event: int(event["t"]))


def hand_out_after_giving_up(history: History) -> None:
    revoked, assigned = handover(history)
    late = batches_before(history, revoked)[-1]
    late["t"] = assigned["t"] + 1
    late["parts"] = [part for part in late["parts"] if (part[0], part[1]) in partitions_of(revoked)] or late["parts"]
    late["parts"][0][:2] = next(iter(set(partitions_of(assigned)) & set(partitions_of(revoked))))
    history.sort(key=lambda event: int(event["t"]))


def forget_the_callback(history: History) -> None:
    revoked, _ = handover(history)
    history.remove(revoked)


PLANTED: list[tuple[Callable[[History], None], set[str]]] = [
    (skip_a_batch, {"poll-skip", "lost", "commit-gap"}),
    (hand_out_twice, {"nonmonotonic", "clean-dup"}),
    (mix_up_values, {"corrupt"}),
    (commit_one_more, {"commit-gap", "resume"}),
    (skip_the_commit, {"resume"}),
    (commit_before_the_work, {"commit-gap"}),
    (give_up_after_the_other_has_it, {"overlap"}),
    (hand_out_after_giving_up, {"unowned", "overlap"}),
    (forget_the_callback, {"overlap"}),
]


def test_what_is_planted_into_a_real_history_is_found(scene: SceneFactory) -> None:
    play = scene("a", "b")
    play.join("c")
    play.flows(records=10)
    ends = play.writer.stop()
    play.group.wait_finished(ends)
    truth: Truth = play.truth(ends)
    play.group.leave()
    play.group.verify(truth)
    real = play.group.history()
    for plant, kinds in PLANTED:
        history = copy.deepcopy(real)
        plant(history)
        found = Checker(truth, play.group.session_seconds).check(history)
        if not kinds <= found.kinds:
            pytest.fail(f"{plant.__name__}: {kinds - found.kinds} not found: {in_words(found.findings)}")
