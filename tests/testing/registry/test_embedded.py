"""The registry beside a broker: how it starts and stops, who may ask, and Confluent's Python client on it."""

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import confluent_kafka.schema_registry.avro as confluent
import monedula
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from monedula.testing import Broker, Registry
from monedula.testing.registry_control import RegistryOptions

from tests.testing.registry.conftest import asking

ORDER: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(registry=True) as broker:
        yield broker


def test_it_starts_and_stops_with_the_broker() -> None:
    with Broker(registry=True, topics=["orders:1"]) as broker:
        assert broker.registry.register("orders-value", ORDER) == 1
        assert asking(broker.schema_registry_url)("GET", "/subjects") == (200, ["orders-value"])
        url = urlsplit(broker.schema_registry_url)
        # One that is open while the broker stops.
        kept = http.client.HTTPConnection(url.netloc, timeout=20)
        kept.request("GET", "/subjects")
        assert kept.getresponse().read() == b'["orders-value"]'
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(url.netloc, timeout=20).request("GET", "/")
    kept_is_closed = False
    try:
        kept.request("GET", "/subjects")
        kept.getresponse()
    except (http.client.HTTPException, OSError):
        kept_is_closed = True
    finally:
        kept.close()
    assert kept_is_closed


def test_a_broker_without_one_imports_no_server() -> None:
    program = """
import sys
from monedula.testing import Broker
with Broker():
    assert "http.server" not in sys.modules
    import monedula.testing
    assert "Registry" in dir(monedula.testing)
    assert monedula.testing.Registry.__name__ == "Registry"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_broker_without_one_says_so() -> None:
    with Broker() as broker, pytest.raises(monedula.ArgumentError, match=r"Broker\(registry=True\)"):
        broker.schema_registry_url  # noqa: B018


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "expected True or a dict"),
        ({"ports": 1}, "there is no option 'ports'; there are port,"),
        ({"port": "8081"}, "port is a number"),
        ({"port": 65_536}, "port is a number from 0 to 65535, not 65536"),
        ({"port": -1}, "port is a number from 0 to 65535, not -1"),
        ({"users": ["hush"]}, "users is names with their passwords"),
        ({"tokens": [3]}, "tokens is a list of tokens"),
        ({"client_auth": "required"}, "client_auth needs TLS"),
    ],
)
def test_options_that_do_not_fit_are_refused_and_nothing_stays(given: Any, said: str) -> None:
    with pytest.raises(monedula.ConfigError, match=f"^registry: .*{said.replace('(', '.')}") as raised:
        Broker(registry=given)
    assert "hush" not in str(raised.value)


def test_a_port_that_is_in_use_is_an_error_and_the_broker_is_stopped() -> None:
    with Registry() as other:
        port = urlsplit(other.url).port
        assert port is not None
        with pytest.raises(monedula.errors.BrokerStartError, match=f"the registry cannot start on 127.0.0.1:{port}"):
            Broker(registry={"port": port})


def test_a_child_uses_none_of_the_parents() -> None:
    with Broker(registry=True) as broker:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                broker.schema_registry_url  # noqa: B018
            except monedula.errors.ForkError:
                os.write(writing, b"told")
            finally:
                os._exit(0)
        os.close(writing)
        assert os.read(reading, 10) == b"told"
        os.close(reading)
        os.waitpid(child, 0)
        assert asking(broker.schema_registry_url)("GET", "/") == (200, {})


def test_users_and_bearers_may_ask_and_nobody_else() -> None:
    options: RegistryOptions = {"users": {"anna": "secret"}, "tokens": {"t0ken": "ben"}}
    with Broker(registry=options) as broker:
        url = broker.schema_registry_url
        ask = asking(url)
        for header in ("", "Basic YW5uYTp3cm9uZw==", "Basic !", "Bearer other", "Digest x"):
            headers = {"Authorization": header} if header else {}
            assert ask("GET", "/subjects", **headers) == (401, {"error_code": 401, "message": "Unauthorized"})
        settings = {"url": url, "basic.auth.user.info": "anna:secret"}
        assert SchemaRegistryClient(settings).get_subjects() == []
        assert ask("GET", "/subjects", Authorization="Bearer t0ken") == (200, [])
        names = {"schema.registry.url": url, "schema.registry.basic.auth.user.info": "anna:secret"}
        assert monedula.SchemaRegistry(names).subjects() == []
        asked = [(request.user, request.status) for request in broker.registry.requests()]
        assert asked == [(None, 401)] * 5 + [("anna", 200), ("ben", 200), ("anna", 200)]
        assert "secret" not in repr(broker.registry)


def test_confluents_client_writes_and_reads() -> None:
    with Broker(registry=True) as broker:
        client = SchemaRegistryClient({"url": broker.schema_registry_url})
        context = SerializationContext("orders", MessageField.VALUE)
        value = confluent.AvroSerializer(client, json.dumps(ORDER))({"id": 7}, context)
        assert value == b"\x00\x00\x00\x00\x01\x0e"
        assert confluent.AvroDeserializer(client)(value, context) == {"id": 7}
        assert client.get_subjects() == ["orders-value"]
        assert client.get_versions("orders-value") == [1]
        client.set_compatibility("orders-value", "FULL")
        assert client.get_compatibility("orders-value") == "FULL"
        newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "user", "type": "string"}]}
        assert not client.test_compatibility("orders-value", Schema(json.dumps(newer), "AVRO"))
        with pytest.raises(SchemaRegistryError, match="READER_FIELD_MISSING_DEFAULT_VALUE") as refused:
            client.register_schema("orders-value", Schema(json.dumps(newer), "AVRO"))
        assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
        assert client.delete_subject("orders-value") == [1]


def test_confluents_json_serializer_writes_and_reads(broker: Broker) -> None:
    client = SchemaRegistryClient({"url": broker.schema_registry_url})
    context = SerializationContext("things", MessageField.VALUE)
    schema = json.dumps({"title": "Thing", "type": "object", "properties": {"id": {"type": "integer"}}})
    value = JSONSerializer(schema, client)({"id": 7}, context)
    assert JSONDeserializer(None, schema_registry_client=client)(value, context) == {"id": 7}
    found = client.get_latest_version("things-value")
    assert (found.schema.schema_type, json.loads(found.schema.schema_str)) == ("JSON", json.loads(schema))


def test_confluents_protobuf_serializer_writes_and_reads(broker: Broker) -> None:
    client = SchemaRegistryClient({"url": broker.schema_registry_url})
    context = SerializationContext("messages", MessageField.VALUE)
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=3, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    value = ProtobufSerializer(order, client)(order(id=7), context)
    # One that has to ask.
    other = SchemaRegistryClient({"url": broker.schema_registry_url})
    assert ProtobufDeserializer(order, schema_registry_client=other)(value, context).id == 7
    assert broker.registry.requests()[-1].query.endswith("format=serialized")
    # What was registered in base64 is there as text.
    found = other.get_latest_version("messages-value").schema
    assert found.schema_type == "PROTOBUF"
    assert found.schema_str == 'syntax = "proto3";\npackage shop;\nmessage Order {\n  int64 id = 1;\n}\n'


def test_the_command_starts_one() -> None:
    command = [sys.executable, "-m", "monedula", "broker", "--port", "0", "--registry-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("bootstrap.servers=")
            name, _, url = process.stdout.readline().strip().partition("=")
            assert name == "schema.registry.url"
            assert monedula.SchemaRegistry({name: url}).subjects() == []
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_what_was_registered_outlives_a_broker_with_a_data_directory(tmp_path: Path) -> None:
    item = {"type": "record", "name": "shop.Item", "fields": [{"name": "id", "type": "long"}]}
    line = {"type": "record", "name": "Line", "fields": [{"name": "item", "type": "shop.Item"}]}
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    file.message_type.add(name="Order")
    serialized = base64.b64encode(file.SerializeToString()).decode()

    def seen(broker: Broker) -> list[Any]:
        paths = [
            "/schemas?deleted=true",
            "/schemas/ids/2",
            "/contexts",
            "/config/line",
            "/mode/gone",
            "/subjects/item/versions/1/referencedby",
            "/subjects/p/versions/1?format=serialized",
        ]
        return [broker.registry.ask("GET", path) for path in paths]

    with Broker(registry=True, data_dir=tmp_path) as broker:
        registry = broker.registry
        registry.register("item", item)
        registry.register("line", line, references=[("shop.Item", "item", 1)], metadata={"properties": {"a": "b"}})
        registry.register(":.eu:item", '"int"')
        registry.register("p", serialized, kind="PROTOBUF")
        registry.register("gone", '"string"')
        registry.ask("DELETE", "/subjects/gone")
        registry.ask("PUT", "/mode/gone", {"mode": "READONLY"})
        registry.set_compatibility("FULL", "line")
        before = seen(broker)
    with Broker(registry=True, data_dir=tmp_path) as broker:
        assert seen(broker) == before
        more = {**item, "fields": [*item["fields"], {"name": "x", "type": "int"}]}
        with pytest.raises(monedula.errors.BrokerCommandError, match="READER_FIELD_MISSING"):
            broker.registry.register("item", more)
        assert broker.registry.register("item", {**item, "doc": "new"}) == 5
    for text in ("{", "[" * 100_000, '{"form": 1, "configs": {}, "modes": {}, "last_ids": {}, "versions": []}'):
        (tmp_path / "schema-registry.json").write_text(text)
        with pytest.raises(monedula.errors.BrokerStartError, match="remove the file to begin with an empty registry"):
            Broker(registry=True, data_dir=tmp_path)
