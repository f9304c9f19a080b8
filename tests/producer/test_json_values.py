"""Rows that are written as JSON: reading gives the columns back, whatever arrays hold them."""

import datetime
import json
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monedula import ArgumentError, Json

UTC = datetime.UTC
NOON = datetime.datetime(2026, 11, 27, 12, tzinfo=UTC)
EPOCH = datetime.date(1970, 1, 1)


def encoded(column: Any, schema: Any = None, **options: Any) -> list[bytes | None]:
    """The values of a column that is the field `a` of a struct."""
    return Json(schema, options=options).spec.encode(pa.table({"a": column}))


def one(column: Any, schema: Any = None, **options: Any) -> str:
    """The text of the one row of a column."""
    (data,) = encoded(column, schema, **options)
    assert data is not None
    text = data.decode()
    assert (text[:5], text[-1]) == ('{"a":', "}")
    return text[5:-1]


_SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    *((getattr(pa, f"int{bits}")(), st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)) for bits in (8, 16, 32, 64)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    (pa.decimal128(5, 0), st.integers(-99_999, 99_999).map(Decimal)),
    (pa.string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.date32(), st.integers(-800_000_000, 800_000_000).map(lambda days: days)),
    (pa.timestamp("us", "UTC"), st.integers(-(2**55), 2**57)),
    (pa.timestamp("us"), st.integers(-(2**55), 2**57)),
]


