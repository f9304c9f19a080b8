"""Rows that are written from columns of any physical form: the same table is the same bytes."""

import random
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from monedula import ArgumentError, Avro, Json, Protobuf

from tests.consumer.avro_values import field, record

TAG = record(field("k", ["null", "string"]), field("n", "long"), name="Tag")
AVRO = record(
    field("id", "long"),
    field("name", ["null", "string"]),
    field("raw", ["null", "bytes"]),
    field("price", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]),
    field("words", ["null", {"type": "array", "items": "string"}]),
    field("tags", ["null", {"type": "array", "items": TAG}]),
    field("tag", ["null", "Tag"]),
    field("counts", ["null", {"type": "map", "values": "long"}]),
)
PROTO = """
    syntax = "proto3";
    message Row {
        int64 id = 1; optional string name = 2; optional bytes raw = 3; repeated string words = 5;
        repeated Tag tags = 6; Tag tag = 7; map<string, int64> counts = 8;
    }
    message Tag { optional string k = 1; int64 n = 2; }
"""
TAG_TYPE = pa.struct([("k", pa.string()), ("n", pa.int64())])
FIELDS: list[Any] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("name", pa.string()),
    pa.field("raw", pa.binary()),
    pa.field("price", pa.decimal128(9, 2)),
    pa.field("words", pa.list_(pa.string())),
    pa.field("tags", pa.list_(TAG_TYPE)),
    pa.field("tag", TAG_TYPE),
    pa.field("counts", pa.map_(pa.string(), pa.int64())),
]
PLAIN = pa.schema(FIELDS)
FORMS: dict[str, Callable[[], Any]] = {
    "avro": lambda: Avro(AVRO),
    "json": lambda: Json(PLAIN),
    "protobuf": lambda: Protobuf(PROTO, message="Row"),
}


def rows(chance: random.Random, count: int) -> list[dict[str, Any]]:
    def word() -> str:
        return "ü" * chance.randrange(20)

    def tag() -> dict[str, Any]:
        return {"k": maybe(word), "n": chance.randrange(-(2**31), 2**31)}

    def maybe(make: Callable[[], Any]) -> Any:
        return make() if chance.random() < 0.7 else None

    def several(make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(chance.randrange(4))]

    return [
        {
            "id": chance.randrange(-(2**31), 2**31),
            "name": maybe(word),
            "raw": maybe(lambda: chance.randbytes(chance.randrange(20))),
            "price": maybe(lambda: Decimal(chance.randrange(-(10**9), 10**9)).scaleb(-2)),
            "words": maybe(lambda: several(word)),
            "tags": maybe(lambda: several(tag)),
            "tag": maybe(tag),
            "counts": maybe(lambda: [(f"k{number}", number) for number in range(chance.randrange(20))]),
        }
        for _ in range(count)
    ]


def reformed(array: Any, chance: random.Random) -> Any:
    """The same values in another physical form, down to the innermost."""
    kind = array.type
    if pa.types.is_struct(kind):
        children = [reformed(array.field(index), chance) for index in range(kind.num_fields)]
        names = [kind.field(index).name for index in range(kind.num_fields)]
        array = pa.StructArray.from_arrays(children, names, mask=array.is_null())
    elif pa.types.is_map(kind):
        keys, items = (reformed(each, chance) for each in (array.keys, array.items))
        entries = pa.StructArray.from_arrays([keys, items], ["key", "value"])
        array = as_lists(array.offsets, entries, array.is_null(), chance)
    elif pa.types.is_list(kind):
        array = as_lists(array.offsets, reformed(array.values, chance), array.is_null(), chance)
    elif pa.types.is_decimal(kind):
        array = array.cast(chance.choice([pa.decimal32(9, 2), pa.decimal64(12, 2), kind, pa.decimal256(40, 2)]))
    elif pa.types.is_integer(kind):
        values = array.to_pylist()
        narrow = [pa.decimal32(9, 0)] if all(abs(each or 0) < 10**9 for each in values) else []
        array = pa.array(values, chance.choice([kind, pa.decimal128(38, 0), pa.decimal64(18, 0), *narrow]))
    elif pa.types.is_string(kind):
        array = array.cast(chance.choice([kind, pa.large_string(), pa.string_view()]))
    elif pa.types.is_binary(kind):
        array = array.cast(chance.choice([kind, pa.large_binary(), pa.binary_view()]))
    outer = chance.choice([lambda array: array, backwards, as_runs])
    try:
        return outer(array)
    except pa.ArrowNotImplementedError:  # pyarrow does not join pieces that have dictionaries of structs
        return array


