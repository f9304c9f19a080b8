"""Protobuf whose schemas a registry has: the reader's by subject, the writers' by the ids that values name."""

import base64
import json
import pickle
import threading
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula import Protobuf
from monedula.testing import Broker

from tests.consumer.schema_registry import Registry
from tests.consumer.test_schema_registry import settings
from tests.consumer.test_typed_protobuf import ORDERS, Order, framed, order, written

OLD = (
    'syntax = "proto3"; package t; message Order { int32 id = 1; optional string user = 2; repeated string tags = 3; }'
)
MOVED = OLD.replace("message Order", "message Header { int64 id = 1; } message Order")
OTHER_TYPE = OLD.replace("int32 id", "string id")
ITEM = 'syntax = "proto3"; package t; import "money.proto"; message Item { string name = 1; Money price = 2; }'
MONEY = 'syntax = "proto3"; package t; message Money { int64 units = 1; }'
CART = 'syntax = "proto3"; package t; import "item.proto"; message Cart { repeated Item items = 2; }'


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    broker.create_topic(name, 2)
    return name


def register(registry: Registry, subject: str, text: str, *references: tuple[str, str, int]) -> int:
    refers = [{"name": name, "subject": of, "version": version} for name, of, version in references]
    # A registry takes no schema whose imports it does not have.
    text = text.replace('import "a/that/is/not/given.proto";', "")
    schema: dict[str, Any] = {"schemaType": "PROTOBUF", "schema": text}
    return registry.register(subject, schema | ({"references": refers} if refers else {}))


def values(broker: Broker, registry: Registry, topic: str, value: Protobuf, **more: Any) -> list[Any]:
    with monedula.read(settings(broker, registry, **more), topic, value=value) as stream:
        found: list[Any] = stream.to_pyarrow()["value"].to_pylist()
    return found


def test_writers_schemas_are_asked_for_by_their_ids_and_say_which_message_it_is(
    broker: Broker, registry: Registry, topic: str
) -> None:
    numbers = [register(registry, "s", text) for text in (OLD, MOVED, ORDERS.text())]
    indexes = [b"\x00", b"\x02\x02", b"\x02\x00"]
    rows = [framed(numbers[n % 3], indexes[n % 3], written(n)) for n in range(60)]
    broker.append(topic, rows, partition=0)
    with monedula.Consumer(settings(broker, registry), value=Protobuf(Order)) as consumer:
        consumer.assign({(topic, 0): "earliest"})
        # A batch ends before the first record of a schema that is asked for.
        batches = [pa.record_batch(batch) for batch in consumer.batches(until="latest")]
        broker.append(topic, rows, partition=0)
        # Now all are known: many ids, one batch.
        again = pa.record_batch(consumer.poll(timeout=20))
    wanted = [order(n) for n in range(60)]
    assert pa.Table.from_batches(batches)["value"].to_pylist() == again["value"].to_pylist() == wanted
    assert sorted(registry.asked) == sorted(f"/schemas/ids/{number}" for number in numbers)


def test_without_a_schema_it_is_that_of_the_topics_subject(broker: Broker, registry: Registry, topic: str) -> None:
    number = register(registry, f"{topic}-value", OLD)
    broker.append(topic, [framed(number, b"\x00", written(n)) for n in range(3)], partition=0)
    assert values(broker, registry, topic, Protobuf()) == [order(n) for n in range(3)]
    value = Protobuf(message="t.Order", fields=["user", "id"], flatten=True)
    with monedula.read(settings(broker, registry), topic, value=pickle.loads(pickle.dumps(value))) as stream:
        rows = stream.to_pyarrow().select(["user", "id"]).to_pylist()
    assert rows == [{"user": order(n)["user"], "id": n} for n in range(3)]


def test_a_partition_that_waits_stops_no_other(broker: Broker, registry: Registry, topic: str) -> None:
    known, slow = register(registry, "s", OLD), register(registry, "s", MOVED)
    is_asked, may_answer = threading.Event(), threading.Event()

    def instead(path: str) -> None:
        if path == f"/schemas/ids/{slow}":
            is_asked.set()
            assert may_answer.wait(30)

    registry.instead = instead
    broker.append(topic, [framed(slow, b"\x02\x02", written(0))], partition=0)
    broker.append(topic, [framed(known, b"\x00", written(n)) for n in (1, 2)], partition=1)
    with monedula.Consumer(settings(broker, registry), value=Protobuf(Order)) as consumer:
        consumer.assign({(topic, 0): "earliest", (topic, 1): "earliest"})
        found: list[Any] = []
        while len(found) < 2:
            found += pa.record_batch(consumer.poll(timeout=20))["value"].to_pylist()
        assert found == [order(1), order(2)]
        assert is_asked.wait(30)
        may_answer.set()
        assert pa.record_batch(consumer.poll(timeout=20))["value"].to_pylist() == [order(0)]


