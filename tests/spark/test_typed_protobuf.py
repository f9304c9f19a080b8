"""Protobuf values as typed columns of the source, with the types that Spark's `from_protobuf` has."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.conftest import TopicFactory
from tests.consumer.protobuf_values import SCALARS, File, fill
from tests.consumer.schema_registry import Registry
from tests.consumer.test_typed_protobuf import framed
from tests.kafka import KafkaCluster
from tests.spark._support.sources import options_for
from tests.spark._support.typed import SUBJECT, rows, send, typed, with_registry

FILE = File("spark.proto")
FILE.message("Item", {"name": "string", "price": "double", "tags": "repeated string"})
FILE.message(
    "Order",
    {
        **{f"{name}_one": name for name in SCALARS},
        "maybe": "optional string",
        "colour": ".t.Colour",
        "items": "repeated .t.Item",
        "first": ".t.Item",
        "prices": "map string double",
        "parts": "map int32 .t.Item",
        "at": ".google.protobuf.Timestamp",
        "took": ".google.protobuf.Duration",
        "wrapped": ".google.protobuf.Int32Value",
        "either": "oneof int64",
        "other": "oneof .t.Item",
    },
)
FILE.message("Empty", {})
(ORDER,) = FILE.build("Order")
TEXT = FILE.text()
# A registry takes no schema whose imports it does not have.
REGISTERED = TEXT.replace('import "a/that/is/not/given.proto";', "")

ITEM = "struct<name:string,price:double,tags:array<string>>"
TYPES = {
    "double": "double",
    "float": "float",
    "bool": "boolean",
    "string": "string",
    "bytes": "binary",
    **dict.fromkeys(("int64", "uint64", "fixed64", "sfixed64", "sint64"), "bigint"),
    **dict.fromkeys(("int32", "uint32", "fixed32", "sfixed32", "sint32"), "int"),
}
ORDER_TYPE = (
    "struct<"
    + "".join(f"{name}_one:{TYPES[name]}," for name in SCALARS)
    + f"maybe:string,colour:string,items:array<{ITEM}>,first:{ITEM},prices:map<string,double>,parts:map<int,{ITEM}>,"
    + f"at:timestamp,took:interval day to second,wrapped:struct<value:int>,either:bigint,other:{ITEM}>"
)


def messages(count: int) -> list[Any]:
    chance, made = random.Random(11), []
    for number in range(count):
        message: Any = ORDER()
        fill(message, chance)
        message.int64_one = number
        message.took.seconds %= 1000
        message.at.seconds %= 1 << 31
        made.append(message)
    return made


@pytest.fixture
def filled(kafka: KafkaCluster, topic: TopicFactory, registry: Registry) -> str:
    """A topic of two partitions with 40 framed orders, whose schema is version 1 of a subject."""
    name = topic(2)
    number = registry.register(SUBJECT, {"schemaType": "PROTOBUF", "schema": REGISTERED})
    place = (b"\x00", b"\x02\x02")[FILE.proto.message_type[0].name != "Order"]
    send(kafka, name, [(n % 2, framed(number, place, each.SerializeToString())) for n, each in enumerate(messages(40))])
    return name


def options(kafka: KafkaCluster, name: str, registry: Registry, **more: Any) -> dict[str, str]:
    return with_registry(kafka, name, registry, "protobuf", **{"value_message": "t.Order", **more})


def values(frame: DataFrame) -> list[Any]:
    in_order = sorted(rows(frame), key=lambda row: (row.offset, row.partition))
    return [None if row.value is None else row.value.asDict(recursive=True) for row in in_order]


def signed(bits: int, value: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def expected(message: Any) -> dict[str, Any]:
    """The row of an order by Spark's rules: nulls for what a message of proto3 leaves out, and signed numbers."""
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        held, name = getattr(message, field.name), field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            row[name] = {key: expected(held[key]) if value.message_type else held[key] for key in held}
        elif field.is_repeated:
            row[name] = [expected(each) if field.message_type else each for each in held]
        elif name not in {each.name for each, _ in message.ListFields()}:
            row[name] = None
        elif name == "at":
            row[name] = held.ToDatetime()
        elif name == "took":
            row[name] = timedelta(seconds=held.seconds, microseconds=held.nanos // 1000)
        elif field.message_type is not None:
            row[name] = expected(held)
        elif field.enum_type is not None:
            known = field.enum_type.values_by_number.get(held)
            row[name] = str(held) if known is None else known.name
        elif name in ("uint32_one", "fixed32_one", "uint64_one", "fixed64_one"):
            row[name] = signed(32 if "32" in name else 64, held)
        else:
            row[name] = held
    return row


def test_values_and_types_are_those_of_from_protobuf(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    frame = typed(spark, options(kafka, filled, registry))
    assert frame.schema["value"].dataType.simpleString() == ORDER_TYPE
    assert values(frame) == [expected(each) for each in messages(40)]
    assert registry.asked[0] == "/subjects/orders%2Fvalue/versions/latest"


@pytest.mark.parametrize("form", ["text", "descriptors", "file"])
def test_a_schema_of_bare_values_needs_no_registry(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path, form: str
) -> None:
    name, schema = topic(1), TEXT
    send(kafka, name, [(0, each.SerializeToString()) for each in messages(3)])
    if form == "descriptors":
        files = descriptor_pb2.FileDescriptorSet(file=[FILE.proto]).SerializeToString()
        imported = [ORDER.DESCRIPTOR.fields_by_name[of].message_type.file for of in ("at", "took", "wrapped")]
        for each in imported:
            files = descriptor_pb2.FileDescriptorSet.FromString(files)
            each.CopyToProto(files.file.add())
            files = files.SerializeToString()
        (tmp_path / "order.pb").write_bytes(files)
        schema = str(tmp_path / "order.pb")
    elif form == "file":
        (tmp_path / "order.proto").write_text(TEXT)
        schema = str(tmp_path / "order.proto")
    given = options_for(kafka, subscribe=name, value_format="protobuf", value_schema=schema, value_message="t.Order")
    assert values(typed(spark, given)) == [expected(each) for each in messages(3)]


def test_a_query_may_ask_for_some_fields_in_any_order(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    fields = (
        "parts: map<int, struct<price: double>>, int64_one: bigint, "
        "items: array<struct<tags: array<string>, name: string>>"
    )
    frame = typed(spark, options(kafka, filled, registry), f"offset bigint, value struct<{fields}>, partition int")
    wanted = [expected(each) for each in messages(40)]
    assert values(frame) == [
        {
            "parts": {key: {"price": part["price"]} for key, part in row["parts"].items()},
            "int64_one": row["int64_one"],
            "items": [{"tags": item["tags"], "name": item["name"]} for item in row["items"]],
        }
        for row in wanted
    ]


def test_flattened_fields_are_columns(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    given = options(kafka, filled, registry, value_flatten="true")
    frame = typed(spark, given)
    assert frame.columns[:3] == ["key", "double_one", "float_one"]
    numbers = [row.int64_one for row in frame.select("int64_one").collect() if row.int64_one is not None]
    assert sorted(numbers) == [*range(1, 40)]
    assert typed(spark, given, "maybe string, offset bigint").columns == ["maybe", "offset"]


def test_options_are_those_of_from_protobuf(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    more = {
        "value.emit.default.values": "true",
        "value.upcast.unsigned.ints": "true",
        "value.enums.as.ints": "true",
        "value.unwrap.primitive.wrapper.types": "true",
    }
    frame = typed(spark, {**options(kafka, filled, registry), **more})
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema["value"].dataType.fields}
    names = ("uint32_one", "fixed32_one", "uint64_one", "colour", "wrapped")
    assert [kinds[name] for name in names] == ["bigint", "bigint", "decimal(20,0)", "int", "int"]
    assert frame.filter("value.string_one is null").count() == 0
    first = values(frame)[1]
    assert (first["uint32_one"], int(first["uint64_one"])) == (messages(2)[1].uint32_one, messages(2)[1].uint64_one)


def test_bad_records_fail_the_query_are_null_or_are_dropped(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    send(kafka, filled, [(0, b"\x00\x00\x00\x00\x63\x00"), (1, None)])
    counted = {
        mode: typed(spark, options(kafka, filled, registry, value_mode=mode), "value struct<int64_one: bigint>")
        for mode in ("PERMISSIVE", "DROPMALFORMED")
    }
    assert (counted["PERMISSIVE"].count(), counted["DROPMALFORMED"].count()) == (42, 41)
    # As of from_protobuf, whose bad values are null, unlike those of from_avro.
    assert counted["PERMISSIVE"].filter("value is null").count() == 2
    with pytest.raises(PySparkException, match=r"at offset 20: .*schema id 99.* The option value\.mode is FAILFAST"):
        typed(spark, options(kafka, filled, registry)).collect()


@pytest.mark.parametrize(
    ("schema", "given", "message"),
    [
        (None, {"value_schema": TEXT}, "value.schema and value.subject say two things"),
        (None, {"value_message": "t.None"}, r"option 'value\.subject': there is no message t\.None"),
        (None, {"value_columnNameOfCorruptRecord": "x"}, "is for value.format=json"),
        (None, {"value_recursiveFieldMaxDepth": "1"}, "is for value.format=avro"),
        ("value struct<x: int>", {}, "value: the Protobuf schema has no field 'x'"),
        ("value struct<int64_one: int>", {}, r"value\.int64_one is bigint by the Protobuf schema, not int"),
    ],
)
def test_mistakes_are_said_before_anything_is_read(
    spark: SparkSession,
    kafka: KafkaCluster,
    registry: Registry,
    schema: str | None,
    given: dict[str, str],
    message: str,
) -> None:
    registry.register(SUBJECT, {"schemaType": "PROTOBUF", "schema": REGISTERED})
    with pytest.raises(PySparkException, match=message):
        typed(spark, options(kafka, "nothing", registry, **given), schema).collect()


def test_a_file_that_there_is_not_and_a_message_that_is_not_named_are_said(
    spark: SparkSession, kafka: KafkaCluster
) -> None:
    def given(schema: str) -> dict[str, str]:
        return options_for(kafka, subscribe="x", value_format="protobuf", value_schema=schema)

    with pytest.raises(PySparkException, match=r"option 'value\.schema': /nowhere\.pb: No such file"):
        typed(spark, given("/nowhere.pb"))
    with pytest.raises(PySparkException, match=r"several messages; give value\.message, one of"):
        typed(spark, given(TEXT))
    tree = 'syntax = "proto3"; message Node { Node next = 1; }'
    with pytest.raises(PySparkException, match=r"the option value\.recursive\.fields\.max\.depth"):
        typed(spark, given(tree))
