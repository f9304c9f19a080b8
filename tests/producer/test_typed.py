"""Typed tables: rows are written, and reading, and other clients, give the table back."""

import asyncio
import signal
import sys
import threading
from typing import Any

import confluent_kafka.schema_registry.avro as confluent
import monedula
import numpy
import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext
from monedula import ArgumentError, Avro, Json, Protobuf
from monedula.testing import Registry

from tests.consumer.avro_values import field, record
from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0
LINE = record(field("price", "double"), field("tags", {"type": "array", "items": "string"}), name="Line")
ORDER = record(
    field("id", "long"),
    field("user", ["null", "string"], default=None),
    field("lines", {"type": "array", "items": LINE}),
    field("extra", {"type": "map", "values": "int"}, default={}),
    name="Order",
)
USER = record(field("id", "long"), field("user", ["null", "string"]), name="User")
VALUE = pa.struct(
    [
        ("id", pa.int64()),
        ("user", pa.string()),
        ("lines", pa.list_(pa.struct([("price", pa.float64()), ("tags", pa.list_(pa.string()))]))),
        ("extra", pa.map_(pa.string(), pa.int32())),
    ]
)


def order(number: int) -> dict[str, Any]:
    lines = [{"price": number / 4, "tags": [f"t{number}"] * (number % 3)}] * (number % 4)
    return {"id": number, "user": None if number % 5 == 0 else f"u{number}", "lines": lines, "extra": {"n": number}}


def orders(count: int) -> pa.Table:
    # A record without a value among them.
    values = [None if number == 3 else order(number) for number in range(count)]
    return pa.table({"key": pa.array(range(count), pa.int32()), "value": pa.array(values, VALUE)})


def test_reading_gives_a_typed_table_back(ground: Ground, producer: ProducerFactory) -> None:
    topic, table = ground.topic(), orders(2000)
    key, value = Avro('"int"'), Avro(ORDER)
    report = producer().send_batch(table, topic, key=key, value=value).result(PATIENCE)
    assert (report.acknowledged, report.failed) == (2000, 0)
    with monedula.read({"bootstrap.servers": ground.bootstrap}, topic, key=key, value=value) as stream:
        back = pa.table(stream)
    assert back.select(["key", "value"]).to_pylist() == table.to_pylist()


def test_columns_of_their_own_come_back_as_they_were(ground: Ground, producer: ProducerFactory) -> None:
    topic, form = ground.topic(), Avro(ORDER, flatten=True)
    flat = pa.Table.from_pylist([order(number) for number in range(10)], pa.schema(VALUE))
    rows = flat.append_column("key", pa.array([b"k"] * 10)).append_column("partition", pa.array([0] * 10, pa.int32()))
    producer().send_batch(rows, topic, value=form).result(PATIENCE)
    with monedula.read({"bootstrap.servers": ground.bootstrap}, topic, value=form) as stream:
        back = pa.table(stream)
    assert back.select(["key", *flat.column_names]).to_pylist() == rows.drop(["partition"]).to_pylist()


PROTO = """
syntax = "proto3";
message Line { double price = 1; repeated string tags = 2; }
message Order { int64 id = 1; optional string user = 2; repeated Line lines = 3; map<string, int32> extra = 4; }
"""


@pytest.mark.parametrize("form", [Json(VALUE), Protobuf(PROTO, message="Order")], ids=["json", "protobuf"])
def test_reading_gives_a_table_back_that_is_written_in_another_format(
    ground: Ground, producer: ProducerFactory, form: Any
) -> None:
    topic, table = ground.topic(), orders(200).select(["value"])
    for value in (form, Json()) if isinstance(form, Json) else (form,):
        producer().send_batch(table, topic, value=value).result(PATIENCE)
        with monedula.read({"bootstrap.servers": ground.bootstrap}, topic, value=form) as stream:
            assert pa.table(stream)["value"].to_pylist()[-200:] == table["value"].to_pylist()


def test_no_row_is_sent_if_one_is_bad(ground: Ground, producer: ProducerFactory) -> None:
    topic, sender = ground.topic(), producer()
    chunks = [[order(1), order(2)], [order(3), {**order(4), "lines": None}]]
    rows: Any = pa.chunked_array([pa.array(chunk, VALUE) for chunk in chunks])
    with pytest.raises(ArgumentError, match=r"row 3: value\.lines: is null.*no row was sent"):
        sender.send_batch(pa.table({"value": rows}), topic, value=Avro(ORDER))
    sender.send_batch(pa.table({"value": rows[:3]}), topic, value=Avro(ORDER)).result(PATIENCE)
    assert len(stored(ground.bootstrap, topic)) == 3


class Stopped(Exception):
    """Raised by the handler of a signal."""


def test_a_signal_ends_the_writing_of_one_large_chunk(producer: ProducerFactory) -> None:
    def stop(_number: int, _frame: object) -> None:
        raise Stopped

    def is_writing() -> bool:
        frame = sys._current_frames().get(main)
        return frame is not None and frame.f_code.co_name == "_rows"

    def send_signal() -> None:
        while not (is_writing() or over.is_set()):
            pass
        signal.pthread_kill(main, signal.SIGUSR1)

    # The last row is bad, which is only found if all rows before it are written.
    table = pa.table({"id": pa.array(numpy.arange(8_000_000), mask=numpy.arange(8_000_000) == 7_999_999)})
    main, over, before = threading.get_ident(), threading.Event(), signal.signal(signal.SIGUSR1, stop)
    sending, sender = threading.Thread(target=send_signal), producer(bootstrap_servers="127.0.0.1:1")
    try:
        sending.start()
        with pytest.raises(Stopped) as raised:
            sender.send_batch(table, "never", value=Avro(record(field("id", "long"))))
    finally:
        over.set()
        sending.join()
        signal.signal(signal.SIGUSR1, before)
    # It was heard while rows were written, and not by the error of the last one while that was made.
    assert [each.name for each in raised.traceback][-2:] == ["_rows", "stop"]


