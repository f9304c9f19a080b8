"""Avro in the framing of Apicurio's and AWS Glue's serializers: ids in headers or before the value, zlib."""

import pickle
import zlib
from typing import Any
from uuid import UUID

import monedula
import pyarrow as pa
import pytest
from monedula import Avro, Protobuf
from monedula.testing import Broker

from tests.consumer.avro_values import written
from tests.consumer.schema_registry import Registry
from tests.consumer.test_schema_registry import NEWER, ORDER, order, settings

VERSION = "89791762-2336-4186-9674-299b90a802e2"


def produce(broker: Broker, topic: str, values: list[tuple[bytes, list[tuple[str, bytes]]]]) -> None:
    broker.create_topic(topic, 1)
    with monedula.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for value, headers in values:
            producer.send(topic, value, headers=headers)


def values(given: dict[str, Any], topic: str, column: str = "value", **arguments: Any) -> list[Any]:
    with monedula.read(given, topic, **arguments) as stream:
        found: list[Any] = stream.to_pyarrow()[column].to_pylist()
    return found


def four(number: int) -> bytes:
    return b"\x00" + number.to_bytes(4, "big")


def eight(number: int) -> bytes:
    return b"\x00" + number.to_bytes(8, "big")


def test_ids_of_apicurio_stand_before_the_value_or_in_a_header(broker: Broker) -> None:
    old, new = written(ORDER, order(1)), written(NEWER, {**order(2), "amount": 2.0})
    rows: list[tuple[bytes, list[tuple[str, bytes]]]] = [
        (four(7) + old, []),
        (eight(7) + old, []),
        (eight(9) + new, []),
        (old, [("apicurio.value.globalId", eight(7)[1:]), ("apicurio.value.encoding", b"BINARY")]),
        (new, [("apicurio.value.globalId", eight(3)[1:]), ("apicurio.value.contentId", eight(1 << 40)[1:])]),
    ]
    produce(broker, "apicurio", rows)
    value = Avro(ORDER, schemas={7: ORDER, 9: NEWER, 1 << 40: NEWER}, framing="apicurio")
    for each in (value, pickle.loads(pickle.dumps(value))):
        found = values({"bootstrap.servers": broker.bootstrap_servers}, "apicurio", value=each)
        assert [row["id"] for row in found] == [1, 1, 2, 1, 2]


def test_a_value_in_apicurios_json_is_refused(broker: Broker) -> None:
    produce(
        broker, "json", [(b"{}", [("apicurio.value.globalId", eight(7)[1:]), ("apicurio.value.encoding", b"JSON")])]
    )
    value = Avro(schemas={7: ORDER}, framing="apicurio")
    with pytest.raises(monedula.DecodeError, match="the value is Avro's JSON"):
        values({"bootstrap.servers": broker.bootstrap_servers}, "json", value=value)


@pytest.mark.parametrize("header", [b"", eight(7)[2:], eight(7)[1:] + b"x"])
def test_a_header_with_another_length_than_an_id_is_bad(broker: Broker, header: bytes) -> None:
    topic = f"header-{len(header)}"
    produce(broker, topic, [(written(ORDER, order(1)), [("apicurio.value.globalId", header)])])
    with pytest.raises(monedula.DecodeError, match=f"has {len(header)} bytes, and not 8"):
        values(
            {"bootstrap.servers": broker.bootstrap_servers}, topic, value=Avro(schemas={7: ORDER}, framing="apicurio")
        )


def test_contents_of_apicurio_are_asked_for_by_confluents_api(broker: Broker, registry: Registry) -> None:
    number = registry.avro("s", ORDER)
    produce(broker, "asked", [(eight(number) + written(ORDER, order(1)), [])])
    produce(broker, "header", [(written(ORDER, order(2)), [("apicurio.value.contentId", eight(number)[1:])])])
    produce(broker, "global", [(written(ORDER, order(3)), [("apicurio.value.globalId", eight(number)[1:])])])
    value = Avro(ORDER, framing="apicurio")
    assert values(settings(broker, registry), "asked", value=value) == [order(1)]
    assert values(settings(broker, registry), "header", value=Avro(subject="s", framing="apicurio")) == [order(2)]
    assert f"/schemas/ids/{number}" in registry.asked
    # As a contentId the number would be that of another schema.
    with pytest.raises(monedula.DecodeError, match=r"named by globalId 1, which .* give its schema by that"):
        values(settings(broker, registry), "global", value=value)
    with pytest.raises(monedula.ArgumentError, match=r"'apicurio': .* give the setting schema\.registry\.url"):
        monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers}, value=value)


