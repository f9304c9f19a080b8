"""`monedula consume --format csv`: the core writes what Python's `csv` would."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow
import pytest
from monedula import read
from monedula._monedula import csv_lines
from monedula.cli.rendering import Form, as_text, time_text
from monedula.cli.sinks import CsvSink, Look
from monedula.testing import Broker

DATA = [
    None,
    b"",
    b"plain",
    b" a ",
    b"a,b",
    b'say "a, b"',
    b'"',
    b'""',
    b"a\nb",
    b"a\rb",
    b"\r\n",
    b"\t'\\;",
    b"\x00\x1b[31m\x7f",
    "ž\u2028\U0001f600".encode(),
    b'{"a": [1, null]}',
    b"null",
    # Not UTF-8: a byte that begins nothing, a surrogate, characters that break off, one beyond Unicode.
    b"\xff,\n",
    b"\xed\xa0\x80",
    b"\xf0\x90\x80",
    b"a\xe2\x82",
    b"\xf4\x90\x80\x80",
]
# The last and first second of years and centuries, and times beyond the years 1 to 9999.
TIMES = [0, -1, 951_782_399_999, 4_107_542_400_000, -30_610_224_000_001, -62_135_596_800_000, 253_402_300_799_999]
TIMES += [-62_135_596_800_001, 253_402_300_800_000, 9_223_372_036_854_775, -9_223_372_036_854_775]
HEADERS = [None, [], [("h", None)], [('"', b""), ("a,b", b'"\\\n'), ("", b"\xff"), ("ž\x01\x7f", b"\x08\x0c\x1f")]]
TYPES = {
    "key": pyarrow.binary(),
    "value": pyarrow.binary(),
    "topic": pyarrow.string(),
    "partition": pyarrow.int32(),
    "offset": pyarrow.int64(),
    "timestamp": pyarrow.timestamp("us", "UTC"),
    "timestampType": pyarrow.int32(),
    "headers": pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])),
}


def cells_of(row: int) -> dict[str, Any]:
    return {
        "key": DATA[row],
        "value": DATA[-1 - row],
        "topic": "a-topic",
        "partition": row,
        "offset": (1 << 62) + row,
        "timestamp": TIMES[row % len(TIMES)],
        "timestampType": row % 2,
        "headers": HEADERS[row % len(HEADERS)],
    }


def batch_of(names: Sequence[str]) -> pyarrow.RecordBatch:
    rows = [cells_of(row) for row in range(len(DATA))]
    for row in rows:
        row["timestamp"] *= 1000
        row["headers"] = row["headers"] and [{"key": key, "value": value} for key, value in row["headers"]]
    arrays = [pyarrow.array([row[name] for row in rows], TYPES[name]) for name in names]
    return pyarrow.record_batch(arrays, names=list(names))


def cell(name: str, cell: Any, forms: dict[str, Form]) -> str | None:
    match name, cell:
        case _, None:
            return None
        case (("key" | "value"), _):
            return as_text(cell, forms[name])
        case "timestamp", _:
            return time_text(cell)
        case "headers", _:
            pairs = [{"key": key, "value": None if value is None else as_text(value, Form.auto)} for key, value in cell]
            return json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))
    return str(cell)


def quoted(text: str | None) -> str:
    # A field of its own that is empty is quoted by `csv`, as an empty text is here.
    line = io.StringIO()
    csv.writer(line).writerow([text])
    return "" if text is None else line.getvalue().removesuffix("\r\n")


def expected(names: Sequence[str], rows: Sequence[int], key_form: Form, value_form: Form) -> bytes:
    forms = {"key": key_form, "value": value_form}
    lines = [[quoted(cell(name, cells_of(row)[name], forms)) for name in names] for row in rows]
    return "".join([",".join(line) + "\n" for line in lines]).encode()


@pytest.mark.parametrize("key_form", Form)
@pytest.mark.parametrize("value_form", Form)
def test_cells_are_what_python_would_write(key_form: Form, value_form: Form) -> None:
    rows = range(len(DATA))
    written = csv_lines(batch_of(list(TYPES)), rows, key_form.value, value_form.value)
    assert written == expected(list(TYPES), rows, key_form, value_form)


@pytest.mark.parametrize("names", [["value", "key"], ["headers", "timestamp", "offset"], ["value"]])
def test_columns_keep_the_order_of_the_batch(names: list[str]) -> None:
    rows = range(len(DATA))
    assert csv_lines(batch_of(names), rows, "auto", "auto") == expected(names, rows, Form.auto, Form.auto)


def test_some_rows_are_counted_through_all_batches() -> None:
    batch, rows = batch_of(list(TYPES)), [0, 3, 4, 7, 20]
    several = pyarrow.Table.from_batches([batch.slice(0, 4), batch.slice(4, 0), batch.slice(4)])
    assert csv_lines(several, rows, "auto", "hex") == expected(list(TYPES), rows, Form.auto, Form.hex)


def test_python_reads_back_what_the_sink_has_written(broker: Broker, tmp_path: Any) -> None:
    texts = [(data or b"").decode(errors="replace") for data in DATA]
    broker.create_topic("texts", 1)
    broker.append("texts", [(text, text) for text in texts])
    (batch,) = read({"bootstrap.servers": broker.bootstrap_servers}, "texts", columns=["value", "key"])
    with (tmp_path / "out.csv").open("wb") as file:
        sink = CsvSink(file, Look(), batch.schema.names)
        sink.write(batch, range(len(texts)))
        sink.close()
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    assert sorted(names) == ["key", "value"]
    assert rows == [[text, text] for text in texts]
