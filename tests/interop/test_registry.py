"""Other projects' clients of schema registries, unmodified, on the embedded broker's."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from monedula.testing import Registry

from tests.conftest import give_up
from tests.interop import installed
from tests.interop.process import Driver
from tests.kafka import KafkaUnavailable

# The first test builds the program, and on a busy machine Go takes minutes for that.
pytestmark = [pytest.mark.timeout(400), pytest.mark.thorough]

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
USER = {"name": "user", "type": "string"}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; }'
OBJECT = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}


def newer(**user: Any) -> str:
    return json.dumps({**ORDER, "fields": [*ORDER["fields"], {**USER, **user}]})


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(users={"anna": "secret"}) as registry:
        yield registry


@pytest.fixture(scope="module")
def franz() -> Iterator[Driver]:
    try:
        program = installed.franz_program()
    except KafkaUnavailable as error:
        give_up(error)
    with Driver([str(program), "127.0.0.1:1"]) as driver:
        yield driver


def test_franz_go_registers_looks_up_and_checks(franz: Driver, registry: Registry) -> None:
    def ask(command: str, **fields: Any) -> Any:
        return franz.call(f"sr.{command}", target=registry.url, **fields)

    assert sorted(ask("types")) == ["AVRO", "JSON", "PROTOBUF"]
    avro = {"name": "orders-value", "how": "AVRO"}
    first = ask("register", values=[json.dumps(ORDER)], **avro)
    assert (first["id"], first["version"], first["subject"]) == (1, 1, "orders-value")
    assert ask("look_up", values=[json.dumps(ORDER, indent=2)], **avro)["id"] == 1
    refused = ask("register", values=[newer()], **avro)
    assert refused["code"] == 409
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused["message"]
    checked = ask("check", values=[newer()], **avro)
    assert (checked["is_compatible"], bool(checked["messages"])) == (False, True)
    assert ask("register", values=[newer(default="")], **avro)["id"] == 2
    assert ask("versions", name="orders-value") == [1, 2]
    assert json.loads(ask("by_id", offset=1)["schema"]) == ORDER
    assert ask("by_id", offset=9)["code"] == 40403
    assert [usage["version"] for usage in ask("usages", offset=2)] == [2]
    assert ask("register", values=[PROTO], name="p", how="PROTOBUF")["id"] == 3
    assert ask("register", values=[json.dumps(OBJECT)], name="j", how="JSON")["id"] == 4
    assert ask("register", values=["{"], name="j", how="JSON")["code"] == 42201
    assert ask("subjects") == ["j", "orders-value", "p"]
    assert ask("set_level", name="p", how="FULL") == "FULL"
    assert ask("set_mode", name="p", how="READONLY") == "READONLY"
    assert ask("register", values=[PROTO.replace("id", "z")], name="p", how="PROTOBUF")["code"] == 42205
    assert ask("delete", name="j") == [1]
    assert ask("subjects") == ["orders-value", "p"]


def test_confluents_client_for_node_writes_and_reads(registry: Registry) -> None:
    try:
        modules = installed.schemaregistry_modules()
    except KafkaUnavailable as error:
        give_up(error)
    # What it reads is what Python's serializers write: id 1, and 9 as a long.
    theirs = base64.b64encode(b"\0\0\0\0\1\x12").decode()
    command = ["node", str(installed.SCHEMAREGISTRY / "roundtrip.js"), registry.url, theirs]
    environment = {**os.environ, "NODE_PATH": str(modules)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["ids"] == [1, 2]
    assert base64.b64decode(told["avro"]) == b"\0\0\0\0\1\x0e"
    assert base64.b64decode(told["json"]) == b'\0\0\0\0\2{"id":8}'
    assert (told["theirs"], told["back"]) == ({"id": 9}, {"id": 8})
    assert told["subjects"] == ["avro-value", "json-value"]
    assert (told["versions"], told["refused"]) == ([1], 409)
