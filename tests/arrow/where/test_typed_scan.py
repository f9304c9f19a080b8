"""`scan` and `dataset` with typed columns: a query decodes the fields that it uses, and its answer is the same."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import monedula
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from monedula.testing import Broker

SCHEMA = "a bigint, b string, c struct<d: double, e: array<int>>, _corrupt_record string"
FIELDS = ["a", "b", "c", "_corrupt_record"]
BESIDE = ["key", "topic", "partition", "offset", "timestamp", "timestampType"]
PARTITIONS = 3
ROWS = 120


def value_of(random: Random) -> bytes | None:
    """JSON that is good, has a bad field, or is none at all."""
    fields: dict[str, Any] = {"a": random.randrange(5), "b": random.choice(("x", "y", "é")), "skipped": [{"z": 1}]}
    fields["c"] = {"d": random.random(), "e": [random.randrange(9) for _ in range(random.randrange(3))]}
    match random.randrange(8):
        case 0:
            fields["a"] = "no number"
        case 1:
            fields["c"]["e"] = [1, "no number"]
        case 2:
            del fields["b"]
        case 3:
            return random.choice((None, b"", b"no json", b'{"a": 1, "b": "cut'))
    return json.dumps(fields, ensure_ascii=random.random() < 0.5).encode()


@pytest.fixture(scope="module", params=[1, 3, 9, 50], ids=lambda nodes: f"{nodes}-nodes")
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    random = Random(request.param)
    with Broker(nodes=request.param, topics={"events": PARTITIONS, "good": 1, "bad": 1, "avro": 1}) as broker:
        for partition in range(PARTITIONS):
            broker.append("events", [value_of(random) for _ in range(ROWS)], partition=partition)
        broker.append("good", [f'{{"a": {number}, "b": "{number}"}}' for number in range(ROWS)])
        broker.append("avro", [bytes([2 * number, 1]) for number in range(9)])
        broker.append("bad", ['{"a": 1, "b": "x"}', '{"a": "no number", "b": "y"}', '{"a": 3, "b": "z"}'])
        yield {"bootstrap.servers": broker.bootstrap_servers}


def in_order(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(table).to_pylist()
    return sorted(rows, key=repr)


def test_the_fields_are_columns_in_place_of_the_value() -> None:
    offline = {"bootstrap.servers": "127.0.0.1:1"}
    flat = monedula.Json(SCHEMA, flatten=True, mode="null")
    names = ["key", *FIELDS, *BESIDE[1:]]
    assert monedula.scan(offline, "events", value=flat).collect_schema().names() == names
    assert monedula.dataset(offline, "events", value=flat, headers=True).schema.names == [*names, "headers"]
    kept = monedula.scan(offline, "events", value=monedula.Json("a int"), key=monedula.Json("k date")).collect_schema()
    assert (kept["value"], kept["key"]) == (pl.Struct({"a": pl.Int32()}), pl.Struct({"k": pl.Date()}))


@pytest.mark.parametrize("mode", ["null", "drop"])
@pytest.mark.parametrize("flatten", [True, False])
def test_generated_queries_have_the_rows_of_the_whole_topic(settings: dict[str, Any], mode: Any, flatten: bool) -> None:
    value = monedula.Json(SCHEMA, mode=mode, flatten=flatten)
    every = pa.table(monedula.read(settings, "events", value=value))
    random, whole = Random(len(settings["bootstrap.servers"])), pl.DataFrame(every)
    frame, dataset = monedula.scan(settings, "events", value=value), monedula.dataset(settings, "events", value=value)
    a, arrow_a = (pl.col("a"), pc.field("a")) if flatten else (pl.col("value").struct[0], pc.field("value", "a"))
    conditions = [
        (a == 3, arrow_a == 3),
        (pl.col("offset") >= 40, pc.field("offset") >= 40),
        ((pl.col("partition") == 1) & (a > 1), (pc.field("partition") == 1) & (arrow_a > 1)),
        (pl.col("offset").is_in([3, 90]) | a.is_null(), pc.field("offset").isin([3, 90]) | arrow_a.is_null()),
    ]
    for _ in range(12):
        columns = random.sample(every.schema.names, random.randint(1, len(every.schema.names)))
        in_polars, in_arrow = random.choice(conditions)
        wanted = in_order(every.filter(in_arrow).select(columns))
        engine: Any = random.choice(("streaming", "in-memory"))
        found = frame.filter(in_polars).select(columns).collect(engine=engine)
        assert in_order(found) == in_order(whole.filter(in_polars).select(columns)), (columns, str(in_polars))
        assert in_order(dataset.to_table(columns=columns, filter=in_arrow)) == wanted, (columns, str(in_arrow))
        assert dataset.count_rows(filter=in_arrow) == len(wanted)
    assert frame.select(pl.len()).collect().item() == dataset.count_rows() == every.num_rows
    for rows in (1, 7, ROWS, every.num_rows, every.num_rows + 1):
        assert frame.head(rows).select("offset").collect().height == min(rows, every.num_rows)
        assert dataset.head(rows, columns=["offset"]).num_rows == min(rows, every.num_rows)


def test_a_field_that_nobody_asks_for_is_not_decoded(settings: dict[str, Any]) -> None:
    value = monedula.Json("a bigint, b string", flatten=True)
    frame, dataset = monedula.scan(settings, "bad", value=value), monedula.dataset(settings, "bad", value=value)
    assert frame.select("b").collect()["b"].to_list() == ["x", "y", "z"]
    assert dataset.to_table(columns=["b"])["b"].to_pylist() == ["x", "y", "z"]
    assert dataset.count_rows() == 3
    with pytest.raises(Exception, match=r"bad \[0\] at offset 1: the value cannot be decoded: a: "):
        frame.select("a").collect()
    with pytest.raises(monedula.DecodeError, match="at offset 1"):
        dataset.to_table(columns=["b"], filter=pc.field("a") == 1)


def test_the_text_of_a_bad_value_is_that_of_all_fields(settings: dict[str, Any]) -> None:
    value = monedula.Json("a bigint, b string, _corrupt_record string", flatten=True, mode="null")
    frame = monedula.scan(settings, "bad", value=value)
    texts = [None, '{"a": "no number", "b": "y"}', None]
    assert frame.select("_corrupt_record").collect()["_corrupt_record"].to_list() == texts


def test_sql_takes_fields_as_columns(settings: dict[str, Any]) -> None:
    flat = monedula.dataset(settings, "good", value=monedula.Json("a bigint, b string", flatten=True))
    nested = monedula.dataset(settings, "good", value=monedula.Json("a bigint, b string"))
    with duckdb.connect() as connection:
        connection.register("flat", flat)
        connection.register("nested", nested)
        found = connection.sql("SELECT a FROM flat WHERE b >= '9' AND \"offset\" < 93 ORDER BY a").fetchall()
        assert found == [(9,), (90,), (91,), (92,)]
        assert connection.sql("SELECT value.b FROM nested WHERE value.a = 7").fetchall() == [("7",)]


def test_fields_of_avro_are_columns(settings: dict[str, Any]) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "is_new", "type": "boolean"}]
    value = monedula.Avro({"type": "record", "name": "Order", "fields": fields}, flatten=True)
    frame = monedula.scan(settings, "avro", value=value).filter(pl.col("id") > 5, pl.col("offset") < 8)
    assert frame.select("id").collect()["id"].to_list() == [6, 7]
    dataset = monedula.dataset(settings, "avro", value=value)
    assert dataset.to_table(columns=["is_new"], filter=pc.field("id") == 3).to_pylist() == [{"is_new": True}]


def test_what_a_scan_does_not_take_is_said() -> None:
    offline = {"bootstrap.servers": "127.0.0.1:1"}
    for make in (monedula.scan, monedula.dataset):
        with pytest.raises(monedula.ArgumentError, match="dead letters are for consumers"):
            make(offline, "events", value=monedula.Json("a int", dead_letter="x"))
        with pytest.raises(monedula.ArgumentError, match="only the fields of values"):
            make(offline, "events", key=monedula.Json("a int", flatten=True))
        with pytest.raises(monedula.ArgumentError, match="a column of Kafka's"):
            make(offline, "events", value=monedula.Json("offset int", flatten=True))
        with pytest.raises(monedula.ArgumentError, match=r"start= and end="):
            make(offline, {("events", 0): 2})
        with pytest.raises(monedula.ConfigError, match=r"the topics come second"):
            make("events", offline)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "argument", "says"),
    [
        (monedula.scan, "columns", r"scan() takes no argument 'columns'; here: .*scan(...).select("),
        (monedula.scan, "where", r"scan() takes no argument 'where'; here: .*scan(...).filter("),
        (monedula.scan, "max_rows", r"scan() takes no argument 'max_rows'; here: .*scan(...).head("),
        (monedula.scan, "colour", r"scan() got an unexpected keyword argument 'colour'"),
        (monedula.dataset, "columns", r"dataset() takes no argument 'columns'; here: .*to_table(columns="),
        (monedula.dataset, "where", r"dataset() takes no argument 'where'; here: .*to_table(filter="),
    ],
)
def test_an_argument_of_read_is_told_to_be_part_of_the_query(make: Any, argument: str, says: str) -> None:
    pattern = says.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(TypeError, match=pattern):
        make({"bootstrap.servers": "127.0.0.1:1"}, "events", **{argument: ["key"]})
