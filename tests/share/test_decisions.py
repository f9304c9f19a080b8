"""Decisions about rows: what is accepted, released, rejected, and what comes of rows without one."""

import asyncio
import pickle
from typing import Any

import monedula
import numpy
import polars
import pyarrow
import pytest

from tests.groups.ground import Ground
from tests.groups.running import FACES
from tests.share.conftest import Member
from tests.share.reading import PATIENCE_SECONDS, one, take, values
from tests.share.running import undone

COLUMNS = ["topic", "partition", "offset", "value", "deliveryCount"]


def counts(batch: monedula.Batch) -> dict[int, int | None]:
    """Delivery counts by value."""
    return {int(record.value or b""): record.delivery_count for record in batch.records()}


def test_what_is_undecided_is_accepted_when_the_next_batch_is_asked_for(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(10))
    first = member([topic])
    assert values(one(first)) == list(range(10))
    ground.append(topic, [10])
    assert values(one(first)) == [10]
    assert first.commit()[monedula.TopicPartition(topic, 0)] in (1, 11), (
        "the ten were told before, if a request went out"
    )
    first.close()
    ground.append(topic, [11])
    assert take(member([topic]), 1) == [11]


@pytest.mark.parametrize(
    "rows",
    [
        [True, False, True, False, False, False],
        (0, 2),
        [-6, -4],
        {0, 2},
        slice(0, 3, 2),
        numpy.array([True, False, True, False, False, False]),
        numpy.array([0, 2]),
        pyarrow.array([True, False, True, False, False, False]),
        pyarrow.chunked_array([[True, False, True], [False, False, False]]),
        pyarrow.array([0, 2], pyarrow.uint8()),
        polars.Series([True, False, True, False, False, False]),
    ],
    ids=lambda rows: type(rows).__module__.partition(".")[0] + "-" + type(rows).__name__,
)
def test_rows_that_are_released_come_again_and_no_others(ground: Ground, member: Member, rows: Any) -> None:
    topic = ground.topic()
    ground.append(topic, range(6))
    consumer = member([topic], columns=COLUMNS)
    batch = one(consumer)
    assert counts(batch) == dict.fromkeys(range(6), 1)
    consumer.release(batch, rows)
    assert counts(one(consumer)) == {0: 2, 2: 2}


