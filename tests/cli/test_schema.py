"""`monedula schema infer`."""

import json

from monedula.formats.schemas import schema_of
from monedula.testing import Broker

from tests.cli.processes import output, problem, run

DDL = "id BIGINT, items ARRAY<STRUCT<price: DOUBLE, tags: ARRAY<STRING>>>"


def test_the_schema_of_a_topic_is_shown_in_each_form(broker: Broker) -> None:
    broker.create_topic("orders")
    broker.append("orders", ['{"id":1,"items":[{"price":1.5}]}', '{"items":[{"tags":["a"]}]}'])
    servers = broker.bootstrap_servers
    table = output("schema", "infer", "orders", servers=servers).splitlines()
    assert table == ["id\tBIGINT", "items[].price\tDOUBLE", "items[].tags\tARRAY<STRING>"]
    assert output("schema", "infer", "orders", "-o", "ddl", servers=servers) == DDL + "\n"
    assert schema_of(json.loads(output("schema", "infer", "orders", "-o", "json", servers=servers))) == schema_of(DDL)


def test_records_that_are_no_objects_are_counted(broker: Broker) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["hello", '{"id":1}'])
    done = run("schema", "infer", "orders", "-o", "ddl", servers=broker.bootstrap_servers)
    assert done.stdout == b"id BIGINT\n"
    assert b"1 of 2 records are no JSON objects; the first: orders[0] at offset 0: Expecting value" in done.stderr


def test_without_an_object_there_is_no_schema(broker: Broker) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["hello"])
    assert "of 1 record, none is an object with fields" in problem(
        "schema", "infer", "orders", servers=broker.bootstrap_servers
    )
