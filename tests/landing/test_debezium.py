"""Envelopes of Debezium land as rows of what changed."""

import json
from pathlib import Path
from typing import Any

import monedula
import polars
import pytest
from monedula import Avro, Json
from monedula.errors import DecodeError
from monedula.testing import Broker

from tests.consumer.avro_values import written
from tests.groups.ground import Ground
from tests.landing.orders import Orders, rows
from tests.landing.test_command import run

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

TIME = 1_700_000_000_000
CHANGES: list[dict[str, Any] | None] = [
    {"op": "r", "before": None, "after": {"id": 1, "amount": 1.0}},
    {"op": "c", "before": None, "after": {"id": 2, "amount": 2.0}},
    {"op": "u", "before": {"id": 2, "amount": 2.0}, "after": {"id": 2, "amount": 3.0}},
    {"op": "d", "before": {"id": 2, "amount": 3.0}, "after": None},
    None,
    {"op": "t", "before": None, "after": None},
]
ROWS = [(1, 1.0, "r"), (2, 2.0, "c"), (2, 3.0, "u"), (2, 3.0, "d"), (None, None, None), (None, None, "t")]

ORDER = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": ["null", "double"], "default": None}],
}
SOURCE = {"type": "record", "name": "Source", "fields": [{"name": "table", "type": "string"}]}


def envelope_of(order: Any) -> Any:
    """The schema of an envelope, as Debezium's Avro converter has it."""
    return {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", order], "default": None},
            {"name": "after", "type": ["null", order["name"]], "default": None},
            {"name": "source", "type": SOURCE},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }


def full(change: dict[str, Any]) -> dict[str, Any]:
    return {**change, "source": {"table": "orders"}, "ts_ms": TIME}


def as_json(change: dict[str, Any] | None) -> bytes | None:
    return None if change is None else json.dumps(full(change)).encode()


def wrapped(change: dict[str, Any] | None) -> bytes | None:
    return None if change is None else json.dumps({"schema": {"type": "struct"}, "payload": full(change)}).encode()


def as_avro(change: dict[str, Any] | None) -> bytes | None:
    return None if change is None else written(envelope_of(ORDER), full(change))


FORMS: dict[str, tuple[Any, Any]] = {
    "json": (as_json, Json("id bigint, amount double")),
    "wrapped json": (wrapped, Json("id bigint, amount double")),
    "json by the schema of the envelope": (
        as_json,
        Json(
            "before struct<id: bigint, amount: double>, after struct<id: bigint, amount: double>, op string, "
            "ts_ms bigint"
        ),
    ),
    "avro": (as_avro, Avro(envelope_of(ORDER))),
}


@pytest.fixture
def changes(ground: Ground) -> Orders:
    return Orders(ground.bootstrap, ground.topic(1))


def send(changes: Orders, values: list[bytes | None]) -> None:
    with monedula.Producer(changes.settings) as producer:
        for value in values:
            producer.send(changes.topic, value, key=b"key")


@pytest.mark.parametrize("folder", ["lake", "ice"])
@pytest.mark.parametrize("form", FORMS)
def test_envelopes_are_rows_of_what_changed(changes: Orders, tmp_path: Path, form: str, folder: str) -> None:
    encode, decoder = FORMS[form]
    send(changes, [encode(change) for change in CHANGES])
    changes.land(tmp_path / folder, value=decoder, unwrap="debezium")
    found = rows(tmp_path / folder).sort(polars.col("_kafka").struct.field("offset"))
    assert found.columns == ["id", "amount", "_op", "_ts_ms", "key", "_kafka"]
    assert found.select("id", "amount", "_op").rows() == ROWS
    assert found["_ts_ms"].to_list() == [None if change is None else TIME for change in CHANGES]
    assert found["key"].to_list() == [b"key"] * len(CHANGES)


