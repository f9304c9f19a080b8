"""What the benches of all formats share: the records, our reading, and how their results are judged."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benches.turns import PARTITIONS, TOPIC, Reader, take_turns

CHUNK = 10_000
RAW = "binary column alone"
FIRST_ID = 10_000_000
CITIES = ("Praha", "Brno", "Ostrava", "Plzen")

Result = tuple[float, int, int]
"""Seconds, rows, sum of the column `id`."""


def event(number: int) -> dict[str, Any]:
    """A record's five fields: about 99 bytes as JSON, as in the other benches."""
    noise = number * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    return {
        "id": FIRST_ID + number,
        "user": f"user-{noise >> 47:05}",
        "amount": float(f"{noise >> 20 & 0xFFFFF}.{noise % 100:02}"),
        "city": CITIES[noise >> 8 & 3],
        "session": f"{noise ^ noise >> 17:016x}",
    }


def arrow_schema() -> Any:
    """The five columns."""
    import pyarrow as pa

    names: list[Any] = [("id", pa.int64()), ("user", pa.string()), ("amount", pa.float64())]
    return pa.schema([*names, ("city", pa.string()), ("session", pa.string())])


def read(bootstrap: str, into: Callable[[Any], Any], **arguments: Any) -> Result:
    """Read the topic with monedula, each batch made into something with the column `id`."""
    import monedula
    import pyarrow as pa
    import pyarrow.compute as pc

    pa.array([b""])  # the first array made of Python objects looks for pandas: not reading
    began = time.perf_counter()
    tables: list[Any] = []
    with monedula.read({"bootstrap.servers": bootstrap}, TOPIC, **arguments) as stream:
        tables.extend(into(batch) for batch in stream)
    seconds = time.perf_counter() - began
    rows = sum(len(table) for table in tables)
    return seconds, rows, sum(pc.sum(table["id"]).as_py() for table in tables)


def raw(bootstrap: str, _: int) -> Result:
    """Our binary column alone: what reading costs without decoding."""
    return read(bootstrap, lambda batch: _Counted(batch.num_rows), columns=["value"])


class _Counted:
    """Rows whose values nobody has looked at."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, _: str) -> Any:
        import pyarrow as pa

        return pa.array([0])


def consume(bootstrap: str, records: int, decoded: Callable[[Any], dict[str, Any]]) -> Result:
    """confluent-kafka's `consume`, a function for each value, pyarrow.

    Args:
        bootstrap: the broker's address.
        records: how many the topic has.
        decoded: the fields of a value.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from confluent_kafka import Consumer, TopicPartition

    schema = arrow_schema()
    pa.RecordBatch.from_pylist([], schema=schema)
    pa.array([b""])
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    began = time.perf_counter()
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    tables, rows = [], 0
    while rows < records:
        values = [decoded(message.value()) for message in consumer.consume(CHUNK, 1.0)]
        rows += len(values)
        tables.append(pa.RecordBatch.from_pylist(values, schema=schema))
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds, rows, sum(pc.sum(table["id"]).as_py() or 0 for table in tables)


def chunks(records: int) -> Iterator[tuple[int, range]]:
    """The numbers of the records: partition, and some of its numbers."""
    each = records // PARTITIONS
    for partition in range(PARTITIONS):
        for first in range(partition * each, (partition + 1) * each, CHUNK):
            yield partition, range(first, min(first + CHUNK, (partition + 1) * each))


def compare(script: str, readers: Mapping[str, Reader], value: Callable[[int], bytes], about: str | None) -> None:
    """Run a bench from its command line, and print each reader's records per second.

    Args:
        script: the file of the bench.
        readers: what is measured, by name; the first is what the others are compared to.
        value: the bytes of the record of a number.
        about: the docstring of the bench.
    """

    def fill(broker: Any, records: int) -> None:
        for partition, numbers in chunks(records):
            broker.append(TOPIC, [(f"{number:08}", value(number)) for number in numbers], partition=partition)

    turns = take_turns(script, readers, fill, about=about, records=2_000_000)
    if turns is None:
        return
    expected = sum(FIRST_ID + number for number in range(turns.records))
    medians: dict[str, float] = {}
    for name, results in turns.results.items():
        for _, rows, total in results:
            if rows != turns.records or (total != expected and name != RAW):
                sys.exit(f"{name}: {rows:,} rows, and the sum of id is {total:,}, not {expected:,}")
        medians[name] = statistics.median(took for took, _, _ in results)
    first = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"{name:42} {turns.records / median:>12,.0f} records/s {median / first:>8.1f}x")
