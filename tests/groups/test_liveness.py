"""Users and coordinators that are slow, busy or hung; and how users learn of it."""

import gc
import threading
import time
import weakref

import monedula
import pytest
from monedula import TopicPartition
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import HEARTBEAT, Ground, committed, shared, take, until, values

SHORT_POLL = {"max_poll_interval_ms": 1000, "session_timeout_ms": 1500}


@pytest.mark.both_protocols
@pytest.mark.req("S007")
def test_a_user_busy_for_longer_than_the_session_stays_a_member(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(4))
    consumer = member(group, topic, session_timeout_ms=1500, heartbeat_interval_ms=200)
    assert values(consumer.poll(timeout=20, max_rows=2)) == [0, 1]
    generation, beats = consumer.health()["group"]["generation"], consumer.metrics()["group_heartbeat_count"]
    # The user is busy for more than two sessions, measured by the heartbeats meanwhile.
    until(lambda: consumer.metrics()["group_heartbeat_count"] >= beats + 16)
    assert take(consumer, 2) == [2, 3]
    assert consumer.health()["group"]["generation"] == generation


@pytest.mark.both_protocols
@pytest.mark.req("S009")
def test_who_does_not_poll_leaves_with_an_error_and_joins_again(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    broker.append("orders", [str(number) for number in range(4)])
    lost: list[set[TopicPartition]] = []
    consumer = member("etl", **SHORT_POLL)
    consumer.subscribe("orders", on_lost=lost.append)
    held = consumer.poll(timeout=20, max_rows=2)
    assert values(held) == [0, 1]
    until(lambda: broker.group("etl").members == ())
    with pytest.raises(monedula.errors.CommitFailedError):
        consumer.commit(held)
    with pytest.raises(monedula.errors.MaxPollExceededError, match="keep_alive") as caught:
        consumer.poll(timeout=20)
    assert (caught.value.group, caught.value.retriable) == ("etl", True)
    # Nothing was committed: the same records come again, after the callback.
    assert take(consumer, 4) == [0, 1, 2, 3]
    assert lost == [{TopicPartition("orders", 0)}]


def test_keep_alive_keeps_a_busy_user_in_the_group(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["0", "1"])
    consumer = member("etl", "orders", **SHORT_POLL)
    batch = consumer.poll(timeout=20, max_rows=1)
    beats = consumer.metrics()["group_heartbeat_count"]
    deadline = time.monotonic() + 60
    generation = consumer.health()["group"]["generation"]
    while consumer.metrics()["group_heartbeat_count"] < beats + 10 and time.monotonic() < deadline:
        consumer.keep_alive()
        time.sleep(0.02)
    assert consumer.health()["group"]["generation"] == generation, "it has not left"
    consumer.commit(batch)
    assert take(consumer, 1) == [1]


def test_a_call_that_waits_counts_as_polling(broker: Broker, member: MemberFactory, protocol: str) -> None:
    broker.create_topic("orders")
    consumer = member("etl", "orders", **SHORT_POLL)
    until(lambda: bool(consumer.assignment()), consumer)
    generation = consumer.health()["group"]["generation"]
    with broker.observe(api=HEARTBEAT[protocol]) as beats:

        def wake_later() -> None:
            beats.wait(10, timeout=30)
            consumer.wakeup()

        timer = threading.Thread(target=wake_later)
        timer.start()
        with pytest.raises(monedula.errors.WakeupError):
            consumer.poll(timeout=60)
        timer.join()
    assert consumer.health()["group"]["generation"] == generation, "it has not left"


@pytest.mark.both_protocols
def test_a_long_batch_is_told_that_a_rebalance_waits_for_it(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(10), partition)
    first = member(group, topic, enable_auto_commit=False)
    batch = first.poll(timeout=20)
    while len(batch) < 20:
        first.commit(batch)
        batch = first.poll(timeout=20)
        if not first.position((topic, 0)) == first.position((topic, 1)) == 10:
            continue
        break
    assert first.rebalance_wanted == set()
    stop = threading.Event()
    second = member(group)
    second.subscribe(topic)

    def poll() -> None:
        while not stop.is_set():
            second.poll(timeout=0.05)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        until(lambda: bool(first.rebalance_wanted))
        (wanted,) = first.rebalance_wanted
        # While the user holds the batch, no other member has the partition; the user commits, and polls.
        assert wanted not in second.assignment()
        first.commit(batch)
        until(shared(2, first, second), first)
        assert second.assignment() == {wanted}
        assert first.rebalance_wanted == set()
    finally:
        stop.set()
        thread.join()
    assert committed(first, topic, [wanted.partition]) == [10]


@pytest.mark.both_protocols
@pytest.mark.req("S034", "S044")
def test_a_member_reads_on_while_another_takes_its_time_to_revoke(ground: Ground, member: MemberFactory) -> None:
    own, common, group = ground.topic(), ground.topic(4), ground.name("group")
    reader, slow = member(group, own), member(group)
    revoking, go_on = threading.Event(), threading.Event()

    def revoked(_: set[TopicPartition]) -> None:
        revoking.set()
        assert go_on.wait(60)

    slow.subscribe(common, on_revoked=revoked)
    until(lambda: len(reader.assignment()) + len(slow.assignment()) == 5, reader, slow)
    reader.subscribe([own, common])
    thread = threading.Thread(target=lambda: until(lambda: len(slow.assignment()) < 4, slow))
    thread.start()
    try:
        until(revoking.is_set, reader)
        seen: list[int] = []
        for number in range(20):
            ground.append(own, [number])
            until(lambda: len(seen) > number, reader, seen=seen)  # noqa: B023 - called before the next turn
        assert seen == list(range(20))
        assert len(slow.assignment()) == 4
    finally:
        go_on.set()
    until(lambda: len(reader.assignment()) > 1, reader)
    thread.join()


@pytest.mark.both_protocols
@pytest.mark.req("S055")
def test_reading_goes_on_while_the_coordinator_is_away(broker: Broker, member: MemberFactory, protocol: str) -> None:
    broker.create_topic("orders")
    consumer = member("etl", "orders", session_timeout_ms=30_000)
    until(lambda: bool(consumer.assignment()), consumer)
    with broker.fault(api=(HEARTBEAT[protocol], "FindCoordinator"), error="COORDINATOR_NOT_AVAILABLE") as away:
        away.wait(3, timeout=30)
        broker.append("orders", [str(number) for number in range(5)])
        assert take(consumer, 5) == list(range(5))
        assert consumer.health()["group"]["last_retried_error"] is not None
    assert consumer.metrics()["group_retried_errors"] >= 1
    consumer.commit()
    assert committed(consumer, "orders") == [5]


@pytest.mark.both_protocols
def test_past_the_lease_nothing_is_handed_out_until_the_coordinator_answers(
    broker: Broker, member: MemberFactory, protocol: str
) -> None:
    broker.create_topic("orders")
    consumer = member("etl", "orders", session_timeout_ms=1500, heartbeat_interval_ms=200, request_timeout_ms=1000)
    until(lambda: bool(consumer.assignment()), consumer)
    apis = (HEARTBEAT[protocol], "FindCoordinator", "JoinGroup", "SyncGroup")
    with broker.fault(api=apis, drop=True):
        until(lambda: consumer.metrics()["group_lease_expiries"] == 1, consumer)
        broker.append("orders", ["1"])
        assert len(consumer.poll(timeout=0.3)) == 0
        assert consumer.health()["group"]["lease_left"] in (None, 0.0)
    assert take(consumer, 1) == [1]


@pytest.mark.both_protocols
def test_a_connection_that_swallows_heartbeats_costs_no_membership(
    broker: Broker, member: MemberFactory, protocol: str
) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["0"])
    lost: list[object] = []
    # Far shorter than request.timeout.ms, which is 30 s.
    consumer = member("etl", session_timeout_ms=6000)
    consumer.subscribe("orders", on_lost=lost.append)
    assert take(consumer, 1) == [0]
    generation = consumer.health()["group"]["generation"]
    api = "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
    swallowed = broker.fault(api=api, black_hole="requests", count=1)
    until(lambda: swallowed.hits == 1, consumer)
    beats = consumer.metrics()["group_heartbeat_count"]
    until(lambda: consumer.metrics()["group_heartbeat_count"] >= beats + 5, consumer)
    health = consumer.health()["group"]
    assert (health["generation"], lost) == (generation, [])
    broker.append("orders", ["1"])
    assert take(consumer, 1) == [1]


