"""Keys and values that are decoded into typed columns while they are read."""

import copy
import datetime
import json
import pickle
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula import Json
from monedula.testing import Broker

from tests.consumer.conftest import Opens
from tests.consumer.typed import SCHEMA, anything, bad, document, value_of


@pytest.fixture
def topic(empty_topic: str) -> str:
    return empty_topic


def test_a_value_is_a_struct_of_the_schemas_fields(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [document(number) for number in range(10)])
    reader = opens(topic, value=Json(SCHEMA))
    batch = reader.poll(timeout=20)
    table = pa.record_batch(batch)
    assert table.schema.field("value").type == pa.struct(list(SCHEMA))
    assert table.schema == pa.schema(reader.schema)
    expected = [{"id": number, "user": f"u{number}", "tags": ["t"] * (number % 3)} for number in range(10)]
    assert table["value"].to_pylist() == expected
    assert [record.value for record in batch.records()] == expected
    assert table["offset"].to_pylist() == list(range(10))
    table.validate(full=True)


def test_a_record_without_a_value_is_null(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [document(0), ("k", None), document(2)])
    batch = opens(topic, value=Json(SCHEMA)).poll(timeout=20)
    values = [record.value for record in batch.records()]
    assert values[1] is None
    assert [values[0]["id"], values[2]["id"]] == [0, 2]


def test_keys_are_decoded_beside_values(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [('{"id": 7}', document(1))])
    reader = opens(topic, key=Json(pa.schema({"id": pa.int32()})), value=Json(SCHEMA), columns=["key", "value"])
    (record,) = reader.poll(timeout=20).records()
    assert (record.key, record.value["id"], record.offset) == ({"id": 7}, 1, None)


def test_flattened_fields_are_columns(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [("k", document(1))])
    reader = opens(topic, value=Json(SCHEMA, flatten=True))
    assert reader.schema.names[:5] == ["key", "id", "user", "tags", "topic"]
    batch = reader.poll(timeout=20)
    assert pa.record_batch(batch)["user"].to_pylist() == ["u1"]
    (record,) = batch.records()
    assert record.value == {"id": 1, "user": "u1", "tags": ["t"]}
    assert record.key == b"k"


def test_every_type_has_a_value_in_python(broker: Broker, topic: str, opens: Opens) -> None:
    types: dict[str, pa.DataType] = {
        "boolean": pa.bool_(),
        "small": pa.int8(),
        "float": pa.float32(),
        "decimal": pa.decimal128(10, 2),
        "binary": pa.binary(),
        "date": pa.date32(),
        "time": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "map": pa.map_(pa.string(), pa.int64()),
        "items": pa.list_(pa.struct([("n", pa.int64())])),
    }
    value = {
        "boolean": True,
        "small": -7,
        "float": 1.5,
        "decimal": "12.30",
        "binary": "AAH/",
        "date": "2026-11-26",
        "time": "2026-11-26T12:00:00.5+01:00",
        "local": "2026-11-26 12:00:00",
        "map": {"a": 1},
        "items": [{"n": 1}, {"n": None}],
    }
    broker.append(topic, [json.dumps(value)])
    batch = opens(topic, value=Json(pa.schema(types))).poll(timeout=20)
    (record,) = batch.records()
    utc = datetime.UTC
    assert record.value == {
        **value,
        "decimal": Decimal("12.30"),
        "binary": b"\x00\x01\xff",
        "date": datetime.date(2026, 11, 26),
        "time": datetime.datetime(2026, 11, 26, 11, 0, 0, 500_000, tzinfo=utc),
        "local": datetime.datetime(2026, 11, 26, 12, 0, 0),
    }
    assert pickle.loads(pickle.dumps(record)).value == record.value
    assert copy.copy(record).value == record.value


