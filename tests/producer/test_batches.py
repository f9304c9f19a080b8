"""Sending Arrow: the values of the columns are stored, and the report has the offsets."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import duckdb
import monedula
import pandas
import polars
import pyarrow
import pytest
from monedula.testing import Broker

from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0
ROWS = [("a key", "one"), (None, "two"), ("a key", None), ("", "")]
TABLE = pyarrow.table({"key": [key for key, _ in ROWS], "value": [value for _, value in ROWS]})


class OnlyArrays:
    """An object with only the older half of the interface."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.batch.__arrow_c_array__(requested_schema)  # type: ignore[no-untyped-call]


def as_types(key: Any, value: Any) -> pyarrow.Table:
    return TABLE.cast(pyarrow.schema([("key", key), ("value", value)]))


KINDS: dict[str, Any] = {
    "table": TABLE,
    "two chunks": pyarrow.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "batch": TABLE.to_batches()[0],
    "only arrays": OnlyArrays(TABLE.to_batches()[0]),
    "large": as_types(pyarrow.large_binary(), pyarrow.large_string()),
    "views": as_types(pyarrow.binary_view(), pyarrow.string_view()),
    "polars": polars.DataFrame(TABLE),
    "pandas": pandas.DataFrame({"key": [key for key, _ in ROWS], "value": [value for _, value in ROWS]}),
    "slice": pyarrow.concat_tables([TABLE, TABLE, TABLE]).combine_chunks().slice(4, 4),
}


def pairs(records: list[monedula.Record]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


def expected() -> list[tuple[bytes | None, bytes | None]]:
    return [(None if k is None else k.encode(), None if v is None else v.encode()) for k, v in ROWS]


@pytest.mark.parametrize("form", KINDS)
def test_tables_of_every_kind(ground: Ground, producer: ProducerFactory, form: str) -> None:
    topic = ground.topic()
    report = producer().send_batch(KINDS[form], topic).result(PATIENCE)
    assert (report.num_rows, report.acknowledged, report.failed) == (4, 4, 0)
    assert report.offsets == {monedula.TopicPartition(topic, 0): [(0, 3)]}
    assert report.errors == []
    assert pairs(stored(ground.bootstrap, topic)) == expected()


def test_a_duckdb_relation(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    relation = duckdb.sql("SELECT 'k' || range AS key, 'v' || range AS value FROM range(1000)")
    assert producer().send_batch(relation, topic).result(PATIENCE).acknowledged == 1000
    records = stored(ground.bootstrap, topic)
    assert pairs(records) == [(f"k{n}".encode(), f"v{n}".encode()) for n in range(1000)]


def test_every_column_is_used(ground: Ground, producer: ProducerFactory) -> None:
    one, other = ground.topic(3), ground.topic(3)
    times = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC), None]
    header = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    headers = [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], [], None]
    table = pyarrow.table(
        {
            "headers": pyarrow.array(headers, header),
            "timestamp": pyarrow.array(times, pyarrow.timestamp("us", "UTC")),
            "partition": pyarrow.array([2, 1, 0], pyarrow.int32()),
            "topic": [one, other, one],
            "value": ["0", "1", "2"],
        }
    )
    report = producer().send_batch(table).result(PATIENCE)
    assert report.offsets == {(one, 2): [(0, 0)], (other, 1): [(0, 0)], (one, 0): [(0, 0)]}
    second, first = stored(ground.bootstrap, one)
    assert (first.partition, first.timestamp, first.value) == (2, 1_577_836_800_000, b"0")
    assert first.headers == [("a", b"1"), ("a", None)]
    assert (second.partition, second.value, second.headers) == (0, b"2", None)
    (third,) = stored(ground.bootstrap, other)
    assert (third.partition, third.timestamp, third.headers) == (1, 1_609_459_200_123, None)


@pytest.mark.parametrize("column", [["elsewhere", None], pyarrow.array([None, None], pyarrow.int64()), [1, 2]])
def test_the_topic_that_is_given_overrules_the_column(broker: Broker, producer: ProducerFactory, column: Any) -> None:
    """As the option of Spark's sink does."""
    for topic in ("orders", "elsewhere"):
        broker.create_topic(topic)
    table = pyarrow.table({"topic": column, "value": ["x", "y"]})
    assert producer().send_batch(table, "orders").result(PATIENCE).offsets == {("orders", 0): [(0, 1)]}


def test_a_batch_that_was_read_goes_to_the_topic_that_is_given(broker: Broker, producer: ProducerFactory) -> None:
    for topic in ("source", "target"):
        broker.create_topic(topic)
    broker.append("source", ["a", "b"])
    (batch,) = monedula.read({"bootstrap.servers": broker.bootstrap_servers}, "source")
    assert producer().send_batch(batch, "target").result(PATIENCE).offsets == {("target", 0): [(0, 1)]}