def test_values_of_glue_name_a_version_and_may_be_compressed(broker: Broker) -> None:
    body = written(ORDER, order(1))
    name = UUID(VERSION).bytes
    produce(broker, "glue", [(b"\x03\x00" + name + body, []), (b"\x03\x05" + name + zlib.compress(body), [])])
    given = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": "http://127.0.0.1:1"}
    assert values(given, "glue", value=Avro(schemas={VERSION: ORDER}, framing="glue")) == [order(1), order(1)]
    other = "00000000-0000-0000-0000-000000000001"
    with pytest.raises(monedula.DecodeError, match=f"no schema was given for GUID {VERSION}"):
        values(given, "glue", value=Avro(schemas={other: ORDER}, framing="glue"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"framing": "glue"}, "AWS Glue's own API is not asked"),
        ({"framing": "glue", "schema": ORDER}, "AWS Glue's own API is not asked"),
        ({"framing": "glue", "schemas": {7: ORDER}}, "7 is not the UUID of a schema's version"),
        ({"framing": "apicurio", "schemas": {VERSION: ORDER}}, "is not the id of a schema in Apicurio's registry"),
        ({"framing": "apicurio", "schemas": {1 << 63: ORDER}}, "a number of 63 bits"),
        ({"framing": "apicurio", "schemas": [ORDER]}, "a list of schemas is for framing='single_object'"),
        ({"framing": "apicurio", "schema": ORDER, "writer": ORDER}, "leave writer out"),
        ({"framing": "glue", "subject": "s"}, "subject is for framing='confluent'"),
        ({"framing": "aws"}, "'apicurio' or 'glue'"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=message):
        Avro(**arguments)


def test_these_framings_are_not_written(broker: Broker) -> None:
    with (
        monedula.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer,
        pytest.raises(monedula.ArgumentError, match="are read in this framing, and not written"),
    ):
        producer.send_batch(pa.table({"id": [1]}), "x", value=Avro(schemas={7: ORDER}, framing="apicurio"))


def test_schemas_of_protobuf_in_apicurios_frame_are_asked_for(broker: Broker, registry: Registry) -> None:
    text = 'syntax = "proto3"; message Aye { int64 x = 1; } message Order { int64 id = 1; }'
    number = registry.register("proto-value", {"schemaType": "PROTOBUF", "schema": text})
    named = b"\x07\x0a\x05Order\x08\x05"
    header = [("apicurio.value.globalId", eight(number)[1:]), ("apicurio.protobuf.type", b"Order")]
    produce(broker, "proto", [(eight(number) + named, []), (four(number) + named, [])])
    produce(broker, "proto-global", [(b"\x08\x05", header)])
    value = Protobuf(text, message="Order", framing="apicurio")
    assert values(settings(broker, registry), "proto", value=value) == [{"id": 5}, {"id": 5}]
    assert f"/schemas/ids/{number}" in registry.asked
    with pytest.raises(monedula.DecodeError, match=r"named by globalId 1, which .* give its schema by that"):
        values(settings(broker, registry), "proto-global", value=value)
    of_subject = Protobuf(subject="proto-value", message="Order", framing="apicurio")
    assert values(settings(broker, registry), "proto", value=of_subject) == [{"id": 5}, {"id": 5}]
    given = Protobuf(text, message="Order", framing="apicurio", schemas={number: text})
    for topic in ("proto", "proto-global"):
        assert {"id": 5} in values({"bootstrap.servers": broker.bootstrap_servers}, topic, value=given)
