"""Members that come and go one by one, while the others read on."""

from contextlib import ExitStack
from functools import partial

import pytest

from tests.groups.behaviour.conftest import SceneFactory
from tests.groups.behaviour.history import of_kind
from tests.groups.behaviour.scene import Scene
from tests.groups.behaviour.stage import EmbeddedStage, Stage
from tests.interop.process import eventually

NAMES = ("a", "b", "c", "d", "e")


def given_up(scene: Scene, marks: dict[str, int]) -> dict[str, int]:
    """How many partitions each living member has revoked since."""
    return {
        member.name: sum(len(event["partitions"]) for event in of_kind(member.events[marks[member.name] :], "revoked"))
        for member in scene.group.alive
        if member.name in marks
    }


def rounds(scene: Scene, name: str, before: dict[str, int]) -> int:
    """How many rebalances a member was part of since."""
    return len(scene.group_member(name).generations) - before[name]


def all_in(scene: Scene, before: dict[str, int], rounds_least: int) -> bool:
    """Whether all members that stay had this many rebalances."""
    return all(rounds(scene, name, before) >= rounds_least for name in before)


def overtaken(scene: Scene, marks: dict[str, int]) -> int:
    """How often the next rebalance began before a member had its assignment of the one before: then one is for nothing.

    One member revokes its partition and joins again before the other asks for its assignment.
    """
    told = [e for name, mark in marks.items() for e in of_kind(scene.group_member(name).events[mark:], "retried")]
    return sum(event["api"] == "SyncGroup" for event in told)


@pytest.mark.req("S027")
@pytest.mark.also_on_kafka
@pytest.mark.thorough_on_kafka
@pytest.mark.timeout(240)
def test_five_members_bounce_in_turn(stage: Stage, scene: SceneFactory) -> None:
    """Nothing is delivered twice, and only partitions of the one that is bounced change hands."""
    play = scene(*NAMES, partitions=20, records_per_second=400)
    # Under KIP-848 no member joins again: members only get their new target.
    is_classic = play.group.protocol == "classic"
    for name in NAMES if stage.kind == "embedded" else NAMES[:2]:
        stays = {member.name: member.owned for member in play.group.alive if member is not play[name]}
        marks = {other: len(play.group_member(other).events) for other in stays}
        before = {other: len(play.group_member(other).generations) for other in stays}
        leaving = play[name]
        share = len(leaving.owned)
        leaving.leave()
        play.shared()
        play.flows(records=2)
        assert not any(given_up(play, marks).values()), "nobody gives anything up when one leaves"
        for other in stays:
            assert rounds(play, other, before) == (1 if is_classic else 0), "one rebalance on leave"
        play.join(name)
        if is_classic:
            twice = partial(all_in, play, before, rounds_least=3)
            eventually("both rebalances on return to be noticed", twice)
        play.flows(records=2)
        assert sum(given_up(play, marks).values()) == share, "only what the returned one gets is given up"
        for other, owned in stays.items():
            assert len(play.group_member(other).owned & owned) >= len(owned) - 1
            most = 3 + overtaken(play, marks) if is_classic else 0
            assert rounds(play, other, before) <= most, "two rebalances on return"
    assert play.end().repeated == 0


@pytest.mark.req("S034", "S043")
@pytest.mark.only("classic")
@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
@pytest.mark.parametrize("change", ["up", "down"])
def test_kept_partitions_flow_while_a_rebalance_hangs(stage: Stage, scene: SceneFactory, api: str, change: str) -> None:
    flow_while_held(stage, scene, api, change)


@pytest.mark.only("consumer")
@pytest.mark.parametrize("change", ["up", "down"])
def test_kept_partitions_flow_while_an_assignment_hangs(stage: Stage, scene: SceneFactory, change: str) -> None:
    flow_while_held(stage, scene, "ConsumerGroupHeartbeat", change)


def flow_while_held(stage: Stage, scene: SceneFactory, api: str, change: str) -> None:
    """The rebalance cannot end before the fault is removed: records that are read until then were read during it."""
    if not isinstance(stage, EmbeddedStage):
        pytest.skip("a rebalance can be held on the embedded broker only")
    # A synchronous commit waits for the new generation if the coordinator accepts none for the old one any more.
    play = scene(*("ab" if change == "up" else "abc"), partitions=8, commit="async")
    had = {name: play[name].owned for name in "ab"}
    marks = {name: len(play[name].events) for name in "ab"}
    with ExitStack() as faults:
        held = [faults.enter_context(stage.broker.fault(api=api, client_id=name, hold=True)) for name in "ab"]
        if change == "up":
            play.group.join("c")
        else:
            play["c"].leave()
        for each in held:
            each.wait(1, timeout=60)
        play.flows({index for owned in had.values() for _, index in owned}, records=40)
        assert {name: play[name].owned for name in "ab"} == had
    play.shared()
    play.flows()
    for name in "ab":
        kept = had[name] & play[name].owned
        assert kept, "cooperative: most stays"
        told = list(of_kind(play[name].events[marks[name] :], "revoked"))
        assert all(tuple(each) not in kept for event in told for each in event["partitions"])
    assert play.end().repeated == 0


@pytest.mark.req("S044")
def test_a_member_that_takes_long_to_revoke_stops_nobody_else(scene: SceneFactory) -> None:
    play = scene("a", "b", partitions=8)
    slow = play["a"]
    had = len(slow.events)
    slow.call("hold")
    slow.wait_for("held", had)
    quick = play["b"]
    kept = len(quick.events)
    play.group.join("c")
    # It has revoked its partition and joined again; only that partition and the slow member's are not read.
    quick.wait_for("revoked", kept)
    play.flows({index for _, index in quick.owned}, records=40)
    assert not list(of_kind(slow.events[had:], "revoked"))
    slow.call("release")
    play.shared()
    assert play.end().repeated == 0
