"""The reader's schema of Avro as a version of a subject, and `SchemaRegistry`."""

import pickle
import re
import socket
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula import Avro, SchemaRegistry
from monedula.testing import Broker

from tests.consumer.schema_registry import Registry
from tests.consumer.test_schema_registry import NEWER, ORDER, framed, order, settings


def produce(broker: Broker, topic: str, values: list[bytes]) -> None:
    broker.create_topic(topic, 1)
    with monedula.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for value in values:
            producer.send(topic, value)


def test_the_latest_version_of_a_subject_is_the_readers_schema(broker: Broker, registry: Registry) -> None:
    first, second = registry.avro("a/b ü", ORDER), registry.avro("a/b ü", NEWER)
    produce(broker, "latest", [framed(first, ORDER, order(1)), framed(second, NEWER, {**order(2), "amount": 2.0})])
    with monedula.Consumer(settings(broker, registry), value=Avro(subject="a/b ü")) as consumer:
        # A version that comes later changes no column of this one.
        registry.avro("a/b ü", {**NEWER, "fields": NEWER["fields"][:1]})
        consumer.assign({("latest", 0): "earliest"})
        batches = [pa.record_batch(batch) for batch in consumer.batches(until="latest")]
    found = pa.Table.from_batches(batches)["value"].to_pylist()
    assert found == [{**order(1), "amount": 1.5}, {**order(2), "amount": 2.0}]
    assert registry.asked.count("/subjects/a%2Fb%20%C3%BC/versions/latest") == 1


def test_a_version_of_a_subject_is_the_readers_schema_also_in_scans(broker: Broker, registry: Registry) -> None:
    registry.avro("s", ORDER)
    newer = registry.avro("s", NEWER)
    produce(broker, "version", [framed(newer, NEWER, {**order(2), "amount": 2.0})])
    value = Avro(subject="s", version=1, flatten=True)
    frame = monedula.scan(settings(broker, registry), "version", value=value)
    assert frame.select("id", "user").collect().to_dicts() == [order(2)]


def test_the_schema_of_a_subject_may_refer_to_others(broker: Broker, registry: Registry) -> None:
    registry.avro("order", ORDER)
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "of", "type": "Order"}]}
    number = registry.avro("outer", outer, ("Order", "order", 1))
    whole = {"type": "record", "name": "Outer", "fields": [{"name": "of", "type": ORDER}]}
    produce(broker, "refers", [framed(number, whole, {"of": order(1)})])
    with monedula.read(settings(broker, registry), "refers", value=Avro(subject="outer")) as stream:
        assert pa.table(stream)["value"].to_pylist() == [{"of": order(1)}]


def test_ids_of_a_context_are_asked_for_in_it(broker: Broker, registry: Registry) -> None:
    subject = ":.eu:orders-value"
    number = registry.avro(subject, ORDER)
    produce(broker, "context", [framed(number, ORDER, order(1))])
    for value in (Avro(subject=subject), Avro(ORDER, subject=subject)):
        with monedula.read(settings(broker, registry), "context", value=value) as stream:
            assert pa.table(stream)["value"].to_pylist() == [order(1)]
        assert registry.queries[f"/schemas/ids/{number}"] == "subject=%3A.eu%3Aorders-value"


def test_a_subject_that_cannot_be_had_is_an_error_where_the_consumer_is_made(
    broker: Broker, registry: Registry
) -> None:
    value = Avro(subject="none")
    assert repr(pickle.loads(pickle.dumps(value))) == "Avro(framing='confluent', subject='none')"
    with pytest.raises(
        monedula.errors.SchemaRegistryError, match=r"latest version of subject none: .*40401 Subject 'none' not found"
    ):
        monedula.Consumer(settings(broker, registry), value=value)
    with pytest.raises(monedula.ArgumentError, match=r"name no registry; give the setting schema\.registry\.url"):
        monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers}, value=value)


