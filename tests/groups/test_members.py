"""Members join and leave: assignments, starting offsets, and callbacks."""

import threading
import time
from typing import Any

import monedula
import pytest

from tests.groups.conftest import MemberFactory
from tests.groups.ground import PATIENCE_SECONDS, Ground, committed, owned, shared, take, until, values


@pytest.mark.both_protocols
def test_a_group_reads_a_topic_and_the_next_consumer_goes_on(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(10 * partition, 10 * partition + 10), partition)
    first = member(group, [topic])
    assert sorted(take(first, 20)) == list(range(20))
    assert first.subscription() == {topic}
    assert first.assignment() == {(topic, 0), (topic, 1)}
    first.commit()
    assert committed(first, topic, [0, 1]) == [10, 10]
    first.close()
    ground.append(topic, [100])
    second = member(group, [topic])
    assert take(second, 1) == [100]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.req("S010")
def test_members_share_and_take_over(ground: Ground, member: MemberFactory, strategy: str) -> None:
    topic, group = ground.topic(30), ground.name("group")
    members = [member(group, topic, partition_assignment_strategy=strategy) for _ in range(10)]
    until(shared(30, *members), *members)
    assert [len(part) for part in owned(*members)] == [3] * 10
    for leaving in members[5:]:
        leaving.close()
    until(shared(30, *members[:5]), *members[:5])
    assert [len(part) for part in owned(*members[:5])] == [6] * 5


@pytest.mark.both_protocols
@pytest.mark.req("S027")
def test_clean_rebalances_lose_and_repeat_nothing(ground: Ground, member: MemberFactory) -> None:
    topic, group, seen = ground.topic(4), ground.name("group"), list[int]()
    settings = {"auto_commit_interval_ms": 100}
    members = [member(group, topic, **settings)]
    for wave in range(3):
        for partition in range(4):
            first = (wave * 4 + partition) * 500
            ground.append(topic, range(first, first + 500), partition)
        members.append(member(group, topic, **settings))
        until(shared(4, *members), *members, seen=seen, max_rows=50)
    while len(members) > 1:
        gone = members.pop(0)
        gone.commit()
        gone.close()
        until(shared(4, *members), *members, seen=seen, max_rows=50)
    until(lambda: len(seen) >= 6000, *members, seen=seen)
    assert sorted(seen) == list(range(6000))


