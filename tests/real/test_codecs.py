"""What producers write is what comes out, byte for byte."""

import os

import confluent_kafka
import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import CODECS, Codec, Record
from tests.real.reading import consumer, take, values


def payloads() -> list[bytes]:
    """Compressible and not, short and long, empty too."""
    return [b"", b"x", b"jackdaw " * 500, os.urandom(3000), bytes(range(256)) * 40] * 20


@pytest.mark.parametrize("codec", CODECS)
def test_values_of_javas_producer_are_exact(kafka: KafkaCluster, topic: TopicFactory, codec: Codec) -> None:
    name, sent = topic(), payloads()
    kafka.helper.produce(name, [{"key": str(i), "value": value} for i, value in enumerate(sent)], codec=codec)
    with consumer(kafka.bootstrap) as reader:
        reader.assign(name)
        found = take(reader, len(sent))
    assert values(found) == sent
    assert [row["key"] for row in found] == [str(i).encode() for i in range(len(sent))]


@pytest.mark.parametrize("codec", CODECS)
def test_values_of_librdkafkas_producer_are_exact(kafka: KafkaCluster, topic: TopicFactory, codec: Codec) -> None:
    name, sent = topic(), payloads()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "linger.ms": 20}
    )
    for value in sent:
        producer.produce(name, value, key=value[:7])
    assert producer.flush(30) == 0
    with consumer(kafka.bootstrap) as reader:
        reader.assign(name)
        found = take(reader, len(sent))
    assert values(found) == sent
    assert [row["key"] for row in found] == [value[:7] for value in sent]


def test_nulls_headers_and_timestamps_come_as_written(kafka: KafkaCluster, topic: TopicFactory) -> None:
    records: list[Record] = [
        {"key": None, "value": None, "timestamp": 1_600_000_000_123},
        {"key": "", "value": "", "headers": [("a", "1"), ("b", None), ("a", b"\xff\x00")]},
        {"key": b"\x00", "value": "x", "headers": [("", "")]},
    ]
    name = topic()
    kafka.helper.produce(name, records)
    with consumer(kafka.bootstrap, headers=True) as reader:
        reader.assign(name)
        null, headed, bare = take(reader, 3)
    assert (null["key"], null["value"], null["timestampType"]) == (None, None, 0)
    assert null["timestamp"].timestamp() == 1_600_000_000.123
    assert (headed["key"], headed["value"]) == (b"", b"")
    pairs = [(header["key"], header["value"]) for header in headed["headers"]]
    assert pairs == [("a", b"1"), ("b", None), ("a", b"\xff\x00")]
    assert bare["headers"] == [{"key": "", "value": b""}]


def test_log_append_time_is_the_brokers(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(config={"message.timestamp.type": "LogAppendTime"})
    (placed,) = kafka.helper.produce(name, [{"value": "x", "timestamp": 1_000}])
    with consumer(kafka.bootstrap) as reader:
        reader.assign(name)
        (row,) = take(reader, 1)
    assert row["timestampType"] == 1
    assert round(row["timestamp"].timestamp() * 1000) == placed.timestamp


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_large_records_pass_every_fetch_limit(kafka: KafkaCluster, topic: TopicFactory, codec: Codec) -> None:
    name = topic()
    sent = [os.urandom(900_000), b"small", os.urandom(900_000), os.urandom(100)]
    for value in sent:
        kafka.helper.produce(name, [{"value": value}], codec=codec)
    limits = {"fetch_max_bytes": 20_000, "max_partition_fetch_bytes": 10_000, "queued_max_bytes": 1 << 20}
    with consumer(kafka.bootstrap, **limits) as reader:
        reader.assign(name)
        assert values(take(reader, len(sent))) == sent


def test_a_large_record_starves_no_other_partition(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(partitions=3)
    large = os.urandom(600_000)
    for partition in range(3):
        kafka.helper.produce(name, [{"value": large, "partition": partition}] * 3)
    with consumer(kafka.bootstrap, fetch_max_bytes=5000, max_partition_fetch_bytes=1000) as reader:
        reader.assign(name)
        found = take(reader, 9)
    assert sorted(row["partition"] for row in found) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert set(values(found)) == {large}


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_decompressing_ahead_changes_nothing(kafka: KafkaCluster, topic: TopicFactory, codec: Codec) -> None:
    # Enough for many segments, and a budget that the threads run into.
    name, count = topic(partitions=2), 60_000
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "linger.ms": 20}
    )
    for i in range(count):
        producer.produce(name, f"{i} jackdaw {i * 7919 % 10_007}".encode() * 8, partition=i % 2)
        producer.poll(0)
    assert producer.flush(60) == 0
    seen = {}
    for threads in (0, 3):
        with consumer(kafka.bootstrap, **{"decode.threads": threads, "queued.max.bytes": 1 << 20}) as reader:
            reader.assign(name)
            rows = take(reader, count)
        assert [row["offset"] for row in rows if row["partition"] == 0] == list(range(count // 2))
        seen[threads] = sorted((row["partition"], row["offset"], row["value"]) for row in rows)
    assert seen[0] == seen[3]
