"""Topics whose logs are hard for a lookup by time: disorder, gaps, deleted beginnings, empty partitions, lost ends."""

from collections.abc import Mapping
from random import Random
from typing import Any

import monedula
import pyarrow as pa
from monedula.testing import Broker

START_MS = 1_700_000_000_000
PARTITIONS = 3
_KEPT: dict[str, object] = {"retention.ms": -1, "message.timestamp.before.max.ms": (1 << 63) - 1}
_SEGMENTS = {**_KEPT, "segment.ms": 2_000}
"""A segment ends at a record that is so much younger than its first."""

HEADER = "headers.size"

Rows = list[dict[str, Any]]


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def header_of(value: bytes) -> bytes | None:
    """The header `size` of the record with this value; `None` if it has none, or a null one."""
    return None if len(value) % 5 < 2 else str(len(value) % 5).encode()


def _headers(value: bytes) -> list[tuple[str, bytes | None]]:
    """Headers of which the last one of a name counts."""
    if len(value) % 5 == 0:
        return [("other", b"3")]
    return [("size", b"3"), ("other", b"3"), ("size", header_of(value))]


def send(settings: Mapping[str, Any], topic: str, partition: int, times_ms: list[int], random: Random) -> None:
    """Records with these timestamps, in batches of random sizes."""
    with monedula.Producer(settings) as producer:
        at = 0
        while at < len(times_ms):
            some = times_ms[at : at + random.randint(1, 12)]
            _send_one_batch(producer, topic, partition, some, random)
            at += len(some)


def _send_one_batch(
    producer: monedula.Producer, topic: str, partition: int, times_ms: list[int], random: Random
) -> None:
    size = len(times_ms)
    values = [str(random.randrange(4)) * random.randrange(60) for _ in times_ms]
    keyless = 0 if topic.endswith("-compacted") else 2
    keys = [random.choice((*map(str, range(8)), *[None] * keyless)) for _ in times_ms]
    columns = {
        "key": pa.array(keys, pa.string()),
        "value": pa.array(values, pa.string()),
        "headers": pa.array([_headers(value.encode()) for value in values], _HEADERS),
        "partition": pa.array([partition] * size, pa.int32()),
        "timestamp": pa.array(times_ms, pa.timestamp("ms", "UTC")),
    }
    producer.send_batch(pa.table(columns), topic)
    producer.flush(30.0)


def in_order(random: Random, count: int) -> list[int]:
    """Times that never go back; some repeat."""
    return sorted(START_MS + random.randrange(0, 20_000, 10) for _ in range(count))


def in_disorder(random: Random, count: int) -> list[int]:
    """Times of which some are far behind or ahead of those around them."""
    times = in_order(random, count)
    return [time + random.choice((0, 0, 0, -7_000, 7_000, random.randrange(-300, 300))) for time in times]


def make(settings: Mapping[str, Any], name: str, seed: int, *, replicas: int = 1) -> list[str]:
    """The topics, on any Kafka."""
    random = Random(seed)
    kinds: dict[str, dict[str, object]] = {
        "ordered": _KEPT,
        "disordered": _SEGMENTS,
        "appended": {"message.timestamp.type": "LogAppendTime"},
    }
    kinds |= {"aborted": _KEPT, "beheaded": _SEGMENTS}
    topics = {kind: f"{name}-{kind}" for kind in kinds}
    with monedula.Admin(settings) as admin:
        for kind, configs in kinds.items():
            admin.create_topics(topics[kind], partitions=PARTITIONS, replication_factor=replicas, configs=configs)
        for kind, topic in topics.items():
            times = in_order if kind == "ordered" else in_disorder
            for partition in range(PARTITIONS - 1):  # the last one stays empty
                send(settings, topic, partition, times(random, random.randint(20, 60)), random)
        _abort_some({**settings, "transactional.id": topics["aborted"]}, topics["aborted"], random)
        for partition in range(PARTITIONS - 1):
            admin.delete_records({(topics["beheaded"], partition): random.randrange(5, 20)})
    return sorted(topics.values())


def _abort_some(settings: Mapping[str, Any], topic: str, random: Random) -> None:
    with monedula.Producer(settings) as producer:
        producer.init_transactions()
        for turn in range(6):
            producer.begin_transaction()
            for partition in range(PARTITIONS - 1):
                _send_one_batch(producer, topic, partition, in_disorder(random, 5), random)
            if turn % 2:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def make_on_embedded(broker: Broker, seed: int) -> list[str]:
    """The topics, and two that only the embedded broker makes at once: a compacted one and one that lost its end."""
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    topics = make(settings, "where", seed)
    random = Random(seed + 1)
    broker.create_topic("where-compacted", PARTITIONS, config={**_SEGMENTS, "cleanup.policy": "compact"})
    broker.create_topic("where-truncated", PARTITIONS, config=_SEGMENTS)
    for partition in range(PARTITIONS):
        for name in ("where-compacted", "where-truncated"):
            send(settings, name, partition, in_disorder(random, 40), random)
        broker.truncate("where-truncated", partition, random.randrange(10, 30))
        send(settings, "where-truncated", partition, in_disorder(random, 10), random)
    broker.compact("where-compacted")
    return [*topics, "where-compacted", "where-truncated"]


def rows_of(table: Any) -> Rows:
    """The rows of anything Arrow, with timestamps in microseconds, in the order of the logs."""
    table = pa.table(table)
    at = table.schema.get_field_index("timestamp")
    table = table.set_column(at, "timestamp", table["timestamp"].cast(pa.int64()))
    rows: Rows = table.to_pylist()
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def lateness_ms(rows: Rows) -> int:
    """The most by which a record is older than one before it in its partition."""
    largest: dict[tuple[str, int], int] = {}
    most = 0
    for row in rows:
        key = (row["topic"], row["partition"])
        largest[key] = max(largest.get(key, row["timestamp"]), row["timestamp"])
        most = max(most, (largest[key] - row["timestamp"]) // 1000)
    return most
