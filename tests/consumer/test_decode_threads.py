"""Typed keys and values that `decode.threads` decode ahead: what a user gets is the same as without these threads."""

import json
import random
import threading
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula import Avro, Json
from monedula.testing import Broker

from tests.consumer.schema_registry import Registry
from tests.consumer.typed import SCHEMA, anything, bad, document, value_of

THREADS = [0, 1, 4]
PARTITIONS = 3
RECORDS = 6_000
"""Records of a partition: several segments, with and without compression."""


def filled(broker: Broker, name: str, *, bad_share: float, seed: int) -> str:
    """A topic of long and short documents, bad ones and tombstones among them, of which lz4 compresses every other."""
    chance = random.Random(seed)
    broker.create_topic(name, PARTITIONS)

    def value(number: int) -> str | None:
        kind = chance.random()
        if kind < bad_share:
            return chance.choice([bad(number), "no json", '{"id": "text"}'])
        if kind > 0.98:
            return None
        wide = {"id": number, "user": "u" * chance.randrange(200), "tags": ["t"] * chance.randrange(9)}
        return document(number) if kind < 0.6 else json.dumps(wide)

    for codec in ("none", "lz4"):
        settings = {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 50}
        with monedula.Producer(settings) as producer:
            for number in range(RECORDS // 2):
                for partition in range(PARTITIONS):
                    kept = [("kept", b"yes" if number % 3 else b"no")]
                    producer.send(name, value(number), key=str(number), partition=partition, headers=kept)
    return name


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    return filled(broker, "decoded", bad_share=0.01, seed=39)


def opened(broker: Broker, topic: str, threads: int, **arguments: Any) -> monedula.Consumer:
    """A consumer at the start of a topic."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 20}
    consumer = monedula.Consumer({**settings, "decode.threads": threads, **arguments.pop("settings", {})}, **arguments)
    consumer.assign([topic])
    return consumer


def rows_of(batch: monedula.Batch) -> list[tuple[int, int, Any]]:
    return [(record.partition, record.offset, record.value) for record in map(anything, batch.records())]


def everything(consumer: monedula.Consumer, limit: int) -> dict[int, list[Any]]:
    """The rows of each partition in their order, and in their places the errors of records that were passed."""
    found: dict[int, list[Any]] = {partition: [] for partition in range(PARTITIONS)}
    ends = consumer.end_offsets()
    while any((consumer.position(partition) or 0) < end for partition, end in ends.items()):
        try:
            for partition, offset, value in rows_of(consumer.poll(timeout=20, max_rows=limit)):
                found[partition].append((offset, value))
        except monedula.DecodeError as raised:
            error = anything(raised)
            found[error.partition].append((error.offset, error.path, error.reason))
            consumer.seek((error.topic, error.partition), error.offset + 1)
    return found


ARGUMENTS: dict[str, dict[str, Any]] = {
    "null": {"value": Json(SCHEMA, mode="null")},
    "drop": {"value": Json(SCHEMA, mode="drop")},
    "flat": {"value": Json(SCHEMA, mode="drop", flatten=True), "columns": ["value", "partition", "offset"]},
    "key": {"key": Json("id bigint", mode="null"), "value": Json("tags array<string>", mode="null")},
    "where": {"value": Json(SCHEMA, mode="drop"), "where": ("headers.kept", "=", "yes")},
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_rows_are_the_same_with_any_number_of_threads(broker: Broker, topic: str, name: str) -> None:
    counted = []
    for threads in THREADS:
        with opened(broker, topic, threads, **ARGUMENTS[name]) as consumer:
            rows = everything(consumer, 700)
            metrics = consumer.metrics()
            counted.append((rows, metrics["records_dropped"], metrics["records_with_nulls"]))
    assert sum(map(len, counted[0][0].values())) > PARTITIONS * RECORDS / 2
    assert counted[1] == counted[0]
    assert counted[2] == counted[0]


def test_errors_are_raised_at_the_same_records(broker: Broker) -> None:
    name = filled(broker, "stopping", bad_share=0.001, seed=40)
    found = []
    for threads in THREADS:
        with opened(broker, name, threads, value=Json(SCHEMA)) as consumer:
            found.append(everything(consumer, 2_000))
    errors = [row for rows in found[0].values() for row in rows if len(row) == 3]
    assert len(errors) > 5
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_dead_letters_are_the_same(broker: Broker, topic: str) -> None:
    letters = []
    for threads in THREADS:
        name = f"letters-{threads}"
        broker.create_topic(name, 1)
        with opened(broker, topic, threads, value=Json(SCHEMA, dead_letter=name)) as consumer:
            everything(consumer, 700)
        with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, name, headers=True) as stream:
            records = [record for batch in stream for record in batch.records()]
        letters.append(sorted((record.key, record.value, sorted(record.headers or [])) for record in records))
    assert len(letters[0]) > 50
    assert [len(each) for each in letters] == [len(letters[0])] * 3
    without = [[(key, value, dict(headers)["__dlq.errors.offset"]) for key, value, headers in each] for each in letters]
    assert without[1] == without[0]
    assert without[2] == without[0]


@pytest.mark.parametrize("threads", THREADS)
def test_seeks_in_the_middle_go_on_at_their_place(broker: Broker, topic: str, threads: int) -> None:
    chance = random.Random(threads)
    value = Json(SCHEMA, mode="null")
    with opened(broker, topic, 0, value=value) as consumer:
        expected = everything(consumer, 5_000)
    with opened(broker, topic, threads, value=value) as consumer:
        assert consumer.poll(timeout=20)
        for _ in range(30):
            partition, offset = chance.randrange(PARTITIONS), chance.randrange(RECORDS)
            consumer.seek((topic, partition), offset)
            rows: list[Any] = []
            while len(rows) < min(400, RECORDS - offset):
                batch = consumer.poll(timeout=20, max_rows=chance.choice([1, 50, 3_000]))
                rows += [(at, found) for number, at, found in rows_of(batch) if number == partition]
            assert rows == expected[partition][offset : offset + len(rows)]
            if chance.random() < 0.3:
                consumer.pause((topic, partition))
                assert all(number != partition for number, *_ in rows_of(consumer.poll(timeout=0.0)))
                consumer.resume((topic, partition))


@pytest.mark.parametrize("threads", THREADS)
def test_a_revocation_loses_and_repeats_nothing(broker: Broker, topic: str, threads: int) -> None:
    group = {"group.id": f"revoked-{threads}", "partition.assignment.strategy": "cooperative-sticky"}
    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", **group}
    settings = {**settings, "decode.threads": threads, "queued.max.bytes": 1 << 20}
    found: list[tuple[int, int, Any]] = []
    lock = threading.Lock()

    def read(consumer: monedula.Consumer, until: int) -> None:
        while len(found) < until:
            rows = rows_of(consumer.poll(timeout=0.2, max_rows=500))
            with lock:
                found.extend(rows)

    def another() -> None:
        with monedula.Consumer(settings, [topic], value=Json(SCHEMA, mode="null")) as second:
            read(second, PARTITIONS * RECORDS)

    with monedula.Consumer(settings, [topic], value=Json(SCHEMA, mode="null")) as first:
        read(first, 2_000)
        thread = threading.Thread(target=another)
        thread.start()
        read(first, PARTITIONS * RECORDS)
        thread.join(60)
    assert len({(partition, offset) for partition, offset, _ in found}) == len(found) == PARTITIONS * RECORDS


@pytest.mark.parametrize("threads", THREADS)
def test_records_of_aborted_transactions_are_never_seen(broker: Broker, threads: int) -> None:
    name = f"transactions-{threads}"
    broker.create_topic(name, 1)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "linger.ms": 20}
    expected: list[int] = []
    with monedula.Producer(settings) as producer:
        for number in range(12):
            records = [number * 10_000 + index for index in range(900)]
            try:
                with producer.transaction():
                    for index in records:
                        # Those that are aborted cannot be decoded: nobody may notice.
                        producer.send(name, document(index) if number % 3 else bad(index))
                    if number % 3 == 0:
                        producer.flush()
                        raise ValueError("aborts")
            except ValueError:
                continue
            expected += records
    committed = {"isolation.level": "read_committed"}
    with opened(broker, name, threads, value=Json(SCHEMA), settings=committed) as consumer:
        found: list[int] = []
        while len(found) < len(expected):
            found += [value_of(record)["id"] for record in consumer.poll(timeout=20).records()]
    assert found == expected


@pytest.mark.parametrize("threads", THREADS)
def test_what_is_decoded_ahead_stays_within_the_budget(broker: Broker, topic: str, threads: int) -> None:
    limit = 1 << 20
    with opened(
        broker, topic, threads, value=Json(SCHEMA, mode="null"), settings={"queued.max.bytes": limit}
    ) as reader:
        most, rows = 0, 0
        while rows < PARTITIONS * RECORDS:
            rows += len(reader.poll(timeout=20, max_rows=100))
            most = max(most, reader.health()["budget_used_bytes"])
    # An answer that is larger than was kept for it, and the last buffer of a segment, are more by a little.
    assert 0 < most < 2 * limit


@pytest.mark.parametrize("threads", THREADS)
def test_a_schema_that_is_not_known_until_late_is_awaited(broker: Broker, registry: Registry, threads: int) -> None:
    name = f"late-{threads}"
    broker.create_topic(name, 1)
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    known, slow = registry.avro("s", schema), registry.avro("s", {**schema, "doc": "another"})
    is_asked, may_answer = threading.Event(), threading.Event()

    def instead(path: str) -> None:
        if path == f"/schemas/ids/{slow}":
            is_asked.set()
            assert may_answer.wait(30)

    registry.instead = instead
    numbers = [slow if number in (9_000, 15_000) else known for number in range(20_000)]
    values = [b"\0" + schema_id.to_bytes(4, "big") + bytes([at % 60 * 2]) for at, schema_id in enumerate(numbers)]
    broker.append(name, values)
    settings = {"schema.registry.url": registry.url}
    with opened(broker, name, threads, value=Avro(json.dumps(schema)), settings=settings) as consumer:
        rows: list[int] = []
        while len(rows) < 9_000:
            rows += [value_of(record)["id"] for record in consumer.poll(timeout=20).records()]
        assert len(rows) == 9_000
        assert len(consumer.poll(timeout=0.0)) == 0
        assert is_asked.wait(20)
        may_answer.set()
        while len(rows) < 20_000:
            rows += [value_of(record)["id"] for record in consumer.poll(timeout=20).records()]
    assert rows == [number % 60 for number in range(20_000)]
    assert registry.asked.count(f"/schemas/ids/{slow}") == 1


def nested(depth: int) -> tuple[pa.DataType, str]:
    """A type of so many levels, and a document of it."""
    inner: pa.DataType = pa.int64()
    for level in range(depth):
        inner = pa.list_(inner) if level % 2 else pa.struct([("a", inner)])
    text = "1"
    for level in range(depth):
        text = f"[{text}]" if level % 2 else f'{{"a":{text}}}'
    return inner, text


@pytest.mark.parametrize("threads", THREADS)
def test_the_deepest_type_is_decoded_on_a_threads_small_stack(broker: Broker, threads: int) -> None:
    name = f"deep-{threads}"
    broker.create_topic(name, 1)
    kind, text = nested(60)
    deepest = "[" * 90 + "]" * 90
    broker.append(name, [f'{{"deep":{text},"skipped":{deepest}}}'] * 2_000)
    with opened(broker, name, threads, value=Json(pa.schema([("deep", kind)]))) as consumer:
        rows = 0
        while rows < 2_000:
            table = pa.record_batch(consumer.poll(timeout=20))
            rows += table.num_rows
            assert table["value"].null_count == 0
