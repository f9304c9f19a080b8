"""Groups that leave things for later: lost members that are waited for, partitions that move one by one."""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.groups.behaviour.conftest import SceneFactory
from tests.groups.behaviour.group import Member
from tests.groups.behaviour.history import of_kind
from tests.groups.behaviour.peers import Mixed
from tests.groups.behaviour.scene import Scene, joins, last, rebalances
from tests.groups.behaviour.stage import Stage
from tests.interop.process import eventually

DEFERRED = {"partition.assignment.strategy": "deferred,cooperative-sticky"}
LONG = {**DEFERRED, "scheduled.rebalance.max.delay.ms": 600_000}
"""Longer than any of these tests: a partition that is assigned to another member was not reserved."""
SHORT = {**DEFERRED, "scheduled.rebalance.max.delay.ms": 2000}

START = {"group.initial.rebalance.delay.ms": 600_000}
"""Nothing is assigned before the test says so: the members that have joined by then are the first, and no newcomers."""

pytestmark = pytest.mark.only("classic")


def together(scene: SceneFactory, *names: str, settings: Mapping[str, object], **options: Any) -> Scene:
    """A group of members that begin together, in whatever order they come up."""
    play = scene(settings={**settings, **START}, **options)
    for name in names:
        play.group.join(name)

    def met() -> bool:
        generations = [member.generations[-1:] for member in play.group.alive]
        return generations[0] != [] and all(each == generations[0] for each in generations)

    eventually("all to be in one generation", met)
    play[names[0]].call("rebalance")
    play.shared()
    play.flows()
    return play


def stay_as_they_are(members: Iterable[Member], marks: dict[str, int]) -> bool:
    """Whether no member had a partition revoked or assigned since."""
    return not any(list(of_kind(each.events[marks[each.name] :], "assigned", "revoked", "lost")) for each in members)


def moves(member: Member, mark: int = 0) -> dict[str, int]:
    """The numbers of partitions in its callbacks since, by kind."""
    counts: dict[str, int] = {}
    for event in of_kind(member.events[mark:], "assigned", "revoked", "lost"):
        counts[event["event"]] = counts.get(event["event"], 0) + len(event["partitions"])
    return counts


def is_told(member: Member, generations: int) -> bool:
    """Whether it has the assignment of a rebalance after this many."""
    return rebalances(member) > generations and last(member.events, "state")["after"] == "Stable"


def leader(play: Scene) -> str:
    """The leader of the last generation."""
    newest = {member: last(member.events, "generation") for member in play.group.alive}
    generation = max(event["generation"] for event in newest.values())
    leads = [member for member, event in newest.items() if event["leader"] and event["generation"] == generation]
    return str(leads[0].options["settings"]["client.id"])


def assignor(play: Scene, name: str) -> object:
    """By which the last assignment of a member was made."""
    return next((event["assignor"] for event in reversed(play[name].events) if event["event"] == "generation"), None)


@pytest.mark.also_on_kafka
@pytest.mark.timeout(240)
def test_members_that_are_killed_or_closed_in_turn_get_back_what_they_had(stage: Stage, scene: SceneFactory) -> None:
    play = together(scene, "a", "b", "c", partitions=9, session_seconds=stage.short_session, settings=LONG)
    for name, how in (("a", "kill"), ("b", "leave")):
        had, others = play[name].owned, [member for member in play.group.alive if member is not play[name]]
        marks = {member.name: len(member.events) for member in others}
        getattr(play[name], how)()
        play.flows({index for member in others for _, index in member.owned})
        play.join(name)
        assert play[name].owned == had
        assert stay_as_they_are(others, marks), "nothing else moves"
        play.flows()
    assert assignor(play, "c") == "deferred"
    play.end()


@pytest.mark.timeout(240)
def test_what_nobody_comes_back_for_is_given_away_after_the_wait(scene: SceneFactory) -> None:
    play = together(scene, "a", "b", "c", partitions=9, settings=SHORT)
    stays = {name: play[name].owned for name in "bc"}
    marks = {name: len(play[name].events) for name in "bc"}
    generations = {name: len(play[name].generations) for name in "bc"}
    play["a"].leave()
    play.shared()
    for name in "bc":
        assert play[name].owned > stays[name]
        assert not list(of_kind(play[name].events[marks[name] :], "revoked", "lost"))
        assert len(play[name].generations) - generations[name] >= 2, "one rebalance as it left, one at the deadline"
    assert play.end().repeated == 0


@pytest.mark.timeout(240)
def test_a_leader_that_dies_in_the_middle_of_a_wait_is_waited_for_too(stage: Stage, scene: SceneFactory) -> None:
    play = together(scene, "a", "b", "c", partitions=9, session_seconds=stage.short_session, settings=LONG)
    first = leader(play)
    other, stays = (name for name in "abc" if name != first)
    had = {name: play[name].owned for name in "abc"}
    marks = {stays: len(play[stays].events)}
    before = joins(play.group)
    play[other].leave()
    eventually("both to know", lambda: all(is_told(play[name], before[name]) for name in (first, stays)))
    before = joins(play.group)
    play[first].kill()
    eventually("another to lead", lambda: is_told(play[stays], before[stays]))
    assert leader(play) == stays
    play.flows({index for _, index in had[stays]})
    assert play.group.owners().keys() == had[stays], "what both had is nobody's"

    def has_its_part(name: str) -> bool:
        return play[name].owned == had[name]

    # The new leader knows which member was lost first: the first newcomer gets its partitions, and no more.
    for name, owned in ((other, 6), (first, 9)):
        play.group.join(name)
        eventually("its part", partial(has_its_part, name))
        assert len(play.group.owners()) == owned
    assert stay_as_they_are([play[stays]], marks), "nothing else moves"
    play.flows()
    play.end()