def test_a_bad_value_stops_the_partition_and_a_seek_passes_it(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [document(0), document(1), bad(2), document(3)])
    reader = opens(topic, value=Json(SCHEMA))
    assert [record.offset for record in reader.poll(timeout=20).records()] == [0, 1]
    with pytest.raises(monedula.DecodeError) as raised:
        reader.poll(timeout=20)
    error = raised.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == (topic, 0, 2, 3)
    assert (error.column, error.path, error.retriable) == ("value", "tags[1]", False)
    assert reader.position((topic, 0)) == 2
    assert "the value cannot be decoded: tags[1]:" in str(error)
    assert pickle.loads(pickle.dumps(error)).path == "tags[1]"
    reader.seek((topic, 0), error.next_offset)
    assert [record.offset for record in reader.poll(timeout=20).records()] == [3]


def test_rows_that_were_given_back_come_before_the_error(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [*map(document, range(5)), bad(5), document(6)])
    reader = opens(topic, value=Json(SCHEMA))
    offsets: list[int] = []
    for record in reader.records(timeout=20):
        offsets.append(record.offset)
        if record.offset == 1:
            break
    with pytest.raises(monedula.DecodeError) as raised:
        offsets.extend(record.offset for record in reader.records(timeout=20))
    assert offsets == [0, 1, 2, 3, 4]
    assert reader.position((topic, 0)) == raised.value.offset == 5
    reader.seek((topic, 0), raised.value.next_offset)
    assert next(iter(reader.records(timeout=20))).offset == 6


def test_null_keeps_the_row_with_the_text(broker: Broker, topic: str, opens: Opens) -> None:
    schema = SCHEMA.append(pa.field("_corrupt_record", pa.string()))
    broker.append(topic, [document(0), '{"id":"x","user":"u1"}', "no json", document(3)])
    reader = opens(topic, value=Json(schema, mode="null"))
    values = [record.value for record in reader.poll(timeout=20).records()]
    assert [value["_corrupt_record"] for value in values] == [None, '{"id":"x","user":"u1"}', "no json", None]
    assert (values[1]["id"], values[1]["user"]) == (None, "u1")
    assert {values[2][name] for name in SCHEMA.names} == {None}
    assert reader.metrics()["records_with_nulls"] == 2


def test_drop_leaves_the_record_out_and_counts_it(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [bad(0), document(1), bad(2), document(3), bad(4)])
    reader = opens(topic, value=Json(SCHEMA, mode="drop"))
    batch = reader.poll(timeout=20)
    assert [record.value["id"] for record in batch.records()] == [1, 3]
    assert reader.metrics()["records_dropped"] == 3
    assert reader.position((topic, 0)) == 5


def test_a_topic_of_dropped_records_alone_is_passed(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [bad(number) for number in range(100)])
    reader = opens(topic, value=Json(SCHEMA, mode="drop"))
    assert list(reader.batches(timeout=20, until="latest")) == []
    assert (reader.metrics()["records_dropped"], reader.position((topic, 0))) == (100, 100)


def test_read_decodes_and_ends(broker: Broker, topic: str) -> None:
    broker.append(topic, [document(number) for number in range(1000)])
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with monedula.read(settings, topic, value=Json(SCHEMA, flatten=True), columns=["value", "offset"]) as stream:
        table = pa.table(stream)
    assert table.column_names == ["id", "user", "tags", "offset"]
    assert table["id"].to_pylist() == table["offset"].to_pylist() == list(range(1000))
    with monedula.read_range(settings, topic, 0, 5, 7, value=Json(SCHEMA)) as stream:
        assert [value_of(record)["id"] for batch in stream for record in batch.records()] == [5, 6]


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "amount", "type": "double"},
    ],
}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string user = 2; double amount = 3; }'


