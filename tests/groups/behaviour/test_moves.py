"""Leaders, replicas and coordinators move, nodes die, packets are lost: no record is lost or repeated."""

import pytest

from tests.groups.behaviour.conftest import SceneFactory
from tests.groups.behaviour.scene import joins
from tests.groups.behaviour.stage import Stage
from tests.interop.process import eventually

ROUNDS = 3


@pytest.mark.req("S005")
@pytest.mark.also_on_kafka
@pytest.mark.thorough_on_kafka
@pytest.mark.timeout(240)
def test_leaders_and_replicas_move_under_load(stage: Stage, scene: SceneFactory) -> None:
    play = scene("a", "b")
    before = joins(play.group)
    for _ in range(ROUNDS):
        for partition in range(play.partitions):
            stage.move_leader(play.topic, partition, stage.others(stage.leader(play.topic, partition))[0])
        play.flows()
    for partition in range(play.partitions):
        leads = stage.leader(play.topic, partition)
        stage.reassign(play.topic, partition, stage.others(leads))
    play.flows()
    assert joins(play.group) == before, "data partitions that move are no reason to rebalance"
    assert play.end().repeated == 0


@pytest.mark.req("S004", "S055")
@pytest.mark.also_on_kafka
@pytest.mark.thorough_on_kafka
def test_the_coordinator_moves_under_load(stage: Stage, scene: SceneFactory) -> None:
    play = scene("a", "b", "c")
    before = joins(play.group)
    for _ in range(ROUNDS):
        stage.move_coordinator(play.group.group, stage.others(stage.coordinator(play.group.group))[0])
        play.flows(records=20)
    assert joins(play.group) == before, "a coordinator that moves is no reason to rebalance"
    assert play.end().repeated == 0


@pytest.mark.also_on_kafka
@pytest.mark.timeout(240)
def test_a_broker_is_killed_and_comes_back(stage: Stage, scene: SceneFactory) -> None:
    play = scene("a", "b", "c", partitions=6)
    before = joins(play.group)
    victim = stage.coordinator(play.group.group)
    # It leads partitions of the topic as well as coordinating the group.
    stage.move_leader(play.topic, 0, victim)
    play.flows()
    stage.kill(victim)
    play.flows(records=20)
    stage.start(victim)
    play.flows()
    assert joins(play.group) == before, "the session outlasted it, so nobody had to rebalance"
    play.end()


@pytest.mark.timeout(240)
def test_every_broker_is_killed_in_turn(stage: Stage, scene: SceneFactory) -> None:
    play = scene("a", "b", partitions=4, records_per_second=100)
    for node in (1, 2, 3):
        stage.kill(node)
        play.flows(records=10)
        stage.start(node)
        play.flows()
    play.end()


@pytest.mark.req("S006")
@pytest.mark.also_on_kafka
@pytest.mark.thorough_on_kafka
@pytest.mark.parametrize("is_long", [False, True], ids=["within the session", "beyond the session"])
@pytest.mark.timeout(240)
def test_packets_vanish_and_come_through_again(
    stage: Stage, scene: SceneFactory, edge_prefix: list[str], is_long: bool
) -> None:
    session = stage.short_session if is_long else stage.long_session
    settings = {"request.timeout.ms": 2000, "socket.connection.setup.timeout.ms": 1000}
    play = scene(session_seconds=session, settings=settings)
    play.join("a")
    # It is alone in a network of its own.
    play.join("b", prefix=edge_prefix)
    play.flows()
    cut_off = play["b"]
    had = len(cut_off.events)
    cut_off.note("cut")
    stage.cut("b")
    try:
        if is_long:
            # The other member takes over. The checker verifies that the one that is cut off hands out nothing.
            play.group.wait_taken_over(cut_off, play.partitions)
            play.flows()
        else:
            eventually("nothing to come through", lambda: cut_off.silent_for(3.0))
    finally:
        cut_off.note("healed")
        stage.heal()
    play.shared()
    play.flows()
    lost = [event for event in cut_off.events[had:] if event["event"] == "lost"]
    assert bool(lost) == is_long
    play.end()
