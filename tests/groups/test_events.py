"""The observable state of a membership: events, health, metrics, log lines; and the settings behind it."""

import logging
from collections import Counter

import monedula
import pytest
from monedula import events
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import HEARTBEAT, Ground, shared, take, until


@pytest.mark.both_protocols
def test_a_life_as_events(ground: Ground, member: MemberFactory, protocol: str) -> None:
    topic, group = ground.topic(2), ground.name("group")
    ground.append(topic, range(3))
    seen: list[events.GroupEvent] = []
    consumer = member(group, topic, on_event=seen.append)
    take(consumer, 3)
    consumer.commit()
    until(lambda: any(isinstance(event, events.Heartbeat) for event in seen), consumer)
    consumer.close()
    kinds = {type(event) for event in seen}
    assert {
        events.StateChanged,
        events.CoordinatorFound,
        events.RebalanceStarted,
        events.Joined,
        events.Synced,
        events.Heartbeat,
        events.Commit,
        events.Left,
    } <= kinds
    times = [event.time for event in seen]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000
    (synced,) = (event for event in seen if isinstance(event, events.Synced))
    assert (synced.owned, synced.gained, synced.revoked) == (2, 2, 0)
    (joined,) = (event for event in seen if isinstance(event, events.Joined))
    chosen = (True, "cooperative-sticky") if protocol == "classic" else (False, "")
    assert (joined.leader, joined.assignor, joined.generation) == (*chosen, synced.generation)
    changes = [event for event in seen if isinstance(event, events.StateChanged)]
    assert changes[0].before == "Unsubscribed"
    assert [change.after for change in changes[:-1]] == [change.before for change in changes[1:]], "none is missing"


@pytest.mark.both_protocols
def test_lost_partitions_as_an_event(broker: Broker, member: MemberFactory, protocol: str) -> None:
    broker.create_topic("orders")
    seen: list[events.GroupEvent] = []
    consumer = member("etl", "orders", on_event=seen.append, session_timeout_ms=3000)
    until(lambda: bool(consumer.assignment()), consumer)
    with broker.fault(api=HEARTBEAT[protocol], error="UNKNOWN_MEMBER_ID", count=1):
        until(lambda: any(isinstance(event, events.Lost) for event in seen), consumer)
    (lost,) = (event for event in seen if isinstance(event, events.Lost))
    assert lost.partitions == {monedula.TopicPartition("orders", 0)}
    assert "UNKNOWN_MEMBER_ID" in lost.reason
    until(lambda: bool(consumer.assignment()), consumer)


