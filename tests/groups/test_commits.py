"""Which offsets are committed: the user's own, batches, finished rows."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import monedula
import pytest
from monedula import OffsetAndMetadata, TopicPartition
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import EmbeddedGround, Ground, committed, shared, take, until, values
from tests.kafka import jars


@pytest.mark.both_protocols
def test_a_batch_is_committed_and_everything_before_it(ground: Ground, member: MemberFactory) -> None:
    topic, consumer = ground.topic(), member(ground.name("group"), enable_auto_commit=False)
    ground.append(topic, range(10))
    consumer.subscribe(topic)
    batches = consumer.batches(max_rows=3)
    first, second = next(batches), next(batches)
    assert consumer.commit(second) == {TopicPartition(topic, 0): 6}
    assert committed(consumer, topic) == [6]
    # The one before is finished too: it is not committed backwards.
    assert consumer.commit(first) == {TopicPartition(topic, 0): 6}
    assert committed(consumer, topic) == [6]


@pytest.mark.both_protocols
def test_commit_without_arguments_is_about_what_was_handed_out(ground: Ground, member: MemberFactory) -> None:
    topic, consumer = ground.topic(2), member(ground.name("group"), enable_auto_commit=False)
    for partition in range(2):
        ground.append(topic, range(5), partition)
    consumer.subscribe(topic)
    take(consumer, 10)
    both = {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 5}
    assert consumer.commit() == both
    assert consumer.commit() == {}, "nothing new"
    assert committed(consumer, topic, [0, 1]) == [5, 5]


@pytest.mark.both_protocols
def test_an_offset_of_a_topic_that_was_made_anew_is_not_committed_to_the_new_one(
    ground: Ground, member: MemberFactory
) -> None:
    if not (isinstance(ground, EmbeddedGround) or jars.speaks("4.1")):
        pytest.skip("OffsetCommit names topics by id from Kafka 4.1 on")
    topic = ground.topic()
    ground.append(topic, [1, 2])
    consumer = member(ground.name("group"), topic, enable_auto_commit=False)
    assert take(consumer, 2) == [1, 2]
    with monedula.Admin({"bootstrap.servers": ground.bootstrap}) as admin:
        admin.delete_topics([topic])
    ground.topic(1, topic)
    # Either the coordinator refuses it, or the member knows already that the topic is another one, and may have begun
    # to read that one.
    done: dict[Any, int] = {}
    with contextlib.suppress(monedula.errors.CommitFailedError):
        done = consumer.commit()
    assert done in ({}, {TopicPartition(topic, 0): 0})
    assert committed(consumer, topic) == [0 if done else None]
    ground.append(topic, [3, 4, 5])
    assert take(consumer, 3) == [3, 4, 5]
    assert consumer.commit() == {TopicPartition(topic, 0): 3}
    assert committed(consumer, topic) == [3]


@pytest.mark.both_protocols
@pytest.mark.req("S149")
def test_metadata_and_leader_epochs_come_back(ground: Ground, member: MemberFactory) -> None:
    topic, consumer = ground.topic(3), member(ground.name("group"))
    consumer.subscribe(topic)
    until(lambda: len(consumer.assignment()) == 3, consumer)
    asked: dict[Any, Any] = {
        (topic, 0): 3,
        (topic, 1): (4, "by the user"),
        (topic, 2): OffsetAndMetadata(5, "with epoch", 0),
    }
    assert consumer.commit(asked) == {TopicPartition(topic, index): 3 + index for index in range(3)}
    found = consumer.committed()
    assert found[TopicPartition(topic, 0)] == OffsetAndMetadata(3, "", -1)
    assert found[TopicPartition(topic, 1)] == OffsetAndMetadata(4, "by the user", -1)
    assert found[TopicPartition(topic, 2)] == OffsetAndMetadata(5, "with epoch", 0)


@pytest.mark.both_protocols
@pytest.mark.req("S155")
def test_a_chosen_lower_offset_is_where_the_next_owner_starts(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    first = member(group, topic)
    take(first, 10)
    first.commit()
    assert first.commit({(topic, 0): 2}) == {TopicPartition(topic, 0): 2}
    first.close()
    assert take(member(group, topic), 8) == list(range(2, 10))


@pytest.mark.both_protocols
@pytest.mark.req("S150")
def test_commits_are_made_in_order_and_their_futures_tell(ground: Ground, member: MemberFactory) -> None:
    topic, consumer = ground.topic(), member(ground.name("group"))
    consumer.subscribe(topic)
    until(lambda: bool(consumer.assignment()), consumer)
    called: list[tuple[int, monedula.CommitFuture]] = []
    futures = [consumer.commit_async({(topic, 0): offset}) for offset in range(1, 6)]
    for future in futures:
        future.add_done_callback(lambda done: called.append((threading.get_ident(), done)))
    assert [future.result(timeout=30) for future in futures] == [{TopicPartition(topic, 0): n} for n in range(1, 6)]
    assert all(future.done() and future.exception() is None for future in futures)
    assert committed(consumer, topic) == [5]
    until(lambda: len(called) == 5, consumer)
    assert {thread for thread, _ in called} == {threading.get_ident()}
    # A synchronous one comes after those before it.
    consumer.commit_async({(topic, 0): 8})
    consumer.commit({(topic, 0): 7})
    assert committed(consumer, topic) == [7]
    late: list[monedula.CommitFuture] = []
    futures[0].add_done_callback(late.append)
    assert late == [futures[0]], "at once, as it is done"


@pytest.mark.both_protocols
def test_a_commit_callback_runs_while_a_poll_waits(ground: Ground, member: MemberFactory) -> None:
    topic, consumer = ground.topic(), member(ground.name("group"))
    consumer.subscribe(topic)
    until(lambda: bool(consumer.assignment()), consumer)
    consumer.commit_async({(topic, 0): 1}).add_done_callback(lambda _: consumer.wakeup())
    with pytest.raises(monedula.errors.WakeupError):
        consumer.poll(timeout=60)


@pytest.mark.both_protocols
def test_what_a_commit_callback_raises_comes_out_of_the_poll(ground: Ground, member: MemberFactory) -> None:
    topic, consumer = ground.topic(), member(ground.name("group"))
    consumer.subscribe(topic)
    until(lambda: bool(consumer.assignment()), consumer)

    def fail(done: monedula.CommitFuture) -> None:
        raise KeyError(sum(done.result().values()))

    def commit_and_poll() -> None:
        # Of a commit that is answered already, it comes out of `add_done_callback` itself.
        consumer.commit_async({(topic, 0): 3}).add_done_callback(fail)
        until(lambda: False, consumer)

    with pytest.raises(KeyError, match="3"):
        commit_and_poll()
    consumer.poll(timeout=0)


@pytest.mark.both_protocols
@pytest.mark.req("S028")
def test_finished_rows_are_committed_every_interval_and_no_others(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    consumer = member(group, topic, auto_commit_interval_ms=50)
    watching = member(group)
    batches = consumer.batches(max_rows=4)
    for finished in (0, 4, 8):
        assert values(next(batches))[0] == finished
        until(partial(is_committed, watching, topic, finished))
    # In steady state: later records are committed too, with no call but the next poll.
    ground.append(topic, range(10, 12))
    seen: list[int] = []
    until(lambda: committed(watching, topic) == [12], consumer, seen=seen)
    assert seen == [10, 11]


@pytest.mark.both_protocols
def test_auto_commit_by_records_does_not_wait_for_the_interval(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    consumer = member(group, topic, auto_commit_interval_ms=3_600_000, auto_commit_records=6)
    watching = member(group)
    batches = consumer.batches(max_rows=3)
    for _ in range(3):
        next(batches)
    until(lambda: committed(watching, topic) == [6])


@pytest.mark.both_protocols
@pytest.mark.req("S154")
def test_without_auto_commit_nothing_is_ever_committed(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(6))
    first = member(group, topic, enable_auto_commit=False, auto_commit_interval_ms=1)
    seen = take(first, 6, max_rows=3)
    position = first.position((topic, 0))
    assert (seen, position) == ([0, 1, 2, 3, 4, 5], 6)
    other = member(group, topic, enable_auto_commit=False)
    until(lambda: len(first.assignment()) + len(other.assignment()) == 1, first, other)
    first.unsubscribe()
    first.close()
    other.close()
    # The user seeks to positions of its own store in the Assigned callback.
    again = member(group, enable_auto_commit=False)
    assert committed(again, topic) == [None]
    again.subscribe(topic, on_assigned=lambda _: again.seek((topic, 0), 4))
    assert take(again, 2) == [4, 5]
    again.close()
    assert committed(member(group), topic) == [None]


@pytest.mark.both_protocols
@pytest.mark.req("S083")
def test_a_seek_is_not_overwritten_by_a_commit_that_was_due(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    first = member(group, topic, auto_commit_interval_ms=50)
    assert take(first, 10) == list(range(10))
    watching = member(group)
    until(lambda: committed(watching, topic) == [10], first)
    first.seek((topic, 0), 4)
    until(lambda: committed(watching, topic) == [4])
    first.close()
    assert committed(watching, topic) == [4]
    assert take(member(group, topic), 6) == list(range(4, 10))


@pytest.mark.both_protocols
def test_close_commits_what_is_finished_and_not_what_is_held(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(9))
    first = member(group, topic, auto_commit_interval_ms=3_600_000)
    batches = first.batches(max_rows=3)
    assert [values(next(batches)) for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]
    first.close()
    assert committed(member(group), topic) == [3]


@pytest.mark.both_protocols
def test_a_commit_that_comes_too_late_is_refused(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(5), partition)
    first = member(group, topic, enable_auto_commit=False)
    held: dict[int, monedula.Batch] = {}
    while len(held) < 2:
        batch = first.poll(timeout=20, max_rows=5)
        held.update({span.partition: batch for span in batch.spans})
    second = member(group, topic)
    until(shared(2, first, second), first, second)
    (gone,) = second.assignment()
    (kept,) = first.assignment()
    with pytest.raises(
        monedula.errors.CommitFailedError, match="not assigned to this consumer, or not any more"
    ) as caught:
        first.commit(held[gone.partition])
    assert set(caught.value.failures) == {gone}
    assert caught.value.failures[gone].code is None
    assert not caught.value.retriable
    with pytest.raises(monedula.errors.CommitFailedError) as caught:
        first.commit({gone: 1, kept: 2})
    assert (set(caught.value.failures), caught.value.committed) == ({gone}, {kept: 2})
    future = first.commit_async({gone: 1})
    assert isinstance(future.exception(timeout=30), monedula.errors.CommitFailedError)
    with pytest.raises(monedula.errors.CommitFailedError):
        future.result()


@pytest.mark.parametrize("what", ["text", 5, {("t", 0): -1}, {("t", 0): "x"}, {("t", 0): (1, 2)}, {"t": 1}])
def test_what_cannot_be_committed(ground: Ground, member: MemberFactory, what: Any) -> None:
    with pytest.raises(monedula.ArgumentError):
        member(ground.name("group")).commit(what)


def test_without_a_group_there_is_nothing_to_commit_to(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    consumer = member(None)
    consumer.assign(topic)
    for call in (consumer.commit, consumer.committed, lambda: consumer.commit({(topic, 0): 1})):
        with pytest.raises(monedula.ArgumentError, match=r"group\.id"):
            call()


@pytest.mark.both_protocols
def test_errors_of_single_partitions_are_reported_by_partition(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders", 2)
    consumer = member("etl", "orders")
    until(lambda: len(consumer.assignment()) == 2, consumer)
    with pytest.raises(monedula.ArgumentError, match="metadata of 40000 bytes"):
        consumer.commit({("orders", 0): (1, "x" * 40_000)})
    too_long = "x" * 5000
    with pytest.raises(monedula.errors.CommitFailedError, match="OFFSET_METADATA_TOO_LARGE") as caught:
        consumer.commit({("orders", 0): (1, too_long), ("orders", 1): (2, "")})
    partition = TopicPartition("orders", 0)
    assert caught.value.committed == {TopicPartition("orders", 1): 2}
    assert caught.value.failures[partition].offset == 1
    assert (caught.value.failures[partition].code, caught.value.code) == ("OFFSET_METADATA_TOO_LARGE",) * 2


@pytest.mark.both_protocols
def test_a_commit_that_is_not_answered_ends_with_its_timeout(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    consumer = member("etl", "orders")
    until(lambda: bool(consumer.assignment()), consumer)
    with broker.fault(api="OffsetCommit", hold=True):
        with pytest.raises(monedula.errors.CommitFailedError, match="in time") as caught:
            consumer.commit({("orders", 0): 1}, timeout=0.3)
        assert caught.value.retriable
        future = consumer.commit_async({("orders", 0): 2})
        with pytest.raises(monedula.KafkaTimeoutError, match="goes on"):
            future.result(timeout=0.05)
        assert not future.done()
    assert future.result(timeout=60) == {TopicPartition("orders", 0): 2}


@pytest.mark.both_protocols
@pytest.mark.req("S123")
def test_each_partition_in_a_thread_of_its_own_and_a_slow_one_delays_no_other(
    ground: Ground, member: MemberFactory
) -> None:
    topic, group = ground.topic(3), ground.name("group")
    for partition in range(3):
        ground.append(topic, range(300), partition)
    consumer = member(group, enable_auto_commit=False)
    consumer.subscribe(topic)
    slow, others_are_done = threading.Event(), threading.Event()
    done: dict[int, list[int]] = {partition: [] for partition in range(3)}

    def work(partition: int, part: list[monedula.Record]) -> None:
        if partition == 0:
            slow.set()
            assert others_are_done.wait(60)
        done[partition] += values(part)
        consumer.commit({(topic, partition): (part[-1].offset or 0) + 1})

    # One thread a partition: its rows come in their order, and no other waits for it.
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two, ThreadPoolExecutor(1) as three:
        pools = [one, two, three]
        working = []
        rows = 0
        while rows < 900:
            batch = consumer.poll(timeout=20, max_rows=50)
            rows += len(batch)
            for partition, part in by_partition(batch).items():
                working.append(pools[partition].submit(work, partition, part))
        until(lambda: len(done[1]) == len(done[2]) == 300)
        assert done[0] == []
        others_are_done.set()
        for each in working:
            each.result(timeout=60)
    assert slow.is_set()
    assert all(done[partition] == list(range(300)) for partition in range(3))
    assert committed(consumer, topic, [0, 1, 2]) == [300, 300, 300]


def is_committed(consumer: monedula.Consumer, topic: str, offset: int) -> bool:
    return (committed(consumer, topic)[0] or 0) == offset


def by_partition(batch: monedula.Batch) -> dict[int, list[monedula.Record]]:
    parts: dict[int, list[monedula.Record]] = {}
    for record in batch.records():
        parts.setdefault(record.partition or 0, []).append(record)
    return parts


@pytest.mark.both_protocols
def test_the_frontier_waits_for_the_slowest_thread(ground: Ground, member: MemberFactory) -> None:
    topic, consumer = ground.topic(), member(ground.name("group"), enable_auto_commit=False)
    ground.append(topic, range(9))
    consumer.subscribe(topic)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(consumer.poll, timeout=20, max_rows=3).result(timeout=30)
        second = consumer.poll(timeout=20, max_rows=3)
        assert (values(first), values(second)) == ([0, 1, 2], [3, 4, 5])
        # The second is finished, the first is not: nothing is committed beyond it.
        assert consumer.commit(second) in ({}, {TopicPartition(topic, 0): 0})
        assert committed(consumer, topic)[0] in (None, 0)
        # Each commit is about its own batch; later rows that were finished go with the next one.
        assert other.submit(consumer.commit, first).result(timeout=30) == {TopicPartition(topic, 0): 3}
    assert consumer.commit() == {TopicPartition(topic, 0): 6}
    assert committed(consumer, topic) == [6]


def test_leaving_the_block_finishes_also_while_an_earlier_exception_is_handled(
    ground: Ground, member: MemberFactory
) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(4))
    watching = member(group)
    try:
        raise RuntimeError("the user's own")
    except RuntimeError:
        with member(group, topic) as consumer:
            assert values(consumer.poll(timeout=20, max_rows=4)) == [0, 1, 2, 3]
    assert committed(watching, topic) == [4]


@pytest.mark.both_protocols
def test_leaving_the_block_finishes_what_was_handed_out(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(20))
    watching = member(group)
    with member(group, topic) as consumer:
        assert values(consumer.poll(timeout=20, max_rows=4)) == [0, 1, 2, 3]
    assert committed(watching, topic) == [4]

    def fail_in_the_block() -> None:
        with member(group, topic) as consumer:
            assert values(consumer.poll(timeout=20, max_rows=4)) == [4, 5, 6, 7]
            raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError):
        fail_in_the_block()
    assert committed(watching, topic) == [4]
    # Without a block: `close()` finishes too, except while an exception is raised.
    consumer = member(group, topic)
    assert values(consumer.poll(timeout=20, max_rows=4)) == [4, 5, 6, 7]
    consumer.close()
    assert committed(watching, topic) == [8]

    def fail_and_close() -> None:
        consumer = member(group, topic)
        try:
            assert values(consumer.poll(timeout=20, max_rows=4)) == [8, 9, 10, 11]
            raise RuntimeError("the user's own")
        finally:
            consumer.close()

    with pytest.raises(RuntimeError):
        fail_and_close()
    assert committed(watching, topic) == [8]
    # Another thread has to finish its own rows, and without automatic commits nothing is committed.
    consumer = member(group, topic)
    with ThreadPoolExecutor(1) as other, consumer:
        assert other.submit(lambda: values(consumer.poll(timeout=20, max_rows=4))).result() == [8, 9, 10, 11]
    assert committed(watching, topic) == [8]
    with member(group, topic, enable_auto_commit=False) as consumer:
        assert values(consumer.poll(timeout=20, max_rows=4)) == [8, 9, 10, 11]
    assert committed(watching, topic) == [8]


@pytest.mark.both_protocols
@pytest.mark.parametrize("waits", [True, False])
def test_a_commit_in_on_revoked_does_not_finish_what_has_failed(
    ground: Ground, member: MemberFactory, waits: bool
) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(8))
    watching = member(group)

    def read(fails: bool) -> None:
        with member(group, auto_commit_interval_ms=3_600_000) as consumer:
            commit = consumer.commit if waits else consumer.commit_async
            consumer.subscribe(topic, on_revoked=lambda _: commit())
            assert values(consumer.poll(timeout=20, max_rows=4)) == [0, 1, 2, 3]
            assert values(consumer.poll(timeout=20, max_rows=4)) == [4, 5, 6, 7]
            if fails:
                raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError):
        read(fails=True)
    assert committed(watching, topic) == [4]
    watching.commit({(topic, 0): 0})
    read(fails=False)
    assert committed(watching, topic) == [8]


@pytest.mark.both_protocols
@pytest.mark.parametrize("of", ["a member", "no member", "a read"])
def test_a_batch_that_is_not_the_consumers_finishes_nothing(ground: Ground, member: MemberFactory, of: str) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(8))
    first = member(group, topic, auto_commit_interval_ms=20)
    other = member(ground.name("group") if of == "a member" else None, topic if of == "a member" else None)
    if of == "no member":
        other.assign({(topic, 0): "earliest"})
    read = monedula.read({"bootstrap.servers": ground.bootstrap}, topic)
    batches = first.batches(max_rows=4)
    assert values(next(batches)) == [0, 1, 2, 3]
    foreign = next(iter(read)) if of == "a read" else other.poll(timeout=20)
    assert len(values(foreign)) == 8
    for verb in (first.finish, first.commit, first.commit_async, first.hand_over):
        with pytest.raises(monedula.ArgumentError, match="not one of this consumer"):
            verb(foreign)
    # What is finished now is only what this thread holds.
    assert first.commit() == {TopicPartition(topic, 0): 4}
