"""Avro whose writers' schemas are asked for at a registry, by the ids that values name."""

import io
import json
import threading
from typing import Any

import confluent_kafka.schema_registry.avro as confluent
import fastavro
import monedula
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext
from monedula import Avro
from monedula.testing import Broker

from tests.consumer.schema_registry import Registry, serving

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "user", "type": ["null", "string"], "default": None}],
}
NEWER: dict[str, Any] = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "amount", "type": "double", "default": 1.5}],
}


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    broker.create_topic(name, 2)
    return name


def settings(broker: Broker, registry: Registry, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "schema.registry.url": registry.url,
        "schema.registry.retries.wait.ms": 1,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def framed(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\x00" + number.to_bytes(4, "big") + out.getvalue()


def order(number: int) -> dict[str, Any]:
    return {"id": number, "user": f"u{number}"}


def ids(batch: Any) -> list[int]:
    return ids_of(pa.record_batch(batch))


def ids_of(rows: Any) -> list[int]:
    return [row["id"] for row in rows["value"].to_pylist()]


def test_what_confluents_serializer_registers_is_decoded_by_id(broker: Broker, registry: Registry, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    context = SerializationContext(topic, MessageField.VALUE)
    key = confluent.AvroSerializer(client, json.dumps("string"))
    key_context = SerializationContext(topic, MessageField.KEY)
    writers = [confluent.AvroSerializer(client, json.dumps(schema)) for schema in (ORDER, NEWER)]
    values = [
        (key(f"k{number}", key_context), writers[number % 2]({**order(number), "amount": number / 4}, context))
        for number in range(100)
    ]
    broker.append(topic, values, partition=0)
    registry.asked.clear()
    key_of, value_of = Avro('"string"'), Avro(NEWER, flatten=True)
    with monedula.Consumer(settings(broker, registry), key=key_of, value=value_of) as consumer:
        consumer.assign({(topic, 0): "earliest"})
        # A batch ends before the first record of a schema that is asked for.
        batches: list[Any] = []
        while sum(batch.num_rows for batch in batches) < 100:
            batches.append(pa.record_batch(consumer.poll(timeout=20)))
        rows = pa.Table.from_batches(batches)
        broker.append(topic, values, partition=0)
        # Now all are known: many ids, one batch.
        again = pa.record_batch(consumer.poll(timeout=20))
    deserializer = confluent.AvroDeserializer(client, json.dumps(NEWER))
    expected = [deserializer(value, context) for _, value in values]
    assert rows.select(["id", "user", "amount"]).to_pylist() == expected
    assert again.select(["id", "user", "amount"]).to_pylist() == expected
    assert rows["key"].to_pylist() == [f"k{number}" for number in range(100)]
    asked = [path for path in registry.asked if path.startswith("/schemas/ids/")]
    assert len(set(asked)) == 3
    # The deserializer of the comparison asks as well, but for the keys.
    assert all(asked.count(path) <= 2 for path in set(asked))


def test_a_bounded_read_asks_too(broker: Broker, registry: Registry, topic: str) -> None:
    numbers = [registry.avro(f"s{index}", {**ORDER, "doc": str(index)}) for index in range(20)]
    broker.append(topic, [framed(number, ORDER, order(number)) for number in numbers], partition=0)
    with monedula.read(settings(broker, registry), topic, value=Avro(ORDER)) as stream:
        table = stream.to_pyarrow()
    assert sorted(ids_of(table)) == numbers
    assert sorted(registry.asked) == sorted(f"/schemas/ids/{number}" for number in numbers)


def test_a_partition_that_waits_stops_no_other(broker: Broker, registry: Registry, topic: str) -> None:
    known, slow = registry.avro("s", ORDER), registry.avro("s", NEWER)
    is_asked, may_answer = threading.Event(), threading.Event()

    def instead(path: str) -> None:
        if path == f"/schemas/ids/{slow}":
            is_asked.set()
            assert may_answer.wait(30)

    registry.instead = instead
    broker.append(
        topic, [framed(known, ORDER, order(0)), framed(slow, NEWER, {**order(1), "amount": 1.0})], partition=0
    )
    with monedula.Consumer(settings(broker, registry), value=Avro(ORDER)) as consumer:
        consumer.assign({(topic, 0): "earliest", (topic, 1): "earliest"})
        assert ids(consumer.poll(timeout=20)) == [0]
        # The walk of the partition, which asks, may come with the next call.
        assert consumer.poll(timeout=0.0).num_rows == 0
        broker.append(topic, [framed(known, ORDER, order(number)) for number in range(10, 20)], partition=1)
        seen: list[int] = []
        while len(seen) < 10:
            seen += ids(consumer.poll(timeout=20))
        assert seen == list(range(10, 20))
        assert is_asked.wait(20)
        assert consumer.position((topic, 0)) == 1
        may_answer.set()
        assert ids(consumer.poll(timeout=20)) == [1]
        assert consumer.position((topic, 0)) == 2


GARBAGE = b"<html>"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((500, b'{"error_code": 50001, "message": "the store is away"}'), "answered 500: 50001 the store is away"),
        ((429, b""), "answered 429"),
        ((401, b'{"error_code": 401, "message": "Unauthorized"}'), "schema.registry.basic.auth.user.info"),
        ((200, GARBAGE), "something else than JSON"),
        ((200, b"{}"), "no schema in it"),
        ((404, GARBAGE), "is schema.registry.url that of a registry?"),
        # What the web server within a registry says where the URL has a wrong path.
        ((404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'), "is schema.registry.url that of a registry?"),
        ((302, b""), "a redirect"),
        ((200, b'{"schema": "\\"int\\"", "ruleSet": {"domainRules": [{"name": "encrypt"}]}}'), "has rules (ruleSet)"),
    ],
)
def test_a_registry_that_fails_loses_nothing(
    broker: Broker, registry: Registry, topic: str, answer: tuple[int, bytes], says: str
) -> None:
    known, other = registry.avro("s", ORDER), registry.avro("s", NEWER)
    registry.instead = lambda path: answer if path.endswith(f"/{other}") else None
    broker.append(
        topic, [framed(known, ORDER, order(0)), framed(other, NEWER, {**order(1), "amount": 1.0})], partition=0
    )
    with monedula.Consumer(
        settings(broker, registry, schema_registry_max_retries=1), value=Avro(ORDER, mode="drop")
    ) as consumer:
        consumer.assign({(topic, 0): "earliest"})
        assert ids(consumer.poll(timeout=20)) == [0]
        for _ in range(2):
            with pytest.raises(monedula.errors.SchemaRegistryError) as caught:
                consumer.poll(timeout=20)
            error = caught.value
            assert says in str(error)
            assert (
                f"{registry.url}/schemas/ids/{other}" in error.reason
                or "ruleSet" in error.reason
                or "{}" in str(answer)
            )
            assert f"schema id {other}" in error.reason
            assert (error.topic, error.partition, error.offset, error.column) == (topic, 0, 1, "value")
            assert error.retriable
            assert consumer.position((topic, 0)) == 1
        registry.instead = lambda _path: None
        rows: list[int] = []
        while not rows:
            try:
                rows = ids(consumer.poll(timeout=20))
            except monedula.errors.SchemaRegistryError:
                continue  # a failure stands for a second
        assert rows == [1]


def test_an_unknown_id_is_a_bad_record_in_the_mode_that_was_asked_for(
    broker: Broker, registry: Registry, topic: str
) -> None:
    known = registry.avro("s", ORDER)
    broker.append(
        topic,
        [framed(known, ORDER, order(0)), framed(99, ORDER, order(1)), framed(known, ORDER, order(2))],
        partition=0,
    )
    with monedula.read(settings(broker, registry), topic, value=Avro(ORDER, mode="drop")) as stream:
        assert ids_of(stream.to_pyarrow()) == [0, 2]
    with (
        monedula.read(settings(broker, registry), topic, value=Avro(ORDER)) as stream,
        pytest.raises(monedula.DecodeError) as caught,
    ):
        stream.to_pyarrow()
    assert caught.value.reason == f"schema id 99: {registry.url}/schemas/ids/99 answered 404: 40403 Schema 99 not found"
    assert caught.value.offset == 1
    assert registry.asked.count("/schemas/ids/99") == 2  # once for each read


@pytest.mark.parametrize(
    ("registered", "says"),
    [
        ({"schema": '{"type": "record"}'}, "cannot be read"),
        ({"schema": json.dumps({**ORDER, "fields": [{"name": "id", "type": "string"}]})}, "cannot be read"),
        ({"schema": "syntax = 'proto3';", "schemaType": "PROTOBUF"}, "of type PROTOBUF, where Avro is expected"),
    ],
)
def test_a_schema_that_the_readers_cannot_read_is_told(
    broker: Broker, registry: Registry, topic: str, registered: dict[str, Any], says: str
) -> None:
    # No registry takes some of these, so it is answered in its place.
    registry.instead = lambda _path: (200, json.dumps(registered).encode())
    broker.append(topic, [framed(1, ORDER, order(0))], partition=0)
    with (
        monedula.read(settings(broker, registry), topic, value=Avro(ORDER)) as stream,
        pytest.raises(monedula.DecodeError, match=says),
    ):
        stream.to_pyarrow()


def test_references_are_looked_up_whatever_their_subjects_are_called(
    broker: Broker, registry: Registry, topic: str
) -> None:
    inner = {"type": "record", "name": "Item", "namespace": "a", "fields": [{"name": "n", "type": "int"}]}
    middle = {"type": "record", "name": "Line", "namespace": "a", "fields": [{"name": "item", "type": "a.Item"}]}
    outer = {
        "type": "record",
        "name": "Bill",
        "fields": [{"name": "line", "type": "a.Line"}, {"name": "item", "type": "a.Item"}],
    }
    registry.avro("an/odd subject", inner)
    registry.avro("lines", middle, ("a.Item", "an/odd subject", 1))
    number = registry.avro("bills", outer, ("a.Line", "lines", 1), ("a.Item", "an/odd subject", 1))
    whole = {
        **outer,
        "fields": [
            {"name": "line", "type": {**middle, "fields": [{"name": "item", "type": inner}]}},
            outer["fields"][1],
        ],
    }
    value = {"line": {"item": {"n": 1}}, "item": {"n": 2}}
    broker.append(topic, [framed(number, whole, value)], partition=0)
    with monedula.read(settings(broker, registry), topic, value=Avro(whole)) as stream:
        assert stream.to_pyarrow()["value"].to_pylist() == [value]
    assert registry.asked.count("/subjects/an%2Fodd%20subject/versions/1") == 1
    registry.delete("lines")
    with monedula.read(settings(broker, registry), topic, value=Avro(whole)) as stream:
        assert stream.to_pyarrow().num_rows == 1


@pytest.mark.parametrize(
    ("given", "header"),
    [
        (
            {"basic.auth.user.info": "me:se:cret", "basic.auth.credentials.source": "USER_INFO"},
            "Basic bWU6c2U6Y3JldA==",
        ),
        ({"schema.registry.bearer.auth.token": "abc"}, "Bearer abc"),
        ({}, "Basic bWU6cy90"),
    ],
    ids=["basic", "bearer", "url"],
)
def test_credentials_are_sent_and_shown_nowhere(
    broker: Broker, registry: Registry, topic: str, given: dict[str, str], header: str
) -> None:
    in_url = registry.url.replace("//", "//me:s%2Ft@")
    url = registry.url if given else in_url
    broker.append(topic, [framed(99, ORDER, order(0))], partition=0)
    with (
        monedula.read(
            {**settings(broker, registry), **given, "schema.registry.url": url}, topic, value=Avro(ORDER)
        ) as stream,
        pytest.raises(monedula.DecodeError) as caught,
    ):
        stream.to_pyarrow()
    assert registry.authorizations == [header]
    assert not any(secret in str(caught.value) for secret in ("cret", "abc", "s%2Ft"))


def test_urls_are_tried_in_their_order(broker: Broker, registry: Registry, topic: str) -> None:
    number = registry.avro("s", ORDER)
    broker.append(topic, [framed(number, ORDER, order(0))], partition=0)
    with serving() as gone:
        pass
    given = {**settings(broker, registry), "schema.registry.url": [gone.url, registry.url + "/"]}
    with monedula.read(given, topic, value=Avro(ORDER)) as stream:
        assert stream.to_pyarrow().num_rows == 1
    only_gone = {**given, "schema.registry.url": gone.url}
    with (
        monedula.read(only_gone, topic, value=Avro(ORDER)) as stream,
        pytest.raises(monedula.errors.SchemaRegistryError, match=r"attempts: 4.*check schema\.registry\.url"),
    ):
        stream.to_pyarrow()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"schema.registry.url": "localhost:8081"}, "is no URL"),
        ({"schema.registry.url": "http://me:pw@x", "basic.auth.user.info": "a:b"}, "give one of them"),
        ({"schema.registry.url": "http://me:secret/pw@x"}, r"%2F"),
        ({"schema.registry.url": "http://me:12/pw@x"}, r"%2F"),
        ({"schema.registry.url": "http://me:12#pw@x"}, r"%23"),
        ({"schema.registry.url": "http://x:secret"}, "a port that is no number"),
        ({"schema.registry.url": "http://x:99999/"}, "a port that is no number"),
        ({"schema.registry.url": "http://x/?token=secret"}, "has a query"),
        ({"schema.registry.url": "http://x", "basic.auth.user.info": "secret"}, "has no colon"),
        (
            {"schema.registry.url": "http://x", "basic.auth.user.info": "a:b", "bearer.auth.token": "t"},
            "give one of them",
        ),
        ({"schema.registry.url": "http://x", "schema.registry.bearer.auth.token": "a secret"}, "is no token"),
        ({"schema.registry.url": "https://x", "schema.registry.ssl.ca.location": "/nowhere"}, "/nowhere"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(broker: Broker, given: dict[str, str], says: str) -> None:
    with pytest.raises(monedula.ConfigError, match=says) as caught:
        monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers, **given})
    assert "secret" not in str(caught.value).replace("a text", "")
    assert "pw" not in str(caught.value)


