"""`records()`: a row is finished when the next one is requested."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import monedula
import pytest
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import HEARTBEAT, Ground, committed, shared, take, until


@pytest.mark.both_protocols
def test_rows_asked_beyond_are_committed_and_no_others(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    consumer = member(group, topic, auto_commit_interval_ms=50)
    watching = member(group)
    records = consumer.records()
    for row, record in zip(range(5), records, strict=False):
        assert int(record.value or b"") == row
        until(partial(is_committed, watching, topic, row))
    records.close()  # type: ignore[attr-defined]
    # The row in the user's hands is not finished by leaving the loop.
    assert committed(watching, topic) == [4]
    assert consumer.commit() == {monedula.TopicPartition(topic, 0): 5}
    assert [int(record.value or b"") for record in itertools.islice(consumer.records(), 5)] == [5, 6, 7, 8, 9]


@pytest.mark.both_protocols
def test_a_row_whose_work_failed_is_not_committed_by_close(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    consumer = member(group, topic)
    try:
        with consumer:
            for record in consumer.records():
                if record.offset == 6:
                    raise RuntimeError("the user's own")
    except RuntimeError:
        pass
    assert committed(member(group), topic) == [6]
    assert take(member(group, topic), 4) == [6, 7, 8, 9]


@pytest.mark.both_protocols
def test_rows_read_ahead_are_given_up_with_their_partition(ground: Ground, member: MemberFactory) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(1000), partition)
    first, second = member(group, topic), member(group)
    records = first.records()
    seen: dict[int, list[int]] = {0: [], 1: []}

    def one() -> None:
        record = next(records)
        assert record.partition is not None
        seen[record.partition].append(int(record.value or b""))

    one()
    second.subscribe(topic)
    late: list[int] = []
    while not shared(2, first, second)() or len(late) < 1000 - len(seen[moved(second)]):
        if len(seen[0]) + len(seen[1]) + len(late) < 2000:
            one()
        batch = second.poll(timeout=0.01)
        late += [int(record.value or b"") for record in batch.records()]
    while len(seen[1 - moved(second)]) < 1000:
        one()
    # Each row once: rows that were read ahead of the partition that moved were returned, not handed out.
    assert seen[moved(second)] + late == list(range(1000))
    assert seen[1 - moved(second)] == list(range(1000))


def is_committed(consumer: monedula.Consumer, topic: str, offset: int) -> bool:
    return (committed(consumer, topic)[0] or 0) == offset


def moved(second: monedula.Consumer) -> int:
    return next((partition.partition for partition in second.assignment()), 0)


@pytest.mark.both_protocols
def test_rows_of_a_lost_partition_are_not_handed_out(broker: Broker, member: MemberFactory, protocol: str) -> None:
    broker.create_topic("orders")
    broker.append("orders", map(str, range(100)))
    lost: list[object] = []
    consumer = member("etl", session_timeout_ms=3000)
    consumer.subscribe("orders", on_lost=lost.append)
    records = consumer.records()
    assert next(records).offset == 0
    with broker.fault(api=HEARTBEAT[protocol], error="UNKNOWN_MEMBER_ID", count=1) as unknown:
        unknown.wait()
        until(lambda: consumer.metrics()["group_partitions_lost"] == 1)
    # Nothing was committed, so the new owner of the partition, the same consumer, begins anew, with no earlier row.
    assert [record.offset for record in itertools.islice(records, 60)] == list(range(60))
    assert len(lost) == 1


@pytest.mark.both_protocols
@pytest.mark.parametrize("ahead", [1, 7, 400])
def test_rows_that_a_thread_leaves_reach_whoever_asks_next(ground: Ground, member: MemberFactory, ahead: int) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(400))
    consumer = member(group, topic, auto_commit_interval_ms=50)
    watching, at = member(group), monedula.TopicPartition(topic, 0)
    mine = consumer.records()
    seen = [int(next(mine).value or b"") for _ in range(ahead)]
    begin = consumer.position(at) or 0
    ground.append(topic, range(400, 800))
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(take, consumer, 1).result()
        assert theirs[0] == begin, "another thread is handed what follows"
        mine.close()  # type: ignore[attr-defined]
        assert consumer.position(at) == (ahead if ahead < begin else theirs[-1] + 1)
        rest = other.submit(take, consumer, 800 - ahead - len(theirs)).result()
        assert sorted(seen + theirs + rest) == list(range(800))
        assert rest[: begin - ahead] == list(range(ahead, begin)), "what was left goes first"
        # The first thread's current row is not finished, so no offset after it is committed.
        until(partial(is_committed, watching, topic, ahead - 1))
        other.submit(consumer.poll, 0).result()
        assert is_committed(watching, topic, ahead - 1)
    consumer.poll(timeout=0)
    until(lambda: is_committed(watching, topic, 800), consumer)


@pytest.mark.both_protocols
def test_a_loop_that_is_left_in_another_thread_leaves_its_row_with_who_took_it(
    ground: Ground, member: MemberFactory
) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    consumer, watching = member(group, topic, auto_commit_interval_ms=50), member(group)
    with ThreadPoolExecutor(1) as other:
        records = consumer.records()
        seen = [other.submit(next, records).result() for _ in range(4)]
        assert [record.offset for record in seen] == [0, 1, 2, 3]
        records.close()  # type: ignore[attr-defined]
        rest = consumer.poll(timeout=20)
        assert [record.offset for record in rest.records()] == [4, 5, 6, 7, 8, 9]
        consumer.finish(rest)
        until(partial(is_committed, watching, topic, 3))
        # This thread asks for more, and the other one has its row still. 3 is committed again while its answer comes.
        consumer.poll(timeout=0)
        assert set(consumer.commit().values()) <= {3}
        other.submit(consumer.poll, 0).result()
        until(partial(is_committed, watching, topic, 10))


def test_rows_that_a_thread_leaves_reach_another_without_a_group(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic(2)
    for partition in range(2):
        ground.append(topic, range(400), partition)
    consumer = member(None)
    consumer.assign(dict.fromkeys([(topic, 0), (topic, 1)], "earliest"))
    until(lambda: consumer.position((topic, 0)) == consumer.position((topic, 1)) == 0)
    mine = consumer.records()
    seen = [next(mine) for _ in range(10)]
    for partition in range(2):
        ground.append(topic, range(400, 800), partition)
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(all_that_comes, consumer).result()
        mine.close()  # type: ignore[attr-defined]
        theirs += other.submit(all_that_comes, consumer).result()
    rows = sorted((record.partition or 0, record.offset or 0) for record in seen + theirs)
    assert rows == [(partition, offset) for partition in range(2) for offset in range(800)]


@pytest.mark.both_protocols
@pytest.mark.parametrize("group", [True, False])
def test_pause_seek_and_wakeup_count_from_the_next_row(ground: Ground, member: MemberFactory, group: bool) -> None:
    topic = ground.topic(2)
    for partition in range(2):
        ground.append(topic, range(100), partition)
    consumer = member(ground.name("group") if group else None)
    if group:
        consumer.subscribe(topic)
    else:
        consumer.assign(dict.fromkeys([(topic, 0), (topic, 1)], "earliest"))
    records = consumer.records()
    first = next(records)
    other = 1 - (first.partition or 0)
    consumer.pause((topic, first.partition or 0))
    rest = [next(records) for _ in range(100)]
    assert [(record.partition, record.offset) for record in rest] == [(other, offset) for offset in range(100)]
    consumer.resume()
    assert [next(records).offset for _ in range(9)] == list(range(1, 10)), "what was read ahead of it was kept"
    consumer.seek((topic, first.partition or 0), 50)
    assert [next(records).offset for _ in range(10)] == list(range(50, 60))
    consumer.wakeup()
    assert list(records) == []
    assert next(consumer.records()).offset == 60


@pytest.mark.both_protocols
def test_asking_for_a_row_is_polling(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    broker.append("orders", map(str, range(1000)))
    consumer = member("etl", "orders", max_poll_interval_ms=2000, session_timeout_ms=2000)
    records = consumer.records()
    assert next(records).offset == 0
    # The time that a row takes: all rows together take longer than the interval, one takes less.
    for offset in range(1, 61):
        time.sleep(0.05)
        assert next(records).offset == offset
    assert consumer.metrics()["group_partitions_lost"] == 0
    # A user who requests no row is still removed.
    until(lambda: consumer.metrics()["group_partitions_lost"] == 1)


def all_that_comes(consumer: monedula.Consumer) -> list[monedula.Record]:
    return [record for batch in consumer.batches(timeout=1, max_wait=0) for record in batch.records()]