@pytest.mark.parametrize(
    ("schema", "indexes", "why"),
    [
        (OTHER_TYPE, b"\x00", r"the schema of id 1 cannot be read: id: number 1 is string there, and int64 here"),
        (MOVED, b"\x00", r"names message \[0\], which in its schema is t\.Header; the column is of t\.Order"),
        (MONEY, b"\x00", r"the schema of id 1 cannot be read: there is no message t\.Order; there are t\.Money"),
        ("message {", b"\x00", r"the schema of id 1 cannot be read: schema\.proto: line 1"),
        (None, b"\x00", r"schema id 1 is a schema of type AVRO, where Protobuf is expected"),
    ],
)
def test_values_of_a_schema_that_cannot_be_read_are_bad(
    broker: Broker, registry: Registry, topic: str, schema: str | None, indexes: bytes, why: str
) -> None:
    is_taken = schema != "message {"
    number = registry.avro("s", "int") if schema is None else register(registry, "s", schema if is_taken else MOVED)
    if not is_taken:
        # No registry takes it, so it is answered in its place.
        bad = json.dumps({"schemaType": "PROTOBUF", "schema": schema}).encode()
        registry.instead = lambda path: (200, bad) if path == f"/schemas/ids/{number}" else None
    good = register(registry, "s", OLD)
    broker.append(topic, [framed(number, indexes, written(1)), framed(good, b"\x00", written(2))], partition=0)
    with pytest.raises(monedula.DecodeError, match=why) as caught:
        values(broker, registry, topic, Protobuf(Order))
    assert caught.value.offset == 0
    assert values(broker, registry, topic, Protobuf(Order, mode="drop")) == [order(2)]


def test_a_registry_that_fails_says_nothing_about_values(broker: Broker, registry: Registry, topic: str) -> None:
    number = register(registry, "s", OLD)
    broker.append(topic, [framed(number, b"\x00", written(1))], partition=0)
    registry.instead = lambda _: (500, b"{}")
    with pytest.raises(monedula.errors.SchemaRegistryError, match="answered 500"):
        values(broker, registry, topic, Protobuf(Order, mode="drop"), schema_registry_max_retries=0)


def test_the_reader_s_schema_is_a_version_of_a_subject_with_what_it_refers_to(
    broker: Broker, registry: Registry, topic: str
) -> None:
    register(registry, "money", MONEY)
    register(registry, "item", ITEM, ("money.proto", "money", 1))
    number = register(registry, "carts", CART, ("item.proto", "item", 1))
    body = bytes.fromhex("1208 0a0161 1203 08ac02".replace(" ", ""))
    broker.append(topic, [framed(number, b"\x00", body)], partition=0)
    cart = {"items": [{"name": "a", "price": {"units": 300}}]}
    assert values(broker, registry, topic, Protobuf(subject="carts")) == [cart]
    register(registry, "carts", CART.replace("}", "string note = 3; }"), ("item.proto", "item", 1))
    latest, first = Protobuf(subject="carts"), Protobuf(subject="carts", version=1, message="t.Cart")
    assert values(broker, registry, topic, latest) == [{**cart, "note": ""}]
    assert values(broker, registry, topic, first) == [cart]
    again = pickle.loads(pickle.dumps(first))
    assert repr(again) == repr(first) == "Protobuf(framing='confluent', subject='carts', version=1)"
    assert values(broker, registry, topic, again) == [cart]


def test_a_registry_may_have_descriptors(broker: Broker, registry: Registry, topic: str) -> None:
    """As Confluent's serializer for Python registers them; not every registry makes text of them."""
    number = register(registry, "s", base64.b64encode(ORDERS.proto.SerializeToString()).decode())
    broker.append(topic, [framed(number, b"\x00", written(1))], partition=0)
    for value in (Protobuf(Order), Protobuf(subject="s", message="t.Order")):
        assert values(broker, registry, topic, value) == [order(1)]


def test_ids_of_a_context_are_asked_for_in_it(broker: Broker, registry: Registry, topic: str) -> None:
    number = register(registry, ":.eu:s", OLD)
    broker.append(topic, [framed(number, b"\x00", written(1))], partition=0)
    for value in (Protobuf(subject=":.eu:s"), Protobuf(Order, subject=":.eu:s")):
        assert values(broker, registry, topic, value) == [order(1)]
        assert registry.queries[f"/schemas/ids/{number}"] == "subject=%3A.eu%3As"


def test_a_subject_that_cannot_be_had_is_an_error_where_the_consumer_is_made(
    broker: Broker, registry: Registry
) -> None:
    with pytest.raises(monedula.errors.SchemaRegistryError, match=r"latest version of subject none: .*40401"):
        monedula.Consumer(settings(broker, registry), value=Protobuf(subject="none"))
    registry.avro("avro", "int")
    with pytest.raises(
        monedula.errors.SchemaRegistryError, match="is a schema of type AVRO, where Protobuf is expected"
    ):
        monedula.Consumer(settings(broker, registry), value=Protobuf(subject="avro"))
    register(registry, "two", MOVED)
    with pytest.raises(monedula.ArgumentError, match=r"several messages; give message=, one of t\.Header, t\.Order"):
        monedula.Consumer(settings(broker, registry), value=Protobuf(subject="two"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"framing": "bare"}, "or subject="),
        ({"schemas": {7: OLD}}, "or subject="),
        ({"subject": ""}, "expected the name of a subject"),
        ({"version": 1}, "version: it is that of a subject"),
        ({"subject": "s", "version": 1, "schema": OLD}, "version: schema says another thing"),
        ({"subject": "s", "framing": "bare"}, "subject is for framing='confluent'"),
    ],
)
def test_what_contradicts_a_subject_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=message):
        Protobuf(**arguments)


def test_schemas_by_id_are_compared_when_they_are_given() -> None:
    with pytest.raises(
        monedula.ArgumentError, match=r"the schema of id 7 cannot be read: id: number 1 is string there"
    ):
        Protobuf(Order, schemas={7: OTHER_TYPE})
