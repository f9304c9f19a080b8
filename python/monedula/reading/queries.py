"""`scan` and `dataset`: topics as a `LazyFrame` of polars, and as a `Dataset` of pyarrow, which DuckDB queries."""

from typing import TYPE_CHECKING, Unpack

from monedula.config import Settings
from monedula.reading._export import installed
from monedula.reading._topic_scan import ScanOptions, Topics, TopicScan, check_options

if TYPE_CHECKING:
    import polars as pl
    import pyarrow.dataset


def scan(config: Settings, topics: Topics, **options: Unpack[ScanOptions]) -> "pl.LazyFrame":
    """Topics as a `LazyFrame` of polars, from which only the data that a query needs is fetched and decoded.

    Nothing is read, and no broker is contacted, before the query runs; it reads the topics' contents at that time. Only
    the columns that it uses are decoded. Its conditions on `topic`, `partition`, `offset` and `timestamp` decide which
    partitions and offsets are fetched, those on a binary `key` which records are decoded, and all its conditions are
    applied. `head(10)` fetches little more than ten records.

    Args:
        config: settings, as for `Consumer`.
        topics: one topic, several topics, or `(topic, partition)` pairs.
        **options: `start`, `end`, `max_lateness`, `order`, `key` and `value` as for `read`, and `headers`, whether to
            add the `headers` column. With `value=Json(schema, flatten=True)` each field is a column, and only fields
            that the query uses are decoded.

    Returns:
        A `polars.LazyFrame`. When it is collected it raises what `read` raises.

    Raises:
        ArgumentError: if an argument or a setting is invalid.
        ModuleNotFoundError: without polars (`pip install 'monedula[polars]'`).
    """
    try:
        check_options("scan", options)
        source = TopicScan(config, topics, **options)
    finally:
        del config  # keeps passwords out of tracebacks that show locals
    installed("polars", "polars")
    # Imported here, because it needs polars, an optional extra.
    from monedula.reading._polars_source import lazy_frame

    return lazy_frame(source)


def dataset(config: Settings, topics: Topics, **options: Unpack[ScanOptions]) -> "pyarrow.dataset.Dataset":
    """Topics as a `Dataset` of pyarrow, which DuckDB queries by the name of the variable: `SELECT ... FROM orders`.

    Nothing is read, and no broker is contacted, before a query runs; it reads the topics' contents at that time. DuckDB
    passes the columns and conditions of the query: only these columns are decoded, conditions on `topic`, `partition`,
    `offset` and `timestamp` decide which partitions and offsets are fetched, and those on a binary `key` which records
    are decoded.

    Args:
        config: settings, as for `Consumer`.
        topics: one topic, several topics, or `(topic, partition)` pairs.
        **options: `start`, `end`, `max_lateness`, `order`, `key` and `value` as for `read`, and `headers`, whether to
            add the `headers` column. With `value=Json(schema, flatten=True)` each field is a column, and only fields
            that the query uses are decoded.

    Returns:
        A `pyarrow.dataset.Dataset`: `scanner`, `to_table`, `to_batches`, `head`, `count_rows` and `filter` work, and
        take the columns and filters that every dataset takes.

    Raises:
        ArgumentError: if an argument or a setting is invalid.
        ModuleNotFoundError: without pyarrow (`pip install 'monedula[arrow]'`).
    """
    try:
        check_options("dataset", options)
        source = TopicScan(config, topics, **options)
    finally:
        del config  # keeps passwords out of tracebacks that show locals
    installed("pyarrow", "arrow")
    # Imported here, because it needs pyarrow, an optional extra.
    from monedula.reading._arrow_dataset import TopicDataset

    return TopicDataset(source)
