"""Records per second from a table to Avro values in Kafka: `send_batch` that encodes, ready-made values, and a loop.

Each writer proves what it wrote by the offsets that the topic ends with, and by the values of its first records.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # so that `python benches/typed/writing.py` works as well as `python -m`

from benches.turns import PARTITIONS, TOPIC, take_turns  # noqa: E402
from benches.typed.avro_values import ID, SCHEMA, value  # noqa: E402
from benches.typed.reading import CHUNK, arrow_schema, event  # noqa: E402

POOL = 20 * CHUNK
FLUSH_SECONDS = 300.0
SAMPLE = 100


def _events(records: int) -> list[dict[str, Any]]:
    return [event(number) for number in range(min(records, POOL))]


def _offsets(bootstrap: str) -> int:
    import monedula

    with monedula.Admin({"bootstrap.servers": bootstrap}) as admin:
        latest = admin.list_offsets({(TOPIC, partition): "latest" for partition in range(PARTITIONS)})
        return sum(found.offset or 0 for found in latest.values())


def _written(bootstrap: str, before: int) -> int:
    """How many records the topic has got, whose values must be those of the events."""
    import monedula
    import pyarrow as pa

    expected = {value(number) for number in range(POOL)}
    with monedula.read({"bootstrap.servers": bootstrap}, TOPIC, columns=["value"], max_rows=SAMPLE) as stream:
        found = pa.record_batch(next(iter(stream)))["value"].to_pylist()
    if not set(found) <= expected:
        raise RuntimeError("a value is none of the events")
    return _offsets(bootstrap) - before


def _send_batch(bootstrap: str, records: int, table: Any, **arguments: Any) -> tuple[float, int]:
    import monedula

    before = _offsets(bootstrap)
    with monedula.Producer({"bootstrap.servers": bootstrap, "acks": "all"}) as producer:
        producer.partitions_for(TOPIC)
        began = time.perf_counter()
        futures = [
            producer.send_batch(table.slice(first % POOL, CHUNK), topic=TOPIC, **arguments)
            for first in range(0, records, CHUNK)
        ]
        for future in futures:
            future.result()
        seconds = time.perf_counter() - began
    return seconds, _written(bootstrap, before)


def typed(bootstrap: str, records: int) -> tuple[float, int]:
    """Our encoder: the table's five columns."""
    import monedula
    import pyarrow as pa

    table = pa.RecordBatch.from_pylist(_events(records), schema=arrow_schema())
    return _send_batch(bootstrap, records, table, value=monedula.Avro(SCHEMA, schemas={ID: SCHEMA}))


def ready_made(bootstrap: str, records: int) -> tuple[float, int]:
    """The same bytes, encoded before."""
    import pyarrow as pa

    values = [value(number) for number in range(min(records, POOL))]
    return _send_batch(bootstrap, records, pa.record_batch({"value": pa.array(values, pa.binary())}))


def confluent(bootstrap: str, records: int) -> tuple[float, int]:
    """confluent-kafka's AvroSerializer for each record, and `produce`."""
    from confluent_kafka import Producer
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    if registry.register_schema(f"{TOPIC}-value", Schema(SCHEMA, "AVRO")) != ID:
        raise RuntimeError("the mock registry gave another id")
    encode, context = AvroSerializer(registry, SCHEMA), SerializationContext(TOPIC, MessageField.VALUE)
    before, events = _offsets(bootstrap), _events(records)
    sizes = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 65_536}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **sizes})
    producer.list_topics(TOPIC, 30.0)
    began = time.perf_counter()
    for index in range(records):
        encoded = encode(events[index % POOL], context)
        while True:
            try:
                producer.produce(TOPIC, encoded)
                break
            except BufferError:
                producer.poll(0.01)
        if index % 1000 == 0:
            producer.poll(0)
    left = producer.flush(FLUSH_SECONDS)
    seconds = time.perf_counter() - began
    if left:
        raise RuntimeError(f"{left} records are left")
    return seconds, _written(bootstrap, before)


WRITERS: dict[str, Callable[[str, int], tuple[float, int]]] = {
    "send_batch(value=Avro(...))": typed,
    "send_batch of ready-made values": ready_made,
    "AvroSerializer and produce": confluent,
}


def main() -> None:
    turns = take_turns(__file__, WRITERS, lambda _broker, _records: None, about=__doc__, records=2_000_000)
    if turns is None:
        return
    medians: dict[str, float] = {}
    for name, results in turns.results.items():
        for _, written in results:
            if written != turns.records:
                sys.exit(f"{name}: the topic got {written:,} records, not {turns.records:,}")
        medians[name] = statistics.median(took for took, _ in results)
    first = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"{name:34} {turns.records / median:>12,.0f} records/s {median / first:>8.1f}x")


if __name__ == "__main__":
    main()