def test_what_needs_a_registry_says_so(broker: Broker) -> None:
    without = {"bootstrap.servers": broker.bootstrap_servers}
    with pytest.raises(monedula.ArgumentError, match=r"schema\.registry\.url"):
        monedula.Consumer(without, value=Avro(ORDER, framing="confluent"))
    with pytest.raises(monedula.ArgumentError, match="also where a registry is asked"):
        Avro(framing="bare")
    for form in (Avro(), monedula.Protobuf(), Avro(framing="apicurio")):
        for make in (
            lambda form: monedula.Consumer({**without, "group.id": "g"}, topics=["orders"], value=form),
            lambda form: monedula.read(without, "orders", value=form),
            lambda form: monedula.scan(without, "orders", key=form),
        ):
            with pytest.raises(
                monedula.ArgumentError, match=r"no registry; give the schema, or the setting schema\.reg"
            ):
                make(form)


def test_bare_values_stay_bare_beside_a_registry(broker: Broker, registry: Registry, topic: str) -> None:
    number = registry.avro("s", ORDER)
    key = framed(0, "string", "k")[5:]
    broker.append(topic, [(key, framed(number, ORDER, order(0)))], partition=0)
    with monedula.read(
        settings(broker, registry), topic, key=Avro('"string"', framing="bare"), value=Avro(ORDER)
    ) as stream:
        assert stream.to_pyarrow().select(["key", "value"]).to_pylist() == [{"key": "k", "value": order(0)}]