def test_of_a_compressed_batch_only_the_acquired_rows_come_out(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    with monedula.Producer(bootstrap_servers=ground.bootstrap, compression_type="zstd", linger_ms=1000) as producer:
        for number in range(1000):
            producer.send(topic, str(number).encode() * 10, partition=0)
    consumer = member([topic], columns=["value"], max_poll_records=1000)
    batch = one(consumer)
    assert (len(batch), batch.schema.names) == (1000, ["value"])
    mask = [number % 3 == 0 for number in range(1000)]
    consumer.release(batch, mask)
    again = one(consumer)
    assert values(again) == [int(str(number) * 10) for number in range(0, 1000, 3)]


def test_rows_that_are_rejected_do_not_come_again(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(4))
    first = member([topic])
    batch = one(first)
    first.reject(batch, [1])
    first.release(batch, [2])
    assert values(one(first)) == [2]
    assert first.commit() == {(topic, 0): 1}


def test_single_records_are_decided_by_their_place(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(4))
    consumer = member([topic])
    records = list(one(consumer).records())
    consumer.release(records[3])
    consumer.accept(records[0])
    assert values(one(consumer)) == [3]


def test_what_is_undecided_is_released_after_an_exception_and_by_close(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(4))

    def fail(consumer: monedula.ShareConsumer) -> None:
        with consumer:
            consumer.accept(one(consumer), [0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(member([topic]))
    second = member([topic], columns=COLUMNS)
    assert counts(one(second)) == {1: 2, 2: 2, 3: 2}
    second.close()
    assert counts(one(member([topic], columns=COLUMNS))) == {1: 3, 2: 3, 3: 3}


def test_the_first_decision_counts(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(4))
    consumer = member([topic])
    batch = one(consumer)
    consumer.release(batch, [1])
    consumer.release(batch, [1])
    rest = "leave it out: what is undecided is accepted when the next batch is asked for"
    with pytest.raises(monedula.ArgumentError, match=f"row 1 was released before, and cannot be accepted; {rest}"):
        consumer.accept(batch)
    consumer.accept(batch, [0, 2, 3])
    assert batch.deadline is None
    assert consumer.commit(batch) == {(topic, 0): 4}
    with pytest.raises(monedula.ArgumentError, match="decided and told to the broker"):
        consumer.accept(batch)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([True], "the mask has 1 values, and the batch 3 rows"),
        ([3], "the batch has no row 3: it has 3"),
        (pyarrow.array([True, None, False]), "1 values are null"),
        (pyarrow.array(["a", "b", "c"]), "no values of type Utf8"),
        (["a"], "expected a mask"),
        ([True, 2], "expected a mask"),
        (numpy.array([0, 1, 0]), "row 0 is named twice: a mask has booleans"),
        ([2, -1], "row 2 is named twice"),
        (True, "expected a mask"),
        (1.5, "expected a mask"),
        ({0: True}, "expected a mask"),
        (b"\x00\x01\x00", "expected a mask"),
        (numpy.array([[True, False, True]]), "expected a mask"),
    ],
)
def test_rows_that_make_no_sense_are_refused(ground: Ground, member: Member, rows: Any, message: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    consumer = member([topic])
    batch = one(consumer)
    with pytest.raises(monedula.ArgumentError, match=message):
        consumer.release(batch, rows)
    assert consumer.health()["rows_in_hand"] == 3


def test_records_are_decided_of_whatever_columns_are_read(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(4))
    consumer = member([topic], columns=["value"])
    records = list(one(consumer).records())
    consumer.reject(records[1])
    consumer.release(records[2])
    with pytest.raises(monedula.ArgumentError, match=r"a copy of a record.* topic, partition and offset"):
        consumer.release(pickle.loads(pickle.dumps(records[3])))
    assert values(one(consumer)) == [2]


def test_batches_of_others_are_refused(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    first, second = member([topic]), member([topic])
    batch = one(first)
    with pytest.raises(monedula.ArgumentError, match="the record is not of this consumer"):
        second.accept(next(batch.records()))
    with pytest.raises(monedula.ArgumentError, match="not of this consumer"):
        second.accept(batch)
    with pytest.raises(monedula.ArgumentError, match="expected a Batch or a Record"):
        first.accept(7)  # type: ignore[arg-type]
    first.accept(first.poll(timeout=0.0))  # nothing


def test_leaving_a_loop_over_records_releases_what_was_read_ahead(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(6))
    consumer = member([topic])
    seen = []
    for record in consumer.records():
        seen.append(int(record.value or b""))
        if record.value == b"2":
            break
    assert seen == [0, 1, 2]
    assert consumer.health()["rows_in_hand"] == 1, "the last one"
    assert values(one(consumer)) == [3, 4, 5]


@FACES
def test_a_loop_over_records_ends_by_wakeup_with_the_record_in_hand(
    ground: Ground, group: str, member: Member, face: str
) -> None:
    topic = ground.topic()
    ground.append(topic, range(6))
    settings = {"bootstrap.servers": ground.bootstrap, "group.id": group}
    seen = []

    async def main() -> None:
        async with monedula.AsyncShareConsumer(settings, [topic]) as consumer:
            async for record in consumer.records():
                seen.append(record.value)
                if record.value == b"2":
                    consumer.wakeup()

    if face == "async":
        asyncio.run(main())
    else:
        with monedula.ShareConsumer(settings, [topic]) as consumer:
            for record in consumer.records():
                seen.append(record.value)
                if record.value == b"2":
                    consumer.wakeup()
    assert seen == [b"0", b"1", b"2"]
    assert take(member([topic]), 3) == [3, 4, 5]


def test_a_loop_over_records_goes_on_with_none_of_a_closed_consumer(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(6))
    consumer = member([topic])
    records = consumer.records()
    next(records)
    consumer.close()  # which releases what was read ahead
    with pytest.raises(monedula.errors.ClosedError):
        next(records)


def test_a_commit_in_a_loop_over_records_accepts_none_that_was_read_ahead(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(6))
    consumer = member([topic])
    committed = []

    def work() -> None:
        for record in consumer.records():
            if record.value == b"2":
                raise ZeroDivisionError
            committed.append(consumer.commit())

    with pytest.raises(ZeroDivisionError):
        work()
    consumer.close()
    assert committed == [{(topic, 0): 1}, {(topic, 0): 1}]
    assert take(member([topic]), 4) == [2, 3, 4, 5]


def test_the_next_call_of_a_task_accepts_none_that_its_loop_read_ahead(ground: Ground, group: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(6))

    async def work() -> None:
        settings = {"bootstrap.servers": ground.bootstrap, "group.id": group}
        async with monedula.AsyncShareConsumer(settings, [topic], fetch_max_wait_ms=100) as consumer:
            records = consumer.records()
            assert (await anext(records)).value == b"0"
            await consumer.poll(timeout=0.0)  # the loop was left, and its generator lives
            assert consumer.health()["rows_in_hand"] == 5

    asyncio.run(work())


def test_empty_batches_are_taken_as_any_other(ground: Ground, member: Member) -> None:
    consumer = member([ground.topic()])
    batch = consumer.poll(timeout=0.0)
    consumer.accept(batch)
    assert consumer.commit(batch) == {}
    assert consumer.renew(batch) is None


def test_a_record_has_no_rows(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, [0])
    consumer = member([topic])
    (record,) = one(consumer).records()
    with pytest.raises(monedula.ArgumentError, match="a record is one row"):
        consumer.reject(record, [False])
    assert consumer.health()["rows_in_hand"] == 1


def test_decisions_after_the_end_say_that_the_consumer_is_closed(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(2))
    consumer = member([topic])
    batch = one(consumer)
    consumer.close()
    for late in (consumer.accept, consumer.release, consumer.renew):
        with pytest.raises(monedula.errors.ClosedError):
            late(batch)


def test_explicit_rows_stay_in_hand(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(4))
    consumer = member([topic], acknowledge="explicit")
    first = one(consumer)
    ground.append(topic, [4])
    second = one(consumer)
    assert (values(first), values(second)) == ([0, 1, 2, 3], [4])
    assert consumer.health()["rows_in_hand"] == 5
    consumer.accept(first, slice(0, 2))
    assert consumer.commit() == {(topic, 0): 2}
    consumer.release(first, slice(2, None))
    assert values(one(consumer)) == [2, 3]


def test_two_members_divide_one_partition(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    members = [member([topic], max_poll_records=20, share_acquire_mode="record_limit") for _ in range(2)]
    ground.append(topic, range(400))
    seen: list[list[int]] = [[], []]
    while sum(map(len, seen)) < 400:
        for consumer, own in zip(members, seen, strict=True):
            own += values(consumer.poll(timeout=0.5))
    assert sorted(seen[0] + seen[1]) == list(range(400))
    assert all(seen)


def test_a_value_that_cannot_be_decoded_is_released_and_told(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
        for value in (b'{"a": 1}', b"no json", b'{"a": 3}'):
            producer.send(topic, value, partition=0)
    consumer = member([topic], value=monedula.Json("a bigint"), columns=["offset", "value", "deliveryCount"])
    assert [record.value for record in one(consumer).records()] == [{"a": 1}]
    with pytest.raises(monedula.DecodeError, match="It is released") as raised:
        consumer.poll(timeout=10.0)
    assert (raised.value.offset, raised.value.topic) == (1, topic)
    assert [record.value for record in one(consumer).records()] == [{"a": 3}]


def test_a_value_that_is_dropped_is_rejected(ground: Ground, group: str, member: Member) -> None:
    topic, letters = ground.topic(), f"dlq.{ground.name('letters')}"
    with monedula.Admin(bootstrap_servers=ground.bootstrap) as admin:
        admin.create_topics([letters], partitions=1, configs={"errors.deadletterqueue.group.enable": "true"})
        admin.alter_configs({("group", group): {"errors.deadletterqueue.topic.name": letters}})
    with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
        for value in (b'{"a": 1}', b"no json", b"none", b'{"a": 3}'):
            producer.send(topic, value, partition=0)
    consumer = member([topic], value=monedula.Json("a bigint", mode="drop"), columns=["offset", "value"])
    assert [record.value for record in one(consumer).records()] == [{"a": 1}, {"a": 3}]
    assert consumer.commit() == {(topic, 0): 4}
    assert undone(ground.bootstrap, group) == 0
    with monedula.Consumer(bootstrap_servers=ground.bootstrap, headers=True) as reader:
        reader.assign({(letters, 0): "earliest"})
        letters_read: list[bytes | None] = []
        while len(letters_read) < 2:
            batch = reader.poll(timeout=PATIENCE_SECONDS)
            assert batch
            letters_read += [dict(letter.headers or [])["__dlq.errors.offset"] for letter in batch.records()]
    assert set(letters_read) == {b"1", b"2"}


def test_markers_of_transactions_are_no_rows_and_use_up_no_locks(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    with monedula.Producer(bootstrap_servers=ground.bootstrap, transactional_id=ground.name("tx")) as producer:
        for number in range(3):
            with producer.transaction():
                producer.send(topic, str(number).encode(), partition=0)
    consumer = member([topic])
    assert take(consumer, 3) == [0, 1, 2]
    ground.append(topic, [3])
    assert take(consumer, 1) == [3]
    assert consumer.health()["unacknowledged_records"] == 0


def test_what_is_released_comes_again_before_a_wait_at_the_broker_ends(
    ground: Ground, member: Member, group: str
) -> None:
    topic = ground.topic()
    ground.append(topic, [0])
    with monedula.Admin(bootstrap_servers=ground.bootstrap) as admin:
        settings = {"share.record.lock.duration.ms": "60000", "share.delivery.count.limit": "10"}
        admin.alter_configs({("group", group): settings})
    # A fetch that waits does so for 18 s, 30 % of a lock.
    consumer = member([topic], columns=COLUMNS, fetch_max_wait_ms=25_000)
    batch = one(consumer)
    for count in range(2, 9):
        consumer.release(batch)
        batch = consumer.poll(timeout=15.0)
        assert counts(batch) == {0: count}
