"""Inferring the schema of a topic's records."""

import json
from collections.abc import Iterator

import pytest
from monedula import infer
from monedula.errors import ArgumentError, NoSchemaError, UnknownTopicError
from monedula.formats.schemas import schema_of
from monedula.producer.sync import Producer
from monedula.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[dict[str, str]]:
    with Broker(topics=["orders:2", "empty:1", "texts:1"]) as started:
        config = {"bootstrap.servers": started.bootstrap_servers}
        with Producer(config) as producer:
            for number in range(100):
                last = number == 99
                value = {"id": number, "item": {"price": 1.5 if last else 1}, **({"late": [True]} if last else {})}
                producer.send("orders", json.dumps(value).encode(), partition=0)
            producer.send("orders", None, key=b"k", partition=1)
            producer.send("orders", b"{broken", partition=1)
            producer.send("orders", b'{"id":null,"other":"x"}', partition=1)
            producer.send("texts", b"hello", partition=0)
            producer.flush()
        yield config


def test_records_at_both_ends_of_each_partition_are_looked_at(broker: dict[str, str]) -> None:
    found = infer(broker, "orders", records=10)
    assert found.ddl == "id BIGINT, item STRUCT<price: DOUBLE>, late ARRAY<BOOLEAN>, other STRING"
    assert (found.records, found.tombstones, found.bad) == (13, 1, 1)
    assert found.first_bad is not None
    assert found.first_bad[:3] == ("orders", 1, 1)
    assert schema_of(str(found)) == found.schema == schema_of(found)
    assert found.fields() == [
        ("id", "BIGINT"),
        ("item.price", "DOUBLE"),
        ("late", "ARRAY<BOOLEAN>"),
        ("other", "STRING"),
    ]


def test_a_sample_of_one_record_is_the_first(broker: dict[str, str]) -> None:
    assert infer(broker, ("orders", 0), records=1).ddl == "id BIGINT, item STRUCT<price: BIGINT>"


def test_no_schema_of_records_that_are_no_objects(broker: dict[str, str]) -> None:
    with pytest.raises(NoSchemaError, match=r"of 1 record, none is .*; the first bad one is texts\[0\] at offset 0: "):
        infer(broker, "texts")
    with pytest.raises(NoSchemaError, match="of 0 records, none is an object with fields"):
        infer(broker, "empty")


def test_invalid_arguments_are_named(broker: dict[str, str]) -> None:
    with pytest.raises(ArgumentError, match="records=0"):
        infer(broker, "orders", records=0)
    with pytest.raises(ArgumentError, match="of='headers'"):
        infer(broker, "orders", of="headers")  # type: ignore[arg-type]
    with pytest.raises(UnknownTopicError):
        infer(broker, "nothing")