def test_what_was_read_can_be_sent_on(ground: Ground, producer: ProducerFactory) -> None:
    source, target = ground.topic(), ground.topic()
    sender = producer()
    for number in range(100):
        sender.send(source, f"value {number}", key=f"key {number}", headers={"n": str(number)}, timestamp=number + 1)
    sender.flush(PATIENCE)
    settings = {"bootstrap.servers": ground.bootstrap}
    table = pyarrow.table(monedula.read(settings, source, columns=["key", "value", "timestamp"], headers=True))
    assert sender.send_batch(table, target).result(PATIENCE).acknowledged == 100
    (batch,) = monedula.read(settings, source, headers=True)
    # A batch names its own topic.
    assert sender.send_batch(batch).result(PATIENCE).offsets == {(source, 0): [(100, 199)]}
    # And a stream that is still being read.
    assert sender.send_batch(monedula.read(settings, target)).result(PATIENCE).offsets == {(target, 0): [(100, 199)]}
    for records in (stored(ground.bootstrap, target)[:100], stored(ground.bootstrap, source)[100:]):
        assert [(record.key, record.value, record.headers, record.timestamp) for record in records] == [
            (f"key {n}".encode(), f"value {n}".encode(), [("n", str(n).encode())], n + 1) for n in range(100)
        ]


def test_rows_and_records_agree_on_partitions(ground: Ground, producer: ProducerFactory) -> None:
    by_rows, by_records = ground.topic(7), ground.topic(7)
    keys = [f"key {number}" for number in range(500)]
    with producer() as sender:
        sender.send_batch(pyarrow.table({"key": keys, "value": keys}), by_rows)
        for key in keys:
            sender.send(by_records, key, key=key)

    def places(topic: str) -> dict[bytes | None, int | None]:
        return {record.key: record.partition for record in stored(ground.bootstrap, topic)}

    assert places(by_rows) == places(by_records)
    assert len(set(places(by_rows).values())) == 7


@pytest.mark.parametrize("settings", [{"batch_size": 1000}, {"batch_size": 1000, "buffer_memory": 65536}])
def test_rows_of_a_partition_keep_their_order(
    ground: Ground, producer: ProducerFactory, settings: dict[str, Any]
) -> None:
    topic = ground.topic(3)
    numbers = range(5000)
    keys = [None if number % 3 else f"key {number}" for number in numbers]
    table = pyarrow.table({"key": keys, "value": [str(number) for number in numbers]})
    with producer(**settings) as sender:
        # Known: rows that wait for their topic are sent one by one.
        sender.partitions_for(topic, PATIENCE)
        assert sender.send_batch(table, topic).result(PATIENCE).acknowledged == len(numbers)
    records = stored(ground.bootstrap, topic)
    for partition in range(3):
        values = [int(record.value or b"") for record in records if record.partition == partition]
        assert values == sorted(values)
        assert {number % 3 == 0 for number in values} == {True, False}, "keyed and drawn rows met in each partition"


def test_a_table_without_rows(ground: Ground, producer: ProducerFactory) -> None:
    report = producer().send_batch(TABLE.slice(0, 0), ground.topic()).result(PATIENCE)
    assert (report.num_rows, report.acknowledged, report.failed, report.offsets) == (0, 0, 0, {})