def test_a_seek_goes_on_while_a_schema_is_awaited(broker: Broker, registry: Registry, topic: str) -> None:
    known, slow = registry.avro("s", ORDER), registry.avro("s", NEWER)
    is_asked, may_answer = threading.Event(), threading.Event()

    def instead(path: str) -> None:
        if path == f"/schemas/ids/{slow}":
            is_asked.set()
            assert may_answer.wait(30)

    registry.instead = instead
    newer = framed(slow, NEWER, {**order(0), "amount": 1.0})
    broker.append(topic, [newer, framed(known, ORDER, order(1)), newer], partition=0)
    with monedula.Consumer(settings(broker, registry), value=Avro(ORDER)) as consumer:
        consumer.assign({(topic, 0): "earliest"})
        while not is_asked.is_set():
            assert consumer.poll(timeout=0.05).num_rows == 0
        consumer.seek((topic, 0), 1)
        assert ids(consumer.poll(timeout=20)) == [1]
        may_answer.set()
        assert ids(consumer.poll(timeout=20)) == [0]
        consumer.seek((topic, 0), 0)
        assert ids(consumer.poll(timeout=20)) == [0, 1, 0]


def test_an_error_that_a_seek_leaves_behind_is_not_raised(broker: Broker, registry: Registry, topic: str) -> None:
    known, other = registry.avro("s", ORDER), registry.avro("s", NEWER)
    registry.instead = lambda path: (500, b"") if path.endswith(f"/{other}") else None
    rows = [framed(known, ORDER, order(0)), framed(other, NEWER, {**order(1), "amount": 1.0})]
    broker.append(topic, [*rows, framed(known, ORDER, order(2))], partition=0)
    given = settings(broker, registry, schema_registry_max_retries=0, group_id=topic)
    with monedula.Consumer(given, value=Avro(ORDER)) as consumer:
        consumer.assign({(topic, 0): "earliest"})
        assert ids(consumer.poll(timeout=20)) == [0]
        with pytest.raises(monedula.errors.SchemaRegistryError) as caught:
            consumer.poll(timeout=20)
        consumer.seek((topic, 0), caught.value.next_offset or 0)
        assert ids(consumer.poll(timeout=20)) == [2]


