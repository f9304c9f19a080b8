"""Worker threads: their batches are finished when they say so, and nothing waits for workers that ended."""

import threading
from concurrent.futures import ThreadPoolExecutor

import monedula
import pytest
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import Ground, committed, shared, take, until, values


@pytest.mark.both_protocols
def test_a_thread_that_ended_with_a_batch_holds_nobody_up(
    ground: Ground, member: MemberFactory, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    first, second = member(group, topic), member(group)
    held: list[monedula.Batch] = []
    thread = threading.Thread(target=lambda: held.append(first.poll(timeout=20, max_rows=4)))
    thread.start()
    thread.join()
    assert values(held[0]) == [0, 1, 2, 3]
    assert take(first, 6) == [4, 5, 6, 7, 8, 9]
    until(lambda: f"{topic}-0 before offset 4" in caplog.text, first)
    second.subscribe(topic)
    first.subscribe(ground.topic())
    # The partition is revoked without waiting for the worker, and unfinished records are read again.
    seen: list[int] = []
    until(lambda: len(seen) >= 10, first, second, seen=seen)
    assert seen == list(range(10))


def test_what_a_thread_left_is_finished_by_whoever_says_so(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    consumer, watching = member(group, topic, auto_commit_interval_ms=50), member(group)
    held: list[monedula.Batch] = []
    thread = threading.Thread(target=lambda: held.append(consumer.poll(timeout=20, max_rows=4)))
    thread.start()
    thread.join()
    assert take(consumer, 6) == [4, 5, 6, 7, 8, 9]
    consumer.poll(timeout=0)
    consumer.finish(held[0])
    until(lambda: committed(watching, topic) == [10], consumer)


@pytest.mark.parametrize("method", ["finish", "hand_over"])
def test_only_batches_are_finished_and_handed_over(ground: Ground, member: MemberFactory, method: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(1))
    consumer = member(ground.name("group"), topic)
    record = next(consumer.records())
    with pytest.raises(
        monedula.ArgumentError, match=r"is no batch .*; commit\(\{\(topic, partition\): offset\}\) commits"
    ):
        getattr(consumer, method)(record)


@pytest.mark.both_protocols
def test_rows_that_an_ended_thread_read_ahead_reach_another(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(100))
    consumer = member(group, topic)
    records, seen = consumer.records(), list[int]()
    thread = threading.Thread(target=lambda: seen.extend(int(next(records).value or b"") for _ in range(3)))
    thread.start()
    thread.join()
    # The iterator is not even closed.
    assert take(consumer, 97) == list(range(3, 100))
    assert seen == [0, 1, 2]
    consumer.poll(timeout=0)
    consumer.close()
    assert committed(member(group), topic) == [2]


@pytest.mark.both_protocols
def test_a_rebalance_waits_for_workers_and_no_longer(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(10), partition)
    first, second = member(group, topic, auto_commit_interval_ms=50), member(group)
    watching = member(group)
    parts: list[monedula.Batch] = []
    while sum(map(len, parts)) < 20:
        batch = first.poll(timeout=20, max_rows=7)
        parts += first.hand_over(batch)
        with pytest.raises(monedula.ArgumentError, match="finished already"):
            first.hand_over(batch)
    assert all(len(part.spans) == 1 for part in parts)
    second.subscribe(topic)
    until(lambda: bool(first.rebalance_wanted), first, second)
    (wanted,) = first.rebalance_wanted
    theirs = [part for part in parts if part.spans[0].partition == wanted.partition]
    assert second.assignment() == set()
    with ThreadPoolExecutor(2) as workers:
        # In any order, from any thread; batches that are finished out of order count once all earlier ones are.
        for part in reversed(theirs[1:]):
            workers.submit(first.finish, part).result()
        assert committed(watching, topic, [wanted.partition]) == [0]
        workers.submit(first.commit, theirs[0]).result()
    assert values(theirs[0])[0] == 0, "the rows are still there"
    until(shared(2, first, second), first, second)
    assert second.assignment() == {wanted}
    assert committed(watching, topic, [wanted.partition]) == [10]


@pytest.mark.both_protocols
def test_a_part_that_is_dropped_stays_uncommitted_and_holds_nobody_up(
    ground: Ground, member: MemberFactory, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    first, second = member(group, topic, auto_commit_interval_ms=50), member(group)
    (part,) = first.hand_over(first.poll(timeout=20, max_rows=4))
    (done,) = first.hand_over(first.poll(timeout=20, max_rows=4))
    first.finish(done)
    del done
    assert "handed over" not in caplog.text

    def fail(part: monedula.Batch) -> None:
        raise RuntimeError(f"{len(part)} rows that cannot be worked on")

    with pytest.raises(RuntimeError), ThreadPoolExecutor(1) as worker:
        worker.submit(fail, part).result()
    del part
    first.unsubscribe()
    assert "handed over" in caplog.text
    assert f"{topic}-0 before offset 4" in caplog.text
    second.subscribe(topic)
    assert take(second, 10) == list(range(10))


def test_what_cannot_be_handed_over_is_refused(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["0", "1"])
    alone, consumer = member(None), member("etl", "orders")
    alone.assign({("orders", 0): 0})
    batch = alone.poll(timeout=20)
    for call in (alone.hand_over, alone.finish):
        with pytest.raises(monedula.ArgumentError, match=r"group\.id"):
            call(batch)
    batch = consumer.poll(timeout=20, max_rows=1)
    assert take(consumer, 1) == [1]
    with pytest.raises(monedula.ArgumentError, match="finished already"):
        consumer.hand_over(batch)
    assert consumer.hand_over(consumer.poll(timeout=0)) == []
    consumer.close()
    with pytest.raises(monedula.errors.ClosedError):
        consumer.finish(batch)
