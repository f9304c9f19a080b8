from datetime import UTC, datetime
from typing import Any

import duckdb
import monedula
import polars as pl
import pyarrow as pa
import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster

COUNT = 40
START_MS = 1_700_000_000_000


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    """Two partitions of twenty records, a second apart."""
    made = topic(2)
    kafka.helper.produce(
        made, [{"value": str(n), "partition": n % 2, "timestamp": START_MS + n // 2 * 1000} for n in range(COUNT)]
    )
    return made


@pytest.fixture
def settings(kafka: KafkaCluster) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap}


def numbers(values: list[Any]) -> list[int]:
    return sorted(map(int, values))


def test_a_read_is_a_table_of_pyarrow(settings: dict[str, Any], name: str) -> None:
    table = pa.table(monedula.read(settings, name))
    assert numbers(table["value"].to_pylist()) == list(range(COUNT))


def test_a_read_is_a_frame_of_polars(settings: dict[str, Any], name: str) -> None:
    frame = pl.DataFrame(monedula.read(settings, name, max_rows=7))
    assert numbers(frame["value"].to_list()) == list(range(COUNT))


def test_a_read_is_a_relation_of_duckdb(settings: dict[str, Any], name: str) -> None:
    stream = monedula.read(settings, name, max_rows=7)
    assert stream.schema.names
    with duckdb.connect() as connection:
        rows = connection.sql(
            'SELECT "partition", count(*), max("offset") FROM stream GROUP BY 1 ORDER BY 1'
        ).fetchall()
    assert rows == [(0, 20, 19), (1, 20, 19)]


def test_a_stream_is_read_once(settings: dict[str, Any], name: str) -> None:
    stream = monedula.read(settings, name)
    pa.table(stream)
    with pytest.raises(monedula.ArgumentError, match="can be read once: start another read"):
        pa.table(stream)
    with pytest.raises(monedula.ArgumentError, match="start another read"):
        next(stream)


def test_what_was_iterated_is_not_in_the_stream_any_more(settings: dict[str, Any], name: str) -> None:
    stream = monedula.read(settings, name, max_rows=15)
    first = next(stream)
    rest = pa.table(stream)
    assert numbers([*(r.value for r in first.records()), *rest["value"].to_pylist()]) == list(range(COUNT))


def test_an_iteration_ends_and_stays_ended(settings: dict[str, Any], name: str) -> None:
    stream = monedula.read(settings, name, max_rows=7)
    assert sum(map(len, stream)) == COUNT
    assert list(stream) == []


@pytest.mark.parametrize("how", ["iterate", "arrow"])
def test_a_stream_closed_early_is_an_error_not_an_end(settings: dict[str, Any], name: str, how: str) -> None:
    with monedula.read(settings, name, max_rows=7) as stream:
        reader = pa.RecordBatchReader.from_stream(stream) if how == "arrow" else stream
        assert next(iter(reader))
    with pytest.raises(Exception, match="the stream is closed; start another read"):
        list(reader)


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [
        ("earliest", "latest", range(20)),
        (5, "latest", range(5, 20)),
        (-3, "latest", range(17, 20)),
        ("earliest", 4, range(4)),
        ("earliest", -18, range(2)),
        (datetime.fromtimestamp(START_MS / 1000 + 2.5, UTC), datetime.fromtimestamp(START_MS / 1000 + 5, UTC), (3, 4)),
        ("latest", "latest", ()),
        (7, 7, ()),
        (20, "latest", ()),
    ],
)
def test_a_range_is_read_and_nothing_else(
    settings: dict[str, Any], name: str, start: Any, end: Any, offsets: range
) -> None:
    stream = monedula.read(settings, [(name, 0)], start=start, end=end)
    assert pa.table(stream)["offset"].to_pylist() == list(offsets)


