"""Conversions of batches, streams and tables. A batch without rows has the columns too, and needs no broker."""

import copy
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import monedula
import pandas
import polars
import pyarrow
import pytest
from monedula.testing import Broker

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.fixture
def batch() -> Iterator[monedula.Batch]:
    with monedula.Consumer({"bootstrap.servers": "127.0.0.1:9"}) as consumer:
        consumer.assign(("never-reached", 0))
        yield consumer.poll(timeout=0)


def test_to_polars_gives_a_frame_with_the_columns(batch: monedula.Batch) -> None:
    frame = batch.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame.columns == COLUMNS


def test_to_pandas_gives_a_frame_with_the_columns(batch: monedula.Batch) -> None:
    frame = batch.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == COLUMNS


def test_to_pyarrow_gives_a_record_batch_with_the_columns(batch: monedula.Batch) -> None:
    assert isinstance(batch.to_pyarrow(), pyarrow.RecordBatch)
    assert batch.to_pyarrow().schema.names == COLUMNS


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", [("key", f"value {number}") for number in range(5)])
        yield {"bootstrap.servers": broker.bootstrap_servers}


def tables(settings: dict[str, str]) -> Iterator[tuple[Any, list[str]]]:
    """A batch, a stream and a table, each with its columns."""
    (batch,) = monedula.read(settings, "orders")
    yield batch, COLUMNS
    yield monedula.read(settings, "orders"), COLUMNS
    yield monedula.Table([("name", "string", list("abcde")), ("size", "int64", [1, 2, 3, 4, 5])]), ["name", "size"]


def test_batch_stream_and_table_have_the_same_conversions(settings: dict[str, str]) -> None:
    for table, columns in tables(settings):
        frame = table.to_polars()
        assert isinstance(frame, polars.DataFrame)
        assert (frame.columns, len(frame)) == (columns, 5)
    for table, columns in tables(settings):
        made = table.to_pyarrow()
        assert isinstance(made, pyarrow.RecordBatch if isinstance(table, monedula.Batch) else pyarrow.Table)
        assert (made.schema.names, made.num_rows) == (columns, 5)
    for table, columns in tables(settings):
        plain = table.to_pandas()
        assert isinstance(plain, pandas.DataFrame)
        assert (list(plain.columns), len(plain)) == (columns, 5)


def test_to_pandas_takes_the_options_of_pyarrow(settings: dict[str, str]) -> None:
    for table, columns in tables(settings):
        frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
        assert [type(dtype) for dtype in frame.dtypes] == [pandas.ArrowDtype] * len(columns)


def test_pandas_frames_are_never_a_column_of_batches(settings: dict[str, str]) -> None:
    # pandas.DataFrame() has no way to take Arrow: it iterates, and each batch would be a cell.
    for table, _ in [*tables(settings)][:2]:
        with pytest.raises(TypeError, match=r"use its to_pandas\(\)"):
            pandas.DataFrame(table)
    assert len(pandas.DataFrame.from_arrow(monedula.read(settings, "orders"))) == 5


def test_a_package_that_is_missing_is_named_with_what_installs_it(
    batch: monedula.Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, extra in (("polars", "polars"), ("pandas", "pandas"), ("pyarrow", "arrow")):
        with monkeypatch.context() as hidden:
            hidden.setitem(sys.modules, package, None)
            with pytest.raises(ModuleNotFoundError, match=rf"pip install 'monedula\[{extra}\]'"):
                getattr(batch, f"to_{package}")()
    with monkeypatch.context() as hidden:
        hidden.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'monedula\[arrow\]'"):
            batch["value"]


def test_a_column_is_taken_by_its_name(settings: dict[str, str]) -> None:
    (batch,) = monedula.read(settings, "orders")
    for name in COLUMNS:
        assert batch[name].equals(batch.to_pyarrow()[name])
    assert batch["value"].to_pylist() == [b"value %d" % number for number in range(5)]
    wrong: Any = batch
    with pytest.raises(KeyError, match="there is no column 'values'; the columns are key, value, topic"):
        wrong["values"]
    for index in (0, slice(2), ["key"], b"key"):
        with pytest.raises(TypeError, match=r"has columns by name, such as batch\['value'\].*records\(\).*head\(n\)"):
            wrong[index]


def test_a_column_of_fields_is_taken_by_its_name() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ['{"id": 1, "tags": ["a"]}', '{"id": 2}'])
        value = monedula.Json("id INT, tags ARRAY<STRING>", flatten=True)
        (batch,) = monedula.read({"bootstrap.servers": broker.bootstrap_servers}, "orders", value=value)
    assert batch["id"].to_pylist() == [1, 2]
    assert batch["tags"].to_pylist() == [["a"], None]


def test_head_has_the_first_rows(settings: dict[str, str], batch: monedula.Batch) -> None:
    (full,) = monedula.read(settings, "orders")
    assert full.head(2).to_pyarrow() == pyarrow.table(full).slice(0, 2)
    assert full.head(2).to_polars()["offset"].to_list() == [0, 1]
    assert full.head().num_rows == full.head(5).num_rows == full.head(2**63).num_rows == 5
    assert full.head(0).num_rows == batch.head(3).num_rows == 0
    assert full.head(3).schema == full.schema
    assert len(full) == 5
    wrong: list[Any] = [-1, 2**64, 2.0, "3"]
    for n in wrong:
        with pytest.raises(monedula.ArgumentError, match=rf"^n={n!r}: expected a number of rows, 0 to 2\*\*64 - 1"):
            full.head(n)


def test_a_batch_is_not_pickled_and_says_what_is(settings: dict[str, str]) -> None:
    (batch,) = monedula.read(settings, "orders")
    for move in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"Send batch\.to_pyarrow\(\).*finish\(batch\)"):
            move(batch)
    assert pickle.loads(pickle.dumps(batch.to_pyarrow())) == batch.to_pyarrow()


def test_a_record_is_pickled(settings: dict[str, str]) -> None:
    (batch,) = monedula.read(settings, "orders", headers=True)
    record = next(batch.records())
    moved = pickle.loads(pickle.dumps(record))
    assert moved == record
    assert len({moved, record}) == 1
    assert record != (record.topic, record.partition)
    assert (moved.key, moved.value, moved.offset, moved.timestamp) == (b"key", b"value 0", 0, record.timestamp)


def test_a_loop_over_a_batch_is_told_over_what_to_loop(batch: monedula.Batch) -> None:
    with pytest.raises(TypeError, match=r"records\(\) yields its rows one by one"):
        iter(batch)


def test_a_pattern_is_told_what_to_do_with_it(settings: dict[str, str]) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"read\(\) takes names, not a pattern: .*list_topics\(\)"):
        monedula.read(settings, "ux-.*")
