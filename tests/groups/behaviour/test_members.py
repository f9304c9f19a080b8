"""Members that are slow, stopped, killed, closed or restarted, and topics that get partitions."""

from typing import Any

import pytest

from tests.groups.behaviour.conftest import GroupFactory, SceneFactory, Unique
from tests.groups.behaviour.group import Member
from tests.groups.behaviour.history import of_kind, partitions_of
from tests.groups.behaviour.scene import joins
from tests.groups.behaviour.stage import Stage
from tests.groups.behaviour.writer import numbered, truth_of, write
from tests.interop.process import eventually

EAGER = ("range", "roundrobin", "sticky")


def heard(member: Member, kind: str, after: int = 0) -> list[object]:
    return list(of_kind(member.events[after:], kind))


@pytest.mark.req("S007")
def test_a_member_busy_for_longer_than_its_session_stays(stage: Stage, scene: SceneFactory) -> None:
    play = scene("a", "b", session_seconds=stage.short_session)
    before = joins(play.group)
    busy = play["a"]
    had = len(busy.events)
    busy.call("hold")
    held = busy.wait_for("held", had)
    # The other member reads for longer than the session.
    session_ns = stage.short_session * 1e9
    others = {index for _, index in play["b"].owned}
    other = play["b"]
    other.wait("twice the session", lambda events: events[-1]["t"] - held["t"] > 2 * session_ns)
    assert not heard(busy, "finished", had + busy.events[had:].index(held)), "it was busy all that time"
    play.flows(others)
    busy.call("release")
    play.flows()
    assert joins(play.group) == before, "the member's heartbeats went on"
    assert play.end().repeated == 0


@pytest.mark.req("S031")
def test_what_is_not_worked_on_of_one_partition_stops_no_other(scene: SceneFactory) -> None:
    """More data than the member may hold: the other partitions continue with the rest of the budget."""
    play = scene(settings={"queued.max.bytes": 2_000_000})
    play.join("a")
    member = play["a"]
    # Paused, it has records that were fetched already.
    member.call("pause", partitions=[[play.topic, 0]])
    reached = play.group.reached().get((play.topic, 0), 0)
    others = set(range(1, play.partitions))
    more = [f"{play.topic}:0:{'more' * 1000}:{number}" for number in range(1500)]
    write(play.stage.bootstrap, play.topic, {0: more})
    play.flows(others, records=50)
    assert play.group.reached().get((play.topic, 0), 0) <= reached + play.partitions * 50, "it stood still"
    member.call("resume", partitions=[[play.topic, 0]])
    assert play.end().repeated == 0


@pytest.mark.req("S032")
@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_a_pipeline_of_two_threads_sees_records_in_order(scene: SceneFactory, strategy: str) -> None:
    """One thread reads while the other processes; the pipeline is drained before partitions are revoked."""
    settings = {"partition.assignment.strategy": strategy}
    play = scene("a", "b", pipelined=True, slow_seconds=0.01, settings=settings)
    play.join("c")
    play.flows()
    play["a"].leave()
    play.shared()
    play.join("a")
    play.flows()
    for member in play.group.members:
        numbers = [event["n"] for event in of_kind(member.events, "finished")]
        assert numbers == sorted(numbers)
    assert play.end().repeated == 0


@pytest.mark.req("S113")
@pytest.mark.also_on_kafka
@pytest.mark.thorough_on_kafka
def test_a_hiccup_shorter_than_the_session_goes_unnoticed(scene: SceneFactory) -> None:
    play = scene("a", "b")
    before = joins(play.group)
    stopped = play["a"]
    mine = {index for _, index in stopped.owned}
    stopped.stop()
    play.flows(set(range(play.partitions)) - mine, records=50)
    stopped.go_on()
    play.flows()
    assert joins(play.group) == before
    assert play.end().repeated == 0


@pytest.mark.req("S069", "S087")
@pytest.mark.parametrize("commit", ["batch", "auto"])
def test_a_member_stopped_beyond_its_session_is_no_zombie(stage: Stage, scene: SceneFactory, commit: str) -> None:
    """The checker verifies that it hands out and commits nothing that others own by then."""
    play = scene("a", "b", "c", session_seconds=stage.short_session, records_per_second=600, commit=commit)
    stopped = play["a"]
    # It is stopped while it waits for records: a batch that was being handed out would look like a zombie's.
    play.group.wait_finished(play.writer.pause())
    had, owned = len(stopped.events), stopped.owned
    stopped.stop()
    play.writer.go_on()
    play.group.wait_taken_over(stopped, play.partitions)
    play.flows()
    stopped.go_on()
    stopped.wait_for("lost", had)
    play.shared()
    play.flows()
    # It first gets the Lost callback for all its partitions, not Revoked.
    told = next(of_kind(stopped.events[had:], "revoked", "lost"))
    assert (told["event"], set(partitions_of(told))) == ("lost", owned)
    play.end(automatic=commit == "auto")


@pytest.mark.req("S008")
@pytest.mark.also_on_kafka
@pytest.mark.thorough_on_kafka
def test_the_partitions_of_a_killed_member_go_to_others(stage: Stage, scene: SceneFactory) -> None:
    play = scene("a", "b", "c", session_seconds=stage.short_session)
    play["b"].kill()
    play.shared()
    play.flows()
    play.join("b")
    play.flows()
    play.end()


