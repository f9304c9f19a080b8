"""Columns that have the names of those of Kafka's records: nothing of them is lost, or becomes something else."""

import datetime
from typing import Any

import duckdb
import pandas
import polars as pl
import pyarrow as pa
import pytest
from monedula import ArgumentError, Avro, Json
from monedula.testing import Broker, Registry

from tests.consumer.avro_values import field, record
from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0
NOON = datetime.datetime(2026, 11, 27, 12, 0, 0, 123456, tzinfo=datetime.UTC)
UNCLEAR: dict[str, list[Any]] = {
    "timestamp": [NOON],
    "offset": [7],
    "timestampType": ["a"],
    "topic": ["of mine"],
    "partition": [3],
    "headers": [[{"key": "a", "value": b"b"}]],
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_a_column_that_may_be_a_field_is_refused_where_no_schema_says_it(
    ground: Ground, producer: ProducerFactory, name: str
) -> None:
    topic, table = ground.topic(), pa.table({"id": [1], name: UNCLEAR[name]})
    with pytest.raises(ArgumentError, match=f'the column "{name}" has the name of one of Kafka\'s'):
        producer().send_batch(table, topic, value=Json())
    with pytest.raises(ArgumentError, match=f'the column "{name}" has the name of one of Kafka\'s'):
        producer().send_batch(table.append_column("value", [[1]]), topic, value=Json(flatten=True))
    assert stored(ground.bootstrap, topic) == []


def test_every_library_is_told(ground: Ground, producer: ProducerFactory) -> None:
    columns = {"id": [1], "offset": [7]}
    query = duckdb.connect().sql('SELECT 1 AS id, 7 AS "offset"')
    for table in (pandas.DataFrame(columns), pl.DataFrame(columns), query, pa.table(columns)):
        with pytest.raises(ArgumentError, match=r'"offset" .*one column "value" of structs; if not, .*Json\(schema\)'):
            producer().send_batch(table, ground.topic(), value=Json())


def test_fields_in_a_column_of_structs_may_have_any_names(ground: Ground, producer: ProducerFactory) -> None:
    topic, query = ground.topic(), duckdb.connect().sql('SELECT t AS value FROM (SELECT 1 AS id, 7 AS "offset") t')
    columns = {"id": [1], "offset": [7]}
    frame = pl.DataFrame(columns).select(pl.struct(pl.all()).alias("value"))
    for table in (query, frame, pa.table({"value": pa.table(columns).to_struct_array()})):
        producer().send_batch(table, topic, value=Json()).result(PATIENCE)
    assert [each.value for each in stored(ground.bootstrap, topic)] == [b'{"id":1,"offset":7}'] * 3


def test_a_schema_says_which_columns_are_the_records_own(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    table = pa.table({"id": [1], "key": ["k"], "timestamp": [NOON], "offset": [7], "headers": UNCLEAR["headers"]})
    for form in (Json("id bigint"), Avro(record(field("id", "long")))):
        producer().send_batch(table, topic, value=form).result(PATIENCE)
    one, two = stored(ground.bootstrap, topic)
    assert (one.value, two.value) == (b'{"id":1}', b"\x02")
    assert one.key == two.key == b"k"
    assert one.timestamp == two.timestamp == int(NOON.timestamp() * 1000)
    assert one.headers == two.headers == [("a", b"b")]


def test_keys_and_topics_are_the_records_own(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    table = pa.table({"id": [1], "key": ["k"], "topic": [topic]})
    producer().send_batch(table, value=Json()).result(PATIENCE)
    (found,) = stored(ground.bootstrap, topic)
    assert (found.key, found.value) == (b"k", b'{"id":1}')


def test_a_schema_that_is_registered_does_not_say_it_before(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("events", 1)
    with Registry() as registry:
        made = producer(bootstrap_servers=broker.bootstrap_servers, schema_registry_url=registry.url)
        with pytest.raises(ArgumentError, match='the column "offset" has the name of one'):
            made.send_batch(pa.table({"id": [1], "offset": [7]}), "events", value=Json(framing="confluent"))
        assert registry.ask("GET", "/subjects") == []


FRAME = pandas.DataFrame({"value": ["a", "b"]})
INDEXES = {
    "concat of a dict": pandas.concat({"x": FRAME, "y": FRAME}),
    "labels": FRAME.set_axis(["x", "y"]),
    "times": FRAME.set_axis(pandas.date_range("2026-01-01", periods=2)),
    "levels of numbers": FRAME.set_axis(pandas.MultiIndex.from_tuples([(1, 2), (3, 4)])),
}


@pytest.mark.parametrize("name", INDEXES)
def test_labels_of_pandas_that_would_be_lost_are_refused(ground: Ground, producer: ProducerFactory, name: str) -> None:
    frame, topic = INDEXES[name], ground.topic()
    for table, form in ((frame, None), (frame.rename(columns={"value": "id"}), Json())):
        with pytest.raises(ArgumentError, match=r'"__index_level_0__" is an index of pandas .*\.reset_index\(\) makes'):
            producer().send_batch(table, topic, value=form)
    producer().send_batch(frame.reset_index(drop=True), topic).result(PATIENCE)
    producer().send_batch(frame.rename(columns={"value": "id"}).reset_index(), topic, value=Json()).result(PATIENCE)
    assert len(stored(ground.bootstrap, topic)) == 2 * len(frame)


def test_numbers_of_rows_are_left_out(ground: Ground, producer: ProducerFactory) -> None:
    topic, frame = ground.topic(), pandas.DataFrame({"id": [1, 2, 3]})
    producer().send_batch(frame[frame["id"] > 1], topic, value=Json()).result(PATIENCE)
    assert [each.value for each in stored(ground.bootstrap, topic)] == [b'{"id":2}', b'{"id":3}']