def test_what_a_hook_raises_comes_out_of_the_poll_and_costs_no_record(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    ground.append(topic, range(5))
    raised: list[events.GroupEvent] = []

    def fail(event: events.GroupEvent) -> None:
        if len(raised) < 3:
            raised.append(event)
            raise KeyError("the user's own")

    consumer = member(ground.name("group"), topic, on_event=fail)
    seen: list[int] = []
    while len(seen) < 5:
        try:
            seen += [int(record.value or b"") for record in consumer.poll(timeout=20, max_rows=2).records()]
        except KeyError:
            continue
    assert seen == list(range(5))
    assert len(raised) == 3


@pytest.mark.both_protocols
def test_health_and_metrics_of_a_member(ground: Ground, member: MemberFactory, protocol: str) -> None:
    topic, group = ground.topic(2), ground.name("group")
    consumer = member(group, topic, group_instance_id=f"{group}-1")
    until(lambda: consumer.metrics().get("group_heartbeat_count", 0) >= 2, consumer)
    consumer.commit({(topic, 0): 1})
    health = consumer.health()["group"]
    assert {name: health[name] for name in ("group_id", "state", "protocol", "leader", "cooperative", "topics")} == {
        "group_id": group,
        "state": "Stable",
        "protocol": protocol,
        "leader": protocol == "classic",
        "cooperative": True,
        "topics": [topic],
    }
    assert health["owned"] == [(topic, 0), (topic, 1)]
    assert health["instance_id"] == f"{group}-1"
    assert health["generation"] >= 1
    assert health["coordinator"] is not None
    assert 0 <= health["last_heartbeat_ago"] < 60
    assert 0 < health["lease_left"] <= 6
    assert health["heartbeat_interval"] == 0.2
    assert health["last_rebalance_reason"]
    assert health["fatal_error"] is None
    metrics = consumer.metrics()
    for name in ("rebalance", "join", "sync", "heartbeat", "commit"):
        assert metrics[f"group_{name}_count"] >= 1, name
        assert metrics[f"group_{name}_seconds_max"] <= metrics[f"group_{name}_seconds_total"]
    assert metrics["group_partitions_gained"] == 2
    assert metrics["group_partitions_lost"] == 0
    assert member(None).health()["group"] is None


@pytest.mark.both_protocols
@pytest.mark.req("S030")
def test_retried_errors_are_counted_and_shown_to_nobody_else(
    broker: Broker, member: MemberFactory, protocol: str
) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["1"])
    seen: list[events.GroupEvent] = []
    join, sync = ("JoinGroup", "SyncGroup") if protocol == "classic" else (HEARTBEAT[protocol],) * 2
    with (
        broker.fault(api="FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", count=2),
        broker.fault(api=join, error="COORDINATOR_LOAD_IN_PROGRESS", count=2),
        broker.fault(api=sync, close=True, count=1),
        broker.fault(api="OffsetFetch", error="UNSTABLE_OFFSET_COMMIT", count=2),
        broker.fault(api="OffsetCommit", drop=True, count=1),
    ):
        consumer = member("etl", "orders", on_event=seen.append, request_timeout_ms=1000)
        assert take(consumer, 1) == [1]
        assert consumer.commit() == {monedula.TopicPartition("orders", 0): 1}
        # Events are reported in polls: the next one has all retries before the commit succeeded.
        consumer.poll(timeout=0)
    retried = Counter(event.api for event in seen if isinstance(event, events.Retried))
    least = Counter({"FindCoordinator": 2, "OffsetFetch": 2, "OffsetCommit": 1}) + Counter([join, join, sync])
    assert retried >= least
    assert consumer.metrics()["group_retried_errors"] >= 8
    assert consumer.health()["group"]["last_retried_error"] is not None


def test_timing_that_hardly_works_is_warned_of_and_what_cannot_is_refused(
    ground: Ground, member: MemberFactory, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "monedula"):
        consumer = member(ground.name("group"), ground.topic(), session_timeout_ms=3000, heartbeat_interval_ms=2000)
        until(shared(1, consumer), consumer)
        # The group's task records it, and calls write it to the log; the first call may have been too early.
        consumer.poll(timeout=0)
    warnings = [record.getMessage() for record in caplog.records if record.name.startswith("monedula")]
    (third,) = (text for text in warnings if "more than a third" in text)
    assert "2000" in third
    assert "3000" in third
    assert any("group.min.session.timeout.ms" in text for text in warnings)
    with pytest.raises(monedula.ConfigError, match=r"(?s)5000.*5000") as caught:
        member("g", session_timeout_ms=5000, heartbeat_interval_ms=5000)
    assert caught.value.key == "heartbeat.interval.ms"


def test_settings_of_groups_have_documented_defaults() -> None:
    keys = {key.name: key for key in monedula.config_keys()}
    defaults = {
        "session.timeout.ms": "45000",
        "heartbeat.interval.ms": "3000",
        "max.poll.interval.ms": "300000",
        "enable.auto.commit": "true",
        "auto.commit.interval.ms": "5000",
        "auto.commit.records": "0",
        "fetch.max.wait.ms": "500",
        "fetch.min.bytes": "1",
        "fetch.max.bytes": "8388608",
        "max.partition.fetch.bytes": "4194304",
        "auto.offset.reset": "latest",
        "partition.assignment.strategy": "cooperative-sticky",
        "group.protocol": "classic",
    }
    assert {name: keys[name].default for name in defaults} == defaults
    assert all(keys[name].description for name in defaults)


def test_timing_settings_go_out_in_the_join(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    for session in (6000, 300):
        consumer = member(f"etl-{session}", "orders", session_timeout_ms=session, heartbeat_interval_ms=50)
        if session >= 1000:
            until(lambda consumer=consumer: bool(consumer.assignment()), consumer)  # type: ignore[misc]
        else:
            with pytest.raises(monedula.errors.InvalidSessionTimeoutError, match=str(session)):
                until(lambda: False, consumer)