@pytest.mark.req("S029")
@pytest.mark.also_on_kafka
def test_the_partitions_of_one_that_closes_go_to_others_at_once(stage: Stage, scene: SceneFactory) -> None:
    """The session is so long that waiting for its end would fail the test."""
    play = scene("a", "b", "c", session_seconds=stage.long_session * 10)
    kept = {member.name: member.owned for member in play.group.alive if member.name != "b"}
    before = joins(play.group)
    marks = {name: len(play[name].events) for name in kept}
    play["b"].leave()
    play.shared()
    play.flows()
    for name, owned in kept.items():
        assert owned <= play[name].owned
        assert not heard(play[name], "revoked", marks[name]), "nobody else gives anything up"
        # Under KIP-848 members only get their new target; none joins again.
        rounds = 1 if play.group.protocol == "classic" else 0
        assert joins(play.group)[name] == before[name] + rounds, "one rebalance does it"
    assert play.end().repeated == 0


@pytest.mark.req("S010")
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "strategy", ["cooperative-sticky", *(pytest.param(each, marks=pytest.mark.slow) for each in EAGER)]
)
def test_thirty_partitions_on_ten_members_and_on_five(stage: Stage, scene: SceneFactory, strategy: str) -> None:
    settings = {"partition.assignment.strategy": strategy}
    play = scene(partitions=30, session_seconds=stage.short_session * 2, settings=settings)
    names = [f"m{number}" for number in range(10)]
    for name in names:
        play.group.join(name)
    play.shared()
    assert {len(member.owned) for member in play.group.alive} == {3}
    play.flows(records=2)
    for name in names[:5]:
        play[name].kill()
    play.shared()
    assert {len(member.owned) for member in play.group.alive} == {6}
    play.flows(records=2)
    play.end()


@pytest.mark.req("S026")
@pytest.mark.parametrize("commit", ["batch", "async", "auto"])
def test_a_new_owner_begins_where_the_old_one_ended(
    stage: Stage, group_on: GroupFactory, unique: Unique, commit: str
) -> None:
    """The records are written before: only the rebalances decide which member reads them, each once."""
    topic = unique("topic")
    stage.create_topic(topic, 6)
    ends = write(stage.bootstrap, topic, numbered(topic, 6, 400))
    group = group_on(topic, commit=commit, max_rows=20, slow_seconds=0.02)
    group.join("a")
    group.wait_shared(6)
    group.join("b")
    group.wait_shared(6)
    group.join("c")
    group.wait_shared(6)
    group.alive[0].leave()
    group.wait_shared(6)
    group.wait_finished(ends)
    truth = truth_of(stage.bootstrap, ends)
    group.leave()
    verdict = group.verify(truth, automatic=commit == "auto")
    assert (verdict.delivered, verdict.repeated) == (2400, 0)


@pytest.mark.req("S065")
@pytest.mark.also_on_kafka
@pytest.mark.thorough_on_kafka
def test_a_topic_grows_under_load(stage: Stage, scene: SceneFactory) -> None:
    play = scene("a", "b", partitions=4, settings={"metadata.max.age.ms": 1000})
    stage.add_partitions(play.topic, 9)
    more = write(stage.bootstrap, play.topic, {p: numbered(play.topic, 9, 20)[p] for p in range(4, 9)})
    play.group.wait_shared(9)
    play.group.wait_finished(more)
    later = play.group
    later.topics.append(unborn := f"{play.topic}-later")
    # A topic that they all subscribed to before it exists.
    fresh: dict[str, Any] = {"topics": [play.topic, unborn]}
    for name in ("a", "b"):
        play[name].leave()
        play.group.join(name, **fresh)
    play.group.wait_shared({(play.topic, partition) for partition in range(9)})
    stage.create_topic(unborn, 3)
    born = write(stage.bootstrap, unborn, numbered(unborn, 3, 20))
    everything = {(play.topic, partition) for partition in range(9)} | set(born)
    play.group.wait_shared(everything)
    ends = {**play.writer.stop(), **more, **born}
    play.group.wait_finished(ends)
    play.group.verify(truth_of(stage.bootstrap, ends))


@pytest.mark.also_on_kafka
def test_a_static_member_bounces_without_a_rebalance(scene: SceneFactory) -> None:
    play = scene()
    for name in ("a", "b", "c"):
        play.group.join(name, settings={"group.instance.id": name})
    play.shared()
    play.flows()
    had = {name: play[name].owned for name in "abc"}
    before = {name: joins(play.group)[name] for name in "ab"}
    marks = {name: len(play[name].events) for name in "ab"}
    # Under KIP-848 the brokers refuse a member that starts with the static id of one that did not leave.
    for bounce in ("leave", "kill") if play.group.protocol == "classic" else ("leave", "leave"):
        getattr(play["c"], bounce)()
        play.flows({index for _, index in had["a"] | had["b"]})
        play.group.join("c", settings={"group.instance.id": "c"})
        eventually("its partitions again", lambda: play["c"].owned == had["c"])
        play.flows()
        # After a kill, the next process may repeat records that were not committed.
        for name in "ab":
            assert play[name].owned == had[name]
            assert not heard(play[name], "revoked", marks[name])
    assert {name: joins(play.group)[name] for name in "ab"} == before, "nobody else had to join again"
    play.end()


@pytest.mark.req("S070")
@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_members_come_and_go_at_once(stage: Stage, scene: SceneFactory, strategy: str) -> None:
    """Joins in the middle of rebalances, members that leave and die meanwhile: in the end everything has one owner."""
    settings = {"partition.assignment.strategy": strategy}
    play = scene(partitions=12, session_seconds=stage.short_session * 2, settings=settings)
    for name in "abcd":
        play.group.join(name)
    play["a"].wait_for("assigned")
    play.group.join("e")
    play["b"].kill()
    play.group.join("f")
    play["c"].leave()
    play.group.join("g")
    play.shared()
    play.flows()
    play.end()
