"""What a Python worker of Spark does with rows to write, without Spark: on a real Kafka."""

import queue
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import monedula
import pyarrow as pa
import pytest
from monedula import ConfigError, Producer
from monedula.errors import BatchSendError, ClosedError
from monedula.spark import idle
from monedula.spark.idle import IdleClients
from monedula.spark.options.kafka_settings import ClientSettings
from monedula.spark.sink import sink, task_writer
from monedula.spark.sink.sink import Sink
from monedula.spark.sink.task_writer import WriteSettings, write
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType, TimestampType

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster

Store = IdleClients[ClientSettings, Producer]
WAIT_SECONDS = 60.0


@pytest.fixture(autouse=True)
def producers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Each test has producers of its own, as a new worker process has."""
    fresh: Store = IdleClients(task_writer._open, Producer.close)
    monkeypatch.setattr(task_writer, "_producers", fresh)
    yield fresh
    for _, producer, _ in fresh._idle:
        producer.close()
    fresh._idle.clear()


def settings(
    kafka: KafkaCluster, topic: str | None, columns: tuple[str, ...] = ("value",), **more: str
) -> WriteSettings:
    of_kafka = {"bootstrap.servers": kafka.bootstrap, **{name.replace("_", "."): value for name, value in more.items()}}
    places = tuple((name, place) for place, name in enumerate(columns))
    return WriteSettings(ClientSettings.of(of_kafka), topic, places)


def batch(*values: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["value"])


def test_rows_are_acknowledged_when_it_returns(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    assert write(iter([batch(b"a", None), batch(b"b")]), settings(kafka, name)) == 3
    assert kafka.helper.offsets(name) == {0: (0, 3)}
    assert write(iter([]), settings(kafka, name)) == 0


def test_the_next_task_of_the_process_finds_the_connection_open(
    kafka: KafkaCluster, topic: TopicFactory, producers: Store
) -> None:
    name = topic()
    write(iter([batch(b"a")]), settings(kafka, name))
    ((_, kept, _),) = producers._idle
    opened = kept.metrics()["connections_opened"]
    # Writes with another topic or other columns share the producer.
    other = topic()
    rows = pa.RecordBatch.from_arrays([pa.array(["k"]), pa.array(["v"])], names=["key", "value"])
    write(iter([rows]), settings(kafka, other, ("key", "value")))
    for _ in range(3):
        write(iter([batch(b"a")]), settings(kafka, name))
    ((_, again, _),) = producers._idle
    assert again is kept
    assert again.metrics()["connections_opened"] == opened


def test_other_settings_have_a_producer_of_their_own(
    kafka: KafkaCluster, topic: TopicFactory, producers: Store
) -> None:
    name = topic()
    for codec in ("none", "lz4", "none"):
        write(iter([batch(b"a")]), settings(kafka, name, compression_type=codec))
    assert len(producers._idle) == 2


def test_a_producer_that_no_task_wants_is_closed(
    kafka: KafkaCluster, topic: TopicFactory, producers: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "IDLE_SECONDS", 0.0)
    closed: queue.Queue[Producer] = queue.Queue()

    def close(producer: Producer) -> None:
        producer.close()
        closed.put(producer)

    monkeypatch.setattr(producers, "_close", close)
    name = topic()
    write(iter([batch(b"a")]), settings(kafka, name))
    producer = closed.get(timeout=WAIT_SECONDS)
    assert producers._idle == []
    with pytest.raises(ClosedError):
        producer.send(name, b"b").result()


def test_a_row_that_fails_is_named_and_the_others_are_written(
    kafka: KafkaCluster, topic: TopicFactory, producers: Store
) -> None:
    name = topic()
    batches = [batch(b"a", b"b"), batch(b"c", b"x" * 100_000, b"d")]
    with pytest.raises(BatchSendError) as caught:
        write(iter(batches), settings(kafka, name, max_request_size="50000"))
    assert str(caught.value).startswith("1 of 3 rows were not written to Kafka. The first is row 3 of the task")
    assert "RecordTooLargeError" in str(caught.value)
    assert producers._idle == []
    assert kafka.helper.offsets(name) == {0: (0, 4)}


def test_a_failure_ends_the_task_before_its_last_row(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()

    def endless() -> Iterator[pa.RecordBatch]:
        yield batch(b"x" * 100_000)
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            yield batch(b"a")
        raise AssertionError("nobody noticed")

    with pytest.raises(BatchSendError, match="row 0 of the task"):
        write(endless(), settings(kafka, name, max_request_size="50000"))


def test_what_goes_wrong_on_sparks_side_closes_the_producer(
    kafka: KafkaCluster, topic: TopicFactory, producers: Store
) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(b"a")
        raise EOFError

    with pytest.raises(EOFError):
        write(broken(), settings(kafka, topic()))
    assert producers._idle == []


def test_more_rows_than_memory_holds_wait_for_room(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(2)
    many = [batch(*[b"x" * 1000] * 1000) for _ in range(20)]
    written = write(iter(many), settings(kafka, name, buffer_memory=str(1 << 20), batch_size=str(1 << 16)))
    assert written == 20_000
    assert sum(end for _, end in kafka.helper.offsets(name).values()) == 20_000


def test_a_task_holds_no_more_rows_than_its_buffer_has_room_for(kafka: KafkaCluster, topic: TopicFactory) -> None:
    """A broker that has stopped to answer stops the task too, which in the end says what it waits for."""
    name = topic()
    taken: list[int] = []

    def endless() -> Iterator[pa.RecordBatch]:
        yield batch(b"the topic is known by now")
        while True:
            taken.append(100_000)
            yield batch(*[b"x" * 1000] * 100)

    of_task = settings(kafka, name, buffer_memory=str(2 << 20), max_block_ms="2000", linger_ms="0")
    rows = endless()
    write(iter([next(rows)]), of_task)
    kafka.pause(1)
    try:
        with pytest.raises(BatchSendError, match=r"(?s)BufferFullError.*kafka\.buffer\.memory"):
            write(rows, of_task)
    finally:
        kafka.resume(1)
    # The rows that found room, and the one batch that did not.
    assert 1 << 20 <= sum(taken) <= (2 << 20) + 100_000


def test_the_last_rows_of_a_task_do_not_linger(kafka: KafkaCluster, topic: TopicFactory) -> None:
    """Nothing comes behind them: waiting for more would be waiting in vain."""
    of_task = settings(kafka, topic(), linger_ms="900000", delivery_timeout_ms="3600000")
    assert write(iter([batch(b"a"), batch(b"b")]), of_task) == 2


def test_rows_of_spark_4_0_come_one_by_one(
    kafka: KafkaCluster, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a streaming sink gets no Arrow."""
    monkeypatch.setattr(sink, "_MAX_ROWS", 2)
    name = topic(2)
    columns = {"seen": TimestampType(), "key": StringType(), "headers": sink._HEADERS, "partition": IntegerType()}
    schema = StructType([StructField(each, kind) for each, kind in {**columns, "value": BinaryType()}.items()])
    into = Sink({"kafka.bootstrap.servers": kafka.bootstrap, "topic": name}, schema)
    header = Row("key", "value")
    headers = [header("h", bytearray(b"1")), header("h", None)]
    seen = datetime(2026, 11, 22, tzinfo=UTC)
    rows = [(seen, "k", headers, 1, bytearray(b"a")), (None, None, None, 1, None), (seen, "k", [], 1, bytearray(b"c"))]
    assert into.write(into.in_batches(iter(rows))).rows == 3
    table = pa.table(monedula.read({"bootstrap.servers": kafka.bootstrap}, name, columns=["key", "value", "headers"]))
    first, *others = table.to_pylist()
    assert (first["key"], first["value"]) == (b"k", b"a")
    assert [(each["key"], each["value"]) for each in first["headers"]] == [("h", b"1"), ("h", None)]
    assert [(each["key"], each["value"], each["headers"] or []) for each in others] == [
        (None, None, []),
        (b"k", b"c", []),
    ]


def test_settings_that_contradict_each_other_are_reported(kafka: KafkaCluster, topic: TopicFactory) -> None:
    with pytest.raises(ConfigError):
        write(iter([batch(b"a")]), settings(kafka, topic(), enable_idempotence="true", acks="1"))
