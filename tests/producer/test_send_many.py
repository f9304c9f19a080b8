"""`send_many`: lists and generators of records, with one future for all; all of them are sent, or none."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import monedula
import pyarrow
import pytest
from monedula.testing import Broker

from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0

MIXED: list[Any] = [
    b"bytes",
    "text",
    None,
    ("key", b"with a key"),
    (b"key", None),
    (None, bytearray(b"an array")),
    ("key", "headers", {"a": b"1", "b": None}),
    ("key", "pairs", [("a", "1"), ("a", "2")]),
    ("key", "none", None),
]

STORED = [
    (None, b"bytes", None),
    (None, b"text", None),
    (None, None, None),
    (b"key", b"with a key", None),
    (b"key", None, None),
    (None, b"an array", None),
    (b"key", b"headers", [("a", b"1"), ("b", None)]),
    (b"key", b"pairs", [("a", b"1"), ("a", b"2")]),
    (b"key", b"none", None),
]


class Order(NamedTuple):
    """A value that is a tuple, too."""

    id: int
    user: str


def contents(ground: Ground, topic: str) -> list[tuple[Any, ...]]:
    return [(record.key, record.value, record.headers) for record in stored(ground.bootstrap, topic)]


@pytest.mark.parametrize("form", ["list", "tuple", "generator"])
def test_records_of_every_form_are_stored_in_their_order(ground: Ground, producer: ProducerFactory, form: str) -> None:
    topic = ground.topic()
    forms: dict[str, Any] = {"list": MIXED, "tuple": tuple(MIXED), "generator": (record for record in MIXED)}
    records = forms[form]
    report = producer().send_many(topic, records).result(PATIENCE)
    assert (report.num_rows, report.acknowledged) == (len(MIXED), len(MIXED))
    assert report.offsets == {(topic, 0): [(0, len(MIXED) - 1)]}
    assert contents(ground, topic) == STORED


def test_many_records_go_where_send_puts_them(ground: Ground, producer: ProducerFactory) -> None:
    many, one_by_one = ground.topic(5), ground.topic(5)
    pairs = [(f"key {number % 300}", f"value {number}") for number in range(20_000)]
    with producer(compression_type="lz4") as sender:
        future = sender.send_many(many, pairs)
        for key, value in pairs:
            sender.send(one_by_one, value, key=key)
        assert future.result(PATIENCE).acknowledged == len(pairs)

    def places(topic: str) -> list[tuple[Any, ...]]:
        return [(record.partition, record.key, record.value) for record in stored(ground.bootstrap, topic)]

    assert places(many) == places(one_by_one)
    assert len({partition for partition, *_ in places(many)}) == 5


async def test_the_loop_of_an_async_producer_goes_on(broker: Broker) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    async with monedula.AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as sender:
        sending = asyncio.create_task(sender.send_many("orders", MIXED))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not sending.done()
        fault.remove()
        report = await asyncio.wait_for(sending, PATIENCE)
        assert report.offsets == {("orders", 0): [(0, len(MIXED) - 1)]}


async def test_a_wait_that_is_cancelled_loses_nothing(broker: Broker) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    async with monedula.AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as sender:
        sending = asyncio.create_task(sender.send_many("orders", MIXED))
        async with asyncio.timeout(PATIENCE):
            while not fault.hits:
                await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        fault.remove()
    assert len(stored(broker.bootstrap_servers, "orders")) == len(MIXED)


@pytest.mark.parametrize("face", ["sync", "async"])
def test_values_are_encoded(ground: Ground, face: str) -> None:
    topic = ground.topic()
    records = [{"id": 1}, ("key", {"id": 2}), Order(3, "anna"), (None, (4, 5)), (None, None, {"a": "b"}), ["list"]]
    settings = {"bootstrap.servers": ground.bootstrap}

    async def send() -> monedula.BatchReport:
        async with monedula.AsyncProducer(settings, value=monedula.Json()) as sender:
            return await sender.send_many(topic, records)

    if face == "async":
        report = asyncio.run(send())
    else:
        with monedula.Producer(settings, value=monedula.Json()) as sender:
            report = sender.send_many(topic, records).result(PATIENCE)
    assert report.acknowledged == len(records)
    values = [None if value is None else json.loads(value) for _, value, _ in contents(ground, topic)]
    assert values == [{"id": 1}, {"id": 2}, {"id": 3, "user": "anna"}, [4, 5], None, ["list"]]


def test_values_are_written_by_a_schema(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
    sender = producer(value=monedula.Avro(schema, framing=None))
    with pytest.raises(monedula.ArgumentError) as refused:
        sender.send_many(topic, [{"id": 1}, {"id": "seven"}])
    assert any("records[1] of send_many()" in note for note in refused.value.__notes__)
    assert sender.send_many(topic, [{"id": 1}]).result(PATIENCE).offsets == {(topic, 0): [(0, 0)]}


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (7, "value=7 (int): expected bytes"),
        ((1, "value"), "key=1 (int): expected bytes"),
        (("key", "value", "headers"), "headers='headers'"),
        (("key",), "expected a value, (key, value) or (key, value, headers)"),
        (("key", "value", None, 1), "expected a value, (key, value) or (key, value, headers)"),
        ("\ud800", "cannot be written as UTF-8"),
    ],
)
def test_a_record_that_is_invalid_is_named_and_nothing_is_sent(
    ground: Ground, producer: ProducerFactory, record: Any, problem: str
) -> None:
    topic = ground.topic()
    sender = producer()
    with pytest.raises(monedula.ArgumentError) as refused:
        sender.send_many(topic, ["good", record, "good"])
    assert problem in str(refused.value)
    assert any("records[1] of send_many(); none of the records was sent" in note for note in refused.value.__notes__)
    sender.flush(PATIENCE)
    assert contents(ground, topic) == []


def test_of_an_iterator_that_fails_nothing_is_sent(ground: Ground, producer: ProducerFactory) -> None:
    def lines() -> Iterator[str]:
        yield "first"
        raise OSError("the file is gone")

    topic = ground.topic()
    sender = producer()
    with pytest.raises(OSError, match="the file is gone"):
        sender.send_many(topic, lines())
    sender.flush(PATIENCE)
    assert contents(ground, topic) == []


@pytest.mark.parametrize(
    ("records", "advice"),
    [
        (b"one", "send(topic, value)"),
        ("one", "send(topic, value)"),
        ({"a": 1}, "send(topic, value)"),
        (7, "send(topic, value)"),
        (pyarrow.table({"value": ["a"]}), "send_batch(data, topic)"),
    ],
)
def test_what_is_no_collection_of_records_is_refused(
    ground: Ground, producer: ProducerFactory, records: Any, advice: str
) -> None:
    with pytest.raises(monedula.ArgumentError) as refused:
        producer().send_many(ground.topic(), records)
    assert advice in str(refused.value)


def test_no_records_are_nothing_to_wait_for(ground: Ground, producer: ProducerFactory) -> None:
    report = producer().send_many(ground.topic(), []).result(PATIENCE)
    assert (report.num_rows, report.failed) == (0, 0)


def test_records_that_fail_are_numbered(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("denied")
    broker.fault(api="Produce", topic="denied", error="TOPIC_AUTHORIZATION_FAILED")
    future = producer().send_many("denied", ["a", "b"])
    with pytest.raises(monedula.errors.BatchSendError, match="2 of 2 rows were not delivered"):
        future.result(PATIENCE)
    assert [error.row for error in future.report().errors] == [0, 1]


def test_records_that_find_no_room_fail(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    sender = producer(buffer_memory=100_000, batch_size=10_000, max_request_size=50_000, max_block_ms=200)
    with broker.fault(api="Produce", hold=True):
        future = sender.send_many("orders", ["x" * 1000] * 500)
    report = future.report(PATIENCE)
    assert report.failed > 300
    assert report.acknowledged + report.failed == 500
    assert all(isinstance(error.error, monedula.errors.BufferFullError) for error in report.errors)


@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_function_chooses_the_partitions(ground: Ground, face: str) -> None:
    topic = ground.topic(3)

    def by_length(_: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        assert key is None
        return len(value or b"") % partitions

    async def send() -> None:
        async with monedula.AsyncProducer(bootstrap_servers=ground.bootstrap, partitioner=by_length) as sender:
            await sender.send_many(topic, ["", "a", "bb", "ccc"])

    if face == "async":
        asyncio.run(send())
    else:
        with monedula.Producer(bootstrap_servers=ground.bootstrap, partitioner=by_length) as sender:
            sender.send_many(topic, ["", "a", "bb", "ccc"])
    places = [(record.value, record.partition) for record in stored(ground.bootstrap, topic)]
    assert sorted(places) == [(b"", 0), (b"a", 1), (b"bb", 2), (b"ccc", 0)]


def test_records_belong_to_the_transaction(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    sender = producer(transactional_id=ground.name("transaction"))
    sender.init_transactions()
    sender.begin_transaction()
    sender.send_many(topic, ["aborted"] * 10)
    sender.abort_transaction()
    with sender.transaction():
        sender.send_many(topic, ["committed"] * 10)
    settings = {"bootstrap.servers": ground.bootstrap, "isolation.level": "read_committed"}
    records = [record.value for batch in monedula.read(settings, topic) for record in batch.records()]
    assert records == [b"committed"] * 10


def test_a_producer_that_is_closed_sends_none(ground: Ground, producer: ProducerFactory) -> None:
    sender = producer()
    sender.close()
    with pytest.raises(monedula.errors.ClosedError):
        sender.send_many(ground.topic(), ["a"])