def test_without_a_schema_it_is_that_of_the_topics_subject(broker: Broker, registry: Registry) -> None:
    key, number = registry.avro("topical-key", "string"), registry.avro("topical-value", ORDER)
    broker.create_topic("topical", 1)
    broker.append("topical", [(framed(key, "string", "k"), framed(number, ORDER, order(1)))])
    found = settings(broker, registry)
    assert repr(pickle.loads(pickle.dumps(Avro(mode="null")))) == "Avro(framing='confluent', mode='null')"
    with monedula.read(found, "topical", key=Avro(), value=Avro()) as stream:
        assert pa.table(stream).select(["key", "value"]).to_pylist() == [{"key": "k", "value": order(1)}]
    with monedula.read(found, [("topical", 0)], value=Avro(mode="drop")) as stream:
        assert pa.table(stream)["value"].to_pylist() == [order(1)]
    frame = monedula.scan(found, "topical", value=Avro(flatten=True))
    assert frame.select("id", "user").collect().to_dicts() == [order(1)]
    group = {**found, "group.id": "topical", "auto.offset.reset": "earliest"}
    with monedula.Consumer(group, topics="topical", key=Avro(), value=Avro()) as consumer:
        (record,) = consumer.records(until="latest")
    assert (record.key, record.value) == ("k", order(1))
    for topics in (["topical"], ("topical",), {"topical"}):
        with monedula.Consumer(group, topics=topics, value=Avro()) as other:
            fields: Any = other.schema
            assert pa.schema(fields).field("value").type == pa.struct([("id", pa.int64()), ("user", pa.string())])


@pytest.mark.parametrize("kind", [monedula.Consumer, monedula.AsyncConsumer])
@pytest.mark.parametrize("column", ["key", "value"])
def test_another_topic_is_not_read_with_the_schema_of_the_topics_subject(
    broker: Broker, registry: Registry, kind: Any, column: str
) -> None:
    registry.avro(f"topical-{column}", ORDER)
    group = settings(broker, registry, **{"group.id": "topical"})
    consumer = kind(group, topics=["topical"], **{column: Avro()})
    message = (
        rf"{column}: Avro\(\) without a schema has that of the topic's subject, here of 'topical', and not of "
        r"({}); make a consumer for each topic, or give the schema or subject="
    )
    other, pattern = message.format("'other'"), message.format("a pattern")
    for wrong in ("other", ["topical", "other"]):
        with pytest.raises(monedula.ArgumentError, match=other):
            consumer.subscribe(wrong)
    for patterns in ({"topics": re.compile("t.*")}, {"pattern": "topical"}, {"server_pattern": "t.*"}):
        with pytest.raises(monedula.ArgumentError, match=pattern):
            consumer.subscribe(**patterns)
    assert consumer.subscription() == {"topical"}
    consumer.subscribe("topical")
    consumer.close() if kind is monedula.Consumer else consumer._core.close(0.0)


def test_another_topic_is_not_assigned_for_the_schema_of_the_topics_subject(broker: Broker, registry: Registry) -> None:
    registry.avro("placed-value", ORDER)
    broker.create_topic("placed", 1)
    group = settings(broker, registry, **{"group.id": "placed"})
    with monedula.Consumer(group, topics=["placed"], value=Avro()) as consumer:
        consumer.unsubscribe()
        wrong: tuple[Any, ...] = (
            "other",
            ["placed", "other"],
            [("other", 0)],
            ("other", 0),
            {("other", 0): "earliest"},
        )
        for each in wrong:
            with pytest.raises(monedula.ArgumentError, match="here of 'placed', and not of 'other'"):
                consumer.assign(each)
        consumer.assign([("placed", 0)])
        consumer.assign("placed")
        consumer.assign([])
    with monedula.Consumer(group, topics=["placed"], value=Avro(subject="placed-value")) as consumer:
        consumer.subscribe(pattern="p.*")
        consumer.subscribe(["placed", "other"])


def test_tables_are_written_with_the_schema_of_the_topics_subject(broker: Broker, registry: Registry) -> None:
    number = registry.avro("written-value", ORDER)
    broker.create_topic("written", 1)
    found = settings(broker, registry)
    with monedula.Producer(found) as producer:
        producer.send_batch(pa.table({"id": [1], "user": ["u1"]}), "written", value=Avro())
        with pytest.raises(
            monedula.ArgumentError, match=r"value: Avro\(\) without a schema .* no one topic is named here"
        ):
            producer.send_batch(pa.table({"id": [1], "topic": ["written"]}), value=Avro())
    with monedula.read(found, "written") as stream:
        assert pa.table(stream)["value"].to_pylist() == [framed(number, ORDER, {"id": 1, "user": "u1"})]