def test_the_newest_state_of_each_key_is_a_query(changes: Orders, tmp_path: Path) -> None:
    send(changes, [as_json(change) for change in CHANGES])
    changes.land(tmp_path / "lake", value=Json("id bigint, amount double"), unwrap="debezium")
    last = (
        rows(tmp_path / "lake")
        .filter(polars.col("_op").is_in(["c", "u", "d", "r"]))
        .sort(polars.col("_kafka").struct.field("offset"))
        .group_by("id")
        .last()
    )
    assert last.filter(polars.col("_op") != "d").select("id", "amount").rows() == [(1, 1.0)]


@pytest.mark.parametrize("form", ["json", "avro"])
def test_columns_that_the_source_gets_are_added(changes: Orders, tmp_path: Path, form: str) -> None:
    encode, decoder = FORMS[form]
    send(changes, [encode(change) for change in CHANGES[:2]])
    changes.land(tmp_path / "lake", value=decoder, unwrap="debezium")
    order = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
    change = full({"op": "c", "before": None, "after": {"id": 3, "amount": 3.0, "note": "new"}})
    send(changes, [json.dumps(change).encode() if form == "json" else written(envelope_of(order), change)])
    newer = Json("id bigint, amount double, note string") if form == "json" else Avro(envelope_of(order))
    changes.land(tmp_path / "lake", value=newer, unwrap="debezium")
    found = rows(tmp_path / "lake").sort("id")
    assert found.columns == ["id", "amount", "_op", "_ts_ms", "key", "_kafka", "note"]
    assert found["note"].to_list() == [None, None, "new"]


def test_a_subject_of_the_registry_is_followed(tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}, registry=True) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": broker.schema_registry_url}
        made = Orders(broker.bootstrap_servers, "orders")
        made.settings = settings
        values = [full(change) for change in CHANGES if change is not None]
        table = polars.DataFrame({"value": values})
        with monedula.Producer(settings, value=Avro(json.dumps(envelope_of(ORDER)), framing="confluent")) as producer:
            producer.send_batch(table, "orders")
        made.land(tmp_path / "lake", value=Avro(), unwrap="debezium")
        found = rows(tmp_path / "lake").sort(polars.col("_kafka").struct.field("offset"))
        assert found.select("id", "amount", "_op").rows() == [row for row in ROWS if row[2] is not None]


def test_what_is_no_envelope_is_a_bad_record(changes: Orders, tmp_path: Path) -> None:
    send(changes, [b'{"id": 1}', as_json(CHANGES[0])])
    decoder = Json("id bigint, amount double")
    with pytest.raises(DecodeError):
        changes.land(tmp_path / "lake", value=decoder, unwrap="debezium")
    assert changes.land(tmp_path / "lake", value=decoder, unwrap="debezium", bad_records="column").bad_records == 1
    assert rows(tmp_path / "lake")["_op"].drop_nulls().to_list() == ["r"]


def test_values_that_are_no_envelopes_are_refused_at_once(changes: Orders, tmp_path: Path) -> None:
    with pytest.raises(monedula.ArgumentError, match="an envelope has the structs before and after"):
        changes.job(tmp_path / "lake", value=Avro(ORDER), unwrap="debezium")
    with pytest.raises(monedula.ArgumentError, match="about decoded values"):
        changes.job(tmp_path / "lake", value=None, unwrap="debezium")
    with pytest.raises(monedula.ArgumentError, match="expected 'debezium'"):
        changes.job(tmp_path / "lake", unwrap="maxwell")


def test_a_command_unwraps(changes: Orders, tmp_path: Path) -> None:
    send(changes, [as_json(change) for change in CHANGES])
    path = str(tmp_path / "lake")
    words = (changes.topic, path, "--value", "json", "--unwrap", "debezium", "--until", "now")
    _, said = run(changes, *words, code=2)
    assert "--unwrap with --value json needs --schema" in said
    run(changes, *words, "--schema", "id bigint, amount double")
    assert rows(path)["_op"].drop_nulls().sort().to_list() == ["c", "d", "r", "t", "u"]
    _, said = run(changes, changes.topic, path, "--unwrap", "debezium", code=2)
    assert "add --value json" in said