@pytest.mark.parametrize(
    ("form", "encoded"),
    [
        (Json("id bigint, user string, amount double", flatten=True), b'{"id": 7, "user": "u", "amount": 1.5}'),
        (monedula.Avro(AVRO, flatten=True), b"\x0e\x02u" + struct.pack("<d", 1.5)),
        (monedula.Protobuf(PROTO, flatten=True), b"\x08\x07\x12\x01u\x19" + struct.pack("<d", 1.5)),
    ],
    ids=["json", "avro", "protobuf"],
)
def test_a_read_selects_fields_of_flattened_values(broker: Broker, topic: str, form: Any, encoded: bytes) -> None:
    broker.append(topic, [encoded] * 3)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    for columns, names in (
        (["amount"], ["amount"]),
        (["offset", "amount", "id"], ["id", "amount", "offset"]),
        (["amount", "value"], ["id", "user", "amount"]),
    ):
        with monedula.read(settings, topic, columns=columns, value=form) as stream:
            assert stream.schema.names == names
            table = pa.table(stream)
        assert table.column_names == names
        assert table["amount"].to_pylist() == [1.5] * 3
    frame = monedula.scan(settings, topic, value=form).select("amount").collect()
    with monedula.read(settings, topic, columns=["amount"], value=form) as stream:
        assert stream.to_polars().equals(frame)
    with monedula.read(settings, topic, columns=["amount"], value=form, where=("offset", ">=", 1)) as stream:
        (batch,) = stream
        assert [value_of(record) for record in batch.records()] == [{"amount": 1.5}] * 2
    with monedula.read_range(settings, topic, 0, 0, 1, columns=["user"], value=form) as stream:
        assert pa.table(stream).to_pydict() == {"user": ["u"]}
    with pytest.raises(monedula.ArgumentError, match="amounts"):
        monedula.read(settings, topic, columns=["amount", "amounts"], value=form)


ODD_AVRO = {"type": "record", "name": "R", "fields": [{"name": "a: b", "type": "int"}, {"name": "b", "type": "int"}]}


@pytest.mark.parametrize(
    ("form", "encoded"),
    [
        (Json(pa.schema({"a: b": pa.int32(), "b": pa.int32()}), flatten=True), b'{"a: b": 7, "b": 8}'),
        (monedula.Avro(ODD_AVRO, flatten=True), b"\x0e\x10"),
    ],
    ids=["json", "avro"],
)
def test_the_name_of_a_field_may_have_any_characters(broker: Broker, topic: str, form: Any, encoded: bytes) -> None:
    broker.append(topic, [encoded])
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with monedula.read(settings, topic, columns=["a: b"], value=form) as stream:
        assert pa.table(stream).to_pydict() == {"a: b": [7]}
    with pytest.raises(monedula.ArgumentError, match=r"there is no column 'a'; the columns are .*headers, a: b, b"):
        monedula.read(settings, topic, columns=["a"], value=form)


@pytest.mark.parametrize("of", ["read", "dataset"])
@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("amoun", "amount"), ("Amount", "amount"), ("USER", "user"), ("offst", "offset"), ("xyz", None)],
)
def test_a_column_that_is_misspelt_is_told_with_the_nearest_one(of: str, wrong: str, meant: str | None) -> None:
    form = Json("id bigint, user string, amount double", flatten=True)
    reads: dict[str, Callable[[], object]] = {
        "read": lambda: monedula.read(_settings(), "t", columns=["offset", wrong], value=form),
        "dataset": lambda: monedula.dataset(_settings(), "t", value=form).to_table(columns=[wrong]),
    }
    with pytest.raises(monedula.ArgumentError) as raised:
        reads[of]()
    told = str(raised.value)
    assert f"there is no column {wrong!r}; the columns are key, " in told
    assert "id, user, amount" in told
    assert told.endswith(f"did you mean {meant!r}?") if meant else "did you mean" not in told


def test_a_field_of_a_struct_is_known_whatever_its_name() -> None:
    form = Json(pa.schema({"a: b": pa.int32()}))
    with pytest.raises(monedula.ArgumentError, match="'a: b' is a field of value"):
        monedula.Consumer(_settings(), columns=["a: b"], value=form)
    with pytest.raises(monedula.ArgumentError, match='unknown column "int32"'):
        monedula.Consumer(_settings(), columns=["int32"], value=monedula.Avro('"int"'))


