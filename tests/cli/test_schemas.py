"""`monedula schemas`, and `monedula consume --decode avro`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
from monedula.testing import Broker, Registry

from tests.cli.processes import output, problem, run
from tests.consumer.test_schema_registry import NEWER, ORDER, framed, order


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture
def where(registry: Registry, tmp_path: Path) -> tuple[str, str]:
    """The option with the registry's settings."""
    file = tmp_path / "registry.properties"
    file.write_text(f"schema.registry.url={registry.url}\n")
    return "-F", str(file)


def test_subjects_versions_and_schemas_are_shown(registry: Registry, where: tuple[str, str]) -> None:
    registry.register("orders/value", ORDER)
    registry.register("item", {"type": "record", "name": "Item", "fields": []})
    registry.register("orders/value", NEWER, references=[("Item", "item", 1)])
    registry.register("proto", "message Proto {}", kind="PROTOBUF")
    assert output("schemas", "list", *where).splitlines() == ["item", "orders/value", "proto"]
    assert output("schemas", "versions", "orders/value", *where).splitlines() == ["1\t1\tavro", "2\t3\tavro"]
    assert json.loads(output("schemas", "show", "orders/value", "--version", "1", *where)) == ORDER
    assert output("schemas", "show", "proto", *where) == "message Proto {\n}\n"
    shown = json.loads(output("schemas", "show", "orders/value", "--json", *where))
    assert (shown["version"], shown["id"], shown["references"]) == (2, 3, ["Item=item:1"])
    assert "40401 Subject 'none' not found" in problem("schemas", "show", "none", *where)


def test_a_password_in_a_url_is_no_argument(registry: Registry) -> None:
    url = registry.url.replace("//", "//user:hush@")
    told = problem("schemas", "list", "-X", f"schema.registry.url={url}", code=2)
    assert "everyone on this machine can read the arguments" in told
    assert "hush" not in told
    assert registry.requests() == []
    assert output("schemas", "list", "-X", f"schema.registry.url={registry.url.replace('//', '//user@')}") == ""


def test_a_schema_is_registered_and_its_id_written(registry: Registry, where: tuple[str, str], tmp_path: Path) -> None:
    registry.register(":.eu:item", {"type": "record", "name": "Item", "fields": []})
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    file = str(tmp_path / "order.avsc")
    assert output("schemas", "register", "s", file, "--reference", "Item=:.eu:item:1", *where) == "1\n"
    found = registry.ask("GET", "/subjects/s/versions/1")
    assert found["references"] == [{"name": "Item", "subject": ":.eu:item", "version": 1}]
    proto = ("schemas", "register", "p", "-", "--type", "protobuf", "--json", *where)
    assert output(*proto, stdin=b"message P {}") == '{"id": 2}\n'
    assert '42201 Invalid schema: line 1: expected a declaration, and not "x"' in problem(*proto, stdin=b"x")
    (tmp_path / "no.avsc").write_text("record")
    assert "no.avsc is not JSON" in problem("schemas", "register", "s", str(tmp_path / "no.avsc"), *where)
    deep = b"[" * 200_000 + b"]" * 200_000
    assert "nested too deep" in problem("schemas", "register", "s", "-", *where, stdin=deep)
    for version in ("²", "9" * 5000):
        wrong = ("schemas", "register", "s", file, "--reference", f"Item=item:{version}", *where)
        assert "expected NAME=SUBJECT:VERSION" in problem(*wrong, code=2)


def test_a_schema_that_is_not_compatible_ends_with_the_reasons(
    registry: Registry, where: tuple[str, str], tmp_path: Path
) -> None:
    registry.register("s", ORDER)
    (tmp_path / "order.avsc").write_text(json.dumps(NEWER))
    arguments = ("schemas", "check", "s", str(tmp_path / "order.avsc"), *where)
    assert output(*arguments) == ""
    fields = [{name: value for name, value in each.items() if name != "default"} for each in NEWER["fields"]]
    (tmp_path / "order.avsc").write_text(json.dumps({**NEWER, "fields": fields}))
    done = run(*arguments)
    assert done.returncode == 1
    assert b"the field 'amount' has no default" in done.stdout.splitlines()[0]
    assert b"is not compatible with the latest version of s" in done.stderr


def test_avro_is_decoded_by_the_schema_of_the_topics_subject_or_of_another(
    broker: Broker, registry: Registry, where: tuple[str, str], tmp_path: Path
) -> None:
    first, second = registry.register("orders-value", ORDER), registry.register("other", NEWER)
    broker.create_topic("orders", 1)
    broker.append("orders", [framed(first, ORDER, order(0)), framed(second, NEWER, {**order(1), "amount": 2.5})])
    file = tmp_path / "out.parquet"
    consume = ("consume", "orders", "--decode", "avro", "-o", str(file), *where)
    output(*consume, "--flatten", servers=broker.bootstrap_servers)
    assert pyarrow.parquet.read_table(file).select(["id", "user"]).to_pylist() == [order(0), order(1)]
    output(*consume, "--subject", "other", servers=broker.bootstrap_servers)
    values = pyarrow.parquet.read_table(file)["value"].to_pylist()
    assert values == [{**order(0), "amount": 1.5}, {**order(1), "amount": 2.5}]
    (tmp_path / "order.avsc").write_text(json.dumps({**ORDER, "fields": ORDER["fields"][:1]}))
    output(*consume, "--schema", str(tmp_path / "order.avsc"), servers=broker.bootstrap_servers)
    assert pyarrow.parquet.read_table(file)["value"].to_pylist() == [{"id": 0}, {"id": 1}]
