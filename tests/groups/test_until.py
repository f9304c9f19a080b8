"""Loops with `until`: they hand out what each partition held when it was first assigned, and end."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import monedula
import pytest
from monedula import TopicPartition
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import Ground, committed, owned, shared, take, until, values


@pytest.mark.both_protocols
def test_a_member_reads_what_is_there_and_commits_it(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(3), ground.name("group")
    for partition in range(2):  # the third is empty
        ground.append(topic, range(10), partition)
    consumer, seen = member(group, topic), list[int]()
    for batch in consumer.batches(max_rows=4, until="latest"):
        if not seen:
            for partition in range(3):
                ground.append(topic, range(100, 105), partition)
        seen += values(batch)
    assert sorted(seen) == sorted([*range(10)] * 2)
    consumer.close()
    assert committed(member(group), topic, range(3)) == [10, 10, 0]
    again = member(group, topic)
    assert sorted(values(again.records(until="latest"))) == sorted([*range(100, 105)] * 3)
    assert list(again.batches(until="latest")) == []
    ground.append(topic, [7])
    assert take(again, 1) == [7], "after the loop the consumer reads on without an end"


def test_a_loop_over_records_ends_at_the_row(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic(2)
    ground.append(topic, range(50), 0)
    consumer = member(ground.name("group"), topic)
    records = consumer.records(until="latest")
    first = next(records)
    for partition in range(2):
        ground.append(topic, range(50, 60), partition)
    assert [first.offset, *(record.offset for record in records)] == list(range(50))
    assert sorted(take(consumer, 20)) == sorted([*range(50, 60)] * 2)


def test_a_loop_that_is_left_early_loses_nothing(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    ground.append(topic, range(20))
    consumer = member(ground.name("group"), topic)
    seen = values(itertools.islice(consumer.records(until="latest"), 5))
    ground.append(topic, range(20, 30))
    assert seen + take(consumer, 25) == list(range(30))


@pytest.mark.both_protocols
def test_an_async_member_reads_what_is_there(ground: Ground, protocol: str) -> None:
    topic, group = ground.topic(3), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(10), partition)

    async def read() -> None:
        settings = ground.settings(group, group_protocol=protocol)
        if protocol == "consumer":
            del settings["heartbeat.interval.ms"]
        async with monedula.AsyncConsumer(settings, topics=topic) as consumer:
            seen: list[int] = []
            async for batch in consumer.batches(max_rows=4, until="latest"):
                if not seen:
                    ground.append(topic, range(100, 105), 1)
                seen += values(batch)
            assert sorted(seen) == sorted([*range(10)] * 2)
            seen = [int(record.value or b"") async for record in consumer.records(until="latest")]
            assert seen == list(range(100, 105))
            ground.append(topic, [7])
            assert values(await consumer.poll(timeout=20)) == [7]

    asyncio.run(read())


@pytest.mark.both_protocols
def test_three_members_share_what_is_there(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(6), ground.name("group")
    for partition in range(6):
        ground.append(topic, range(partition * 1000, partition * 1000 + 200), partition)
    members = [member(group, topic) for _ in range(3)]
    seen: list[list[int]] = [[] for _ in members]

    def read(number: int) -> None:
        with members[number] as consumer:
            for batch in consumer.batches(max_rows=20, until="latest"):
                seen[number] += values(batch)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    everything = [partition * 1000 + number for partition in range(6) for number in range(200)]
    assert sorted(itertools.chain(*seen)) == everything
    assert committed(member(group), topic, range(6)) == [200] * 6


@pytest.mark.both_protocols
def test_partitions_that_a_rebalance_brings_are_read_too(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(2), ground.name("group")
    first, second = member(group, topic), member(group)
    second.subscribe(topic, on_assigned=lambda gained: second.pause(*gained))
    with polled(second):
        until(lambda: len(owned(first)[0]) == 1 == len(second.assignment()), first)
        for partition in range(2):
            ground.append(topic, range(10), partition)
        records, seen = first.records(until="latest"), list[monedula.Record]()
        seen.append(next(records))
        mine = seen[0].partition or 0
        ground.append(topic, [10], 1 - mine)
    second.close()
    until(lambda: len(first.assignment()) == 2)
    seen += records
    by_partition = sorted((record.partition or 0, record.offset or 0) for record in seen)
    assert by_partition == sorted([(mine, n) for n in range(10)] + [(1 - mine, n) for n in range(11)])


@contextmanager
def polled(consumer: monedula.Consumer) -> Iterator[None]:
    """Polls a consumer in a thread."""
    stopped = threading.Event()

    def poll() -> None:
        while not stopped.is_set():
            consumer.poll(timeout=0.05)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(30)


def test_a_member_without_a_partition_ends(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(1), ground.name("group")
    ground.append(topic, range(5))
    first, second = member(group, topic), member(group, topic)
    settled = shared(1, first, second)
    until(lambda: settled() and all(m.health()["group"]["state"] == "Stable" for m in (first, second)), first, second)
    owner, other = (first, second) if first.assignment() else (second, first)
    with polled(owner):
        assert list(other.batches(until="latest")) == []


def test_it_ends_though_the_topic_is_busy(ground: Ground, member: MemberFactory) -> None:
    topic, stopped = ground.topic(), threading.Event()
    ground.append(topic, range(5))

    def write() -> None:
        while not stopped.is_set():
            ground.append(topic, range(20))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        consumer = member(ground.name("group"), topic)
        assert sum(map(len, consumer.batches(max_rows=10, until="latest"))) >= 5
    finally:
        stopped.set()
        writer.join(30)


def test_transactions_end_it_at_the_last_stable_offset(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic(2)
    settings = {"bootstrap.servers": ground.bootstrap}
    with (
        monedula.Producer({**settings, "transactional.id": ground.name("closed")}) as closed,
        monedula.Producer({**settings, "transactional.id": ground.name("open")}) as opened,
    ):
        with closed.transaction():
            for number in range(3):
                closed.send(topic, str(number), partition=0)
        closed.begin_transaction()
        for number in range(100, 103):
            closed.send(topic, str(number), partition=1).result()
        closed.abort_transaction()
        opened.init_transactions()
        opened.begin_transaction()
        opened.send(topic, "200", partition=0).result()
        ground.append(topic, [3], 0)  # behind the last stable offset
        consumer = member(ground.name("group"), topic, isolation_level="read_committed")
        # The markers are no rows, and neither is all that partition 1 has.
        assert values(consumer.records(until="latest")) == [0, 1, 2]
        assert consumer.position((topic, 0)) == 4
        opened.commit_transaction()
        # The coordinator writes the markers of a transaction after it has answered.
        until(lambda: consumer.end_offsets([(topic, 0)]) == {(topic, 0): 7})
        assert values(consumer.records(until="latest")) == [200, 3]
        everything = member(ground.name("group"), topic, isolation_level="read_uncommitted")
        assert sorted(values(everything.records(until="latest"))) == [0, 1, 2, 3, 100, 101, 102, 200]


def test_gaps_of_compaction_do_not_hold_it_up(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("compacted", 1, config={"cleanup.policy": "compact", "delete.retention.ms": 0})
    broker.append("compacted", [("a", "1"), ("b", "2"), ("a", "3"), ("b", None), ("a", None), ("c", "6"), ("c", None)])
    broker.compact("compacted")
    consumer = member("etl", "compacted")
    left = [record.value for record in consumer.records(until="latest")]
    assert len(left) < 7
    assert consumer.position(("compacted", 0)) == 7


def test_it_ends_at_a_time(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders", 3)
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    with monedula.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(6):
            producer.send("orders", str(number), partition=0, timestamp=now - (6 - number) * hour)
        producer.send("orders", "10", partition=1, timestamp=now - 5 * hour)  # nothing is younger
    times: list[datetime | str] = [now - 2.5 * hour, (now - 2.5 * hour).isoformat(), "150m ago"]
    for turn, when in enumerate(times):
        consumer = member(f"etl-{turn}", "orders")
        assert sorted(values(consumer.records(until=when))) == [0, 1, 2, 3, 10]
        assert sorted(values(consumer.records(until="latest"))) == [4, 5]


@pytest.mark.parametrize("wrong", ["tomorrow or so", 5, datetime(2026, 1, 1), b"latest", "earliest"])
def test_another_end_is_refused(broker: Broker, member: MemberFactory, wrong: object) -> None:
    broker.create_topic("orders")
    consumer = member("etl", "orders")
    with pytest.raises(monedula.ArgumentError, match=r"until=|no time zone"):
        next(consumer.batches(until=wrong))  # type: ignore[arg-type]


def test_partitions_that_are_assigned_by_hand_end_too(ground: Ground, member: MemberFactory) -> None:
    topic, other = ground.topic(3), ground.topic(1)
    for partition in range(2):
        ground.append(topic, range(10), partition)
    consumer = member(None)
    consumer.assign([topic, other])
    assert sorted(values(consumer.records(until="latest"))) == sorted([*range(10)] * 2)
    consumer.assign({(topic, 0): 4})
    seen: list[int] = []
    for record in consumer.records(until="latest"):
        seen.append(int(record.value or b""))
        if len(seen) == 3:
            ground.append(topic, [10], 0)
            consumer.seek((topic, 0), 2)
    assert seen == [4, 5, 6, *range(2, 10)], "the first bound stands"


def test_nothing_is_handed_out_before_the_end_is_known(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    broker.append("orders", map(str, range(5)))
    consumer = member("etl", "orders")
    assert take(consumer, 5) == list(range(5))
    held = broker.fault(api="ListOffsets", hold=True)
    broker.append("orders", ["5", "6"])
    assert list(consumer.batches(until="latest", timeout=0.3)) == []
    held.remove()
    assert values(consumer.records(until="latest")) == [5, 6]


def test_a_failed_lookup_is_made_again(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    broker.append("orders", map(str, range(5)))
    consumer = member("etl", "orders", default_api_timeout_ms=300)
    assert take(consumer, 1, max_rows=1) == [0]
    fault = broker.fault(api="ListOffsets", error="NOT_LEADER_OR_FOLLOWER", count=20)
    assert values(consumer.records(until="latest")) == [1, 2, 3, 4]
    fault.remove()


def test_wakeup_and_timeout_end_it_early(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders", 2)
    broker.append("orders", map(str, range(5)), partition=0)
    consumer = member("etl", "orders")
    seen = []
    for record in consumer.records(until="latest"):
        seen.append(record.offset)
        if record.offset == 2:
            consumer.wakeup()
    assert seen == [0, 1, 2]
    consumer.pause(("orders", 0))
    began = time.monotonic()
    assert list(consumer.batches(until="latest", timeout=0.2)) == [], "a paused partition is not at its end"
    assert time.monotonic() - began >= 0.2
    consumer.resume()
    assert values(consumer.records(until="latest")) == [3, 4]


@pytest.mark.both_protocols
def test_the_lag_of_what_is_finished_counts_rows_in_hand(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    ground.append(topic, range(10))
    consumer = member(ground.name("group"), topic)
    records = consumer.records()
    for _ in range(4):
        next(records)
    partition = TopicPartition(topic, 0)
    assert consumer.lag() == {partition: 0}, "the position is behind what was read ahead"
    assert consumer.lag(of="finished") == {partition: 7}
    records.close()  # type: ignore[attr-defined]
    assert consumer.lag(partition, of="finished") == {partition: 7}
    with pytest.raises(monedula.ArgumentError, match="'finished'"):
        consumer.lag(of="committed")  # type: ignore[arg-type]


def settings_for(ground: Ground, protocol: str, group: str) -> dict[str, Any]:
    settings = ground.settings(group, group_protocol=protocol)
    if protocol == "consumer":
        del settings["heartbeat.interval.ms"]
    return settings


def ended(face: str, settings: dict[str, Any], subscription: dict[str, Any], seen: list[int]) -> None:
    """Read until the end by a loop, by an asynchronous one, or by a run."""
    if face == "async":
        asyncio.run(_ended_async(settings, subscription, seen))
        return
    with monedula.Consumer(settings) as consumer:
        consumer.subscribe(**subscription)
        if face == "run":
            consumer.run(lambda record: seen.append(int(record.value)), until="latest")
        else:
            for batch in consumer.batches(until="latest"):
                seen += values(batch)


async def _ended_async(settings: dict[str, Any], subscription: dict[str, Any], seen: list[int]) -> None:
    async with monedula.AsyncConsumer(settings) as consumer:
        consumer.subscribe(**subscription)
        async for batch in consumer.batches(until="latest"):
            seen += values(batch)


@pytest.mark.both_protocols
@pytest.mark.parametrize("face", ["loop", "run", "async"])
def test_a_mistyped_topic_is_no_end(ground: Ground, protocol: str, face: str) -> None:
    there, group = ground.topic(2), ground.name("group")
    mistyped = [f"{there}-a", f"{there}-b"]
    ground.append(there, range(3))
    seen: list[int] = []
    with pytest.raises(monedula.UnknownTopicError, match=", ".join(mistyped)) as raised:
        ended(face, settings_for(ground, protocol, group), {"topics": [there, *mistyped]}, seen)
    assert sorted(seen) == [0, 1, 2]
    assert (raised.value.topic, raised.value.group) == (mistyped[0], group)
    ended(face, settings_for(ground, protocol, group), {"topics": there}, seen)
    assert len(seen) == 3, "what was read is committed"


# Under KIP-848 it takes 10 s, two of the intervals of a member that has not heard of the broker's.
@pytest.mark.both_protocols
@pytest.mark.parametrize(
    "face", ["loop", *(pytest.param(face, marks=pytest.mark.thorough) for face in ("run", "async"))]
)
def test_a_pattern_that_matches_no_topic_is_no_end(ground: Ground, protocol: str, face: str) -> None:
    name = ground.name("missing")
    with pytest.raises(monedula.UnknownTopicError, match="no topic matches the pattern"):
        ended(face, settings_for(ground, protocol, ground.name("group")), {"pattern": f"{name}-.*"}, [])


@pytest.mark.both_protocols
def test_a_loop_of_an_unknown_topic_only_ends_too(ground: Ground, protocol: str) -> None:
    topic = ground.name("missing")
    with pytest.raises(monedula.UnknownTopicError, match=f"the topic {topic} does not exist"):
        ended("loop", settings_for(ground, protocol, ground.name("group")), {"topics": topic}, [])


def test_a_loop_of_unknown_topics_only_waits_for_no_rebalance(broker: Broker) -> None:
    names = ["ordres", "delivreies"]
    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}
    settings |= {"heartbeat.interval.ms": 20 * 60_000, "session.timeout.ms": 30 * 60_000}
    consumer = monedula.Consumer({**settings, "max.poll.interval.ms": 30 * 60_000}, topics=names)
    with consumer, pytest.raises(monedula.UnknownTopicError, match="topics delivreies, ordres do not exist"):
        list(consumer.batches(until="latest"))