@pytest.mark.both_protocols
@pytest.mark.timeout(30)  # the bound: without one, closing would wait for a minute and more
def test_close_is_bounded_with_a_broker_that_answers_nothing(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["1"])
    revoked: list[object] = []
    consumer = member("etl")
    consumer.subscribe("orders", on_revoked=revoked.append)
    take(consumer, 1)
    with broker.fault(black_hole="requests"):
        consumer.close(timeout=1.0)
    with pytest.raises(monedula.errors.ClosedError):
        consumer.poll()
    with pytest.raises(monedula.errors.ClosedError):
        consumer.commit({("orders", 0): 1})
    consumer.close()


@pytest.mark.both_protocols
@pytest.mark.req("S029")
def test_who_closes_is_replaced_at_once(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(2), ground.name("group")
    first, second = (member(group, topic, session_timeout_ms=60_000) for _ in range(2))
    until(shared(2, first, second), first, second)
    first.close()
    until(shared(2, second), second)


@pytest.mark.both_protocols
@pytest.mark.parametrize("faulty", [1, 2, 3])
def test_one_broker_that_knows_no_coordinator_ends_no_membership(member: MemberFactory, faulty: int) -> None:
    with Broker(nodes=3, topics={"orders": 1}) as broker:
        broker.fault(api="FindCoordinator", node=faulty, error="UNKNOWN_SERVER_ERROR")
        consumer = member("etl", "orders", bootstrap_servers=broker.bootstrap_servers)
        until(lambda: len(consumer.assignment()) == 1, consumer)
        consumer.close()


def test_a_denied_group_is_an_error_on_every_call(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    with broker.fault(api="JoinGroup", error="GROUP_AUTHORIZATION_FAILED"):
        consumer = member("etl", "orders")
        for _ in range(2):
            with pytest.raises(monedula.errors.GroupAuthorizationError, match="READ") as caught:
                until(lambda: False, consumer)
            assert (caught.value.group, caught.value.code) == ("etl", "GROUP_AUTHORIZATION_FAILED")
    assert consumer.health()["group"]["state"] == "Fatal"
    assert "GROUP_AUTHORIZATION_FAILED" in consumer.health()["group"]["fatal_error"]


@pytest.mark.parametrize("face", [monedula.Consumer, monedula.AsyncConsumer])
def test_a_forgotten_consumer_needs_no_garbage_collector(broker: Broker, face: type[monedula.Consumer]) -> None:
    broker.create_topic("orders")
    value = monedula.Json("id int", dead_letter="failed")
    gc.disable()
    try:
        forgotten = face({"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}, ["orders"], value=value)
        gone = weakref.ref(forgotten)
        del forgotten
        assert gone() is None
    finally:
        gc.enable()


def test_members_of_a_forgotten_consumer_leave_by_themselves(broker: Broker) -> None:
    broker.create_topic("orders")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "session.timeout.ms": 60_000}
    forgotten = [monedula.Consumer(settings, topics=["orders"])]
    until(lambda: bool(forgotten[0].assignment()), *forgotten)
    forgotten.clear()
    until(lambda: broker.group("etl").members == ())