def test_each_partition_may_have_its_own_range(settings: dict[str, Any], name: str) -> None:
    stream = monedula.read(settings, [(name, 0), (name, 1)], start={(name, 0): 18, (name, 1): -1}, end="latest")
    assert stream.ranges == {(name, 0): (18, 20), (name, 1): (19, 20)}
    table = pa.table(stream)
    assert sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)) == [
        (0, 18),
        (0, 19),
        (1, 19),
    ]


def test_read_range_reads_one_partition(settings: dict[str, Any], name: str) -> None:
    assert pa.table(monedula.read_range(settings, name, 1, 3, 6))["value"].to_pylist() == [b"7", b"9", b"11"]


def test_records_that_come_later_are_not_part_of_a_read(
    kafka: KafkaCluster, settings: dict[str, Any], name: str
) -> None:
    stream = monedula.read(settings, name)
    kafka.helper.produce(name, [{"value": "999", "partition": 0}])
    assert pa.table(stream).num_rows == COUNT


@pytest.mark.parametrize("bounds", [{"start": 21}, {"end": 21}, {"start": 30, "end": 31}])
def test_a_range_outside_of_the_log_is_an_error(settings: dict[str, Any], name: str, bounds: dict[str, int]) -> None:
    with pytest.raises(monedula.errors.OffsetOutOfRangeError, match=r"the log holds 0\.\.20"):
        monedula.read(settings, (name, 0), **bounds)  # type: ignore[arg-type]


def test_an_unknown_topic_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(monedula.UnknownTopicError, match="no-such-topic"):
        monedula.read(settings, "no-such-topic")


@pytest.mark.parametrize("how", ["iterate", "arrow"])
def test_progress_is_reported_after_each_batch_and_ends_complete(settings: dict[str, Any], name: str, how: str) -> None:
    told: list[tuple[int, int]] = []
    stream = monedula.read(settings, name, max_rows=15, progress=lambda done, total: told.append((done, total)))
    rows = sum(map(len, stream)) if how == "iterate" else pa.table(stream).num_rows
    assert rows == COUNT
    assert [done for done, _ in told[:3]] == [15, 30, 40]
    assert {total for _, total in told} == {COUNT}
    assert told == sorted(told)
    assert stream.progress == (COUNT, COUNT)


def test_an_error_of_the_progress_callback_ends_the_read(settings: dict[str, Any], name: str) -> None:
    def fail(done: int, total: int) -> None:
        raise RuntimeError(f"enough at {done} of {total}")

    with pytest.raises(RuntimeError, match="enough at 15 of 40"):
        list(monedula.read(settings, name, max_rows=15, progress=fail))


@pytest.mark.parametrize("topics", [{("orders", 0): 2}, {"orders": 2}])
def test_a_dict_of_topics_is_refused_where_its_values_would_be_lost(topics: dict[Any, int]) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"start= and end=, such as start=\{\('orders', 0\): 2\}"):
        monedula.read({"bootstrap.servers": "127.0.0.1:1"}, topics)


@pytest.mark.parametrize("wrong", [{"start": datetime(2024, 1, 1)}, {"start": "newest"}, {"end": None}])
def test_bounds_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"time zone|expected an offset"):
        monedula.read({"bootstrap.servers": "127.0.0.1:1"}, "orders", **wrong)


