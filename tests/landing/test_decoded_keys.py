"""Decoded keys: the column `key` in tables of both formats."""

from pathlib import Path
from typing import Any

import monedula
import pytest
from monedula.errors import DecodeError, LandingError

from tests.consumer.avro_values import written
from tests.groups.ground import Ground
from tests.landing.orders import Orders, rows

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

RECORD = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}

FORMS: dict[str, tuple[Any, bytes, Any]] = {
    "json": (monedula.Json("id bigint"), b'{"id": 7}', {"id": 7}),
    "avro": (monedula.Avro(RECORD), written(RECORD, {"id": 7}), {"id": 7}),
    "a number": (monedula.Avro('"long"'), written("long", 7), 7),
    "a text": (monedula.Avro('"string"'), written("string", "seven"), "seven"),
}


@pytest.fixture
def orders(ground: Ground) -> Orders:
    return Orders(ground.bootstrap, ground.topic(1))


def send(orders: Orders, *keys: bytes | None) -> None:
    with monedula.Producer(orders.settings) as producer:
        for key in keys:
            producer.send(orders.topic, b'{"id": 1}', key=key)


@pytest.mark.parametrize("folder", ["lake", "ice"])
@pytest.mark.parametrize("form", FORMS)
def test_the_column_of_keys_has_their_type(orders: Orders, tmp_path: Path, form: str, folder: str) -> None:
    decoder, key, value = FORMS[form]
    send(orders, key, None)
    orders.land(tmp_path / folder, key=decoder)
    keys = rows(tmp_path / folder)["key"].to_list()
    assert keys[0] == value
    assert keys[1] in (None, {"id": None})  # polars has it as null or as a struct of nulls
    send(orders, key)
    orders.land(tmp_path / folder, key=decoder, key_column="_id")
    assert sum(each == value for each in rows(tmp_path / folder)["_id"].to_list()) == 1


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_a_key_that_cannot_be_decoded_is_a_bad_record(orders: Orders, tmp_path: Path, folder: str) -> None:
    decoder, key, _ = FORMS["json"]
    send(orders, key, b"{broken", key)
    with pytest.raises(DecodeError, match="the key cannot be decoded"):
        orders.land(tmp_path / folder, key=decoder)
    assert orders.land(tmp_path / folder, key=decoder, bad_records="column").bad_records == 1
    found = rows(tmp_path / folder)
    assert found.height == 3
    assert found["_error"].drop_nulls().to_list()[0].startswith("key: ")
    assert found["_raw"].struct.field("key").drop_nulls().to_list() == [b"{broken"]


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_a_restart_without_the_decoder_of_keys_is_refused(orders: Orders, tmp_path: Path, folder: str) -> None:
    decoder, key, _ = FORMS["json"]
    send(orders, key)
    orders.land(tmp_path / folder, key=decoder)
    send(orders, key)
    with pytest.raises(LandingError, match="the column key of the table is of the type struct"):
        orders.land(tmp_path / folder)
    assert orders.land(tmp_path / folder, key=decoder).rows == 1
