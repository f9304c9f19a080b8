"""Errors planted into the history of a real group: the checker finds them among everything else that happened."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.groups.behaviour.checker import Checker, in_words
from tests.groups.behaviour.conftest import SceneFactory
from tests.groups.behaviour.history import Event, TopicPartition, Truth, of_kind, partitions_of

History = list[Event]

NEWCOMER = "c"
"""The member that gets the partitions which others revoke."""

BATCHES_LEAST = 10
"""Records of each partition that are read before any is revoked; errors are planted into the last ones."""


class Handover(NamedTuple):
    """A partition that went from one member to another."""

    partition: TopicPartition
    revoked: Event
    assigned: Event


def handover(history: History) -> Handover:
    """How the newcomer came to its first partition."""
    assigned = next(e for e in of_kind(history, "assigned") if e["member"] == NEWCOMER and e["partitions"])
    partition = partitions_of(assigned)[0]
    before = [e for e in of_kind(history, "revoked") if partition in partitions_of(e) and e["t"] < assigned["t"]]
    return Handover(partition, before[-1], assigned)


def batches_before(history: History, moved: Handover) -> History:
    """The batches with that partition of the member that revoked it."""
    read = batches_with(moved.partition, history)
    return [e for e in read if e["member"] == moved.revoked["member"] and e["t"] < moved.revoked["t"]]


def batches_with(partition: TopicPartition, events: History) -> History:
    """The batches with records of a partition."""
    return [event for event in of_kind(events, "batch") if part_of(event, partition)]


def part_of(batch: Event, partition: TopicPartition) -> list[Any]:
    """The part of a batch about a partition; empty if it has none of its records."""
    return next((part for part in batch["parts"] if (part[0], part[1]) == partition), [])


def skip_a_batch(history: History) -> None:
    """One batch was fetched, and never handed out."""
    history.remove(batches_before(history, handover(history))[-5])


def hand_out_twice(history: History) -> None:
    moved = handover(history)
    again = dict(batches_before(history, moved)[-5])
    history.insert(history.index(moved.revoked), {**again, "t": moved.revoked["t"] - 1, "n": 10**6})


def mix_up_values(history: History) -> None:
    moved = handover(history)
    part_of(batches_before(history, moved)[-5], moved.partition)[5] ^= 1


def commit_one_more(history: History) -> None:
    """Off by one: every commit."""
    for event in of_kind(history, "commit", "committed"):
        event["offsets"] = [[topic, partition, offset + 1] for topic, partition, offset in event["offsets"]]


def skip_the_commit(history: History) -> None:
    """The commit before the revocation is removed, so the new owner cannot know where to begin."""
    revoked = handover(history).revoked
    skipped = [event for event in of_kind(history, "commit", "committed") if event["member"] == revoked["member"]]
    for event in skipped:
        if event["t"] < revoked["t"]:
            history.remove(event)


def commit_before_the_work(history: History) -> None:
    """Fetched offsets are committed, not finished ones."""
    for event in of_kind(history, "finished"):
        event["t"] += 10**9
    history.sort(key=lambda event: int(event["t"]))


def give_up_after_the_other_has_it(history: History) -> None:
    moved = handover(history)
    moved.revoked["t"] = moved.assigned["t"] + 1
    history.sort(key=lambda event: int(event["t"]))


def hand_out_after_giving_up(history: History) -> None:
    moved = handover(history)
    late = batches_before(history, moved)[-1]
    late["t"] = moved.assigned["t"] + 1
    late["parts"] = [part_of(late, moved.partition)]
    history.sort(key=lambda event: int(event["t"]))


def forget_the_callback(history: History) -> None:
    history.remove(handover(history).revoked)


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


def has_read(owned: set[TopicPartition], events: History) -> bool:
    """Whether a member has read enough of each of its partitions: then whichever it revokes can be tampered with."""
    return all(len(batches_with(partition, events)) >= BATCHES_LEAST for partition in owned)


def test_what_is_planted_into_a_real_history_is_found(scene: SceneFactory) -> None:
    play = scene("a", "b")
    for member in play.group.alive:
        member.wait(f"{BATCHES_LEAST} batches of each partition", partial(has_read, member.owned))
    play.join(NEWCOMER)
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
