"""`records()`: a row is finished when the next one is asked for."""

import itertools
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
    # Each row once: what was read ahead of the partition that moved was given back, not handed out.
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
    offsets: list[int | None] = [record.offset for record in itertools.islice(records, 60)]
    # Nothing was committed, so the new owner of the partition, the same consumer, begins anew.
    assert len(lost) == 1
    assert offsets[offsets.index(0) :] == list(range(60 - offsets.index(0)))
