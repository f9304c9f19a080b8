"""The schemas of typed tables at a registry: registered, looked up, or its newest; and what it says against them."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import confluent_kafka.schema_registry.avro as confluent
import monedula
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext
from monedula import ArgumentError, Avro
from monedula.errors import SchemaRegistryError

from tests.consumer.avro_values import field, record
from tests.consumer.schema_registry import Registry, serving
from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0
ORDER = record(field("id", "long"), field("user", "string", default="?", doc="who"), name="Order", namespace="shop")
TABLE = pa.table({"id": [1, 2], "user": ["a", "b"]})


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as registry:
        yield registry


def at(registry: Registry, **more: Any) -> dict[str, Any]:
    return {"schema_registry_url": registry.url, "schema_registry_retries_wait_ms": 1, **more}


def sent(producer: monedula.Producer, topic: str, schema: Any, table: pa.Table = TABLE) -> None:
    producer.send_batch(table, topic, value=Avro(schema)).result(PATIENCE)


def test_a_schema_is_registered_once_and_everyone_reads_the_values(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, other, sender = ground.topic(), ground.topic(), producer(**at(registry))
    rows = TABLE.append_column("key", pa.array(["k", "l"]))
    for _ in range(3):
        sender.send_batch(rows, topic, key=Avro('"string"'), value=Avro(ORDER)).result(PATIENCE)
    sent(sender, other, ORDER)
    assert list(registry.subjects) == [f"{topic}-key", f"{topic}-value", f"{other}-value"]
    assert [path for path in registry.posted if topic in path] == [
        f"/subjects/{topic}-key/versions",
        f"/subjects/{topic}-value/versions",
    ]
    deserializer = confluent.AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    context = SerializationContext(topic, MessageField.VALUE)
    read = [deserializer(record.value, context) for record in stored(ground.bootstrap, topic)]
    assert read == TABLE.to_pylist() * 3
    settings = {"bootstrap.servers": ground.bootstrap, "schema.registry.url": registry.url}
    with monedula.read(settings, topic, value=Avro(ORDER, flatten=True)) as stream:
        assert pa.table(stream).select(["id", "user"]).to_pylist() == TABLE.to_pylist() * 3


def test_one_schema_has_one_text(ground: Ground, producer: ProducerFactory, registry: Registry) -> None:
    topic = ground.topic()
    backwards = json.dumps(dict(reversed(ORDER.items())), indent=2)
    for schema in (ORDER, json.dumps(ORDER), backwards):
        sent(producer(**at(registry)), topic, schema)
    (kept,) = registry.texts
    assert json.loads(kept) == ORDER
    assert kept.startswith('{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id",')
    # As it stands in the serializer of another client.
    assert registry.subjects == {f"{topic}-value": [1]}


def test_without_registration_a_schema_is_looked_up(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, sender = ground.topic(), producer(**at(registry, auto_register_schemas=False))
    with pytest.raises(SchemaRegistryError, match=r"40401.*auto\.register\.schemas=false") as raised:
        sent(sender, topic, ORDER)
    assert raised.value.column == "value"
    sent(producer(**at(registry)), topic, ORDER)
    sent(sender, topic, ORDER)
    assert len(stored(ground.bootstrap, topic)) == 4
    assert registry.posted.count(f"/subjects/{topic}-value") == 2


def test_the_newest_version_is_written(ground: Ground, producer: ProducerFactory, registry: Registry) -> None:
    topic = ground.topic()
    newest = record(*ORDER["fields"], field("amount", "double", default=1.5), name="Order")
    registry.avro(f"{topic}-value", ORDER)
    number = registry.avro(f"{topic}-value", newest)
    sent(producer(**at(registry, use_latest_version=True)), topic, ORDER)
    assert registry.posted == []
    first = stored(ground.bootstrap, topic)[0].value
    assert first == b"\0" + number.to_bytes(4, "big") + b"\2\2a" + b"\0\0\0\0\0\0\xf8\x3f"


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("RecordNameStrategy", "shop.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "{}-shop.Order"),
    ],
)
def test_a_subject_may_be_made_of_the_records_name(
    ground: Ground, producer: ProducerFactory, registry: Registry, strategy: str, subject: str
) -> None:
    topic = ground.topic()
    sender = producer(**at(registry, value_subject_name_strategy=strategy, normalize_schemas=True))
    sent(sender, topic, ORDER)
    assert list(registry.subjects) == [subject.format(topic)]
    assert registry.queries[registry.posted[0]] == "normalize=true"
    with pytest.raises(ArgumentError, match=r"value\.subject\.name\.strategy makes a subject of a record's name"):
        sent(sender, topic, "int", pa.table({"value": [1]}))


def test_rows_with_topics_of_their_own_have_no_subject(producer: ProducerFactory, registry: Registry) -> None:
    sender = producer(**at(registry, bootstrap_servers="127.0.0.1:1"))
    table = TABLE.append_column("topic", pa.array(["a", "b"]))
    with pytest.raises(ArgumentError, match=r"give send_batch\(data, topic"):
        sender.send_batch(table, value=Avro(ORDER))


@pytest.mark.parametrize(
    ("table", "topic", "says"),
    [
        (pa.table({"id": ["x"], "user": ["a"]}), "t", "id: the column is of type Utf8"),
        (pa.table({"value": [{"id": 1, "user": "a"}], "other": [1]}), "t", 'a record has no column "other"'),
        (TABLE, "no name", '"no name" is no name for a topic'),
        (pa.table({"id": [1, 2, None], "user": ["a", "b", "c"]}), "t", "row 2: id: .*no row was sent"),
    ],
)
def test_the_schema_of_a_table_that_does_not_fit_is_not_registered(
    producer: ProducerFactory, registry: Registry, table: pa.Table, topic: str, says: str
) -> None:
    sender = producer(**at(registry, bootstrap_servers="127.0.0.1:1"))
    with pytest.raises(ArgumentError, match=says):
        sender.send_batch(table, topic, value=Avro(ORDER))
    assert registry.posted == []


def test_the_id_stands_before_each_value_of_each_chunk_and_not_before_nulls(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic = ground.topic()
    rows = [{"id": 1, "user": "a"}, None, {"id": 3, "user": ""}]
    value = pa.chunked_array([pa.array([row]) if row else pa.nulls(1, pa.struct(list(TABLE.schema))) for row in rows])
    table = pa.table({"key": pa.array([7, 8, 9]), "value": value, "partition": pa.array([0, 0, 0], pa.int32())})
    producer(**at(registry)).send_batch(table, topic, key=Avro("long"), value=Avro(ORDER)).result(PATIENCE)
    ids = {subject: versions[-1] for subject, versions in registry.subjects.items()}
    frames = {name: b"\0" + ids[f"{topic}-{name}"].to_bytes(4, "big") for name in ("key", "value")}
    found = [(record.key, record.value) for record in stored(ground.bootstrap, topic)]
    keys = [frames["key"] + bytes([2 * key]) for key in (7, 8, 9)]
    values = [frames["value"] + b"\x02\x02a", None, frames["value"] + b"\x06\0"]
    assert found == list(zip(keys, values, strict=True))


def test_a_producer_that_can_send_nothing_registers_nothing(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    closed = producer(**at(registry))
    closed.close()
    with pytest.raises(monedula.errors.ClosedError):
        closed.send_batch(TABLE, "t", value=Avro(ORDER))
    transactional = producer(**at(registry, transactional_id=ground.topic()))
    with pytest.raises(monedula.errors.TransactionError, match="sends in transactions only"):
        transactional.send_batch(TABLE, "t", value=Avro(ORDER))
    assert registry.posted == []


def test_rows_whose_schema_is_asked_for_are_of_the_transaction_that_they_were_sent_in(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, sender = ground.topic(), producer(**at(registry, transactional_id=ground.topic()))
    asked, answers = threading.Event(), threading.Event()

    def late_answer(_path: str) -> None:
        asked.set()
        assert answers.wait(PATIENCE)

    registry.instead = late_answer
    sender.init_transactions()
    sender.begin_transaction()
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(sent, sender, topic, ORDER)
        assert asked.wait(PATIENCE)
        sender.abort_transaction()
        sender.begin_transaction()
        answers.set()
        with pytest.raises(monedula.errors.TransactionError):
            late.result(PATIENCE)
    sent(sender, topic, ORDER)
    sender.commit_transaction()
    settings = {"bootstrap.servers": ground.bootstrap, "isolation.level": "read_committed"}
    with monedula.read(settings, topic) as stream:
        assert pa.table(stream).num_rows == 2


@contextmanager
def silent(registry: Registry) -> Iterator[threading.Event]:
    """A registry that does not answer; the event says that it was asked."""
    asked, answers = threading.Event(), threading.Event()

    def no_answer(_path: str) -> None:
        asked.set()
        assert answers.wait(PATIENCE * 2)

    registry.instead = no_answer
    try:
        yield asked
    finally:
        answers.set()


@pytest.mark.parametrize("form", [Avro(ORDER), Avro(subject="orders-value")], ids=["registered", "asked for"])
def test_a_cancelled_call_does_not_wait_for_the_registry(ground: Ground, registry: Registry, form: Avro) -> None:
    topic = ground.topic()
    settings = at(registry, bootstrap_servers=ground.bootstrap, schema_registry_request_timeout_ms=600_000)

    async def cancelled(asked: threading.Event) -> None:
        async with monedula.AsyncProducer(settings) as sender:
            sending = asyncio.create_task(sender.send_batch(TABLE, topic, value=form))
            assert await asyncio.to_thread(asked.wait, PATIENCE)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending

    with ThreadPoolExecutor(1) as pool, silent(registry) as asked:
        # The end of the loop waits for the threads that it has started.
        pool.submit(asyncio.run, cancelled(asked)).result(PATIENCE)
    assert stored(ground.bootstrap, topic) == []


@pytest.mark.parametrize("form", [Avro(ORDER), Avro(subject="orders-value")], ids=["registered", "asked for"])
def test_closing_ends_the_calls_of_other_threads_that_wait_for_the_registry(
    ground: Ground, producer: ProducerFactory, registry: Registry, form: Avro
) -> None:
    topic, sender = ground.topic(), producer(**at(registry, schema_registry_request_timeout_ms=600_000))
    with ThreadPoolExecutor(1) as pool, silent(registry) as asked:
        sending = pool.submit(sender.send_batch, TABLE, topic, value=form)
        assert asked.wait(PATIENCE)
        sender.close()
        with pytest.raises(monedula.errors.ClosedError, match="the producer is closed"):
            sending.result(PATIENCE)
    assert stored(ground.bootstrap, topic) == []


@pytest.mark.parametrize("form", [Avro(ORDER), Avro(subject="orders-value")], ids=["registered", "asked for"])
def test_closing_ends_the_calls_of_other_tasks_that_wait_for_the_registry(
    ground: Ground, registry: Registry, form: Avro
) -> None:
    topic = ground.topic()
    settings = at(registry, bootstrap_servers=ground.bootstrap, schema_registry_request_timeout_ms=600_000)

    async def closed(asked: threading.Event) -> None:
        sender = monedula.AsyncProducer(settings)
        sending = asyncio.create_task(sender.send_batch(TABLE, topic, value=form))
        assert await asyncio.to_thread(asked.wait, PATIENCE)
        await sender.close()
        with pytest.raises(monedula.errors.ClosedError, match="the producer is closed"):
            await asyncio.wait_for(sending, PATIENCE)

    with silent(registry) as asked:
        asyncio.run(closed(asked))
    assert stored(ground.bootstrap, topic) == []


def test_a_subject_that_is_given_is_that_of_the_schema(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, form = ground.topic(), Avro(ORDER, subject=":.eu:orders-value")
    producer(**at(registry)).send_batch(TABLE, topic, value=form).result(PATIENCE)
    assert list(registry.subjects) == [":.eu:orders-value"]


def test_an_incompatible_schema_is_told_with_the_registrys_reasons(
    producer: ProducerFactory, registry: Registry
) -> None:
    reasons = "Schema being registered is incompatible; details: [" + "{missing default}, " * 40 + "the last]"
    registry.instead = lambda _path: (409, json.dumps({"error_code": 409, "message": reasons}).encode())
    sender = producer(**at(registry, bootstrap_servers="127.0.0.1:1"))
    with pytest.raises(SchemaRegistryError) as raised:
        sender.send_batch(TABLE, "t", value=Avro(ORDER))
    message = str(raised.value)
    assert message.startswith("value: subject t-value: http://127.0.0.1:"), message
    assert message.endswith(f"answered 409: 409 {reasons}")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((422, b'{"error_code": 42201, "message": "Invalid schema"}'), "answered 422: 42201 Invalid schema"),
        ((503, b""), r"answered 503 \(attempts: 3"),
        ((200, b"{}"), "no id in it"),
        ((401, b""), "schema.registry.basic.auth.user.info"),
    ],
)
def test_a_registry_that_fails_sends_nothing(
    ground: Ground, producer: ProducerFactory, registry: Registry, answer: tuple[int, bytes], says: str
) -> None:
    topic, sender = ground.topic(), producer(**at(registry, schema_registry_max_retries=2))
    registry.instead = lambda _path: answer
    with pytest.raises(SchemaRegistryError, match=says):
        sent(sender, topic, ORDER)
    registry.instead = lambda _path: None
    sent(sender, topic, ORDER)
    assert len(stored(ground.bootstrap, topic)) == 2


def test_an_id_that_is_given_is_not_asked_for(ground: Ground, producer: ProducerFactory, registry: Registry) -> None:
    topic = ground.topic()
    producer(**at(registry)).send_batch(TABLE, topic, value=Avro(schemas={7: ORDER})).result(PATIENCE)
    assert registry.posted == []
    assert (stored(ground.bootstrap, topic)[0].value or b"")[:5] == b"\0\0\0\0\7"


def test_settings_that_contradict_each_other_are_refused(producer: ProducerFactory, registry: Registry) -> None:
    with pytest.raises(monedula.ConfigError, match=r"use\.latest\.version=true does not go with auto\.register"):
        producer(**at(registry, bootstrap_servers="x:1", use_latest_version=True, auto_register_schemas=True))