def as_lists(offsets: Any, values: Any, mask: Any, chance: random.Random) -> Any:
    ends = offsets.to_pylist()
    form: Any = chance.choice([pa.ListArray, pa.LargeListArray, pa.ListViewArray, pa.LargeListViewArray])
    width = pa.int64() if form in (pa.LargeListArray, pa.LargeListViewArray) else pa.int32()
    if form in (pa.ListArray, pa.LargeListArray):
        return form.from_arrays(pa.array(ends, width), values, mask=mask)
    sizes = [end - start for start, end in pairwise(ends)]
    # In any order: views may lie behind each other as they like.
    order = list(range(len(sizes)))
    if not pa.types.is_dictionary(values.type):  # whose pieces pyarrow does not always join
        chance.shuffle(order)
    places: list[int] = []
    starts, at = [0] * len(sizes), 0
    for row in order:
        starts[row], at = at, at + sizes[row]
        places += range(ends[row], ends[row + 1])
    is_shuffled = places != list(range(len(values)))
    taken = pa.concat_arrays([values.slice(place, 1) for place in places]) if is_shuffled else values
    return form.from_arrays(pa.array(starts, width), pa.array(sizes, width), taken, mask=mask)


def backwards(array: Any) -> Any:
    """A dictionary of all values, the last one first; some nulls are places without a value, and others values."""
    count = len(array)
    pieces = [array.slice(count - 1 - row, 1) for row in range(count)]
    nulls = array.is_null().to_pylist()
    places = [None if nulls[row] and row % 2 else count - 1 - row for row in range(count)]
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int16()), pa.concat_arrays(pieces or [array]), safe=False)


def as_runs(array: Any) -> Any:
    """A run for each two rows that are the same, and for each other one."""
    values = array.to_pylist()
    firsts = [row for row in range(len(values)) if row == 0 or values[row] != values[row - 1]]
    ends = [*firsts[1:], len(values)] if firsts else []
    pieces = [array.slice(row, 1) for row in firsts]
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.concat_arrays(pieces or [array]))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("seed", range(40))
def test_a_table_in_any_physical_form_is_the_same_bytes(name: str, seed: int) -> None:
    chance = random.Random(seed)
    columns = [each for each in PLAIN.names if name != "protobuf" or each != "price"]
    plain = pa.Table.from_pylist(rows(chance, 30), PLAIN).select(columns)
    form = FORMS[name]()
    struct = pa.StructArray.from_arrays([column.combine_chunks() for column in plain.columns], columns)
    expected = form.spec.encode(pa.table({"value": struct}))
    # Rows before and behind those that are written, so that arrays begin and end in the middle.
    first, count = chance.randrange(5), chance.randrange(20, 25)
    other = pa.table({"value": reformed(struct, chance)})
    assert form.spec.encode(other) == expected, str(other.schema)
    assert form.spec.encode(other.slice(first, count)) == expected[first : first + count], str(other.schema)


def test_sums_of_duckdb_are_whole_numbers() -> None:
    table = duckdb.sql("SELECT sum(i) AS id, sum(i) AS name FROM range(5) t(i)").to_arrow_table()
    assert str(table.schema.field("id").type) == "decimal128(38, 0)"
    schema = record(field("id", "long"), field("name", "double"))
    assert Avro(schema).spec.encode(table) == [b"\x14" + b"\0\0\0\0\0\0\x24\x40"]
    assert Protobuf('syntax = "proto3"; message M { int32 id = 1; float name = 2; }').spec.encode(table) == [
        b"\x08\x0a\x15\0\0\x20\x41"
    ]
    beyond = duckdb.sql("SELECT sum(i)::HUGEINT * 10000000000000000000 AS id FROM range(5) t(i)").to_arrow_table()
    with pytest.raises(ArgumentError, match=r"row 0: id: 100000000000000000000 is beyond the range of the.* long"):
        Avro(record(field("id", "long"))).spec.encode(beyond)