def test_rows_of_a_large_chunk_have_their_numbers(producer: ProducerFactory) -> None:
    table = pa.table({"id": pa.array([*range(150_000), None, 0])})
    form = Avro(record(field("id", "long")))
    with pytest.raises(ArgumentError, match="row 150000: id: is null"):
        producer(bootstrap_servers="127.0.0.1:1").send_batch(table, "never", value=form)
    read = pa.table(form.spec.decode(form.spec.encode(table[:150_000]))).flatten()
    assert read["value.id"].to_pylist() == [*range(150_000)]


def test_a_table_without_rows_is_checked_and_sends_nothing(ground: Ground, producer: ProducerFactory) -> None:
    topic, sender = ground.topic(), producer()
    assert sender.send_batch(orders(5)[:0], topic, key=Avro("int"), value=Avro(ORDER)).result(PATIENCE).num_rows == 0
    with pytest.raises(ArgumentError, match="key: the column is of type Int32"):
        sender.send_batch(orders(5)[:0], topic, key=Avro('"string"'), value=Avro(ORDER))


class Broken:
    """A frame whose export fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise self.error


def test_a_frame_that_cannot_be_exported_is_a_bad_argument(ground: Ground, producer: ProducerFactory) -> None:
    sender = producer()
    for value in (None, Json()):
        with pytest.raises(
            ArgumentError, match="Broken does not export its data as Arrow: ValueError: no such"
        ) as told:
            sender.send_batch(Broken(ValueError("no such type")), ground.topic(), value=value)
        assert isinstance(told.value.__cause__, ValueError)
    for error in (KeyboardInterrupt(), MemoryError(), monedula.errors.ClosedError("closed")):
        with pytest.raises(type(error)):
            sender.send_batch(Broken(error), ground.topic())


@pytest.mark.parametrize("name", ["key", "value"])
def test_two_columns_of_one_name_are_refused(ground: Ground, producer: ProducerFactory, name: str) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=[name, name, "id"])
    given = {name: Avro("long")}
    with pytest.raises(ArgumentError, match=f'there are two columns "{name}"'):
        producer().send_batch(table, ground.topic(), **given)


def test_columns_of_polars_that_are_all_null_are_written(ground: Ground, producer: ProducerFactory) -> None:
    topic, sender = ground.topic(), producer()
    frame = pl.DataFrame({"key": [None], "id": [7], "user": [None], "tags": [[]], "more": [{"a": None}]})
    sender.send_batch(frame, topic, value=Json()).result(PATIENCE)
    sender.send_batch(frame.select("id", "user"), topic, value=Avro(USER)).result(PATIENCE)
    sender.send_batch(pl.DataFrame({"key": [None], "value": ["x"]}), topic).result(PATIENCE)
    records = stored(ground.bootstrap, topic)
    assert [(each.key, each.value) for each in records] == [
        (None, b'{"id":7,"tags":[],"more":{}}'),
        (None, b"\x0e\0"),
        (None, b"x"),
    ]


def test_an_asynchronous_producer_writes_too(ground: Ground) -> None:
    topic = ground.topic()

    async def send() -> None:
        async with monedula.AsyncProducer({"bootstrap.servers": ground.bootstrap}) as sender:
            await sender.send_batch(orders(5), topic, key=Avro("int"), value=Avro(ORDER))
            with pytest.raises(ArgumentError, match=r"row 0: key: .* is no double"):
                await sender.send_batch(pa.table({"key": [2**53 + 1]}), topic, key=Avro("double"))

    asyncio.run(send())
    assert len(stored(ground.bootstrap, topic)) == 5


def test_what_says_how_is_checked(producer: ProducerFactory) -> None:
    sender, given = producer(bootstrap_servers="127.0.0.1:1"), "t"
    with pytest.raises(ArgumentError, match=r"value='json': expected monedula"):
        sender.send_batch(orders(1), given, value="json")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"Json\(\) without a schema is for writing"):
        monedula.read({"bootstrap.servers": "127.0.0.1:1"}, given, value=Json())
    with pytest.raises(ArgumentError, match='key: the table has no column "key", which it says how to write'):
        sender.send_batch(orders(1).select(["value"]), given, key=Avro("int"), value=Avro(ORDER))


def test_confluents_deserializer_reads_it(ground: Ground, producer: ProducerFactory) -> None:
    topic, table = ground.topic(), orders(100)
    with Registry() as registry:
        number = registry.register(f"{topic}-value", ORDER)
        form = Avro(schemas={number: ORDER})
        producer().send_batch(table.select(["value"]), topic, value=form).result(PATIENCE)
        deserializer = confluent.AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
        context = SerializationContext(topic, MessageField.VALUE)
        read = [deserializer(record.value, context) for record in stored(ground.bootstrap, topic)]
    assert read == [None if number == 3 else order(number) for number in range(100)]