def test_an_error_is_raised_once_each_time_that_the_registry_was_asked(
    broker: Broker, registry: Registry, topic: str
) -> None:
    number = registry.avro("s", ORDER)
    registry.instead = lambda _path: (500, b"")
    broker.append(topic, [framed(number, ORDER, order(1))], partition=0)
    with monedula.Consumer(settings(broker, registry, schema_registry_max_retries=0), value=Avro(ORDER)) as consumer:
        consumer.assign({(topic, 0): "earliest"})
        for times in (1, 2):
            with pytest.raises(monedula.errors.SchemaRegistryError):
                consumer.poll(timeout=20)
            assert len(registry.asked) == times
        registry.instead = lambda _path: None
        assert ids(consumer.poll(timeout=20)) == [1]


def test_an_error_says_that_a_proxy_of_the_environment_was_asked(
    broker: Broker, registry: Registry, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = registry.avro("s", ORDER)
    broker.append(topic, [framed(number, ORDER, order(0))], partition=0)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", "http://me:hush@127.0.0.1:1")
    given = settings(broker, registry, schema_registry_max_retries=0)
    with (
        monedula.read(given, topic, value=Avro(ORDER)) as stream,
        pytest.raises(monedula.errors.SchemaRegistryError, match="the environment names a proxy") as caught,
    ):
        stream.to_pyarrow()
    assert "hush" not in str(caught.value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with monedula.read(given, topic, value=Avro(ORDER)) as stream:
        assert stream.to_pyarrow().num_rows == 1


def test_closing_waits_for_no_answer(broker: Broker, registry: Registry, topic: str) -> None:
    number = registry.avro("s", ORDER)
    is_asked, may_answer = threading.Event(), threading.Event()

    def instead(path: str) -> None:
        is_asked.set()
        assert may_answer.wait(30), path

    registry.instead = instead
    broker.append(topic, [framed(number, ORDER, order(0))], partition=0)
    consumer = monedula.Consumer(settings(broker, registry), value=Avro(ORDER))
    consumer.assign({(topic, 0): "earliest"})
    while not is_asked.is_set():
        assert consumer.poll(timeout=0.05).num_rows == 0
    consumer.close()
    may_answer.set()