@pytest.mark.parametrize(
    "setting", ["produce_arrow_string_view", "arrow_output_list_view", "arrow_lossless_conversion"]
)
def test_what_duckdb_exports_by_its_settings_is_written(setting: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"SET {setting}=true")
    query = "SELECT 7 AS id, 'ü' AS name, ['a', NULL] AS words, {'k': ['b']} AS tag, MAP {'x': 1} AS counts"
    expected = b'{"id":7,"name":"\xc3\xbc","words":["a",null],"tag":{"k":["b"]},"counts":{"x":1}}'
    assert Json().spec.encode(connection.sql(query)) == [expected]


@pytest.mark.parametrize("levels", [200, 4000])
def test_dictionaries_in_dictionaries_end_no_process(levels: int) -> None:
    column: Any = pa.array([7])
    for _ in range(levels):
        column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), column)
    with pytest.raises(ArgumentError, match="types are nested deeper than"):
        Json().spec.encode(pa.table({"id": column}))


def test_a_struct_without_fields_is_a_record_without_fields() -> None:
    """It was taken for the members of a union of which all are null."""
    union = ["null", record(name="Nothing"), record(field("a", "long"), name="Some")]
    table = pa.table({"m": pa.array([{}, None], pa.struct([]))})
    assert Avro(record(field("m", union))).spec.encode(table) == [b"\2", b"\0"]


def test_columns_of_nulls_alone_need_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = {"n": [[None]], "s": [{"a": None}], "l": [None], "deep": [[{"b": [None]}]], "id": [7]}
    frame = pl.DataFrame(nested)
    monkeypatch.setattr(pl.DataFrame, "to_arrow", None)
    assert Json().spec.encode(frame) == [b'{"n":[null],"s":{},"deep":[{"b":[null]}],"id":7}']
    assert Json().spec.encode(frame.slice(0, 0)) == []


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pa.array([1], pa.duration("s")), r"value\.a: a column of type Duration.* cast to string"),
        (
            pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
            r"value\.a: .* cast",
        ),
        (
            pa.array([[(1.5, "x")]], pa.map_(pa.float64(), pa.string()))[0:1],
            r"value\.a: the keys of the map are Float64.* cast",
        ),
    ],
)
def test_what_is_not_written_as_json_says_what_to_cast_to(column: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        Json().spec.encode(pa.table({"value": pa.StructArray.from_arrays([column], ["a"])}))


COUNTS: dict[str, Callable[[], Any]] = {
    "avro": lambda: Avro(record(field("counts", {"type": "map", "values": "long"}))),
    "json": Json,
    "protobuf": lambda: Protobuf('syntax = "proto3"; message M { map<string, int64> counts = 1; }'),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("size", [2, 40])
def test_a_map_with_a_key_twice_is_refused(name: str, size: int) -> None:
    """A reader would have one entry less."""
    entries = [(f"k{number}", number) for number in range(size)]
    maps = pa.array([entries, [*entries, ("k1", 7)]], pa.map_(pa.string(), pa.int64()))
    with pytest.raises(ArgumentError, match=r'row 1: counts\["k1"\]: the map has two entries with this key'):
        COUNTS[name]().spec.encode(pa.table({"counts": maps}))
    assert len(COUNTS[name]().spec.encode(pa.table({"counts": maps[:1]}))) == 1


@pytest.mark.parametrize("name", ["avro", "protobuf"])
def test_an_entry_without_a_key_is_refused_where_it_stands(name: str) -> None:
    """In place of maps polars has lists of structs, whose fields may all be null."""
    rows = [[{"key": "a", "value": 1}], [{"key": "b", "value": 2}, {"key": None, "value": 3}]]
    frame = pl.DataFrame({"counts": rows})
    with pytest.raises(ArgumentError, match=r"row 1: counts\[1\]: the key is null"):
        COUNTS[name]().spec.encode(frame)
    assert len(COUNTS[name]().spec.encode(frame[:1])) == 1
