"""Columns of texts that are not UTF-8, which pyarrow reads from files without a check, are refused."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest
from monedula import ArgumentError, Avro, Json, Protobuf
from monedula.errors import BatchSendError

from tests.consumer.avro_values import field, record
from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

ARROW: Any = pa
"""Its stubs know fewer arguments than it takes."""

PATIENCE = 30.0
BAD = b"caf\xe9"


def texts(*values: bytes | None, kind: str = "string") -> Any:
    """A column of texts whose bytes nobody checks."""
    binary: Any = pa.array(values, getattr(pa, kind.replace("string", "binary"))())
    return pa.Array.from_buffers(getattr(pa, kind)(), len(values), binary.buffers())


TEXT, LIST, MAP = pa.string(), pa.list_(pa.string()), pa.map_(pa.string(), pa.string())
STRUCT = pa.struct([("s", pa.string())])
AVRO: dict[pa.DataType, Any] = {
    TEXT: ["null", "string"],
    LIST: {"type": "array", "items": "string"},
    MAP: {"type": "map", "values": "string"},
    STRUCT: record(field("s", "string"), name="S"),
}
PROTO: dict[pa.DataType, str] = {
    TEXT: "optional string",
    LIST: "repeated string",
    MAP: "map<string, string>",
    STRUCT: "S",
}

FORMS: dict[str, Callable[[Any], Any]] = {
    "json": lambda _: Json(),
    "json with a schema": lambda kind: Json(pa.schema([("a", kind)])),
    "avro": lambda kind: Avro(record(field("a", AVRO[kind]))),
    "protobuf": lambda kind: Protobuf(
        f'syntax = "proto3"; message M {{ {PROTO[kind]} a = 1; }} message S {{ string s = 1; }}', message="M"
    ),
}

COLUMNS: dict[str, tuple[Any, pa.DataType, str]] = {
    "string": (texts(b"ok", BAD), TEXT, "a"),
    "large string": (texts(b"ok", BAD, kind="large_string"), TEXT, "a"),
    "string view": (texts(b"ok", BAD, kind="string_view"), TEXT, "a"),
    "long string view": (texts(b"ok", BAD * 9, kind="string_view"), TEXT, "a"),
    "dictionary": (pa.DictionaryArray.from_arrays(pa.array([1, 0]), texts(BAD, b"ok")), TEXT, "a"),
    "runs": (ARROW.compute.run_end_encode(texts(b"ok", BAD)), TEXT, "a"),
    "half a character": (texts(b"ok\xc3", b"\xa9"), TEXT, "a"),
    "list": (ARROW.ListArray.from_arrays(pa.array([0, 1, 3]), texts(b"ok", b"ok", BAD)), LIST, r"a\[1\]"),
    "map's key": (ARROW.MapArray.from_arrays([0, 1, 2], texts(b"ok", BAD), texts(b"1", b"2")), MAP, r"a\[0\]"),
    "map's value": (ARROW.MapArray.from_arrays([0, 1, 2], texts(b"k", b"k"), texts(b"1", BAD)), MAP, 'a["k"]'),
    "struct": (pa.StructArray.from_arrays([texts(b"ok", BAD)], ["s"]), STRUCT, r"a\.s"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_text_that_is_not_utf_8_is_refused_with_its_row_and_field(name: str, form: str) -> None:
    column, kind, path = COLUMNS[name]
    row = 0 if name == "half a character" else 1
    with pytest.raises(ArgumentError) as told:
        FORMS[form](kind).spec.encode(pa.table({"a": column}))
    told.match(rf"row {row}: .*the text is not UTF-8")
    told.match(path.replace('["k"]', r'\["k"\]'))


@pytest.mark.parametrize("form", FORMS)
def test_bytes_that_no_row_has_are_no_concern(form: str) -> None:
    spec = FORMS[form](TEXT).spec
    expected = spec.encode(pa.table({"a": ["ok", None, "é"]}))
    below_null = pa.Array.from_buffers(
        TEXT, 3, [pa.array([1, None, 1]).buffers()[0], *texts(b"ok", BAD, b"\xc3\xa9").buffers()[1:]]
    )
    unused = pa.DictionaryArray.from_arrays(pa.array([0, None, 2]), texts(b"ok", BAD, b"\xc3\xa9"))
    for column in (below_null, unused, texts(BAD, b"ok", None, b"\xc3\xa9", BAD).slice(1, 3)):
        assert spec.encode(pa.table({"a": column})) == expected


def test_bytes_are_any(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    rows = pa.table({"key": pa.array([BAD]), "value": pa.array([BAD]), "headers": [[{"key": "h", "value": BAD}]]})
    producer().send_batch(rows, topic).result(PATIENCE)
    (found,) = stored(ground.bootstrap, topic)
    assert (found.key, found.value, found.headers) == (BAD, BAD, [("h", BAD)])
    assert Avro(record(field("a", "bytes"))).spec.encode(pa.table({"a": pa.array([BAD])})) == [b"\x08" + BAD]


def headers(key: Any, value: Any) -> Any:
    pairs = pa.StructArray.from_arrays([key, value], ["key", "value"])
    return ARROW.ListArray.from_arrays(pa.array([0, 1, 2]), pairs)


VALUES = pa.array([b"1", b"2"])
RAW: dict[str, tuple[dict[str, Any], str]] = {
    "key": ({"key": texts(b"ok", BAD)}, "key is text that is not UTF-8"),
    "value": ({"value": texts(b"ok", BAD)}, "value is text that is not UTF-8"),
    "large value": ({"value": texts(b"ok", BAD, kind="large_string")}, "value is text that is not UTF-8"),
    "value of views": ({"value": texts(b"ok", BAD * 9, kind="string_view")}, "value is text that is not UTF-8"),
    "key of a dictionary": (
        {"key": pa.DictionaryArray.from_arrays(pa.array([1, 0]), texts(BAD, b"ok"))},
        "key is text that is not UTF-8",
    ),
    "topic": ({"topic": texts(b"TOPIC", BAD)}, "topic is text that is not UTF-8"),
    "topic of bytes": ({"topic": pa.array([b"TOPIC", BAD])}, "topic is text that is not UTF-8"),
    "header's key": ({"headers": headers(texts(b"ok", BAD), VALUES)}, "the key of header 0 is not UTF-8"),
    "header's key of bytes": ({"headers": headers(pa.array([b"ok", BAD]), VALUES)}, "the key of header 0 is not UTF-8"),
    "header's value": (
        {"headers": headers(pa.array(["a", "b"]), texts(b"ok", BAD))},
        "the value of header 0 is text that is not UTF-8",
    ),
}


@pytest.mark.parametrize("name", RAW)
def test_a_record_of_texts_that_are_not_utf_8_is_not_sent(ground: Ground, producer: ProducerFactory, name: str) -> None:
    (columns, says), topic = RAW[name], ground.topic()
    sent: dict[str, Any] = {"value": VALUES, **columns}
    if "topic" in sent:
        sent["topic"] = texts(topic.encode(), BAD)
    sending = producer().send_batch(pa.table(sent), None if "topic" in sent else topic)
    with pytest.raises(BatchSendError, match=says) as told:
        sending.result(PATIENCE)
    assert told.value.report is not None
    assert [(row, type(error)) for row, error in told.value.report.errors] == [(1, ArgumentError)]
    assert len(stored(ground.bootstrap, topic)) == 1