@pytest.mark.parametrize(("mode", "amounts"), [("null", [1.5, 2.5, None]), ("drop", [1.5])])
def test_which_records_are_dropped_does_not_depend_on_the_fields_that_are_selected(
    broker: Broker, topic: str, mode: Any, amounts: list[float | None]
) -> None:
    broker.append(topic, ['{"id": 1, "amount": 1.5}', '{"id": "x", "amount": 2.5}', "no json"])
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    form = Json("id bigint, amount double", flatten=True, mode=mode)
    with monedula.read(settings, topic, columns=["amount"], value=form) as stream:
        assert pa.table(stream).to_pydict() == {"amount": amounts}


def test_a_read_that_meets_a_bad_value_says_where_to_go_on(broker: Broker, topic: str) -> None:
    broker.append(topic, [document(0), bad(1)])
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with (
        pytest.raises(monedula.DecodeError, match="A read that starts at 2 goes on behind it") as raised,
        monedula.read(settings, topic, value=Json(SCHEMA)) as stream,
    ):
        list(stream)
    modes = 'With mode="null" such records are kept with nulls, with mode="drop" left out'
    assert raised.value.hint == f"{modes}. A read that starts at 2 goes on behind it"
    assert str(raised.value).endswith(f". {raised.value.hint}")


def test_a_consumer_that_meets_a_bad_value_names_the_modes_before_the_next_record(broker: Broker, topic: str) -> None:
    broker.append(topic, [bad(0)])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
    with monedula.Consumer(settings, value=Json(SCHEMA)) as consumer:
        consumer.assign(topic)
        with pytest.raises(monedula.DecodeError) as raised:
            consumer.poll(timeout=10)
    modes = 'With mode="null" such records are kept with nulls, with mode="drop" left out, with dead_letter= '
    assert raised.value.hint == f"{modes}written to a topic. Seek past it to go on"
    assert str(raised.value).endswith(f". {raised.value.hint}")


def test_a_read_that_has_stopped_at_a_bad_value_says_so_again(broker: Broker, topic: str) -> None:
    two = f"{topic}-2"
    broker.create_topic(two, 2)
    broker.append(two, [document(0), bad(1)], partition=0)
    broker.append(two, [document(0)] * 3, partition=1)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    rows, errors = 0, list[Any]()
    with monedula.read(settings, two, value=Json(SCHEMA)) as stream:
        while len(errors) < 3:
            try:
                rows += len(next(stream))
            except monedula.DecodeError as error:
                errors.append((error.partition, error.offset))
    assert (rows, set(errors)) == (4, {(0, 1)})


def test_options_of_from_json_and_a_schema_as_ddl(broker: Broker, topic: str) -> None:
    broker.append(topic, ['{at:"26.11.2026 12:00"}'])
    options: dict[str, str | bool] = {
        "timestampFormat": "dd.MM.yyyy HH:mm",
        "timeZone": "+02:00",
        "allowUnquotedFieldNames": True,
    }
    form = pickle.loads(pickle.dumps(Json("at timestamp", options=options, flatten=True)))
    assert "options={'timestampFormat': 'dd.MM.yyyy HH:mm'" in repr(form)
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic, value=form) as stream:
        assert stream.to_pyarrow()["at"].cast(pa.int64()).to_pylist() == [1_795_687_200_000_000]


def test_rows_come_out_of_envelopes_of_debezium(broker: Broker, topic: str) -> None:
    envelope = '{"before":%s,"after":%s,"source":{"table":"orders"},"op":"%s","ts_ms":1700000000000}'
    changes = [envelope % ("null", '{"id":1}', "c"), envelope % ('{"id":1}', "null", "d")]
    broker.append(topic, [*changes, f'{{"schema":{{}},"payload":{changes[0]}}}'])
    form = Json("id bigint, __op string, __deleted boolean", options={"envelope": "debezium"}, flatten=True)
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic, value=form) as stream:
        table = stream.to_pyarrow().sort_by("offset").select(["id", "__op", "__deleted"])
    assert [tuple(row.values()) for row in table.to_pylist()] == [(1, "c", False), (1, "d", True), (1, "c", False)]


