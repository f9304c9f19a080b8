"""Confluent's API: paths, answers and codes, as requests over HTTP see them."""

import http.client
import json
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from monedula.testing import Registry
from monedula.testing.registry.access import Access
from monedula.testing.registry.faults import Faults
from monedula.testing.registry.server import MAX_BODY_BYTES, Server

from tests.testing.registry.conftest import Ask, asking


def avro(*fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields), **more})


ID = {"name": "id", "type": "long"}
USER = {"name": "user", "type": "string"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def code(answer: tuple[int, Any]) -> tuple[int, int]:
    status, body = answer
    assert isinstance(body["message"], str)
    assert body["message"]
    return status, body["error_code"]


def test_a_schema_is_registered_and_found_in_every_way(ask: Ask) -> None:
    status, registered = ask("POST", "/subjects/orders-value/versions", {"schema": avro(ID)})
    assert (status, registered["id"], registered["version"]) == (200, 1, 1)
    text = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
    guid = registered["guid"]
    version = {"subject": "orders-value", "version": 1, "id": 1, "guid": guid, "schema": text}
    assert ask("GET", "/") == (200, {})
    assert ask("GET", "/subjects") == (200, ["orders-value"])
    assert ask("GET", "/subjects/orders-value/versions") == (200, [1])
    for number in ("1", "latest", "-1"):
        assert ask("GET", f"/subjects/orders-value/versions/{number}") == (200, version)
    assert ask("GET", "/subjects/orders-value/versions/1/schema") == (200, json.loads(text))
    assert ask("GET", "/schemas/ids/1") == (200, {"schema": text, "guid": guid})
    named = {"schema": text, "guid": guid, "subject": "orders-value", "version": 1}
    assert ask("GET", "/schemas/ids/1?subject=orders-value") == (200, named)
    assert ask("GET", "/schemas/ids/1?fetchMaxId=true") == (200, {"schema": text, "guid": guid, "maxId": 1})
    assert ask("GET", "/schemas/ids/1/schema") == (200, json.loads(text))
    assert ask("GET", "/schemas/ids/1/subjects") == (200, ["orders-value"])
    assert ask("GET", "/schemas/ids/1/versions") == (200, [{"subject": "orders-value", "version": 1}])
    assert ask("GET", f"/schemas/guids/{guid}") == (200, {"schema": text, "guid": guid})
    assert ask("GET", f"/schemas/guids/{guid}/ids") == (200, [{"context": ".", "id": 1}])
    assert ask("GET", "/schemas") == (200, [version])
    assert ask("POST", "/subjects/orders-value", {"schema": avro(ID)}) == (200, version)
    status, kinds = ask("GET", "/schemas/types")
    assert sorted(kinds) == ["AVRO", "JSON", "PROTOBUF"]


def test_the_same_schema_has_the_same_id_everywhere_in_a_context(ask: Ask) -> None:
    spaced = json.dumps(json.loads(avro(ID)), indent=3)
    ids = [
        ask("POST", f"/subjects/{subject}/versions", {"schema": text})[1]["id"]
        for subject, text in [("a", avro(ID)), ("b", spaced), ("a", spaced), ("b", avro(ID, NOTE)), ("c", avro(ID))]
    ]
    assert ids == [1, 1, 1, 2, 1]
    assert ask("GET", "/schemas/ids/1/subjects") == (200, ["a", "b", "c"])
    assert ask("GET", "/subjects/a/versions") == (200, [1])


def test_what_is_not_there_has_the_code_for_it(ask: Ask) -> None:
    ask("POST", "/subjects/a/versions", {"schema": '"int"'})
    cases: list[tuple[str, str, Any, tuple[int, int]]] = [
        ("GET", "/subjects/none/versions", None, (404, 40401)),
        ("GET", "/subjects/none/versions/1", None, (404, 40401)),
        ("DELETE", "/subjects/none", None, (404, 40401)),
        ("POST", "/subjects/none", {"schema": '"int"'}, (404, 40401)),
        ("GET", "/subjects/a/versions/2", None, (404, 40402)),
        ("DELETE", "/subjects/a/versions/2", None, (404, 40402)),
        ("POST", "/compatibility/subjects/a/versions/2", {"schema": '"int"'}, (404, 40402)),
        ("POST", "/subjects/a", {"schema": '"long"'}, (404, 40403)),
        ("GET", "/schemas/ids/7", None, (404, 40403)),
        ("GET", "/schemas/ids/7/subjects", None, (404, 40403)),
        ("GET", "/schemas/guids/none", None, (404, 40403)),
        ("GET", "/config/a", None, (404, 40408)),
        ("DELETE", "/config/a", None, (404, 40408)),
        ("GET", "/mode/a", None, (404, 40409)),
        ("GET", "/nothing", None, (404, 404)),
        ("PUT", "/subjects", None, (405, 405)),
        ("GET", "/subjects/a/versions/0", None, (422, 42202)),
        ("GET", "/subjects/a/versions/x", None, (422, 42202)),
        ("GET", "/subjects/a/versions/2147483648", None, (422, 42202)),
        ("POST", "/subjects/a/versions", {"schema": '"none"'}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": ""}, (422, 42201)),
        ("POST", "/subjects/a/versions", {}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "references": [{"name": "x"}]}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": "XML"}, (422, 422)),
        ("POST", "/subjects/a/versions", [], (422, 422)),
        ("POST", "/subjects/a/versions", b"{", (400, 400)),
        ("PUT", "/config", {"compatibility": "SOMEWHAT"}, (422, 42203)),
        ("PUT", "/config", {"alias": "b"}, (422, 422)),
        ("PUT", "/config", {}, (422, 42203)),
        ("PUT", "/config/a", {"compatibility": None}, (422, 42203)),
        ("OPTIONS", "/subjects", None, (405, 405)),
        ("PATCH", "/subjects", None, (405, 405)),
        ("TRACE", "/subjects", None, (405, 405)),
        ("PUT", "/mode", {"mode": "SOMEWHAT"}, (422, 42204)),
        ("POST", "/subjects/__GLOBAL/versions", {"schema": '"int"'}, (422, 42208)),
    ]
    for method, path, body, expected in cases:
        assert code(ask(method, path, body)) == expected, (method, path)


def test_subjects_are_deleted_softly_and_then_for_good(ask: Ask) -> None:
    for fields in ([ID], [ID, NOTE]):
        ask("POST", "/subjects/a/versions", {"schema": avro(*fields)})
    assert code(ask("DELETE", "/subjects/a?permanent=true")) == (404, 40405)
    assert code(ask("DELETE", "/subjects/a/versions/1?permanent=true")) == (404, 40407)
    assert ask("DELETE", "/subjects/a/versions/1") == (200, 1)
    assert code(ask("DELETE", "/subjects/a/versions/1")) == (404, 40406)
    assert ask("GET", "/subjects/a/versions") == (200, [2])
    assert ask("GET", "/subjects/a/versions?deleted=true") == (200, [1, 2])
    assert ask("GET", "/subjects/a/versions?deletedOnly=true") == (200, [1])
    assert code(ask("GET", "/subjects/a/versions/1")) == (404, 40402)
    assert ask("GET", "/subjects/a/versions/1?deleted=true")[0] == 200
    # Values may still have been written with it.
    assert ask("GET", "/schemas/ids/1")[0] == 200
    assert ask("DELETE", "/subjects/a") == (200, [2])
    assert code(ask("DELETE", "/subjects/a")) == (404, 40404)
    assert ask("GET", "/subjects") == (200, [])
    assert ask("GET", "/subjects?deleted=true") == (200, ["a"])
    assert ask("GET", "/subjects?deletedOnly=true") == (200, ["a"])
    # The same again has its id, and the next number.
    _, again = ask("POST", "/subjects/a/versions", {"schema": avro(ID)})
    assert (again["id"], again["version"]) == (1, 3)
    assert ask("DELETE", "/subjects/a/versions/latest") == (200, 3)
    assert ask("DELETE", "/subjects/a?permanent=true") == (200, [1, 2, 3])
    assert ask("GET", "/subjects?deleted=true") == (200, [])
    assert code(ask("GET", "/schemas/ids/1")) == (404, 40403)
    _, new = ask("POST", "/subjects/a/versions", {"schema": avro(ID)})
    assert (new["id"], new["version"]) == (3, 1)


def test_levels_are_inherited_from_context_and_registry(ask: Ask) -> None:
    assert ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask("PUT", "/config", {"compatibility": "full"}) == (200, {"compatibility": "full"})
    assert ask("PUT", "/config/a", {"compatibility": "NONE", "normalize": True})[0] == 200
    assert ask("GET", "/config/a") == (200, {"compatibilityLevel": "NONE", "normalize": True})
    assert ask("GET", "/config/b?defaultToGlobal=true") == (200, {"compatibilityLevel": "FULL"})
    assert ask("PUT", "/contexts/.eu/config", {"compatibility": "FORWARD"})[0] == 200
    assert ask("GET", "/config/:.eu:b?defaultToGlobal=true") == (200, {"compatibilityLevel": "FORWARD"})
    assert ask("DELETE", "/config/a") == (200, {"compatibilityLevel": "NONE", "normalize": True})
    assert ask("DELETE", "/config") == (200, {"compatibilityLevel": "FULL"})
    assert ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})