class Told:
    """Callbacks that record their arguments."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, set[int]]] = []
        self.owned: set[int] = set()

    def callbacks(self) -> dict[str, Any]:
        return {"on_assigned": self.assigned, "on_revoked": self.revoked, "on_lost": self.lost}

    def assigned(self, partitions: set[monedula.TopicPartition]) -> None:
        self._note("assigned", partitions)
        assert not self.owned & {partition.partition for partition in partitions}
        self.owned |= {partition.partition for partition in partitions}

    def revoked(self, partitions: set[monedula.TopicPartition]) -> None:
        self._note("revoked", partitions)
        self.owned -= {partition.partition for partition in partitions}

    def lost(self, partitions: set[monedula.TopicPartition]) -> None:
        self._note("lost", partitions)
        self.owned -= {partition.partition for partition in partitions}

    def _note(self, what: str, partitions: set[monedula.TopicPartition]) -> None:
        self.notes.append((what, {partition.partition for partition in partitions}))


@pytest.mark.both_protocols
@pytest.mark.req("S042", "S085")
def test_callbacks_are_told_what_changes(ground: Ground, member: MemberFactory) -> None:
    topic, group, told, other = ground.topic(4), ground.name("group"), Told(), Told()
    first, second = member(group), member(group)
    first.subscribe(topic, **told.callbacks())
    until(lambda: told.owned == {0, 1, 2, 3}, first)
    assert [note for note in told.notes if note[1]] == [("assigned", {0, 1, 2, 3})]
    second.subscribe(topic, **other.callbacks())
    until(shared(4, first, second), first, second)
    (moved,) = [partitions for what, partitions in told.notes if what == "revoked"]
    assert len(moved) == 2, "only what moves is told, not all that is owned"
    until(lambda: other.owned == moved, first, second)
    second.close()
    assert other.notes[-1] == ("revoked", moved)
    # An explicit leave frees them at once: no session timeout is waited for.
    until(lambda: told.owned == {0, 1, 2, 3}, first)
    assert told.notes[-1] == ("assigned", moved)


@pytest.mark.both_protocols
@pytest.mark.req("S025")
def test_the_assigned_callback_runs_before_any_record_comes(ground: Ground, member: MemberFactory) -> None:
    topic, order = ground.topic(2), list[str]()
    for partition in range(2):
        ground.append(topic, range(10), partition)
    consumer = member(ground.name("group"))

    def assigned(partitions: set[monedula.TopicPartition]) -> None:
        order.append(f"assigned {len(partitions)}")
        assert consumer.position((topic, 0)) in (None, 0)
        consumer.seek((topic, 0), 7)
        consumer.seek((topic, 1), 9)

    consumer.subscribe(topic, on_assigned=assigned)
    seen: list[int] = []
    until(lambda: len(seen) >= 4, consumer, seen=seen)
    assert order == ["assigned 2"]
    assert sorted(seen) == [7, 8, 9, 9]


@pytest.mark.both_protocols
def test_on_revoked_commits_what_the_next_owner_starts_from(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(10), partition)
    first = member(group, enable_auto_commit=False)

    def revoked(partitions: set[monedula.TopicPartition]) -> None:
        assert first.commit(dict.fromkeys(partitions, 8)) == dict.fromkeys(partitions, 8)

    first.subscribe(topic, on_revoked=revoked)
    take(first, 20)
    second = member(group, topic, enable_auto_commit=False)
    seen: list[int] = []
    until(shared(2, first, second), first, second, seen=seen)
    until(lambda: len(seen) >= 2, second, seen=seen)
    assert seen == [8, 9]
    assert sorted(committed(second, topic, [0, 1]), key=str) == [8, None]


@pytest.mark.both_protocols
@pytest.mark.parametrize("name", ["on_assigned", "on_revoked"])
def test_what_a_callback_raises_reaches_the_caller_unchanged(ground: Ground, member: MemberFactory, name: str) -> None:
    topic, group = ground.topic(1), ground.name("group")
    ground.append(topic, range(3))
    error = KeyError("the user's own")
    consumer = member(group)
    failures = 3 if name == "on_assigned" else 1

    def fail(_: set[monedula.TopicPartition]) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise error

    callbacks: dict[str, Any] = {name: fail}
    consumer.subscribe(topic, **callbacks)
    if name == "on_assigned":
        # Whatever it was to prepare is not done, so nothing is handed out; each call that waits tries it again.
        for _ in range(3):
            with pytest.raises(KeyError) as caught:
                take(consumer, 3)
        assert take(consumer, 3) == [0, 1, 2]
        assert failures == -1
    else:
        assert take(consumer, 3) == [0, 1, 2]
        consumer.commit()
        with pytest.raises(KeyError) as caught:
            consumer.close()
        assert committed(member(group), topic) == [3]
    assert caught.value is error


@pytest.mark.both_protocols
def test_a_callback_must_not_poll(ground: Ground, member: MemberFactory) -> None:
    topic, consumer = ground.topic(), member(ground.name("group"))
    refused: list[str] = []

    def assigned(_: set[monedula.TopicPartition]) -> None:
        for call in (consumer.poll, consumer.unsubscribe, consumer.close):
            with pytest.raises(monedula.ArgumentError, match="inside of a rebalance callback") as caught:
                call()
            refused.append(str(caught.value).partition("(")[0])

    consumer.subscribe(topic, on_assigned=assigned)
    until(lambda: bool(refused), consumer)
    assert refused == ["poll", "unsubscribe", "close"]


@pytest.mark.both_protocols
def test_unsubscribe_gives_up_everything_and_subscribe_joins_again(ground: Ground, member: MemberFactory) -> None:
    topic, group, told = ground.topic(2), ground.name("group"), Told()
    consumer = member(group)
    consumer.subscribe(topic, **told.callbacks())
    until(shared(2, consumer), consumer)
    consumer.unsubscribe()
    assert (consumer.assignment(), consumer.subscription(), told.owned) == (set(), set(), set())
    assert told.notes[-1] == ("revoked", {0, 1})
    with pytest.raises(monedula.ArgumentError, match="nothing is assigned"):
        consumer.poll()
    other = member(group, topic)
    until(shared(2, other), other)
    consumer.subscribe(topic)
    until(shared(2, consumer, other), consumer, other)


@pytest.mark.both_protocols
@pytest.mark.req("S067")
def test_a_changed_subscription_joins_again_and_members_may_differ(ground: Ground, member: MemberFactory) -> None:
    one, two, group = ground.topic(2), ground.topic(2), ground.name("group")
    first, second = member(group, one), member(group, [one, two])
    until(lambda: len(first.assignment() | second.assignment()) == 4, first, second)
    assert {partition.topic for partition in first.assignment()} <= {one}
    first.subscribe([two])
    all_of_one = {(one, 0), (one, 1)}
    until(lambda: all_of_one <= second.assignment() and len(first.assignment()) == 2, first, second)
    assert first.assignment() == {(two, 0), (two, 1)}


@pytest.mark.req("S152")
def test_subscribing_and_assigning_at_once_is_refused(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    ground.append(topic, [1, 2, 3])
    consumer = member(ground.name("group"), topic)
    with pytest.raises(monedula.ArgumentError, match="unsubscribe"):
        consumer.assign(topic)
    with pytest.raises(monedula.ArgumentError, match="unsubscribe"):
        consumer.unassign()
    assert take(consumer, 3) == [1, 2, 3]
    consumer.unsubscribe()
    consumer.assign({(topic, 0): 1})
    assert take(consumer, 2) == [2, 3]
    consumer.commit({(topic, 0): 2})
    assert committed(consumer, topic) == [2]
    with pytest.raises(monedula.ArgumentError, match="unassign"):
        consumer.subscribe(topic)
    consumer.unassign()
    consumer.subscribe(topic)
    assert take(consumer, 1) == [3]


def test_what_subscribe_does_not_take(ground: Ground, member: MemberFactory) -> None:
    consumer = member(ground.name("group"))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "topics or a pattern"),
        ({"topics": "a", "pattern": "b"}, "topics or a pattern"),
        ({"topics": []}, "no topic"),
        ({"topics": [("a", 0)]}, "assign"),
        ({"topics": "a", "exclude": "b"}, "exclude goes with pattern"),
        ({"pattern": "("}, "pattern"),
        ({"topics": "a", "on_revoked": "b"}, "cannot be called"),
    ]
    for arguments, message in wrong:
        with pytest.raises(monedula.ArgumentError, match=message):
            consumer.subscribe(**arguments)
    assert consumer.subscription() == set()
    with pytest.raises(monedula.ArgumentError, match=r"group\.id"):
        member(None).subscribe("a")
    with pytest.raises(monedula.ArgumentError, match=r"group\.id"):
        member(None, "a")


@pytest.mark.both_protocols
@pytest.mark.req("S066")
def test_a_pattern_finds_topics_that_come_and_leaves_some_out(ground: Ground, member: MemberFactory) -> None:
    stem, group = ground.name("logs"), ground.name("group")
    for suffix in ("a", "b.test"):
        ground.append(ground.topic(1, f"{stem}.{suffix}"), [1])
    ground.topic(1, f"x{stem}.a")
    consumer = member(group, metadata_max_age_ms=100)
    consumer.subscribe(pattern=f"{stem}\\..*", exclude=r".*\.test")
    until(lambda: consumer.subscription() == {f"{stem}.a"}, consumer)
    ground.topic(1, f"{stem}.c")
    both = {(f"{stem}.a", 0), (f"{stem}.c", 0)}
    until(lambda: consumer.assignment() == both, consumer)
    assert consumer.subscription() == {f"{stem}.a", f"{stem}.c"}


@pytest.mark.both_protocols
@pytest.mark.req("S065")
def test_topics_that_grow_or_come_to_exist_start_a_rebalance(ground: Ground, member: MemberFactory) -> None:
    topic, late, group = ground.topic(1), ground.name("late"), ground.name("group")
    consumer = member(group, [topic, late], metadata_max_age_ms=100)
    until(lambda: consumer.assignment() == {(topic, 0)}, consumer)
    ground.grow(topic, 2)
    until(lambda: consumer.assignment() == {(topic, 0), (topic, 1)}, consumer)
    ground.topic(1, late)
    until(lambda: (late, 0) in consumer.assignment(), consumer)


@pytest.mark.both_protocols
@pytest.mark.req("S084")
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_partitions_start_by_the_policy_but_added_ones_at_their_smallest_offset(
    ground: Ground, member: MemberFactory, reset: str
) -> None:
    topic, group = ground.topic(1), ground.name("group")
    ground.append(topic, [1, 2])
    consumer = member(group, topic, auto_offset_reset=reset, metadata_max_age_ms=100)
    until(lambda: consumer.position((topic, 0)) == 2 if consumer.assignment() else False, consumer)
    ground.append(topic, [3])
    ground.grow(topic, 2)
    ground.append(topic, [4], partition=1)
    seen: list[int] = []
    until(lambda: {3, 4} <= set(seen), consumer, seen=seen)
    assert sorted(seen) == [3, 4]


@pytest.mark.both_protocols
def test_static_members_come_back_without_a_rebalance(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(4), ground.name("group")
    instances = [{"group_instance_id": f"{group}-{number}"} for number in range(2)]
    first, second = (member(group, topic, **instance) for instance in instances)
    until(shared(4, first, second), first, second)
    had, generation = second.assignment(), first.health()["group"]["generation"]
    second.close()
    again = member(group, topic, **instances[1])
    until(lambda: again.assignment() == had, first, again)
    assert first.health()["group"]["generation"] == generation
    assert first.assignment() & had == set()


def test_a_second_consumer_with_the_same_instance_id_fences_the_first(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(1), ground.name("group")
    told = Told()
    first = member(group, group_instance_id="one")
    first.subscribe(topic, **told.callbacks())
    until(shared(1, first), first)
    second = member(group, topic, group_instance_id="one")
    with pytest.raises(monedula.errors.FencedInstanceError) as caught:
        until(lambda: False, first, second)
    assert (caught.value.instance_id, caught.value.group) == ("one", group)
    assert caught.value.code == "FENCED_INSTANCE_ID"
    until(shared(1, second), second)
    for _ in range(2):
        with pytest.raises(monedula.errors.FencedInstanceError):
            first.poll()


@pytest.mark.req("S020")
def test_members_without_a_common_assignor_raise_an_error(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    first = member(group, topic, partition_assignment_strategy="range")
    until(shared(1, first), first)
    second = member(group, topic, partition_assignment_strategy="roundrobin")
    for _ in range(2):
        with pytest.raises(monedula.errors.InconsistentGroupProtocolError, match="roundrobin") as caught:
            until(lambda: False, second)
        assert (caught.value.code, caught.value.group) == ("INCONSISTENT_GROUP_PROTOCOL", group)
    first.poll(timeout=0)


@pytest.mark.parametrize("timeout_ms", [900, 10_000_000])
def test_a_session_timeout_that_the_broker_refuses_is_an_error(
    ground: Ground, member: MemberFactory, timeout_ms: int
) -> None:
    consumer = member(ground.name("group"), ground.topic(), session_timeout_ms=timeout_ms)
    with pytest.raises(monedula.errors.InvalidSessionTimeoutError, match=str(timeout_ms)) as caught:
        until(lambda: False, consumer)
    assert (caught.value.code, caught.value.key) == ("INVALID_SESSION_TIMEOUT", "session.timeout.ms")


@pytest.mark.both_protocols
def test_wakeup_ends_a_wait_of_a_member(ground: Ground, member: MemberFactory) -> None:
    consumer = member(ground.name("group"), ground.topic())
    until(lambda: bool(consumer.assignment()), consumer)
    timer = threading.Timer(0.1, consumer.wakeup)
    timer.start()
    with pytest.raises(monedula.errors.WakeupError):
        consumer.poll(timeout=60)
    timer.join()
    assert values(consumer.poll(timeout=0)) == []


@pytest.mark.parametrize("verb", ["poll", "batches", "records"])
def test_what_callbacks_take_is_not_counted_as_waiting(
    ground: Ground, member: MemberFactory, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    topic, group, slow = ground.topic(1), ground.name("group"), [0.0]
    ground.append(topic, range(5))
    monotonic = time.monotonic
    monkeypatch.setattr("monedula.consumer.sync.monotonic", lambda: monotonic() + slow[0])

    def assigned(_: set[monedula.TopicPartition]) -> None:
        slow[0] += 1000 * PATIENCE_SECONDS

    consumer = member(group)
    consumer.subscribe(topic, on_assigned=assigned)
    if verb == "poll":
        assert values(consumer.poll(PATIENCE_SECONDS)) == list(range(5))
    elif verb == "batches":
        assert values(next(consumer.batches(timeout=PATIENCE_SECONDS))) == list(range(5))
    else:
        assert next(consumer.records(timeout=PATIENCE_SECONDS)).value == b"0"
    assert slow[0]