def test_rows_that_fail_are_named(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    broker.create_topic("denied")
    broker.fault(api="Produce", topic="denied", error="TOPIC_AUTHORIZATION_FAILED")
    table = pyarrow.table({"topic": ["orders", "denied", "orders", "denied"], "value": ["0", "1", "2", "3"]})
    future = producer().send_batch(table)
    with pytest.raises(
        monedula.errors.BatchSendError, match=r"2 of 4 rows were not delivered; the first is row 1: .*denied"
    ) as e:
        future.result(PATIENCE)
    report = future.report()
    assert e.value.report is report
    assert isinstance(future.exception(), monedula.errors.BatchSendError)
    assert (report.acknowledged, report.failed) == (2, 2)
    assert report.offsets == {("orders", 0): [(0, 1)]}
    assert [error.row for error in report.errors] == [1, 3]
    assert all(isinstance(error.error, monedula.errors.AuthorizationError) for error in report.errors)
    assert repr(report) == "<monedula.BatchReport of 4 rows: 2 acknowledged, 2 failed>"


def test_rows_that_find_no_room_fail(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    sender = producer(buffer_memory=100_000, batch_size=10_000, max_request_size=50_000, max_block_ms=200)
    with broker.fault(api="Produce", hold=True):
        future = sender.send_batch(pyarrow.table({"value": ["x" * 1000] * 500}), "orders")
    report = future.report(PATIENCE)
    assert 50 <= report.acknowledged <= 100
    assert report.acknowledged + report.failed == 500
    assert report.errors[0].row == report.acknowledged
    assert len(report.errors) == report.failed
    assert isinstance(report.errors[0].error, monedula.errors.BufferFullError)


def test_more_rows_than_there_is_room_for_wait(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic(2)
    sender = producer(buffer_memory=200_000, batch_size=20_000, max_request_size=50_000)
    table = pyarrow.table({"value": [f"{number:05}" + "x" * 500 for number in range(5000)]})
    assert sender.send_batch(table, topic).result(PATIENCE).acknowledged == 5000
    values = sorted(int((record.value or b"")[:5]) for record in stored(ground.bootstrap, topic))
    assert values == list(range(5000))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"value": [1]}, "value.*(?i:int64).*binary or string"),
        ({"value": ["x"], "key": [1.5]}, "key.*double|key.*Float64|key.*float"),
        ({"value": ["x"], "partition": ["0"]}, "partition"),
        ({"value": ["x"], "timestamp": ["2020"]}, "timestamp"),
        ({"value": ["x"], "headers": ["a=b"]}, "headers"),
        ({"value": ["x"], "vlaue": ["y"]}, "vlaue"),
        ({"amount": [1]}, "amount"),
    ],
    ids=lambda given: next(reversed(given)) if isinstance(given, dict) else "",
)
def test_a_column_that_does_not_do_is_named(producer: ProducerFactory, columns: dict[str, Any], told: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=told):
        producer(bootstrap_servers="127.0.0.1:1").send_batch(pyarrow.table(columns), "orders")


HEADERS = pyarrow.list_(pyarrow.struct([("value", pyarrow.binary()), ("key", pyarrow.string())]))


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None], HEADERS),
        pyarrow.array([[("a", b"1"), ("b", None)], None], pyarrow.map_(pyarrow.string(), pyarrow.binary())),
        polars.Series([[{"value": "1", "key": "a"}, {"value": None, "key": "b"}], None]),
    ],
    ids=["value, key", "map", "polars"],
)
def test_headers_are_read_by_name(ground: Ground, producer: ProducerFactory, column: Any) -> None:
    topic = ground.topic()
    arrow = column.to_arrow() if isinstance(column, polars.Series) else column
    table = pyarrow.table({"value": ["0", "1"], "headers": arrow})
    assert producer().send_batch(table, topic).result(PATIENCE).acknowledged == 2
    assert [record.headers for record in stored(ground.bootstrap, topic)] == [[("a", b"1"), ("b", None)], None]


def test_headers_of_other_names_are_refused(producer: ProducerFactory) -> None:
    wrong = pyarrow.list_(pyarrow.struct([("foo", pyarrow.string()), ("bar", pyarrow.binary())]))
    table = pyarrow.table({"value": ["0"], "headers": pyarrow.array([[{"foo": "a", "bar": b"1"}]], wrong)})
    with pytest.raises(monedula.ArgumentError, match=r"foo.*bar.*list<struct<key: string, value: binary>>"):
        producer(bootstrap_servers="127.0.0.1:1").send_batch(table, "orders")


