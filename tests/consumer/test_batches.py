import time

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.consumer.conftest import ConsumerFactory
from tests.consumer.uniform import Uniform, values
from tests.kafka import KafkaCluster

HOUR_SECONDS = 3600.0
"""A wait that does not end before this ends with the time-out of its test."""


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    """One partition with 100 records of a kilobyte in 10 record batches."""
    made = topic()
    for first in range(0, 100, 10):
        kafka.helper.produce(made, [{"value": f"{n:04}" * 250} for n in range(first, first + 10)])
    return made


def await_queued(reader: Uniform, records: int) -> None:
    """Wait until this many records are fetched, so that only the client decides what is in a batch."""
    deadline = time.monotonic() + 20
    while sum(p["queued_records"] for p in reader.health()["partitions"].values()) < records:
        assert time.monotonic() < deadline, reader.health()
        time.sleep(0.005)


@pytest.mark.parametrize("rows", [1, 7, 10, 99, 100, 1000])
def test_a_batch_has_as_many_rows_as_there_are_and_no_more_than_asked(
    name: str, consumer: ConsumerFactory, rows: int
) -> None:
    reader = consumer(name)
    await_queued(reader, 100)
    batch = reader.poll(timeout=20, max_rows=rows)
    assert len(batch) == min(rows, 100)
    assert len(next(reader.batches(max_rows=rows, timeout=0.5), ())) == min(rows, 100 - len(batch))


@pytest.mark.parametrize("limit", [1500, 5000, 20_000])
def test_a_batch_has_no_more_bytes_than_asked(name: str, consumer: ConsumerFactory, limit: int) -> None:
    reader = consumer(name)
    await_queued(reader, 100)
    sizes: list[int] = []
    while sum(sizes) < 100:
        batch = reader.poll(timeout=20, max_bytes=limit)
        # The memory of the columns for these rows: a kilobyte of value each, and some for the rest.
        assert sum(len(r.value) for r in batch.records()) <= limit
        sizes.append(len(batch))
    assert sum(sizes) == 100
    assert max(sizes) >= limit // 1200


def test_a_record_larger_than_max_bytes_makes_a_batch_of_its_own(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer(name)
    await_queued(reader, 100)
    assert [len(reader.poll(timeout=20, max_bytes=10)) for _ in range(3)] == [1, 1, 1]


def test_a_full_batch_does_not_wait(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer(name)
    assert len(next(reader.batches(max_rows=100, max_wait=HOUR_SECONDS, timeout=HOUR_SECONDS))) == 100


def test_rows_that_are_there_wait_max_wait_for_more(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "first"}])
    # The wait counts from when the first row came, which is after this.
    started_ns = time.monotonic_ns()
    reader = consumer(name)
    await_queued(reader, 1)
    batches = reader.batches(max_wait=1.5, timeout=HOUR_SECONDS)
    kafka.helper.produce(name, [{"value": "second"}])
    assert values(next(batches).records()) == [b"first", b"second"]
    assert time.monotonic_ns() - started_ns >= 1_500_000_000


def test_poll_does_not_wait_for_more_than_what_is_there(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "first"}])
    reader = consumer(name)
    await_queued(reader, 1)
    assert len(reader.poll(timeout=HOUR_SECONDS)) == 1


@pytest.mark.req("S081")
@pytest.mark.parametrize("timeout", [0, 0.2, 1.0])
def test_poll_returns_control_on_time_without_data(
    topic: TopicFactory, consumer: ConsumerFactory, timeout: float
) -> None:
    reader = consumer(topic())
    started_ns = time.monotonic_ns()
    assert not reader.poll(timeout=timeout)
    assert time.monotonic_ns() - started_ns >= timeout * 1e9


@pytest.mark.req("S081")
def test_poll_returns_as_soon_as_there_is_data(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    reader = consumer(name)
    assert not reader.poll(timeout=0.5)
    kafka.helper.produce(name, [{"value": "now"}])
    assert values(reader.poll(timeout=HOUR_SECONDS).records()) == [b"now"]


def test_iteration_ends_after_timeout_without_a_record(topic: TopicFactory, consumer: ConsumerFactory) -> None:
    reader = consumer(topic())
    for iterator in (reader.batches(timeout=0.5), reader.records(timeout=0.5)):
        started_ns = time.monotonic_ns()
        assert list(iterator) == []
        assert time.monotonic_ns() - started_ns >= 500_000_000


def test_an_empty_batch_is_false_and_has_the_same_schema(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    reader = consumer(name, headers=True)
    empty = reader.poll(timeout=0)
    kafka.helper.produce(name, [{"value": "x"}])
    full = reader.poll(timeout=20)
    assert not empty
    assert full
    assert empty.schema == full.schema == reader.schema
    assert (empty.spans, empty.offsets, list(empty.records())) == ([], {}, [])


@pytest.mark.req("S089")
def test_every_record_carries_topic_partition_and_offset(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic(2)
    placed = kafka.helper.produce(
        name, [{"key": str(n), "value": f"{n}", "partition": n % 2, "timestamp": 1000 + n} for n in range(10)]
    )
    records = consumer(name, headers=True).take(10)
    expected = {(name, p.partition, p.offset, 1000 + n, f"{n}".encode()) for n, p in enumerate(placed)}
    assert {(r.topic, r.partition, r.offset, r.timestamp, r.value) for r in records} == expected
    assert {r.timestamp_type for r in records} == {0}
    assert {r.headers for r in records} == {None}


def test_spans_say_which_rows_are_of_which_partition(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic(3)
    kafka.helper.produce(name, [{"value": str(n), "partition": n % 3} for n in range(30)])
    reader = consumer(name)
    await_queued(reader, 30)
    batch = reader.poll(timeout=20)
    rows = list(batch.records())
    for span in batch.spans:
        mine, rows = rows[: span.rows], rows[span.rows :]
        assert {(r.topic, r.partition) for r in mine} == {(span.topic, span.partition)}
        assert (mine[0].offset, mine[-1].offset) == (span.first_offset, span.next_offset - 1)
    assert rows == []
    assert batch.offsets == {(name, p): 10 for p in range(3)}


def test_columns_left_out_are_none_in_records(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    kafka.helper.produce(name, [{"key": "k", "value": "v"}])
    (record,) = consumer(name, columns=["value"]).take(1)
    assert record.value == b"v"
    assert (record.key, record.topic, record.partition, record.offset, record.timestamp) == (None,) * 5
    assert "value=b'v'" in repr(record)


@pytest.mark.parametrize(
    "arguments",
    [{"max_rows": 0}, {"max_bytes": 0}, {"timeout": -1.0}, {"timeout": float("nan")}],
)
def test_arguments_that_make_no_sense_are_named(consumer: ConsumerFactory, arguments: dict[str, float]) -> None:
    reader = consumer("orders", bootstrap_servers="localhost:1")
    (key,) = arguments
    with pytest.raises(monedula.ArgumentError, match=key):
        reader.poll(**arguments)
