"""The coordinator dies during a rebalance. Members continue with the stored group, or join again."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from monedula.testing import Broker

from tests.groups.behaviour.conftest import SceneFactory
from tests.groups.behaviour.history import of_kind
from tests.groups.behaviour.scene import Scene, joins
from tests.groups.behaviour.stage import EmbeddedStage, Stage

WAIT_SECONDS = 60.0
HEARTBEAT = "ConsumerGroupHeartbeat"

Phase = Callable[[Scene, Broker, ExitStack], None]


def before_notice(play: Scene, broker: Broker, faults: ExitStack) -> None:
    """A newcomer has sent JoinGroup, and no other member knows of it."""
    faults.enter_context(broker.fault(api="Heartbeat", group=play.group.group, hold=True))
    asked = faults.enter_context(broker.observe(api="JoinGroup", client_id="d"))
    play.group.join("d")
    asked.wait(2, timeout=WAIT_SECONDS)


def some_notified(play: Scene, broker: Broker, faults: ExitStack) -> None:
    """One member has learned of the rebalance, and sent JoinGroup; two have not."""
    for deaf in "bc":
        faults.enter_context(broker.fault(api="Heartbeat", client_id=deaf, hold=True))
    asked = faults.enter_context(broker.observe(api="JoinGroup", client_id="a"))
    play.group.join("d")
    asked.wait(1, timeout=WAIT_SECONDS)


def some_joined(play: Scene, broker: Broker, faults: ExitStack) -> None:
    """All but one have joined: the answers wait for that one, whose request is on its way."""
    late = faults.enter_context(broker.fault(api="JoinGroup", client_id="b", hold=True))
    asked = [faults.enter_context(broker.observe(api="JoinGroup", client_id=name)) for name in "ac"]
    play.group.join("d")
    late.wait(1, timeout=WAIT_SECONDS)
    for each in asked:
        each.wait(1, timeout=WAIT_SECONDS)


def generation_written(play: Scene, broker: Broker, faults: ExitStack) -> None:
    """The assignment is stored; no member has got it."""
    answers = faults.enter_context(broker.fault(api="SyncGroup", group=play.group.group, hold=True, on="answer"))
    play.group.join("d")
    answers.wait(4, timeout=WAIT_SECONDS)


def some_answered(play: Scene, broker: Broker, faults: ExitStack) -> None:
    """The assignment is stored; one member has not got it."""
    unheard = faults.enter_context(broker.fault(api="SyncGroup", client_id="b", hold=True, on="answer"))
    heard = [faults.enter_context(broker.observe(api="SyncGroup", client_id=name, on="answer")) for name in "acd"]
    play.group.join("d")
    unheard.wait(1, timeout=WAIT_SECONDS)
    for each in heard:
        each.wait(1, timeout=WAIT_SECONDS)


@pytest.mark.req("S064")
@pytest.mark.only("classic")
@pytest.mark.parametrize(
    "phase",
    [before_notice, some_notified, some_joined, generation_written, some_answered],
    ids=lambda phase: phase.__name__,
)
@pytest.mark.parametrize("strategy", ["cooperative-sticky", pytest.param("range", marks=pytest.mark.slow)])
def test_the_coordinator_dies_in_a_phase_of_a_rebalance(
    stage: Stage, scene: SceneFactory, phase: Phase, strategy: str
) -> None:
    die_in(stage, scene, phase, {"partition.assignment.strategy": strategy})


def newcomer_unheard(play: Scene, broker: Broker, faults: ExitStack) -> None:
    """A newcomer is a member, but has no answer yet."""
    answers = faults.enter_context(broker.fault(api=HEARTBEAT, client_id="d", hold=True, on="answer"))
    play.group.join("d")
    answers.wait(1, timeout=WAIT_SECONDS)


def one_not_told(play: Scene, broker: Broker, faults: ExitStack) -> None:
    """One member does not know yet that it has to revoke a partition; the others may know."""
    answers = faults.enter_context(broker.fault(api=HEARTBEAT, client_id="b", hold=True, on="answer"))
    play.group.join("d")
    answers.wait(1, timeout=WAIT_SECONDS)


def given_up_unheard(play: Scene, broker: Broker, faults: ExitStack) -> None:
    """A member has revoked its partitions, and the coordinator does not know it."""
    giver = max(play.group.alive, key=lambda member: len(member.owned))
    had = len(giver.events)
    play.group.join("d")
    giver.wait_for("revoked", had)
    faults.enter_context(broker.fault(api=HEARTBEAT, client_id=giver.name, hold=True))


@pytest.mark.only("consumer")
@pytest.mark.parametrize("phase", [newcomer_unheard, one_not_told, given_up_unheard], ids=lambda phase: phase.__name__)
def test_the_coordinator_dies_while_partitions_move(stage: Stage, scene: SceneFactory, phase: Phase) -> None:
    die_in(stage, scene, phase, {})


def die_in(stage: Stage, scene: SceneFactory, phase: Phase, settings: dict[str, str]) -> None:
    """Stop the coordinator in a phase; no record is lost."""
    if not isinstance(stage, EmbeddedStage):
        pytest.skip("only the embedded broker can be stopped in exactly this phase; see the next test")
    play = scene("a", "b", "c", partitions=8, settings=settings)
    node = stage.coordinator(play.group.group)
    with ExitStack() as faults:
        phase(play, stage.broker, faults)
        stage.kill(node)
    play.shared()
    play.flows()
    stage.start(node)
    play.flows()
    lost = [event for member in play.group.alive for event in of_kind(member.events, "lost")]
    assert not lost, "all sessions outlasted it"
    assert play.end().repeated == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("when", ["opened", "RebalanceStarted", "generation", "assigned"])
def test_the_coordinator_dies_when_a_member_has_come_so_far(stage: Stage, scene: SceneFactory, when: str) -> None:
    play = scene("a", "b", "c", partitions=8, session_seconds=stage.long_session * 2)
    node = stage.coordinator(play.group.group)
    newcomer = play.group.join("d")
    newcomer.wait_for(when)
    stage.kill(node)
    play.shared()
    play.flows()
    stage.start(node)
    play.flows()
    play.end()


@pytest.mark.req("S144")
@pytest.mark.timeout(240)
def test_what_changed_during_a_failover_leads_to_a_rebalance_after_it(stage: Stage, scene: SceneFactory) -> None:
    settings = {"metadata.max.age.ms": 1000}
    play = scene("a", "b", "c", partitions=6, session_seconds=stage.short_session * 3, settings=settings)
    before = joins(play.group)
    node = stage.coordinator(play.group.group)
    # One is away for a moment: it is back in time, and causes nothing.
    play["a"].stop()
    stage.kill(node)
    play["a"].go_on()
    play.flows()
    stage.start(node)
    play.flows()
    if stage.kind == "embedded":
        # A real failover takes about as long as such a session.
        assert joins(play.group) == before
    # A member dies with the coordinator, and the topic gets partitions before there is a new one.
    node = stage.coordinator(play.group.group)
    play["b"].kill()
    stage.kill(node)
    stage.add_partitions(play.topic, 9)
    play.group.wait_shared(9)
    play.flows()
    stage.start(node)
    play.partitions = 9
    play.end()