def test_what_names_no_one_topic_has_no_topics_subject(broker: Broker, registry: Registry) -> None:
    found = settings(broker, registry, **{"group.id": "g"})
    message = r"value: \w+\(\) without a schema .* no one topic is named here; name one topic, or give the schema"
    for form in (Avro(), monedula.Protobuf()):
        for make in (
            lambda form: monedula.Consumer(found, value=form),
            lambda form: monedula.Consumer(found, topics=["a", "b"], value=form),
            lambda form: monedula.Consumer(found, topics=re.compile("a.*"), value=form),
            lambda form: monedula.read(found, ["a", "b"], value=form),
            lambda form: monedula.dataset(found, [("a", 0), ("b", 0)], value=form),
        ):
            with pytest.raises(monedula.ArgumentError, match=message):
                make(form)
    with pytest.raises(monedula.errors.SchemaRegistryError, match=r"latest version of subject none-value: .*40401"):
        monedula.read(found, "none", value=Avro())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subject": ""}, "expected the name of a subject"),
        ({"version": 1}, "version: it is that of a subject"),
        ({"subject": "s", "version": 0}, "expected the number of a version"),
        ({"subject": "s", "version": 1, "schema": ORDER}, "version: schema says another thing"),
        ({"subject": "s", "framing": "bare"}, "subject is for framing='confluent'"),
        ({"subject": "s", "writer": ORDER}, "writer: a registry has the schemas"),
    ],
)
def test_what_contradicts_a_subject_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=message):
        Avro(**arguments)


def test_a_registry_lists_shows_and_takes_schemas(registry: Registry) -> None:
    client = SchemaRegistry({"schema.registry.url": registry.url})
    assert client.register("b/1", ORDER) == 1
    assert client.register("a", {"type": "record", "name": "Item", "fields": []}) == 2
    assert client.register("b/1", NEWER, references=[("x", "a", 1)]) == 3
    assert client.subjects() == ["a", "b/1"]
    assert client.versions("b/1") == [1, 2]
    latest = client.get("b/1")
    assert (latest.version, latest.id, latest.kind, latest.references) == (2, 3, "AVRO", (("x", "a", 1),))
    assert client.get("b/1", 1).id == 1
    with pytest.raises(monedula.errors.SchemaRegistryError, match="40402 Version 3 not found"):
        client.get("b/1", 3)


def test_a_registry_takes_the_schema_of_typed_columns_where_it_has_one(registry: Registry) -> None:
    client = SchemaRegistry({"schema.registry.url": registry.url})
    assert client.register("s", Avro(ORDER)) == client.register("s", ORDER)
    assert client.check("s", Avro(ORDER)) == []
    for schema, kind, says in [
        (Avro(ORDER), "JSON", "give the text of the Avro schema, with kind='AVRO'"),
        (Avro(subject="s"), "AVRO", "one of a subject is there already"),
        (monedula.Json("id bigint"), "AVRO", "give the JSON Schema as a dict or its text, with kind='JSON'"),
        (
            monedula.Protobuf('syntax = "proto3"; message A { int64 id = 1; }'),
            "PROTOBUF",
            "give the text of the .proto file, with kind='PROTOBUF'",
        ),
        (b"{}", "AVRO", "schema: expected its text, or what json.loads makes of it, and not a value of type bytes"),
    ]:
        for ask in (client.register, client.check):
            with pytest.raises(monedula.ArgumentError, match=says):
                ask("s", schema, kind=kind)


def test_a_registry_says_why_a_schema_is_not_compatible(registry: Registry) -> None:
    client = SchemaRegistry(schema_registry_url=registry.url)
    registry.avro("s", ORDER)
    assert client.check("s", ORDER) == []
    registry.store.configs[""] = {"compatibilityLevel": "BACKWARD"}
    assert client.check("s", NEWER, 1) == []
    without = {**NEWER, "fields": [*ORDER["fields"], {"name": "amount", "type": "double"}]}
    reasons = client.check("s", without, 1)
    assert "the field 'amount' has no default" in reasons[0]


def test_a_choice_that_may_be_left_out_is_not_named_by_nothing() -> None:
    given = {"schema.registry.url": "http://x", "basic.auth.credentials.source": "SASL_INHERIT"}
    with pytest.raises(monedula.ConfigError, match=r"expected one of USER_INFO, URL$"):
        SchemaRegistry(given)


def test_advice_stands_behind_a_question_without_a_full_stop(broker: Broker, registry: Registry) -> None:
    produce(broker, "advice", [framed(1, ORDER, order(1))])
    registry.instead = lambda _: (404, b"nothing")
    with (
        monedula.read(settings(broker, registry), "advice", value=Avro(ORDER)) as stream,
        pytest.raises(monedula.errors.SchemaRegistryError, match=r"that of a registry\? Read again to ask again$"),
    ):
        list(stream)


def test_a_registry_that_does_not_answer_is_told_with_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = SchemaRegistry(
            {
                "schema.registry.url": url,
                "schema.registry.request.timeout.ms": 50,
                "schema.registry.max.retries": 0,
            }
        )
        with pytest.raises(monedula.errors.SchemaRegistryError, match=r"within schema\.registry\.request\.timeout\.ms"):
            client.subjects()