def test_modes_forbid_and_import(ask: Ask) -> None:
    assert ask("GET", "/mode") == (200, {"mode": "READWRITE"})
    body = {"schema": '"int"'}
    assert code(ask("POST", "/subjects/a/versions", {**body, "id": 5})) == (422, 42205)
    ask("POST", "/subjects/a/versions", body)
    assert ask("PUT", "/mode", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    # What is there already is answered.
    assert ask("POST", "/subjects/a/versions", body)[0] == 200
    assert code(ask("POST", "/subjects/b/versions", {"schema": '"long"'})) == (422, 42205)
    assert code(ask("DELETE", "/subjects/a")) == (422, 42205)
    assert code(ask("PUT", "/mode", {"mode": "IMPORT"})) == (422, 42205)
    assert ask("PUT", "/mode/b", {"mode": "IMPORT"})[0] == 200
    assert code(ask("POST", "/subjects/b/versions", {"schema": '"long"'})) == (422, 42205)
    _, imported = ask("POST", "/subjects/b/versions", {"schema": '"long"', "id": 70, "version": 4})
    assert (imported["id"], imported["version"]) == (70, 4)
    # An id means one schema for good.
    assert code(ask("POST", "/subjects/b/versions", {"schema": '"float"', "id": 70, "version": 5})) == (422, 42205)
    assert ask("DELETE", "/mode/b") == (200, {"mode": "IMPORT"})
    assert ask("PUT", "/mode?force=true", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert ask("PUT", "/mode", {"mode": "READWRITE"})[0] == 200
    assert ask("POST", "/subjects/c/versions", {"schema": '"float"'})[1]["id"] == 71


def test_contexts_have_ids_of_their_own(ask: Ask) -> None:
    ask("POST", "/subjects/a/versions", {"schema": '"int"'})
    _, in_eu = ask("POST", "/subjects/:.eu:a/versions", {"schema": '"long"'})
    assert in_eu["id"] == 1
    assert ask("GET", "/contexts") == (200, [".", ".eu"])
    assert ask("GET", "/schemas/ids/1?subject=:.eu:a")[1]["schema"] == '"long"'
    assert ask("GET", "/contexts/.eu/schemas/ids/1")[1]["schema"] == '"long"'
    assert ask("GET", "/contexts/.eu/subjects/a/versions/1")[1]["subject"] == ":.eu:a"
    assert ask("GET", "/schemas/ids/1")[1]["schema"] == '"int"'
    assert ask("GET", "/subjects") == (200, [":.eu:a", "a"])
    assert ask("GET", "/subjects?subjectPrefix=:.eu:") == (200, [":.eu:a"])
    assert ask("GET", "/contexts/.eu/subjects") == (200, [":.eu:a"])
    assert ask("GET", "/subjects?subjectPrefix=a") == (200, ["a"])
    # In which context an id is, the name of the subject may say too.
    ask("POST", "/subjects/:.eu:b/versions", {"schema": '"float"'})
    assert ask("GET", "/schemas/ids/2?subject=b")[1]["schema"] == '"float"'
    assert code(ask("GET", "/schemas/ids/2?subject=a")) == (404, 40403)


def test_references_are_resolved_and_protect_what_they_mean(ask: Ask) -> None:
    item = json.dumps({"type": "record", "name": "shop.Item", "fields": [ID]})
    ask("POST", "/subjects/item/versions", {"schema": item})
    refers = [{"name": "shop.Item", "subject": "item", "version": 1}]
    line = avro({"name": "item", "type": "shop.Item"})
    assert code(ask("POST", "/subjects/line/versions", {"schema": line})) == (422, 42201)
    missing = [{"name": "shop.Item", "subject": "item", "version": 2}]
    assert code(ask("POST", "/subjects/line/versions", {"schema": line, "references": missing})) == (422, 42201)
    assert ask("POST", "/subjects/line/versions", {"schema": line, "references": refers})[1]["id"] == 2
    found = ask("GET", "/subjects/line/versions/1")[1]
    assert found["references"] == refers
    assert found["schema"] == line.replace(" ", "")
    assert ask("GET", "/subjects/item/versions/1/referencedby") == (200, [2])
    assert code(ask("DELETE", "/subjects/item/versions/1")) == (422, 42206)
    assert code(ask("DELETE", "/subjects/item")) == (422, 42206)
    ask("DELETE", "/subjects/line")
    assert ask("DELETE", "/subjects/item") == (200, [1])


def test_rules_and_metadata_are_part_of_a_schema(ask: Ask) -> None:
    rules = {"domainRules": [{"name": "n", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"}]}
    metadata = {"properties": {"major": "2"}}
    ask("POST", "/subjects/a/versions", {"schema": '"string"'})
    _, second = ask("POST", "/subjects/a/versions", {"schema": '"string"', "ruleSet": rules, "metadata": metadata})
    assert (second["id"], second["version"]) == (2, 2)
    assert ask("GET", "/schemas/ids/2")[1]["ruleSet"] == rules
    assert ask("GET", "/subjects/a/metadata?key=major&value=2")[1]["id"] == 2
    assert code(ask("GET", "/subjects/a/metadata?key=major&value=3")) == (404, 40403)


def test_a_new_schema_is_compared_with_those_that_its_level_names(ask: Ask) -> None:
    ask("PUT", "/config/a", {"compatibility": "NONE"})
    earlier: list[list[dict[str, Any]]] = [[ID, USER], [ID, USER, NOTE], [ID, NOTE]]
    for fields in earlier:
        assert ask("POST", "/subjects/a/versions", {"schema": avro(*fields)})[0] == 200
    cases: list[tuple[str, list[dict[str, Any]], bool]] = [
        ("BACKWARD", [ID], True),
        ("BACKWARD", [ID, USER], False),
        ("FORWARD", [ID, USER, NOTE], True),
        ("FORWARD", [NOTE], False),
        ("FULL", [ID], True),
        ("FULL", [ID, USER], False),
        ("BACKWARD_TRANSITIVE", [ID, {**USER, "default": ""}], True),
        ("FORWARD_TRANSITIVE", [ID, NOTE], False),
        ("FULL_TRANSITIVE", [ID, USER, NOTE], False),
        ("NONE", [USER], True),
    ]
    for level, fields, is_compatible in cases:
        ask("PUT", "/config/a", {"compatibility": level})
        body = {"schema": avro(*fields, doc=level)}
        status, told = ask("POST", "/compatibility/subjects/a/versions?verbose=true", body)
        assert (status, told["is_compatible"], not told["messages"]) == (200, is_compatible, is_compatible), level
        assert ask("POST", "/compatibility/subjects/a/versions", body) == (200, {"is_compatible": is_compatible})
        if not is_compatible:
            status, refused = ask("POST", "/subjects/a/versions", body)
            assert (status, refused["error_code"]) == (409, 409)
            assert f"{{compatibility: '{level}'}}" in refused["message"]
    ask("PUT", "/config/a", {"compatibility": "BACKWARD"})
    _, told = ask("POST", "/compatibility/subjects/a/versions/1?verbose=true", {"schema": avro(ID, NOTE, USER)})
    assert told == {"is_compatible": True, "messages": []}
    assert ask("POST", "/compatibility/subjects/new/versions", {"schema": '"int"'}) == (200, {"is_compatible": True})


def test_the_order_of_properties_counts_unless_schemas_are_normalized(registry: Registry, ask: Ask) -> None:
    one = registry.register("a", {"type": "string", "x": 1, "y": 2})
    assert registry.register("b", {"type": "string", "y": 2, "x": 1}) != one
    other = {"schema": json.dumps({"type": "string", "y": 2, "x": 1})}
    assert ask("POST", "/subjects/c/versions?normalize=true", other)[1]["id"] == one
    ask("PUT", "/config/d", {"normalize": True})
    assert ask("POST", "/subjects/d/versions", other)[1]["id"] == one


def test_names_in_paths_are_decoded(ask: Ask) -> None:
    ask("POST", "/subjects/a%2Fb%20%C3%BC/versions", {"schema": '"int"'})
    assert ask("GET", "/subjects") == (200, ["a/b ü"])
    assert ask("GET", "/subjects/a%2Fb%20%C3%BC/versions/latest")[1]["subject"] == "a/b ü"


@pytest.mark.parametrize("path", ["/subjects?limit=2&offset=1", "/subjects?offset=1&limit=2"])
def test_long_lists_come_in_pages(registry: Registry, ask: Ask, path: str) -> None:
    for name in "abcd":
        registry.register(name, '"int"')
    assert ask("GET", path) == (200, ["b", "c"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"schema": avro(ID, doc="\ud800")}, (422, 42201)),
        ({"schema": '"int"', "metadata": {"properties": {"owner": "\ud800"}}}, (422, 42201)),
        ({"schema": '"int"', "schemaType": "\ud800"}, (422, 422)),
        ({"schema": '"int"', "metadata": "mine"}, (422, 422)),
        ({"schema": '"int"', "metadata": {"properties": ["mine"]}}, (422, 422)),
    ],
)
def test_what_cannot_be_told_is_refused_and_the_file_can_still_be_written(
    tmp_path: Path, body: Any, expected: tuple[int, int]
) -> None:
    with Registry(data_dir=tmp_path) as kept:
        ask = asking(kept.url)
        assert code(ask("POST", "/subjects/s/versions", body)) == expected
        assert ask("GET", "/subjects/s/metadata?key=owner&value=mine")[0] == 404
        assert ask("POST", "/subjects/t/versions", {"schema": '"int"'})[0] == 200
    with Registry(data_dir=tmp_path) as again:
        assert again.ask("GET", "/subjects") == ["t"]


def test_numbers_of_thousands_of_digits_are_those_of_nothing(ask: Ask) -> None:
    digits = "9" * 5_000
    assert ask("GET", f"/schemas/ids/{digits}")[0] == 404
    assert code(ask("GET", f"/subjects/s/versions/{digits}")) == (422, 42202)


def test_a_body_that_is_too_large_is_read_and_refused(ask: Ask) -> None:
    told = ask("POST", "/subjects/s/versions", b" " * (MAX_BODY_BYTES + 1))
    assert code(told) == (413, 413)
    assert str(MAX_BODY_BYTES) in told[1]["message"]


def test_what_follows_a_chunked_body_that_is_too_large_is_the_next_request(registry: Registry) -> None:
    """The rest of the body is not taken for requests."""
    hidden = b"DELETE /subjects/s HTTP/1.1\r\n\r\n"
    chunk = hidden + b" " * MAX_BODY_BYTES
    registry.register("s", '"int"')
    connection = http.client.HTTPConnection(urlsplit(registry.url).netloc, timeout=20)
    connection.request("POST", "/subjects/s/versions", iter([chunk]), encode_chunked=True)
    with connection.getresponse() as response:
        assert (response.status, json.loads(response.read())["error_code"]) == (413, 413)
    connection.request("GET", "/subjects")
    with connection.getresponse() as response:
        assert json.loads(response.read()) == ["s"]
    connection.close()


def test_what_is_no_method_or_no_request_is_told_as_json(registry: Registry) -> None:
    connection = http.client.HTTPConnection(urlsplit(registry.url).netloc, timeout=20)
    for method in ("HEAD", "GET"):
        # The answer to HEAD has no body, so that the next request of the connection is understood.
        connection.request(method, "/subjects")
        with connection.getresponse() as response:
            assert (response.status, response.getheader("Content-Type")) == (
                405 if method == "HEAD" else 200,
                "application/vnd.schemaregistry.v1+json",
            )
            assert response.read() == (b"" if method == "HEAD" else b"[]")
    connection.close()
    with socket.create_connection((urlsplit(registry.url).hostname, urlsplit(registry.url).port), timeout=20) as raw:
        raw.sendall(b"nonsense of a peer\r\n\r\n")
        head, _, body = b"".join(iter(lambda: raw.recv(4096), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error_code"] == 400


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: -1\r\n\r\n", b"Content-Length: \xb2\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"],
)
def test_a_body_of_no_size_is_refused(registry: Registry, head: bytes) -> None:
    with socket.create_connection((urlsplit(registry.url).hostname, urlsplit(registry.url).port), timeout=20) as raw:
        raw.sendall(b"POST /subjects/s/versions HTTP/1.1\r\nHost: here\r\n" + head)
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"is no size of a body" in answer


def test_many_clients_may_connect_before_the_first_is_accepted() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(closing(Server(("127.0.0.1", 0), Access(), Faults(), None).socket))
        for _ in range(100):
            # Where the queue is full, the connection is not answered, and this times out.
            stack.enter_context(socket.create_connection(server.getsockname(), 10))


def test_a_registry_may_be_started_again_while_connections_linger() -> None:
    server = Server(("127.0.0.1", 0), Access(), Faults(), None)
    address = ("127.0.0.1", server.server_port)
    with socket.create_connection(address, 20) as client, server.socket:
        server.socket.accept()[0].close()
        # The server's end was closed first, so it lingers for a minute after this.
        assert client.recv(1) == b""
    with closing(Server(address, Access(), Faults(), None).socket):
        pass