def _nothing() -> dict[str, Any]:
    return {"bootstrap_servers": "localhost:1"}


def _settings() -> dict[str, str]:
    return {"bootstrap.servers": "localhost:1"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Json(pa.schema({"a": pa.duration("s")})), "schema: field a: no values of type duration"),
        (lambda: Json("id bigint, a interval"), "interval"),
        (lambda: Json("id foo"), "field id: foo: there is no such type"),
        (lambda: Json(5), "a value of type int is no schema"),
        (lambda: Json(SCHEMA, options={"multiLine": True}), "option multiLine: is an option for files"),
        (lambda: Json(SCHEMA, options={"mode": "FAILFAST"}), "mode: it is an argument of its own"),
        (lambda: Json(SCHEMA, options={"dateFormat": anything(5)}), "dateFormat=5: expected a text, True or False"),
        (lambda: Json(SCHEMA, options=anything("timeZone")), "options='timeZone': expected names and values"),
        (lambda: Json(SCHEMA, options=anything({1: "UTC"})), "options={1: 'UTC'}: expected names and values"),
        (lambda: monedula.Avro('"string"', options=anything(5)), "options=5: expected names and values"),
        (lambda: Json(SCHEMA, mode=anything("nul")), "expected 'fail', 'null' or 'drop'"),
        (lambda: Json(SCHEMA, mode="drop", dead_letter="t"), "give one of them"),
        (lambda: Json(SCHEMA, flatten=anything(1)), "flatten=1: expected True or False"),
        (lambda: monedula.Avro('"string"', flatten=anything("no")), "flatten='no': expected True or False"),
        (lambda: monedula.Avro(flatten=anything(None)), "flatten=None: expected True or False"),
        (lambda: monedula.Protobuf(flatten=anything(1)), "flatten=1: expected True or False"),
        (lambda: monedula.Avro('"string"', references=anything(5)), "references=5: expected a list of schemas"),
        (lambda: monedula.Consumer(headers=anything(1), **_nothing()), "headers=1: expected True or False"),
        (lambda: monedula.AsyncConsumer(headers=anything(1), **_nothing()), "headers=1: expected True or False"),
        (lambda: monedula.read(_settings(), "t", headers=anything(1)), "headers=1: expected True or False"),
        (lambda: monedula.dataset(_settings(), "t", headers=anything(1)), "headers=1: expected True or False"),
        (lambda: Json(SCHEMA, dead_letter="no topic"), "no topic"),
        (lambda: Json(SCHEMA, corrupt_record="x"), "corrupt_record='x': it is for mode='null'"),
        (lambda: Json(SCHEMA, mode="null", corrupt_record="x"), "corrupt_record='x': the schema has no such field"),
        (lambda: Json("id int, _corrupt_record int", mode="null"), "the text of bad values is a string, not int32"),
        (lambda: Json(SCHEMA, mode=anything("PERMISSIVE")), "Spark's PERMISSIVE is 'null'"),
        (lambda: Json(""), "there is no field in it"),
        (lambda: monedula.Consumer(value=anything(json.loads), **_nothing()), "decode the column of bytes with it"),
        (lambda: monedula.Consumer(value=Json(SCHEMA), columns=["id"], **_nothing()), "'id' is a field of value"),
        (
            lambda: monedula.read({"bootstrap.servers": "localhost:1"}, "t", key=Json("id int"), columns=["key.id"]),
            "'key.id' is a field of key",
        ),
        (lambda: monedula.Consumer(value=anything("json"), **_nothing()), "expected monedula.Json"),
        (lambda: monedula.Consumer(value=Json(SCHEMA), columns=["offset"], **_nothing()), "columns leaves out value"),
        (lambda: monedula.Consumer(key=Json(SCHEMA, flatten=True), **_nothing()), "only the fields of values can be"),
        (
            lambda: monedula.Consumer(
                value=Json(pa.schema({"id": pa.int64(), "offset": pa.int64()}), flatten=True), **_nothing()
            ),
            'the field "offset" of value has the name of a column of Kafka\'s',
        ),
        (
            lambda: monedula.read({"bootstrap.servers": "localhost:1"}, "t", value=Json(SCHEMA, dead_letter="letters")),
            "dead letters are for consumers",
        ),
    ],
)
def test_a_mistake_is_said_at_once(make: Callable[[], object], message: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=message):
        make()


