"""A batch's own conversions. They need no broker: a batch without rows has the columns too."""

from collections.abc import Iterator

import monedula
import pandas
import polars
import pyarrow
import pytest

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
