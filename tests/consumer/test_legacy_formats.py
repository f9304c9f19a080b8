"""Messages of formats 0 and 1, from before Kafka 0.11, among batches of format 2.

The embedded broker does not write them: a relay puts them in the place of batches that are as long and have as many
offsets. A real Kafka reads them from its segment.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula import Json
from monedula.errors import CorruptRecordError
from monedula.testing import Broker

from tests.cli.processes import output
from tests.consumer.legacy import LegacySet, Row, legacy_log, legacy_set
from tests.kafka import KafkaCluster
from tests.relay import Relay

FRESH = {"check.crcs": True, "auto.offset.reset": "earliest"}


def stand_in(length: int, offsets: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of records that make a batch of this length with so many offsets."""
    others: list[tuple[bytes | None, bytes | None]] = [(None, None)] * (offsets - 1)
    left = length - 61 - 7 * len(others)
    for key in (None, b"", b"x"):
        for size in range(left):
            body = 5 + len(key or b"") + _varint_bytes(size) + size
            if _varint_bytes(body) + body == left:
                return [(key, bytes(size)), *others]
    raise AssertionError(f"no batch is {length} bytes long")


def _varint_bytes(number: int) -> int:
    return 1 if number < 64 else 2 if number < 8192 else 3


class Replacement:
    """Puts legacy sets in the place of the batches that stand in for them."""

    def __init__(self, log: list[LegacySet]) -> None:
        self._log = log

    def __call__(self, answer: bytes) -> bytes:
        for each in self._log:
            at = answer.find(struct.pack(">qi", each.first, len(each.data) - 12))
            if at >= 0:
                answer = answer[:at] + each.data + answer[at + len(each.data) :]
        return answer


@contextmanager
def served(broker: Broker, topic: str, log: list[LegacySet]) -> Iterator[dict[str, Any]]:
    """Settings of clients that read the log from the topic."""
    for each in log:
        broker.append(topic, stand_in(len(each.data), each.last - each.first + 1), timestamps=7)
    with Relay(broker.bootstrap_servers, change=Replacement(log)) as relay:
        yield {"bootstrap.servers": relay.bootstrap_servers, **FRESH}