@pytest.mark.parametrize("kind", ["to_pyarrow", "to_pandas", "to_polars"])
def test_a_table_of_records_that_cannot_be_decoded_raises_the_error_of_the_read(
    broker: Broker, topic: str, kind: str
) -> None:
    broker.append(topic, [document(0), bad(1)])
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with monedula.read(settings, topic, value=Json(SCHEMA)) as stream, pytest.raises(monedula.DecodeError) as raised:
        getattr(stream, kind)()
    assert (raised.value.offset, raised.value.next_offset) == (1, 2)


@pytest.mark.parametrize("kind", ["to_pyarrow", "to_pandas", "to_polars"])
@pytest.mark.parametrize("rows", [0, 2])
def test_a_read_is_a_table_once(broker: Broker, topic: str, kind: str, rows: int) -> None:
    broker.append(topic, [document(number) for number in range(rows)])
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic, value=Json(SCHEMA)) as stream:
        assert len(getattr(stream, kind)()) == rows
        for again in ("to_pyarrow", "to_pandas", "to_polars"):
            with pytest.raises(monedula.ArgumentError, match="can be read once"):
                getattr(stream, again)()


@pytest.mark.parametrize("kind", ["to_pyarrow", "to_pandas", "to_polars"])
def test_an_empty_topic_is_a_table_of_all_columns(broker: Broker, topic: str, kind: str) -> None:
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic, value=Json(SCHEMA)) as stream:
        frame = getattr(stream, kind)()
    assert len(frame) == 0
    assert list(frame.column_names if kind == "to_pyarrow" else frame.columns) == stream.schema.names


def test_a_decoder_can_be_pickled_and_printed() -> None:
    made = pickle.loads(pickle.dumps(Json(SCHEMA, mode="null", flatten=True)))
    assert repr(made) == "Json(id: int64, user: utf8, tags: list(utf8), mode='null', flatten=True)"


def test_a_batch_ends_by_the_bytes_of_its_columns_not_of_its_json(broker: Broker, topic: str, opens: Opens) -> None:
    wide: list[Any] = [(f"n{index}", pa.int64()) for index in range(20)]
    fields: list[Any] = [("items", pa.list_(pa.struct(wide)))]
    text = '{"items":[' + ",".join(["{}"] * 30) + "]}"
    row_bytes, rows, limit = 30 * 20 * 8, 2_000, 1 << 20
    assert row_bytes > 45 * len(text)
    broker.append(topic, [text] * rows)
    reader = opens(topic, value=Json(pa.schema(fields)), columns=["value"])
    counts = []
    for batch in reader.batches(max_bytes=limit, until="latest"):
        counts.append(batch.num_rows)
        # The buffers' spare room, and the bits of nulls, are not counted.
        assert pa.record_batch(batch).get_total_buffer_size() <= 2 * limit
    assert sum(counts) == rows
    assert max(counts) <= limit // row_bytes
    assert len(counts) <= 2 * rows * row_bytes // limit


def test_a_record_that_is_larger_than_a_batch_as_columns_has_one_of_its_own(
    broker: Broker, topic: str, opens: Opens
) -> None:
    broker.append(topic, [document(0), json.dumps({"id": 1, "user": "x" * 5000}), document(2)])
    reader = opens(topic, value=Json(SCHEMA), columns=["value"])
    batches = list(reader.batches(max_bytes=1000, until="latest"))
    assert [[value_of(record)["id"] for record in batch.records()] for batch in batches] == [[0], [1], [2]]