def test_a_short_read_fetches_nothing_beyond_its_end(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, count = topic(), 400
    kafka.helper.produce(name, [{"value": str(number) * 5000} for number in range(count)])
    stream = monedula.read_range({"bootstrap.servers": kafka.bootstrap, "fetch.max.bytes": 64 << 10}, name, 0, 5, 9)
    assert [offset for batch in stream for offset in pa.record_batch(batch)["offset"].to_pylist()] == [5, 6, 7, 8]
    assert stream.metrics()["bytes_received"] < 1 << 20


def places(stream: monedula.RecordStream) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of each row of a read."""
    table = pa.table(stream)
    return list(zip(*(table[column].to_pylist() for column in ("topic", "partition", "offset")), strict=True))


def test_rows_in_order_are_the_same_each_time(
    kafka: KafkaCluster, topic: TopicFactory, settings: dict[str, Any]
) -> None:
    made = [topic(12), topic(2)]
    for name, partitions, count in ((made[0], 12, 3000), (made[1], 2, 50)):
        kafka.helper.produce(name, [{"value": str(n), "partition": n % partitions} for n in range(count)])
    every = sorted((made[0], partition, offset) for partition in range(12) for offset in range(250))
    every = sorted(every + [(made[1], partition, offset) for partition in range(2) for offset in range(25)])
    for max_rows in (7, 250, 100_000):
        assert places(monedula.read(settings, made[::-1], order="partition", max_rows=max_rows)) == every
    asked = [(made[0], 11), (made[1], 1), (made[0], 2)]
    part = monedula.read(settings, asked, order="partition", start=3, end=-2)
    assert places(part) == [
        each for each in every if each[:2] in asked and 3 <= each[2] < (248, 23)[each[0] == made[1]]
    ]
    condition = [[("partition", "<", 2), ("offset", "in", [1, 2, 200])], [("partition", "=", 9)]]
    chosen = monedula.read(settings, made[0], order="partition", where=condition)
    assert places(chosen) == [
        each for each in every if each[0] == made[0] and (each[1] == 9 or (each[1] < 2 and each[2] in (1, 2, 200)))
    ]
    columns = monedula.read(settings, made[0], order="partition", columns=["partition"])
    assert pa.table(columns)["partition"].to_pylist() == [partition for _, partition, _ in every[:3000]]


def test_a_read_in_order_goes_on_where_it_was_stopped(settings: dict[str, Any], name: str) -> None:
    with monedula.read(settings, name, order="partition", max_rows=7) as stream:
        ranges = stream.ranges
        first = [record for _, batch in zip(range(4), stream, strict=False) for record in batch.records()]
    assert 14 <= len(first) < COUNT
    last = first[-1]
    assert last.topic is not None
    assert last.partition is not None
    assert last.offset is not None
    starts = {each: start for each, (start, _) in ranges.items() if each >= (last.topic, last.partition)}
    starts[monedula.TopicPartition(name, last.partition)] = last.offset + 1
    ends = {each: end for each, (_, end) in ranges.items()}
    rest = monedula.read(settings, list(starts), start=starts, end=ends, order="partition")
    assert [(record.topic, record.partition, record.offset) for record in first] + places(rest) == [
        (name, partition, offset) for partition in range(2) for offset in range(20)
    ]


@pytest.mark.parametrize("kind", ["scan", "dataset", "head of a scan", "head of a dataset"])
def test_queries_have_rows_in_order_too(
    kafka: KafkaCluster, topic: TopicFactory, settings: dict[str, Any], kind: str
) -> None:
    # With more memory partitions may come one after another without being asked to.
    settings |= {"queued.max.bytes": 1 << 20, "max.partition.fetch.bytes": 100_000}
    made = topic(4)
    kafka.helper.produce(made, [{"value": str(n) * 1000, "partition": n % 4} for n in range(1000)])
    count = 800 if "head" in kind else 1000
    if "scan" in kind:
        frame = monedula.scan(settings, made, order="partition").select("topic", "partition", "offset")
        rows = [tuple(row) for row in (frame.head(count) if "head" in kind else frame).collect().rows()]
    else:
        data = monedula.dataset(settings, made, order="partition")
        table = data.head(count) if "head" in kind else data.to_table()
        rows = [(row["topic"], row["partition"], row["offset"]) for row in table.to_pylist()]
    assert rows == [(made, partition, offset) for partition in range(4) for offset in range(250)][:count]


@pytest.mark.parametrize("order", ["timestamp", "offset", True, 1])
def test_another_order_is_refused(order: Any) -> None:
    for read in (monedula.read, monedula.scan, monedula.dataset):
        with pytest.raises(monedula.ArgumentError, match=rf"order={order!r}: expected 'partition'"):
            read({"bootstrap.servers": "127.0.0.1:1"}, "orders", order=order)