def rows_of(batches: Any) -> list[Row]:
    """Offset, timestamp, its type, key and value of each row."""
    rows: list[Row] = []
    for batch in batches:
        columns = [pa.record_batch(batch)[name] for name in ("offset", "timestamp", "timestampType", "key", "value")]
        columns[1] = columns[1].cast(pa.int64())
        found = zip(*(column.to_pylist() for column in columns), strict=True)
        rows += [(offset, time // 1000, kind, key, value) for offset, time, kind, key, value in found]
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_whatever_kafka_python_wrote_is_read(broker: Broker, empty_topic: str, seed: int) -> None:
    log = legacy_log(Random(seed), 15)
    wanted = [row for each in log for row in each.rows]
    with served(broker, empty_topic, log) as settings:
        with monedula.read(settings, empty_topic) as stream:
            assert rows_of(stream) == wanted
        with monedula.Consumer(settings) as consumer:
            # Messages that are not compressed stand in one batch here, which a broker would return from its beginning.
            start = log[7].first
            consumer.assign({(empty_topic, 0): start})
            rows = rows_of(consumer.batches(timeout=20, until="latest", max_rows=7))
            assert rows == [row for row in wanted if row[0] >= start]
            assert consumer.position((empty_topic, 0)) == log[-1].last + 1


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_range_ends_within_a_set(broker: Broker, empty_topic: str, magic: int, codec: str) -> None:
    made = legacy_set(Random(3), 0, magic, codec, count=8)
    with served(broker, empty_topic, [made]) as settings:
        first, last = made.rows[2][0], made.rows[5][0]
        with monedula.read(settings, empty_topic, start=first, end=last) as stream:
            assert rows_of(stream) == made.rows[2:5]


def test_formats_are_mixed_and_conditions_apply(broker: Broker, empty_topic: str) -> None:
    log = legacy_log(Random(5), 4)
    with served(broker, empty_topic, log) as settings:
        broker.append(empty_topic, [("k1", "new"), (None, "keyless")], timestamps=9, headers={"kind": "new"})
        rows = [row for each in log for row in each.rows]
        end = log[-1].last + 1
        wanted = [*rows, (end, 9, 0, b"k1", b"new"), (end + 1, 9, 0, None, b"keyless")]
        with monedula.read(settings, empty_topic) as stream:
            assert rows_of(stream) == wanted
        with monedula.read(settings, empty_topic, where=("key", "in", ["k1", "k2", "k3"])) as stream:
            assert rows_of(stream) == [row for row in wanted if row[3] in (b"k1", b"k2", b"k3")]
        with monedula.read(settings, empty_topic, where=("headers.kind", "is null")) as stream:
            assert rows_of(stream) == rows


def test_values_are_decoded(broker: Broker, empty_topic: str) -> None:
    value = b'{"id": 7, "note": "%b"}' % (b"x" * 200)
    made = legacy_set(Random(2), 0, 1, "none", count=1, first_value=value)
    with (
        served(broker, empty_topic, [made]) as settings,
        monedula.read(settings, empty_topic, value=Json("id bigint")) as stream,
    ):
        assert stream.to_pyarrow().select(["key", "value"]).to_pylist() == [
            {"key": made.rows[0][3], "value": {"id": 7}}
        ]


def test_the_command_line_prints_them(broker: Broker, empty_topic: str) -> None:
    log = [legacy_set(Random(4), 0, 0, "snappy")]
    with served(broker, empty_topic, log) as settings:
        text = output("consume", empty_topic, "-f", r"%o %k\n", servers=settings["bootstrap.servers"])
    assert text.splitlines() == [f"{row[0]} {(row[3] or b'').decode()}" for row in log[0].rows]


def test_a_damaged_message_is_named(broker: Broker, empty_topic: str) -> None:
    made = legacy_set(Random(8), 0, 1, "none", count=1)
    damaged = LegacySet(made.data[:-1] + bytes([made.data[-1] ^ 1]), made.first, made.last, made.rows)
    with served(broker, empty_topic, [damaged]) as settings, pytest.raises(CorruptRecordError) as raised:
        list(monedula.read(settings, empty_topic))
    assert f"the batch at offsets {made.last} to {made.last} is damaged" in str(raised.value)
    assert raised.value.next_offset == made.last + 1


def test_a_real_kafka_serves_them_from_its_log() -> None:
    log = legacy_log(Random(11), 30)
    with KafkaCluster() as cluster:
        cluster.helper.create_topic("old")
        cluster.helper.create_topic("mixed")
        cluster.stop(1)
        for topic in ("old", "mixed"):
            segment = cluster.nodes[1].directory / "data" / f"{topic}-0" / f"{0:020}.log"
            segment.write_bytes(b"".join(each.data for each in log))
        cluster.start(1)
        cluster.wait_in_sync()
        settings = {"bootstrap.servers": cluster.bootstrap, **FRESH}
        wanted = [row for each in log for row in each.rows]
        with monedula.read(settings, "old") as stream:
            assert rows_of(stream) == wanted
        small = {**settings, "max.partition.fetch.bytes": 1024, "fetch.max.bytes": 1024}
        with monedula.Consumer(small) as consumer:
            consumer.assign({("old", 0): wanted[9][0]})
            assert rows_of(consumer.batches(timeout=20, until="latest")) == wanted[9:]
        with monedula.Producer(settings) as producer:
            after = producer.send("mixed", "new", key="k").result(30)
        with monedula.read({**settings, "isolation.level": "read_committed"}, "mixed") as stream:
            found = rows_of(stream)
        assert found[:-1] == wanted
        assert (found[-1][0], found[-1][3:]) == (after.offset, (b"k", b"new"))