def _nested(
    inner: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    def lists(of: tuple[pa.DataType, st.SearchStrategy[Any]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        return pa.list_(of[0]), st.lists(st.none() | of[1], max_size=3)

    def maps(of: tuple[pa.DataType, st.SearchStrategy[Any]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        entries = st.dictionaries(st.text(), st.none() | of[1], max_size=3)
        return pa.map_(pa.string(), of[0]), entries.map(lambda read: [*read.items()])

    def structs(of: list[tuple[pa.DataType, st.SearchStrategy[Any]]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        names = [f"f{number}" for number in range(len(of))]
        kind = pa.struct([pa.field(name, each[0]) for name, each in zip(names, of, strict=True)])
        return kind, st.fixed_dictionaries({name: st.none() | each[1] for name, each in zip(names, of, strict=True)})

    return inner.map(lists) | inner.map(maps) | st.lists(inner, min_size=1, max_size=4).map(structs)


TYPES = st.recursive(st.sampled_from(_SCALARS), _nested, max_leaves=6)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(TYPES, st.data())
def test_reading_gives_the_columns_back(
    kind_and_values: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    kind, values = kind_and_values
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=5)), kind)
    table = pa.table({"a": column, "b": pa.nulls(len(column), pa.int32())})
    cut = data.draw(st.integers(0, len(table)))
    for form in (Json(table.schema, flatten=True), Json(flatten=True)):
        # In pieces: arrays that begin in the middle of their buffers.
        made = form.spec.encode(pa.concat_tables([table.slice(0, cut), table.slice(cut)]))
        for each in made:
            assert each is not None
            assert json.loads(each).keys() <= {"a"}
        read: Any = pa.table(Json(table.schema).spec.decode(made))["value"].combine_chunks()
        assert_same(read.field(0), column)


def assert_same(one: Any, other: Any) -> None:
    """As `equals`, but for NaN, which is like itself, and the names of what is in lists."""
    assert repr(plain(one)) == repr(plain(other))


def plain(array: Any) -> list[Any]:
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [plain(array.field(index)) for index in range(kind.num_fields)]
        fields = [*zip(*columns, strict=True)] if columns else [()] * len(array)
        return [row if there else None for row, there in zip(fields, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        rows: list[Any] = []
        for scalar in array:
            inner = scalar.values
            rows.append(None if inner is None else plain(inner))
        return rows
    if pa.types.is_timestamp(kind):
        return list(array.cast(pa.int64()).to_pylist())
    if pa.types.is_date(kind):
        return list(array.cast(pa.int32()).to_pylist())
    return list(array.to_pylist())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(['a"\\/\n\x1fé\u2028\x7f'], pa.large_string()), '"a\\"\\\\/\\n\\u001Fé\u2028\x7f"'),
        (pa.array(["x" * 40], pa.string_view()), '"' + "x" * 40 + '"'),
        (pa.array(["é"]).dictionary_encode(), '"é"'),
        (pa.array([b"hi"], pa.large_binary()), '"aGk="'),
        (pa.array([b"hi"], pa.binary_view()), '"aGk="'),
        (pa.array([b"hi"], pa.binary(2)), '"aGk="'),
        (pa.array([2**64 - 1], pa.uint64()), "18446744073709551615"),
        (pa.array([2**32 - 1], pa.uint32()), "4294967295"),
        (pa.array([1.5], pa.float16()), "1.5"),
        (pa.array([1e7]), "1.0E7"),
        (pa.array([0.1], pa.float32()), "0.1"),
        (pa.array([Decimal("-1.280")], pa.decimal32(5, 3)), "-1.280"),
        (pa.array([Decimal("1.25")], pa.decimal256(40, 2)), "1.25"),
        (pa.array([Decimal("0.00000012")], pa.decimal128(9, 8)), "1.2E-7"),
        (pa.array([NOON], pa.timestamp("s", "Europe/Prague")), '"2026-11-27T12:00:00.000Z"'),
        (pa.array([NOON.replace(microsecond=5)]), '"2026-11-27T12:00:00.000005Z"'),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ns")), '"2026-11-27T12:00:00.000"'),
        (pa.array([NOON.date()], pa.date64()), '"2026-11-27"'),
        (pa.array([[1, None]], pa.list_(pa.int8(), 2)), "[1,null]"),
        (pa.array([[1, 2]], pa.large_list(pa.int64())), "[1,2]"),
        (pa.array([[(1, None)]], pa.map_(pa.int64(), pa.int32())), '{"1":null}'),
        (pa.array([[(True, 1)]], pa.map_(pa.bool_(), pa.int32())), '{"true":1}'),
        (pa.array([{"b": None, "c": 1}], pa.struct([("b", pa.int8()), ("c", pa.int8())])), '{"c":1}'),
        (pa.array([{}], pa.struct([])), "{}"),
    ],
)
def test_columns_of_every_kind_have_their_texts(column: Any, expected: str) -> None:
    assert one(column) == expected


def test_nulls_are_written_only_if_it_is_asked_for() -> None:
    column = pa.array([1, None])
    assert encoded(column) == [b'{"a":1}', b"{}"]
    assert encoded(column, ignoreNullFields="false") == [b'{"a":1}', b'{"a":null}']
    assert encoded(pa.nulls(1), ignoreNullFields="false") == [b'{"a":null}']


def test_times_are_written_by_their_patterns_in_their_zone() -> None:
    zone = {"timeZone": "Europe/Prague"}
    assert one(pa.array([NOON]), **zone) == '"2026-11-27T13:00:00.000+01:00"'
    assert (
        one(pa.array([NOON]), timestampFormat="d.M.yy 'um' HH[:mm] VV", **zone) == '"27.11.26 um 13:00 Europe/Prague"'
    )
    assert one(pa.array([NOON.date()]), dateFormat="MMM dd, yyyy[ HH]") == '"Nov 27, 2026"'
    with pytest.raises(ArgumentError, match="row 0: a: the pattern asks for a time of day, which a date has not"):
        one(pa.array([NOON.date()]), dateFormat="yyyy HH")


@pytest.mark.parametrize(
    ("schema", "column", "expected"),
    [
        ("a tinyint", pa.array([127], pa.uint64()), "127"),
        ("a double", pa.array([3]), "3.0"),
        ("a float", pa.array([0.5]), "0.5"),
        ("a decimal(5,2)", pa.array([Decimal("1.500")], pa.decimal128(6, 3)), "1.50"),
        ("a decimal(38,2)", pa.array([Decimal(f"1e{20}")], pa.decimal256(60, 30)), "100000000000000000000.00"),
        ("a map<string,int>", pa.array([[{"key": "x", "value": 1}]]), '{"x":1}'),
        ("a binary", pa.array(["hi"]), '"aGk="'),
    ],
)
def test_a_schema_says_what_is_written(schema: str, column: Any, expected: str) -> None:
    assert one(column, schema) == expected


@pytest.mark.parametrize(
    ("schema", "column", "says"),
    [
        ("a tinyint", pa.array([128]), "row 0: a: 128 is beyond the range of the schema's int8"),
        ("a double", pa.array([2**53 + 1]), "row 0: a: .* would be rounded"),
        ("a float", pa.array([0.1]), "row 0: a: .* would be rounded"),
        ("a decimal(3,1)", pa.array([Decimal("1.25")]), "row 0: a: .* more decimal places"),
        ("a timestamp", pa.array([1], pa.timestamp("ns", "UTC")), "row 0: a: 1 is not a whole number"),
        ("a timestamp", pa.array([NOON.replace(tzinfo=None)]), "a: the column is of type Timestamp"),
        ("a string", pa.array([1]), "a: the column is of type Int64, and the schema has Utf8 there"),
        ("b int", pa.array([1]), "a: the schema has no such field, only b"),
        (None, pa.array([datetime.timedelta(1)]), r"a: a column of type Duration.* is not written as JSON"),
        (None, pa.array([NOON.time()]), "a: a column of type Time64.* is not written as JSON"),
        (None, pa.array([[(1.5, 1)]], pa.map_(pa.float64(), pa.int8())), "a: the keys of the map are Float64"),
    ],
)
def test_what_does_not_fit_says_where_and_why(schema: Any, column: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        encoded(column, schema)


def test_a_column_of_values_is_written_as_it_is() -> None:
    values = pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())]))
    assert Json().spec.encode(pa.table({"value": values})) == [b'{"a":1}', None]
    assert Json().spec.encode(pa.table({"value": pa.array([[1, 2]])})) == [b"[1,2]"]
    with pytest.raises(ArgumentError, match="Texts that are JSON already are sent without"):
        Json().spec.encode(pa.table({"value": ['{"a":1}']}))
    with pytest.raises(ArgumentError, match="neither a column"):
        Json().spec.encode(pa.table({"key": ["k"]}))


def test_a_frame_of_polars_is_written() -> None:
    frame = pl.DataFrame({"id": [1, None], "tags": [["a"], []], "by": [{"x": 0.5}, None]})
    made = Json().spec.encode(frame)
    assert made == [b'{"id":1,"tags":["a"],"by":{"x":0.5}}', b'{"tags":[]}']


def test_an_envelope_is_not_written() -> None:
    with pytest.raises(ArgumentError, match="the option envelope is for reading"):
        encoded(pa.array([1]), "a int", envelope="debezium")
