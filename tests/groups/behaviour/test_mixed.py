"""One group of Java's consumer, librdkafka's and ours: each leads, joins and leaves; every partition is owned once."""

from itertools import product
from pathlib import Path

import pytest

from tests.groups.behaviour.conftest import SceneFactory
from tests.groups.behaviour.history import of_kind
from tests.groups.behaviour.peers import Mixed
from tests.groups.behaviour.scene import Scene
from tests.interop.process import eventually

CLIENTS = ("ours", "java", "librdkafka")
OFTEN = (("ours", "cooperative-sticky"), ("java", "range"), ("librdkafka", "roundrobin"))
CASES = [
    pytest.param(*case, marks=[] if case in OFTEN else pytest.mark.slow)
    for case in product(CLIENTS, ("range", "roundrobin", "cooperative-sticky"))
]
"""The clients that lead: `make behaviour` runs all, the ordinary run some."""


def judged(play: Scene) -> None:
    """Read all, and judge. Commits of the others are refused during a rebalance, so theirs may come again."""
    ends = play.writer.stop()
    play.group.wait_finished(ends)
    play.group.verify(play.truth(ends))
    ours = [member for member in play.group.members if member.options.get("client") == "monedula"]
    assert not [event for member in ours for event in of_kind(member.events, "commit_failed", "lost", "error")]


@pytest.mark.req("S127")
@pytest.mark.only("classic")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("leader", "strategy"), CASES)
def test_one_group_of_three_clients(scene: SceneFactory, tmp_path: Path, leader: str, strategy: str) -> None:
    play = scene(partitions=9)
    mixed = Mixed(play, strategy, tmp_path)
    first = mixed.join(leader, f"{leader}-1")
    others = [client for client in CLIENTS if client != leader]
    for client in others:
        mixed.join(client, f"{client}-1")
    ours = next(member for member in play.group.alive if member.name == "ours-1")
    leads = next(event["leader"] for event in reversed(ours.events) if event["event"] == "generation")
    assert leads == (leader == "ours"), "who came first leads"
    # The leader leaves, and another takes its place; then a second one of ours joins, and a follower leaves.
    first.leave()
    mixed.settle()
    mixed.join("ours", "ours-2")
    next(member for member in play.group.alive if member.name == f"{others[0]}-1").leave()
    mixed.settle()
    judged(play)


@pytest.mark.only("consumer")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", ["ours", pytest.param("java", marks=pytest.mark.slow), "librdkafka"])
def test_one_group_of_three_clients_under_the_consumer_protocol(
    scene: SceneFactory, tmp_path: Path, first: str
) -> None:
    play = scene(partitions=9)
    mixed = Mixed(play, "", tmp_path)
    oldest = mixed.join(first, f"{first}-1")
    others = [client for client in CLIENTS if client != first]
    for client in others:
        mixed.join(client, f"{client}-1")
    oldest.leave()
    mixed.settle()
    mixed.join("ours", "ours-2")
    next(member for member in play.group.alive if member.name == f"{others[0]}-1").leave()
    mixed.settle()
    judged(play)


@pytest.mark.only("classic")
@pytest.mark.also_on_kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize("peer", ["ours", pytest.param("java", marks=pytest.mark.slow)])
def test_a_group_goes_over_to_the_consumer_protocol_and_back(scene: SceneFactory, tmp_path: Path, peer: str) -> None:
    """Member by member, under load: no record is lost or repeated."""
    play = scene(partitions=9)
    play.stage.set_group(play.group.group, "consumer", play.group.session_seconds, play.group.heartbeat_seconds)
    mixed = Mixed(play, "cooperative-sticky", tmp_path)
    clients = {"a": "ours", "b": peer, "c": "ours"}
    for name, client in clients.items():
        mixed.join(client, name)
    for number, protocol in enumerate(("consumer", "classic")):
        for name, client in clients.items():
            current = next(m for m in play.group.alive if m.name.split(".")[0].split("-")[0] == name)
            current.leave()
            mixed.settle()
            if client == "ours":
                play.group.join(name, settings={"group.protocol": protocol})
            else:
                mixed.start(client, f"{name}-{number}", "" if protocol == "consumer" else "cooperative-sticky")
            mixed.settle()
    judged(play)


@pytest.mark.req("S052")
@pytest.mark.only("classic")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("peer", ["ours", pytest.param("java", marks=pytest.mark.slow)])
def test_two_rolling_bounces_bring_a_group_from_eager_to_cooperative(
    scene: SceneFactory, tmp_path: Path, peer: str
) -> None:
    play = scene(partitions=9)
    mixed = Mixed(play, "range", tmp_path)
    clients = {"a": "ours", "b": peer, "c": "ours"}
    for name, client in clients.items():
        mixed.join(client, name)
    for number, strategies in enumerate(("cooperative-sticky,range", "cooperative-sticky")):
        for name, client in clients.items():
            current = next(m for m in play.group.alive if m.name.split(".")[0].split("-")[0] == name)
            current.leave()
            mixed.settle()
            mixed.join(client, name if client == "ours" else f"{name}-{number}", strategies)
    assignor = next(e["assignor"] for e in reversed(play["a"].events) if e["event"] == "generation")
    assert assignor == "cooperative-sticky"
    # Now the group is cooperative: another member takes its share, and the others revoke no more than that.
    marks = {member.name: len(member.events) for member in play.group.alive}
    mixed.join("ours", "d", "cooperative-sticky")
    eventually("its share", lambda: len(play["d"].owned) >= 2)
    revoked = sum(
        len(event["partitions"])
        for member in play.group.alive
        if member.name in marks
        for event in of_kind(member.events[marks[member.name] :], "revoked")
    )
    assert revoked == len(play["d"].owned)
    judged(play)