@pytest.mark.also_on_kafka
@pytest.mark.thorough_on_kafka
@pytest.mark.timeout(240)
def test_a_surge_leaves_nothing_unread(scene: SceneFactory) -> None:
    """Each new process joins before an old one leaves: the group waits for nobody."""
    play = together(scene, "a", "b", "c", partitions=9, settings=LONG)
    for name in "abc":
        play.join(f"{name}-new")
        play[name].leave()
        play.shared()
        play.flows()
    play.end()


@pytest.mark.timeout(240)
def test_what_is_kept_is_reported_and_a_user_ends_the_wait(scene: SceneFactory) -> None:
    play = together(scene, "a", "b", "c", partitions=9, settings=LONG)
    had = sorted([*partition] for partition in play["a"].owned)
    marks = {name: len(play[name].events) for name in "bc"}
    play["a"].leave()
    for name in "bc":
        assert play[name].wait_for("Reserved", marks[name])["partitions"] == had
        status = play[name].call("status")
        (kept,) = status["group"]["reserved"]
        assert (sorted([*each] for each in kept["partitions"]), kept["members"]) == (had, 1)
        assert [each.split("-")[0] for each in kept["names"]] == ["a"], "its client id and more"
        assert 0 < kept["left"] <= 600
        assert 0 < status["group"]["deferred_left"] <= 600
        assert status["metrics"]["group_partitions_reserved"] == 3
        assert 0 < status["metrics"]["group_reserved_seconds_left"] <= 600
        assert status["metrics"]["group_losses_waited_for"] == 1
    play["c"].call("rebalance")
    play.shared()
    for name in "bc":
        assert play[name].wait_for("Released", marks[name])["partitions"] == had
        status = play[name].call("status")
        assert (status["group"]["reserved"], status["group"]["deferred_left"]) == ([], None)
        assert status["metrics"]["group_partitions_reserved"] == 0
    play.flows()
    play.end()


@pytest.mark.timeout(240)
def test_one_more_member_gets_its_share_at_once_and_only_that_moves(scene: SceneFactory) -> None:
    play = scene("a", "b", "c", partitions=12, settings=LONG)
    had = {name: play[name].owned for name in "abc"}
    marks = {name: len(play[name].events) for name in "abc"}
    play.join("d")
    told = {name: moves(play[name], marks[name]) for name in "abc"}
    assert told == {name: {"revoked": 1} for name in "abc"}
    assert all(play[name].owned < had[name] for name in "abc")
    assert moves(play["d"]) == {"assigned": 3}
    assert play.end().repeated == 0


@pytest.mark.timeout(240)
def test_with_fewer_members_each_partition_of_those_that_went_moves_once(scene: SceneFactory) -> None:
    play = together(scene, "a", "b", "c", "d", partitions=12, settings=SHORT)
    had = {name: play[name].owned for name in "ab"}
    marks = {name: len(play[name].events) for name in "ab"}
    begun = time.monotonic_ns()
    for name in "cd":
        play[name].leave()
    play.flows({index for name in "ab" for _, index in had[name]})
    play.shared()
    gained = [event["t"] for name in "ab" for event in of_kind(play[name].events[marks[name] :], "assigned")]
    assert min(gained) - begun >= 2e9, "not before the deadline"
    assert {name: moves(play[name], marks[name]) for name in "ab"} == {name: {"assigned": 3} for name in "ab"}
    assert all(play[name].owned > had[name] for name in "ab")
    assert play.end().repeated == 0


@pytest.mark.timeout(240)
@pytest.mark.parametrize("client", ["librdkafka", pytest.param("java", marks=pytest.mark.slow)])
def test_beside_another_client_the_common_assignor_is_chosen(scene: SceneFactory, tmp_path: Path, client: str) -> None:
    play = scene(partitions=8)
    play.join("a", "b", settings=SHORT)
    eventually("ours alone to defer", lambda: assignor(play, "b") == "deferred")
    Mixed(play, "cooperative-sticky", tmp_path).join(client, "other")
    assert {assignor(play, name) for name in "ab"} == {"cooperative-sticky"}
    play.flows()
    next(member for member in play.group.alive if member.name == "other").leave()
    play.shared()
    assert {assignor(play, name) for name in "ab"} == {"deferred"}
    play.flows()


@pytest.mark.timeout(240)
def test_partitions_of_a_small_group_move_one_by_one(scene: SceneFactory) -> None:
    settings = {"partition.assignment.strategy": "incremental", "round.interval.ms": 300}
    play = scene("a", "b", partitions=8, settings=settings)
    marks = {name: len(play[name].events) for name in "ab"}
    play.join("c")
    eventually("its share", lambda: len(play["c"].owned) >= 2)
    told = [event for name in "ab" for event in of_kind(play[name].events[marks[name] :], "revoked")]
    assert all(len(event["partitions"]) == 1 for event in told)
    assert len(told) == len(play["c"].owned), "no may_queue"
    assert play.end().repeated == 0