def test_a_header_without_a_key_fails_its_row(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    headers = pyarrow.array([[{"key": "a"}], [{"key": "a"}, {"value": b"no key"}], [None]], HEADERS)
    table = pyarrow.table({"value": ["0", "1", "2"], "headers": headers})
    report = producer().send_batch(table, topic).report(PATIENCE)
    assert (report.acknowledged, [error.row for error in report.errors]) == (1, [1, 2])
    assert all(isinstance(error.error, monedula.ArgumentError) for error in report.errors)
    assert "header 1 of the row has no key" in str(report.errors[0].error)
    assert "header 0 of the row is null" in str(report.errors[1].error)


def test_what_is_below_a_mask_is_not_sent(producer: ProducerFactory) -> None:
    names = ["value", "topic"]
    below = [pyarrow.array(["fine", "below"]), pyarrow.array(["orders", "orders"])]
    masked = pyarrow.StructArray.from_arrays(below, names, mask=pyarrow.array([False, True]))
    sender = producer(bootstrap_servers="127.0.0.1:1")
    for data in (masked, pyarrow.chunked_array([masked])):
        with pytest.raises(monedula.ArgumentError, match=r"row 1 .*null"):
            sender.send_batch(data)
    assert sender.health()["records_unfinished"] == 0


@pytest.mark.parametrize("given", [2**32, -1, 2**31, -(2**63)])
def test_a_partition_out_of_range_is_named_as_it_was_given(
    ground: Ground, producer: ProducerFactory, given: int
) -> None:
    table = pyarrow.table({"value": ["fine", "wrong"], "partition": pyarrow.array([0, given], pyarrow.int64())})
    report = producer().send_batch(table, ground.topic()).report(PATIENCE)
    assert (report.acknowledged, report.failed) == (1, 1)
    assert f"partition={given}:" in str(report.errors[0].error)


@pytest.mark.parametrize("name", ["key", "value", "id"])
def test_python_objects_of_polars_are_refused(producer: ProducerFactory, name: str) -> None:
    """Their addresses in memory were sent."""
    frame = polars.DataFrame({"value": ["a"], name: [uuid4()]})
    assert frame.schema[name] == polars.Object
    written = {} if name != "id" else {"value": monedula.Json(flatten=True)}
    with pytest.raises(monedula.ArgumentError, match=f"the column '{name}' has Python objects .* make texts of them"):
        producer(bootstrap_servers="127.0.0.1:1").send_batch(frame, "t", **written)


def test_rows_need_a_topic(producer: ProducerFactory) -> None:
    with pytest.raises(monedula.ArgumentError, match="topic"):
        producer(bootstrap_servers="127.0.0.1:1").send_batch(TABLE)


def test_a_generator_that_fails_is_reported(producer: ProducerFactory) -> None:
    def batches() -> Any:
        raise RuntimeError("the source broke")
        yield

    reader = pyarrow.RecordBatchReader.from_batches(TABLE.schema, batches())
    with pytest.raises(monedula.ArgumentError, match="the source broke"):
        producer(bootstrap_servers="127.0.0.1:1").send_batch(reader, "orders")


def test_callbacks_of_tables(ground: Ground, producer: ProducerFactory) -> None:
    called: list[monedula.BatchFuture] = []
    sender = producer()
    future = sender.send_batch(TABLE, ground.topic())
    future.add_done_callback(called.append)
    sender.flush(PATIENCE)
    assert called == [future]


async def test_a_table_can_be_awaited(ground: Ground) -> None:
    topic = ground.topic()
    async with monedula.AsyncProducer(bootstrap_servers=ground.bootstrap) as sender:
        report = await sender.send_batch(TABLE, topic)
        assert report.offsets == {(topic, 0): [(0, 3)]}
    assert len(stored(ground.bootstrap, topic)) == 4


def test_a_filtered_pandas_frame_is_sent_without_its_index(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("filtered", 1)
    frame = pandas.DataFrame({"value": [f"value {number}" for number in range(6)], "keep": [1, 0, 1, 0, 0, 1]})
    kept = frame[frame["keep"] == 1].drop(columns="keep")
    assert "__index_level_0__" in pyarrow.table(kept).schema.names
    report = producer(bootstrap_servers=broker.bootstrap_servers).send_batch(kept, "filtered").result(PATIENCE)
    assert report.acknowledged == 3
    records = stored(broker.bootstrap_servers, "filtered")
    assert [record.value for record in records] == [b"value 0", b"value 2", b"value 5"]


NAIVE = datetime(2026, 1, 1)


def test_a_time_without_a_zone_is_refused_by_send_and_by_send_batch(producer: ProducerFactory) -> None:
    sender = producer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(monedula.ArgumentError, match="has no time zone"):
        sender.send("orders", "x", timestamp=NAIVE)
    for table in (
        pyarrow.table({"value": ["x"], "timestamp": [NAIVE]}),
        pandas.DataFrame({"value": ["x"], "timestamp": [NAIVE]}),
        polars.DataFrame({"value": ["x"], "timestamp": [NAIVE]}),
    ):
        with pytest.raises(monedula.ArgumentError, match=r"expected timestamp with a time zone.*tz_localize"):
            sender.send_batch(table, "orders")


def test_a_time_before_1970_is_refused_by_send_and_by_send_batch(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("early", 1)
    sender = producer(bootstrap_servers=broker.bootstrap_servers)
    early = datetime(1969, 12, 31, tzinfo=UTC)
    with pytest.raises(monedula.ArgumentError, match="before 1970"):
        sender.send("early", "x", timestamp=early)
    report = sender.send_batch(pyarrow.table({"value": ["x", "y"], "timestamp": [early, None]}), "early").report(
        PATIENCE
    )
    assert (report.acknowledged, report.failed, report.errors[0].row) == (1, 1, 0)
    assert "timestamp=-86400000 ms is before 1970" in str(report.errors[0].error)


def test_the_columns_of_a_record_are_told_to_who_gives_another(producer: ProducerFactory) -> None:
    with pytest.raises(monedula.ArgumentError) as caught:
        producer(bootstrap_servers="127.0.0.1:1").send_batch(pyarrow.table({"Known": [1]}), "orders")
    expected = 'a record has no column "Known", only key, value, headers, topic, partition, timestamp. Drop it'
    assert str(caught.value).startswith(expected)
