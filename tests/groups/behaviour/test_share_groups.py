"""Whole share groups (KIP-932): members die and stand still, leaders and coordinators move and die, nodes restart.

`share_checker.py` judges what happened to each record.
"""

from functools import partial
from typing import Any

import pytest

from tests.conftest import skip_loudly
from tests.groups.behaviour.checker import Verdict
from tests.groups.behaviour.conftest import SceneFactory
from tests.groups.behaviour.group import Member
from tests.groups.behaviour.history import Event, of_kind
from tests.groups.behaviour.scene import Scene
from tests.groups.behaviour.share_group import ShareGroup
from tests.groups.behaviour.stage import Stage
from tests.kafka import jars

pytestmark = [
    pytest.mark.only("share"),
    pytest.mark.also_on_kafka,
    pytest.mark.thorough_on_kafka,
    pytest.mark.timeout(280),
]

KINDS = ("accept:", "release:", "accept:", "accept:", "reject:", "accept:", "accept:")
"""Not as many as partitions: each partition has all of them."""
PARTITIONS = 2
"""Fewer than members: each partition is given to two of three."""


@pytest.fixture(autouse=True)
def needs_share_groups(stage: Stage) -> None:
    if stage.kind == "kafka" and not jars.speaks("4.2"):
        skip_loudly("SHARE GROUPS ARE NOT TESTED", "share groups are there from Kafka 4.2 on")


def shared(scene: SceneFactory, *names: str, **options: Any) -> tuple[Scene, ShareGroup]:
    """Members at work."""
    play = scene(*names, partitions=PARTITIONS, prefixes=KINDS, **options)
    assert isinstance(play.group, ShareGroup)
    return play, play.group


def holding(member: Member) -> Event:
    """The batch that a member keeps from now on, until `release`."""
    had = len(member.events)
    member.call("hold")
    number = member.wait_for("held", had)["n"]
    return next(event for event in of_kind(member.events, "batch") if event["n"] == number)


def judged(play: Scene, group: ShareGroup) -> Verdict:
    """The end: the group is done with all that was written, and everything is judged."""
    group.wait_done(play.writer.stop())
    return play.end()


def released(group: ShareGroup) -> int:
    """The records that members have given back on purpose."""
    rows = [row for event in of_kind(group.history(), "batch") for row in event["rows"]]
    return sum(decision == "release" for *_, decision, _ in rows)


def test_what_is_released_comes_once_more_and_nothing_else_does(scene: SceneFactory) -> None:
    play, group = shared(scene, "a", "b", "c")
    play.flows(records=30)
    play["b"].leave()
    play.join("d")
    play.flows(records=30)
    verdict = judged(play, group)
    assert verdict.repeated == released(group) > 0


def test_the_rows_of_a_killed_member_go_to_others(stage: Stage, scene: SceneFactory) -> None:
    play, group = shared(scene, "a", "b", "c", session_seconds=stage.short_session)
    held = holding(play["a"])
    play["a"].kill()
    group.eventually("others to have its rows", partial(group.handed_out_again, held))
    play.join("a")
    play.flows()
    judged(play, group)


def test_the_rows_of_a_member_stopped_beyond_its_lock_go_to_others(stage: Stage, scene: SceneFactory) -> None:
    play, group = shared(scene, "a", "b", "c", session_seconds=stage.short_session)
    stopped = play["a"]
    held = holding(stopped)
    stopped.stop()
    group.eventually("others to have its rows", partial(group.handed_out_again, held))
    had = len(stopped.events)
    stopped.go_on()
    stopped.call("release")
    told = stopped.wait_for("acknowledged", had)
    assert (told["n"], {outcome for *_, outcome in told["outcomes"]}) == (held["n"], {"failed"}), told
    play.flows()
    # It takes part again.
    stopped.wait(
        "more", lambda events: any(event["event"] == "acknowledged" and event["n"] > held["n"] for event in events)
    )
    judged(play, group)


def test_leaders_move_and_die_under_load(stage: Stage, scene: SceneFactory) -> None:
    play, group = shared(scene, "a", "b", "c")
    for partition in range(PARTITIONS):
        with group.disturbed():
            stage.move_leader(play.topic, partition, stage.others(stage.leader(play.topic, partition))[0])
            play.flows()
    # The one that dies has rows out, and led what a member holds.
    held = holding(play["a"])
    topic, partition, *_ = held["rows"][0]
    victim = stage.leader(topic, partition)
    with group.disturbed():
        stage.kill(victim)
        play["a"].call("release")
        play.flows()
        stage.start(victim)
        play.flows()
    judged(play, group)


def test_coordinators_move_and_die_under_load(stage: Stage, scene: SceneFactory) -> None:
    play, group = shared(scene, "a", "b")
    first = stage.coordinator(group.group)
    with group.disturbed():
        stage.move_coordinator(group.group, stage.others(first)[0])
        play.flows(records=20)
    victim = stage.coordinator(group.group)
    assert victim != first
    with group.disturbed():
        stage.kill(victim)
        play.join("c")
        play.flows(records=20)
        stage.start(victim)
        play.flows()
    judged(play, group)


def test_every_broker_restarts_in_turn(stage: Stage, scene: SceneFactory) -> None:
    play, group = shared(scene, "a", "b", "c", records_per_second=100)
    for node in (1, 2, 3):
        with group.disturbed():
            stage.restart(node)
            play.flows()
    judged(play, group)
