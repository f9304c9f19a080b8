"""Rows that are written as Protobuf: against the bytes that Google's package writes and reads."""

import datetime
import random
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from monedula import ArgumentError, Protobuf

from tests.consumer.protobuf_values import File, fill
from tests.consumer.test_typed_protobuf import anything, every

NOON = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)


def cut(message: Message) -> None:
    """Cut times to microseconds, which is what columns have."""
    if message.DESCRIPTOR.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        times = anything(message)
        times.nanos -= times.nanos % 1000
        return
    for field, held in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for each in held.values():
                    cut(each)
        else:
            for each in held if field.is_repeated else [held]:
                cut(each)


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"upcast.unsigned.ints": True},
        {"unsigned.as.signed": True},
        {"unwrap.primitive.wrapper.types": False},
    ],
)
def test_every_kind_of_field_is_what_googles_package_writes(syntax: str, options: dict[str, Any]) -> None:
    (kind,) = every(syntax).build("Every")
    chance, values = random.Random(7), []
    for _ in range(300):
        message = anything(kind)()
        fill(message, chance)
        cut(message)
        values.append(message.SerializeToString(deterministic=True))
    for form in (Protobuf(kind, options=options), Protobuf(every(syntax).text(), message="t.Every", options=options)):
        table = pa.table(form.spec.decode([None, *values]))
        made = form.spec.encode(pa.concat_tables([table.slice(0, 100), table.slice(100)]))
        assert made[0] is None
        assert made[1:] == values
    read = [kind.FromString(each or b"") for each in made[1:]]
    assert read == [kind.FromString(each) for each in values]


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Colour { option allow_alias = true; BLACK = 0; RED = 1; CRIMSON = 1; }
message Line { double price = 1; repeated int32 numbers = 2; }
message All {
    int32 i32 = 1; uint32 u32 = 2; uint64 u64 = 3; sint64 s64 = 4; fixed64 f64 = 5; float f = 6; double d = 7;
    bool b = 8; string s = 9; bytes y = 10; Colour colour = 11; Line line = 12; repeated Line lines = 13;
    map<string, int32> by = 14; optional int32 maybe = 15; google.protobuf.Timestamp at = 16;
    google.protobuf.Duration took = 17; google.protobuf.Int32Value wrapped = 18;
    oneof either { int32 one = 19; string other = 20; }
    repeated string tags = 21; repeated int32 loose = 22 [packed = false]; map<int32, Line> lines_by = 23;
}
"""
ALL = Protobuf(PROTO, message="shop.All", flatten=True)


def one(**columns: Any) -> Any:
    """The row of these columns, as it is read."""
    (value,) = ALL.spec.encode(pa.table(columns))
    (row,) = pa.table(ALL.spec.decode([value])).to_pylist()
    return {name: row["value"][name] for name in columns}


@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("i32", pa.array([-1], pa.int64()), -1),
        ("u64", pa.array([2**64 - 1], pa.uint64()), 2**64 - 1),
        ("u64", pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0)), 2**64 - 1),
        ("f64", pa.array([Decimal(5)], pa.decimal256(40, 2)), 5),
        ("f", pa.array([0.5]), 0.5),
        ("d", pa.array([7]), 7.0),
        ("s", pa.array(["é"], pa.large_string()), "é"),
        ("s", pa.array(["x" * 40], pa.string_view()), "x" * 40),
        ("s", pa.array(["é"]).dictionary_encode(), "é"),
        ("y", pa.array([b"xyz"], pa.binary(3)), b"xyz"),
        ("y", pa.array(["é"]), "é".encode()),
        ("colour", pa.array(["CRIMSON"]).dictionary_encode(), "RED"),
        ("colour", pa.array(["7"]), "7"),
        ("colour", pa.array([1], pa.int8()), "RED"),
        ("maybe", pa.array([0]), 0),
        ("maybe", pa.array([None], pa.int32()), None),
        ("at", pa.array([NOON], pa.timestamp("s", "Europe/Prague")), NOON),
        (
            "took",
            pa.array([datetime.timedelta(milliseconds=-1500)], pa.duration("ms")),
            datetime.timedelta(seconds=-1.5),
        ),
        ("wrapped", pa.array([0]), 0),
        ("wrapped", pa.array([{"value": 5}]), 5),
        ("loose", pa.array([[1, 300]], pa.large_list(pa.int64())), [1, 300]),
        ("lines", pa.array([[{"price": 0.5, "numbers": [1]}]]), [{"price": 0.5, "numbers": [1]}]),
        ("by", pa.array([[("a", 1)]], pa.map_(pa.large_string(), pa.int64())), [("a", 1)]),
        ("by", pa.array([[{"key": "a", "value": 1}]]), [("a", 1)]),
        ("tags", pa.array([["a", ""]], pa.list_(pa.string(), 2)), ["a", ""]),
        ("line", pa.nulls(1), None),
        ("line", pa.array([{"price": 0.5}]), {"price": 0.5, "numbers": []}),
    ],
)
def test_columns_of_other_types_than_reading_yields_are_written_exactly(name: str, column: Any, expected: Any) -> None:
    assert one(**{name: column}) == {name: expected}


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"i32": pa.array([2**31])}, "i32: 2147483648 is beyond the range of the schema's int32"),
        ({"u32": pa.array([-1])}, "u32: -1 is beyond the range of the schema's uint32"),
        ({"u64": pa.array([Decimal(-1)], pa.decimal128(20, 0))}, "u64: -1 is beyond the range of the schema's uint64"),
        ({"f": pa.array([0.1])}, "f: .* would be rounded"),
        ({"d": pa.array([2**53 + 1])}, "d: .* would be rounded"),
        ({"colour": pa.array(["BLUE"])}, 'colour: "BLUE" is no name of the enum, which has BLACK, RED'),
        ({"at": pa.array([2**45], pa.timestamp("s", "UTC"))}, "at: .* beyond the range of .*google.protobuf.Timestamp"),
        ({"took": pa.array([2**60], pa.duration("s"))}, "took: .* beyond the range of .*google.protobuf.Duration"),
        ({"one": pa.array([1]), "other": pa.array(["x"])}, "one and other both have a value, and are of one oneof"),
        ({"tags": pa.array([["a", None]])}, r"tags\[1\]: is null, and neither lists nor maps"),
        (
            {"by": pa.array([[("a", None)]], pa.map_(pa.string(), pa.int32()))},
            r'by\["a"\]: is null, and neither lists nor maps',
        ),
        (
            {"lines": pa.array([[{"numbers": [1]}, {"numbers": [1, 2**31]}]])},
            r"lines\[1\]\.numbers\[1\]: 2147483648 is beyond",
        ),
    ],
)
def test_a_value_that_does_not_fit_names_its_row(column: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=f"row 0: .*{says}.*; no row was sent"):
        ALL.spec.encode(pa.table(column))


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"s": pa.array([1])}, "s: the column is of type Int64, and the schema has string there; expected a string"),
        ({"at": pa.array([NOON.replace(tzinfo=None)])}, "at: .* expected a timestamp with a zone"),
        ({"lines": pa.array([1])}, "lines: .* expected a list"),
        ({"by": pa.array([1])}, "by: .* expected a map"),
        ({"unknown": pa.array([1])}, r"unknown: the message shop\.All has no such field, only i32, "),
        ({"line": pa.array([{"cost": 1}])}, r"line\.cost: the message shop\.Line has no such field"),
    ],
)
def test_a_column_that_does_not_fit_is_an_error_without_rows_too(column: dict[str, Any], says: str) -> None:
    table = pa.table(column)
    for given in (table, table[:0]):
        with pytest.raises(ArgumentError, match=says):
            ALL.spec.encode(given)


def test_required_fields_need_values() -> None:
    file = File("required.proto", "proto2")
    file.message("Needs", {"id": "required int32", "other": "int32"})
    (kind,) = file.build("Needs")
    form = Protobuf(kind)
    with pytest.raises(ArgumentError, match=r"id: there is no column for this field of t\.Needs, which is required"):
        form.spec.encode(pa.table({"other": [1]}))
    with pytest.raises(ArgumentError, match="row 1: id: is null, and the schema's field is required"):
        form.spec.encode(pa.table({"id": [1, None]}))


def test_the_frame_names_the_message_by_its_place() -> None:
    file = File("placed.proto")
    file.message("First", {"id": "int32"})
    file.message("Second", {"id": "int32"})
    first, second = file.build("First", "Second")
    table = pa.table({"id": [5]})
    assert Protobuf(first, schemas={7: first}).spec.encode(table) == [b"\0\0\0\0\7\0\x08\5"]
    assert Protobuf(second, schemas={7: second}).spec.encode(table) == [b"\0\0\0\0\7\2\2\x08\5"]
    with pytest.raises(ArgumentError, match=r"give it as schemas=\{7: schema\}"):
        Protobuf(first, framing="confluent").spec.encode(table)


def test_a_group_ends_where_it_ends() -> None:
    groups = "optional group G = 1 { optional int32 x = 1; } repeated group H = 20 { optional int32 y = 1; }"
    text = f'syntax = "proto2"; message M {{ {groups} }}'
    form = Protobuf(text, message="M")
    table = pa.table({"value": pa.array([{"g": {"x": 5}, "h": [{"y": 1}, {"y": None}]}])})
    (value,) = form.spec.encode(table)
    assert value == b"\x0b\x08\5\x0c" + b"\xa3\1\x08\1\xa4\1" + b"\xa3\1\xa4\1"
    assert pa.table(form.spec.decode([value])).to_pylist() == table.to_pylist()


def test_a_frame_of_polars_is_written() -> None:
    frame = pl.DataFrame({"i32": [1, None], "lines": [[{"price": 1.0, "numbers": [1]}], []], "s": ["a", None]})
    made = ALL.spec.encode(frame)
    read = pa.table(ALL.spec.decode(made)).to_pylist()
    assert [row["value"]["lines"] for row in read] == frame["lines"].to_list()
    assert [row["value"]["i32"] for row in read] == [1, 0]
