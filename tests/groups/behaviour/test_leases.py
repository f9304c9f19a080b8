"""Members are stopped or cut off repeatedly: none hands out records that another member may own by then."""

import random
import time
from collections.abc import Callable

import pytest

from tests.groups.behaviour.conftest import SceneFactory
from tests.groups.behaviour.group import Member
from tests.groups.behaviour.history import of_kind
from tests.groups.behaviour.scene import Scene

SESSION_SECONDS = 2.0
PAUSES = (0.2, 2.0)
"""Of the session: some end just before it does, some just after."""


class Rounds:
    """Has one member after another stand still, or cut off, for a drawn time.

    Attributes:
        taken_over: after how many of them the member had lost its partitions.
    """

    def __init__(self, play: Scene, seed: int) -> None:
        self.play = play
        self.taken_over = 0
        self._draw = random.Random(seed)

    def run(self) -> None:
        """One of them."""
        name = self._draw.choice("abc")
        victim = self.play[name]
        had = len(victim.events)
        pause = self._stopped if name != "b" else self._cut
        seconds = SESSION_SECONDS * self._draw.uniform(*PAUSES)
        pause(victim, lambda: self._others_read_for(victim, seconds))
        self.play.shared()
        self.play.flows(records=2)
        self.taken_over += bool(list(of_kind(victim.events[had:], "lost")))

    def _stopped(self, victim: Member, until: Callable[[], None]) -> None:
        # It is stopped while it waits for records: a batch that was being handed out would look like a zombie's.
        self.play.group.wait_finished(self.play.writer.pause())
        victim.stop()
        self.play.writer.go_on()
        until()
        victim.go_on()

    def _cut(self, victim: Member, until: Callable[[], None]) -> None:
        victim.note("cut")
        self.play.stage.cut(victim.options["settings"]["client.id"])
        try:
            until()
        finally:
            victim.note("healed")
            self.play.stage.heal()

    def _others_read_for(self, victim: Member, seconds: float) -> None:
        end = time.monotonic_ns() + int(seconds * 1e9)
        other = next(member for member in self.play.group.alive if member is not victim)
        other.wait("the others to read on", lambda events: events[-1]["t"] > end)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_no_two_members_ever_own_a_partition(scene: SceneFactory, edge_prefix: list[str], rounds: int) -> None:
    # Requests without an answer are repeated: a member that is back does not wait for half a minute.
    settings = {"request.timeout.ms": 1000, "socket.connection.setup.timeout.ms": 1000}
    play = scene("a", "c", session_seconds=SESSION_SECONDS, settings=settings)
    # It is cut off alone if the network is real, which cuts off all programs inside.
    play.join("b", prefix=edge_prefix)
    play.flows()
    drawn = Rounds(play, seed=rounds)
    for _ in range(rounds):
        drawn.run()
    play.end()
    if rounds > 100:
        assert rounds / 5 < drawn.taken_over < rounds * 4 / 5, "pauses on both sides of the session's end"
