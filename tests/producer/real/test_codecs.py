"""Every codec, written by us, as confluent-kafka and Java read it; and the bytes themselves, beside Java's."""

import base64
import json
import random
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import monedula
import pyarrow
import pytest

from tests.groups.behaviour.stage import Stage
from tests.interop import java
from tests.kafka.tools import CODECS
from tests.producer.real.conftest import MakeTopic
from tests.producer.real.load import DEADLINE_SECONDS, messages_of
from tests.producer.real.stored import Batch, batches_of

pytestmark = pytest.mark.jvm

HERE = Path(__file__).parent
# Timestamps of today: a real Kafka deletes records older than a week, also while they are read.
FIRST_MS = round(time.time()) * 1000 - 600_000
NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

Headers = Sequence[tuple[str, bytes | None]]


class Row(NamedTuple):
    """A record in comparable form."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


def rows() -> list[Row]:
    """All shapes: nulls, empty, repeated headers, large, text that shrinks and noise that does not."""
    draw = random.Random(7)
    shapes = [
        Row(b"key", b"value", [], 0),
        Row(None, b"no key", [], 1),
        Row(b"no value", None, [], 2),
        Row(None, None, [], 3),
        Row(b"", b"", [("", b"")], 4),
        Row(b"headers", b"h", [("a", b"1"), ("a", b"2"), ("čapka", None), ("b", b""), ("a", b"1")], 5),
        Row("kůň 🐎".encode(), "příliš".encode(), [], 4),
        Row(b"large", b"jackdaw " * 20_000, [("long", b"x" * 3000)], 6),
        Row(b"noise", draw.randbytes(120_000), [], 7),
    ]
    many = [
        Row(str(n).encode(), f"{n} ".encode() * (n % 50), [("n", str(n).encode())] * (n % 3), n) for n in range(500)
    ]
    return [row._replace(timestamp=FIRST_MS + row.timestamp) for row in [*shapes, *many]]


def send_each(producer: monedula.Producer, topic: str, wanted: Sequence[Row]) -> list[int | None]:
    """One by one; returns their offsets."""
    futures = [
        producer.send(topic, row.value, row.key, partition=0, headers=list(row.headers), timestamp=row.timestamp)
        for row in wanted
    ]
    placed = [future.result(DEADLINE_SECONDS) for future in futures]
    assert [(at.topic, at.partition, at.timestamp) for at in placed] == [(topic, 0, row.timestamp) for row in wanted]
    return [at.offset for at in placed]


def send_table(producer: monedula.Producer, topic: str, wanted: Sequence[Row]) -> list[int | None]:
    """As one Arrow table."""
    header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    columns = {
        "key": pyarrow.array([row.key for row in wanted], pyarrow.binary()),
        "value": pyarrow.array([row.value for row in wanted], pyarrow.binary()),
        "headers": pyarrow.array(
            [[{"key": key, "value": value} for key, value in row.headers] for row in wanted], pyarrow.list_(header)
        ),
        "partition": pyarrow.array([0] * len(wanted), pyarrow.int32()),
        "timestamp": pyarrow.array([row.timestamp for row in wanted], pyarrow.timestamp("ms", "UTC")),
    }
    report = producer.send_batch(pyarrow.table(columns), topic=topic).result(DEADLINE_SECONDS)
    assert (report.num_rows, report.acknowledged, report.failed, report.errors) == (len(wanted), len(wanted), 0, [])
    ((partition, ranges),) = report.offsets.items()
    assert (partition.topic, partition.partition) == (topic, 0)
    return [offset for first, last in ranges for offset in range(first, last + 1)]


WAYS = {"send": send_each, "send_batch": send_table}


@pytest.mark.jvm
@pytest.mark.also_on_kafka
def test_every_codec_is_read_by_confluent_and_by_java(stage: Stage, make_topic: MakeTopic) -> None:
    wanted = rows()
    topics: dict[str, str] = {}
    for codec in CODECS:
        for way, send in WAYS.items():
            topic = make_topic()
            with monedula.Producer({"bootstrap.servers": stage.bootstrap, "compression.type": codec}) as producer:
                assert send(producer, topic, wanted) == list(range(len(wanted)))
            topics[topic] = f"{codec} by {way}"
            stored = batches_of(stage.bootstrap, topic)
            assert sum(batch.records for batch in stored) == len(wanted)
            assert {batch.codec for batch in stored} == {NUMBERS[codec]}, topics[topic]
            assert of_confluent(stage.bootstrap, topic) == wanted, topics[topic]
    read = of_java(stage.bootstrap, list(topics))
    for topic, what in topics.items():
        assert read[topic] == wanted, what


def of_confluent(bootstrap: str, topic: str) -> list[Row]:
    found = [message for messages in messages_of(bootstrap, topic).values() for message in messages]
    assert [message.offset() for message in found] == list(range(len(found)))
    return [Row(message.key(), message.value(), message.headers() or [], message.timestamp()[1]) for message in found]


def of_java(bootstrap: str, topics: Sequence[str]) -> dict[str, list[Row]]:
    command = java.command(HERE / "Read.java", bootstrap, *topics)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, list[Row]] = {topic: [] for topic in topics}
    for line in ran.stdout.splitlines():
        record = json.loads(line)
        assert record["offset"] == len(found[record["topic"]])
        headers = [(key, decoded(value)) for key, value in record["headers"]]
        row = Row(decoded(record["key"]), decoded(record["value"]), headers, record["timestamp"])
        found[record["topic"]].append(row)
    return found


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_levels_change_what_is_stored(stage: Stage, make_topic: MakeTopic, codec: str) -> None:
    text = "".join(random.Random(n).choice("jackdaw ") * (n % 7) for n in range(20_000)).encode()
    sizes = []
    for level in (1, 9):
        topic = make_topic()
        settings: dict[str, Any] = {"compression.type": codec, "compression.level": level}
        with monedula.Producer({"bootstrap.servers": stage.bootstrap, **settings}) as producer:
            producer.send(topic, text).result(DEADLINE_SECONDS)
        (batch,) = batches_of(stage.bootstrap, topic)
        sizes.append(batch.length)
        ((message,),) = messages_of(stage.bootstrap, topic).values()
        assert message.value() == text
    assert sizes[1] < sizes[0]


@pytest.mark.jvm
@pytest.mark.req("S169")
@pytest.mark.also_on_kafka
def test_batches_are_the_bytes_of_java(stage: Stage, make_topic: MakeTopic) -> None:
    wanted = rows()
    ours, javas = make_topic(), make_topic()
    # One batch each: neither may close one earlier than the other. Without idempotence nothing in it is by chance.
    # With acks=1 they may still be above the high watermark, where no consumer reads.
    common = {"enable.idempotence": False, "acks": "all", "batch.size": 1_000_000, "max.request.size": 10_000_000}
    with monedula.Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": 60_000, **common}) as producer:
        futures = [
            producer.send(ours, row.value, row.key, partition=0, headers=list(row.headers), timestamp=row.timestamp)
            for row in wanted
        ]
        producer.flush(DEADLINE_SECONDS)
        assert [future.result(0).offset for future in futures] == list(range(len(wanted)))
    written(stage, javas, wanted, common)
    (our,), (their,) = batches_of(stage.bootstrap, ours), batches_of(stage.bootstrap, javas)
    fields = {name: (mine, theirs) for name, mine, theirs in zip(Batch._fields, our, their, strict=True)}
    assert {name: both for name, both in fields.items() if both[0] != both[1]} == {}
    assert our.records == len(wanted)
    assert our.first_timestamp == FIRST_MS
    assert our.max_timestamp == FIRST_MS + 499
    assert our.last_offset_delta == len(wanted) - 1


def written(stage: Stage, topic: str, wanted: Sequence[Row], settings: dict[str, Any]) -> None:
    """By Java's own producer."""
    from tests.kafka.tools import KafkaHelper, Record

    helper = KafkaHelper(stage.bootstrap)
    try:
        records: list[Record] = [
            {"key": r.key, "value": r.value, "partition": 0, "timestamp": r.timestamp, "headers": list(r.headers)}
            for r in wanted
        ]
        helper.produce(topic, records, config={**settings, "linger.ms": 60_000})
    finally:
        helper.close()
