import gc
from collections.abc import Iterator
from typing import Any

import duckdb
import monedula
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record

HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
# pyarrow's stubs leave out that it accepts any object with an Arrow schema.
arrow_schema: Any = pa.schema
# Spark's Kafka source, names, types and nullability exactly.
SCHEMA = arrow_schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", HEADERS),
    ]
)
RECORDS: list[Record] = [
    {"key": "a", "value": "1", "timestamp": 1_700_000_000_123, "headers": [("h", "x"), ("h", "y"), ("n", None)]},
    {"key": None, "value": None, "timestamp": 1_700_000_001_000},
    {"key": "", "value": "", "timestamp": 1_700_000_002_000, "headers": [("", b"\xff")]},
]


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    made = topic()
    kafka.helper.produce(made, RECORDS)
    return made


@pytest.fixture
def consumer(kafka: KafkaCluster, name: str) -> Iterator[monedula.Consumer]:
    with monedula.Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", headers=True) as made:
        made.assign(name)
        yield made


@pytest.fixture
def batch(consumer: monedula.Consumer) -> monedula.Batch:
    batch = consumer.poll(timeout=20)
    assert len(batch) == len(RECORDS)
    return batch


def expected(name: str) -> list[dict[str, Any]]:
    rows = []
    for offset, record in enumerate(RECORDS):
        headers = [{"key": k, "value": v.encode() if isinstance(v, str) else v} for k, v in record.get("headers", ())]
        key, value = record["key"], record["value"]
        rows.append(
            {
                "key": key.encode() if isinstance(key, str) else key,
                "value": value.encode() if isinstance(value, str) else value,
                "topic": name,
                "partition": 0,
                "offset": offset,
                "timestamp": pd.Timestamp(record["timestamp"], unit="ms", tz="UTC").to_pydatetime(),
                "timestampType": 0,
                "headers": headers or None,
            }
        )
    return rows


def test_the_schema_is_that_of_spark(batch: monedula.Batch, consumer: monedula.Consumer) -> None:
    assert arrow_schema(batch).equals(SCHEMA, check_metadata=True)
    assert all(field.nullable for field in arrow_schema(batch))
    assert arrow_schema(consumer.schema).equals(SCHEMA)
    assert consumer.schema.names == SCHEMA.names


def test_headers_are_left_out_unless_asked_for(kafka: KafkaCluster) -> None:
    with monedula.Consumer(bootstrap_servers=kafka.bootstrap) as plain:
        assert arrow_schema(plain.schema).equals(arrow_schema(list(SCHEMA)[:-1]))


def test_an_empty_batch_has_the_same_schema(kafka: KafkaCluster, topic: TopicFactory) -> None:
    with monedula.Consumer(bootstrap_servers=kafka.bootstrap, headers=True) as idle:
        idle.assign(topic())
        empty = pa.record_batch(idle.poll(timeout=0.1))
    assert empty.num_rows == 0
    assert empty.schema.equals(SCHEMA)
    empty.validate(full=True)


@pytest.mark.req("S089")
def test_pyarrow_reads_a_batch(batch: monedula.Batch, name: str) -> None:
    arrow = pa.record_batch(batch)
    arrow.validate(full=True)
    assert arrow.to_pylist() == expected(name)
    assert batch.to_pyarrow().equals(arrow)
    assert pa.table(batch).to_pylist() == expected(name)


def test_polars_reads_a_batch(batch: monedula.Batch, name: str) -> None:
    for frame in (pl.DataFrame(batch), batch.to_polars()):
        assert isinstance(frame, pl.DataFrame)
        assert frame.drop("timestamp").to_dicts() == [
            {k: v for k, v in row.items() if k != "timestamp"} for row in expected(name)
        ]
        assert frame["timestamp"].to_list() == [row["timestamp"] for row in expected(name)]
        assert frame.schema["timestamp"] == pl.Datetime("us", "UTC")


def test_pandas_reads_a_batch(batch: monedula.Batch, name: str) -> None:
    for frame in (pd.DataFrame.from_arrow(batch), batch.to_pandas()):
        assert list(frame.columns) == SCHEMA.names
        assert frame["value"].tolist() == [row["value"] for row in expected(name)]
        assert frame["timestamp"].tolist() == [row["timestamp"] for row in expected(name)]


def test_duckdb_reads_a_batch(batch: monedula.Batch) -> None:
    assert batch is not None
    with duckdb.connect() as connection:
        rows = connection.sql('SELECT "offset", value, len(headers) FROM batch ORDER BY "offset"').fetchall()
    assert rows == [(0, b"1", 3), (1, None, None), (2, b"", 1)]


def test_duplicate_headers_and_null_values_are_kept_in_order(batch: monedula.Batch) -> None:
    records = list(batch.records())
    assert records[0].headers == [("h", b"x"), ("h", b"y"), ("n", None)]
    assert records[1].headers is None
    assert records[2].headers == [("", b"\xff")]


def test_a_batch_may_be_exported_again_and_again(batch: monedula.Batch, name: str) -> None:
    for _ in range(3):
        assert pa.record_batch(batch).to_pylist() == expected(name)
        assert pa.RecordBatchReader.from_stream(batch).read_all().to_pylist() == expected(name)


def test_capsules_that_nobody_takes_are_released(batch: monedula.Batch, name: str) -> None:
    for _ in range(1000):
        batch.__arrow_c_array__()
        batch.__arrow_c_stream__()
        batch.__arrow_c_schema__()
        batch.schema.__arrow_c_schema__()
    assert pa.record_batch(batch).to_pylist() == expected(name)


@pytest.mark.parametrize("columns", [["offset", "value"], ["value", "offset"], ("offset", "value", "offset")])
def test_chosen_columns_come_in_the_order_of_the_schema(kafka: KafkaCluster, name: str, columns: list[str]) -> None:
    with monedula.Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", columns=columns) as some:
        some.assign(name)
        assert pa.record_batch(some.poll(timeout=20)).to_pydict() == {"value": [b"1", None, b""], "offset": [0, 1, 2]}


def test_headers_may_be_added_to_chosen_columns(kafka: KafkaCluster, name: str) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap}
    for stream in (
        monedula.read(settings, name, columns=["key"], headers=True),
        monedula.read(settings, name, columns=["headers", "key"]),
    ):
        assert pa.table(stream).column_names == ["key", "headers"]


def test_memory_outlives_the_consumer(kafka: KafkaCluster, name: str) -> None:
    consumer = monedula.Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", headers=True)
    consumer.assign(name)
    batch = consumer.poll(timeout=20)
    arrow, frame, record = pa.record_batch(batch), pl.DataFrame(batch), next(batch.records())
    consumer.close()
    del consumer, batch
    gc.collect()
    # If the memory were reused too early, these values would be in it.
    with monedula.Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as other:
        other.assign(name)
        assert other.poll(timeout=20)
    assert arrow.to_pylist() == expected(name)
    assert frame["value"].to_list() == [row["value"] for row in expected(name)]
    assert record.value == b"1"
