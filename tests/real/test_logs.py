"""Logs with gaps, and logs whose beginning is gone."""

import os
from collections.abc import Iterator
from typing import Any

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.real.reading import consumer, offsets, poll_until, rows, table, take

COMPACTED_SOON = {
    "cleanup.policy": "compact",
    "segment.ms": 100,
    "segment.bytes": 1 << 20,
    "min.cleanable.dirty.ratio": 0.01,
    "min.compaction.lag.ms": 0,
    "max.compaction.lag.ms": 100,
}


@pytest.fixture(scope="module")
def cleaning() -> Iterator[KafkaCluster]:
    """A node whose cleaner looks every 100 ms."""
    with KafkaCluster(config={"log.cleaner.backoff.ms": 100}) as cluster:
        yield cluster


def test_a_compacted_log_is_read_over_its_gaps(cleaning: KafkaCluster) -> None:
    name = "compacted"
    cleaning.helper.create_topic(name, config=COMPACTED_SOON)
    for turn in range(4):
        cleaning.helper.produce(name, [{"key": str(key), "value": f"{turn}:{key}"} for key in range(20)])
        cleaning.helper.produce(name, [{"key": "moving", "value": str(turn)}])
    end = cleaning.helper.offsets(name)[0][1]
    found: list[int] = []
    # Each append may roll the segment before it, which alone can be cleaned.
    for _ in range(300):
        cleaning.helper.produce(name, [{"key": "roll", "value": "x"}])
        found = offsets(table(cleaning.bootstrap, name))
        if len(found) < end // 2:
            break
    assert len(found) < end // 2, "the log was never compacted"
    # Compaction goes on meanwhile: the youngest value of each key is always there, and offsets only rise.
    latest = {str(key).encode(): f"3:{key}".encode() for key in range(20)} | {b"moving": b"3", b"roll": b"x"}
    end = cleaning.helper.offsets(name)[0][1]
    with consumer(cleaning.bootstrap) as reader:
        reader.assign({(name, 0): 0})
        read: list[dict[str, Any]] = []
        while reader.position((name, 0)) != end:
            read += rows(reader.poll(0.5))
    assert {row["key"]: row["value"] for row in read} == latest
    assert offsets(read) == sorted(set(offsets(read)))
    # A range that lies in a gap, or ends in one, ends.
    partition = (name, 0)
    for upto in range(1, 60, 7):
        part = table(cleaning.bootstrap, [partition], start={partition: 0}, end={partition: upto})
        assert set(offsets(part)) <= {offset for offset in found if offset < upto}


def produced(kafka: KafkaCluster, name: str, upto: int) -> None:
    kafka.helper.produce(name, [{"value": str(number)} for number in range(upto)])


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_position_before_the_log_goes_to_the_smallest_offset(
    kafka: KafkaCluster, topic: TopicFactory, policy: str
) -> None:
    name = topic()
    produced(kafka, name, 20)
    kafka.helper.delete_records(name, {0: 12})
    with consumer(kafka.bootstrap, auto_offset_reset=policy) as reader:
        reader.assign({(name, 0): 3})
        assert offsets(take(reader, 8)) == list(range(12, 20))
        assert reader.metrics()["positions_lost"] == 1


def test_without_a_policy_a_position_before_the_log_is_an_error_and_a_seek_mends_it(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic()
    produced(kafka, name, 20)
    kafka.helper.delete_records(name, {0: 12})
    with consumer(kafka.bootstrap, auto_offset_reset="none") as reader:
        reader.assign({(name, 0): 3})
        with pytest.raises(monedula.errors.OffsetOutOfRangeError) as raised:
            poll_until(reader, lambda: False)
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == (name, 0, 3)
        reader.seek((name, 0), 15)
        assert offsets(take(reader, 5)) == list(range(15, 20))


@pytest.mark.parametrize(("policy", "expected"), [("earliest", list(range(21))), ("latest", [20])])
def test_a_position_beyond_the_log_goes_where_the_policy_says(
    kafka: KafkaCluster, topic: TopicFactory, policy: str, expected: list[int]
) -> None:
    name = topic()
    produced(kafka, name, 20)
    with consumer(kafka.bootstrap, auto_offset_reset=policy) as reader:
        reader.assign({(name, 0): 5000})
        before: list[dict[str, Any]] = []
        while reader.metrics()["positions_lost"] == 0:
            before += rows(reader.poll(0.1))
        produced(kafka, name, 1)
        assert offsets(before + take(reader, len(expected) - len(before))) == expected


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_retention_that_overtakes_a_running_reader_skips_nothing_that_is_left(
    kafka: KafkaCluster, topic: TopicFactory, policy: str
) -> None:
    name = topic()
    produced(kafka, name, 20)
    with consumer(kafka.bootstrap, auto_offset_reset=policy) as reader:
        reader.assign({(name, 0): 0})
        assert offsets(take(reader, 20)) == list(range(20))
        reader.pause((name, 0))
        reader.poll(0.6)
        produced(kafka, name, 30)
        kafka.helper.delete_records(name, {0: 40})
        reader.resume((name, 0))
        assert offsets(take(reader, 10)) == list(range(40, 50))


def test_retention_that_overtakes_a_bounded_read_is_an_error(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    # Far more than the byte budget: not all of it can have been fetched before it is deleted.
    for _ in range(10):
        kafka.helper.produce(name, [{"value": os.urandom(200_000)} for _ in range(4)])
    settings = {"bootstrap.servers": kafka.bootstrap, "queued.max.bytes": 1 << 20, "fetch.max.bytes": 200_000}
    with monedula.read(settings, name, max_rows=1) as stream:
        found = [row.offset for row in next(stream).records()]
        kafka.helper.delete_records(name, {0: 40})
        with pytest.raises(monedula.errors.OffsetOutOfRangeError):
            found.extend(row.offset for batch in stream for row in batch.records())
    assert found == list(range(len(found)))
