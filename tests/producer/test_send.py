"""One record after the other: what is sent is what is stored, and the future says where."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored


def test_the_future_tells_partition_and_offset(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic(2)
    sender = producer()
    futures = [sender.send(topic, f"value {number}", partition=number % 2) for number in range(10)]
    places = [future.result(30) for future in futures]
    assert [(place.topic, place.partition, place.offset) for place in places] == [
        (topic, number % 2, number // 2) for number in range(10)
    ]
    assert all(future.done() and future.exception() is None for future in futures)


@pytest.mark.req("S161")
@pytest.mark.parametrize(
    ("given", "bytes_stored"),
    [
        (b"bytes", b"bytes"),
        ("a text, naïve", "a text, naïve".encode()),
        (bytearray(b"array"), b"array"),
        (memoryview(b"__view__")[2:6], b"view"),
        (b"", b""),
        (None, None),
    ],
)
def test_keys_and_values_of_every_type(
    ground: Ground, producer: ProducerFactory, given: Any, bytes_stored: bytes | None
) -> None:
    one, other = ground.topic(), ground.topic()
    with producer() as sender:
        sender.send(one, given, key="a key")
        sender.send(other, "a value", key=given)
    (record,) = stored(ground.bootstrap, one)
    assert (record.key, record.value) == (b"a key", bytes_stored)
    (record,) = stored(ground.bootstrap, other)
    assert (record.key, record.value) == (bytes_stored, b"a value")


@pytest.mark.parametrize(
    ("given", "headers_stored"),
    [
        ([("a", b"1"), ("b", None), ("a", "2")], [("a", b"1"), ("b", None), ("a", b"2")]),
        ({"trace": "x", "é": bytearray(b"y")}, [("trace", b"x"), ("é", b"y")]),
        ((("a", b""),), [("a", b"")]),
        ([], None),
        (None, None),
    ],
)
def test_headers_keep_their_order_and_repeat(
    ground: Ground, producer: ProducerFactory, given: Any, headers_stored: list[tuple[str, bytes | None]] | None
) -> None:
    topic = ground.topic()
    with producer() as sender:
        sender.send(topic, "x", headers=given)
    (record,) = stored(ground.bootstrap, topic)
    assert record.headers == headers_stored


@pytest.mark.parametrize("given", [1_600_000_000_123, datetime(2020, 9, 13, 12, 26, 40, 123_999, tzinfo=UTC)])
def test_a_record_has_the_time_that_it_was_given(ground: Ground, producer: ProducerFactory, given: Any) -> None:
    topic = ground.topic()
    place = producer().send(topic, "x", timestamp=given).result(30)
    assert place.timestamp == 1_600_000_000_123
    (record,) = stored(ground.bootstrap, topic)
    assert record.timestamp == 1_600_000_000_123


def test_a_record_without_a_time_has_the_present(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    before = datetime.now(UTC).timestamp() * 1000
    place = producer().send(topic, "x").result(30)
    assert before - 1 <= place.timestamp <= datetime.now(UTC).timestamp() * 1000
    (record,) = stored(ground.bootstrap, topic)
    assert record.timestamp == place.timestamp


@pytest.mark.req("S162")
def test_the_same_key_goes_to_the_same_partition_and_no_key_is_spread(
    ground: Ground, producer: ProducerFactory
) -> None:
    keyed, keyless = ground.topic(6), ground.topic(6)
    with producer(batch_size=1000) as sender:
        for number in range(3000):
            sender.send(keyed, str(number), key=f"key {number % 50}")
            sender.send(keyless, "x" * 100)
    places: dict[bytes | None, set[int | None]] = {}
    for record in stored(ground.bootstrap, keyed):
        places.setdefault(record.key, set()).add(record.partition)
    assert len(places) == 50
    assert all(len(partitions) == 1 for partitions in places.values())
    assert len(set.union(*places.values())) > 1
    assert {record.partition for record in stored(ground.bootstrap, keyless)} == set(range(6))


def test_order_is_kept_in_a_partition(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic(3)
    with producer(batch_size=2000, linger_ms=0) as sender:
        for number in range(5000):
            sender.send(topic, str(number), partition=number % 3)
    records = stored(ground.bootstrap, topic)
    for partition in range(3):
        values = [int(record.value or b"") for record in records if record.partition == partition]
        assert values == list(range(partition, 5000, 3))


def test_no_answer_is_waited_for_without_acks(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    sender = producer(acks=0)
    places = [sender.send(topic, str(number)).result(30) for number in range(3)]
    assert [(place.partition, place.offset) for place in places] == [(0, None)] * 3
    sender.close()
    # Nothing says when they are there: an acknowledged one behind them does.
    producer().send(topic, "3").result(30)
    assert [record.value for record in stored(ground.bootstrap, topic)] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back(ground: Ground, producer: ProducerFactory, codec: str) -> None:
    topic = ground.topic()
    with producer(compression_type=codec) as sender:
        for number in range(1000):
            sender.send(topic, f"value {number} " * 10)
    values = [record.value for record in stored(ground.bootstrap, topic)]
    assert values == [f"value {number} ".encode() * 10 for number in range(1000)]


def test_partitions_are_those_of_the_topic(ground: Ground, producer: ProducerFactory) -> None:
    assert producer().partitions_for(ground.topic(3), 30) == [0, 1, 2]
