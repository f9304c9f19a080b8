"""Records per second from JSON values to typed Arrow columns: our typed columns, and other ways to the same columns.

The topic is in an embedded broker, in a process of its own; the readers take turns on the same cores, each in a process
of its own. Each proves what it read by the number of rows and the sum of a column.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that `python benches/typed.py` works as well as `python -m benches.typed`

from benches.turns import PARTITIONS, TOPIC, take_turns  # noqa: E402

CHUNK = 10_000
RAW = "binary column alone"
CITIES = ("Praha", "Brno", "Ostrava", "Plzen")

Result = tuple[float, int, int]
"""Seconds, rows, sum of the column `id`."""


def value(number: int) -> str:
    """About 99 bytes of JSON, as in the other benches."""
    noise = number * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    amount = f"{noise >> 20 & 0xFFFFF}.{noise % 100:02}"
    city, session = CITIES[noise >> 8 & 3], f"{noise ^ noise >> 17:016x}"
    user = f"user-{noise >> 47:05}"
    return f'{{"id":{10_000_000 + number},"user":"{user}","amount":{amount},"city":"{city}","session":"{session}"}}'


def arrow_schema() -> Any:
    """The five columns."""
    import pyarrow as pa

    names: list[Any] = [("id", pa.int64()), ("user", pa.string()), ("amount", pa.float64())]
    return pa.schema([*names, ("city", pa.string()), ("session", pa.string())])


def _read(bootstrap: str, into: Callable[[Any], Any], **arguments: Any) -> Result:
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


def typed(bootstrap: str, _: int) -> Result:
    """Our typed columns."""
    import monedula
    import pyarrow as pa

    spec = monedula.Json(arrow_schema(), flatten=True)
    return _read(bootstrap, pa.record_batch, columns=["value"], value=spec)


def raw(bootstrap: str, _: int) -> Result:
    """Our binary column alone: what reading costs without decoding."""
    return _read(bootstrap, lambda batch: _Counted(batch.num_rows), columns=["value"])


class _Counted:
    """Rows whose values nobody has looked at."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, _: str) -> Any:
        import pyarrow as pa

        return pa.array([0])


def polars(bootstrap: str, _: int) -> Result:
    """Our binary column, and polars' `json_decode`."""
    import polars as pl

    order = pl.Struct(
        {"id": pl.Int64, "user": pl.String, "amount": pl.Float64, "city": pl.String, "session": pl.String}
    )

    def into(batch: Any) -> Any:
        decoded = pl.col("value").cast(pl.String).str.json_decode(order).alias("order")
        return pl.DataFrame(batch).select(decoded).unnest("order").to_arrow()

    return _read(bootstrap, into, columns=["value"])


def pyarrow_json(bootstrap: str, _: int) -> Result:
    """Our binary column, and pyarrow's reader of JSON lines over its joined values."""
    import io

    import pyarrow as pa
    import pyarrow.json

    options = pyarrow.json.ParseOptions(explicit_schema=arrow_schema())

    def into(batch: Any) -> Any:
        values: list[Any] = pa.record_batch(batch)["value"].to_pylist()
        lines = b"\n".join(values)
        return pyarrow.json.read_json(io.BytesIO(lines), parse_options=options)

    return _read(bootstrap, into, columns=["value"])


def duckdb(bootstrap: str, _: int) -> Result:
    """Our binary column, and DuckDB's `from_json`."""
    import duckdb as db
    import pyarrow as pa

    connection = db.connect()
    names = '{"id":"BIGINT","user":"VARCHAR","amount":"DOUBLE","city":"VARCHAR","session":"VARCHAR"}'
    query = f"SELECT unnest(from_json(decode(value), '{names}')) FROM records"

    def into(batch: Any) -> Any:
        records = pa.table(batch)
        connection.register("records", records)
        found = connection.sql(query)
        return found.to_arrow_table() if hasattr(found, "to_arrow_table") else found.arrow().read_all()

    return _read(bootstrap, into, columns=["value"])


def confluent(bootstrap: str, records: int) -> Result:
    """confluent-kafka's `consume`, `orjson.loads` of each value, pyarrow."""
    import orjson
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
        values = [orjson.loads(message.value()) for message in consumer.consume(CHUNK, 1.0)]
        rows += len(values)
        tables.append(pa.RecordBatch.from_pylist(values, schema=schema))
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds, rows, sum(pc.sum(table["id"]).as_py() or 0 for table in tables)


READERS: dict[str, Callable[[str, int], Result]] = {
    "typed columns": typed,
    RAW: raw,
    "binary column + polars": polars,
    "binary column + pyarrow.json": pyarrow_json,
    "binary column + DuckDB": duckdb,
    "confluent-kafka + orjson + pyarrow": confluent,
}


def fill(broker: Any, records: int) -> None:
    """Write the records."""
    each = records // PARTITIONS
    for partition in range(PARTITIONS):
        for first in range(partition * each, (partition + 1) * each, CHUNK):
            last = min(first + CHUNK, (partition + 1) * each)
            values = [(f"{number:08}", value(number)) for number in range(first, last)]
            broker.append(TOPIC, values, partition=partition)


def main() -> None:
    turns = take_turns(__file__, READERS, fill, about=__doc__, records=2_000_000)
    if turns is None:
        return
    expected = sum(10_000_000 + number for number in range(turns.records))
    medians: dict[str, float] = {}
    for name, results in turns.results.items():
        for _, rows, total in results:
            if rows != turns.records or (total != expected and name != RAW):
                sys.exit(f"{name}: {rows:,} rows, and the sum of id is {total:,}, not {expected:,}")
        medians[name] = statistics.median(took for took, _, _ in results)
    first = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"{name:38} {turns.records / median:>12,.0f} records/s {median / first:>8.1f}x")


if __name__ == "__main__":
    main()
