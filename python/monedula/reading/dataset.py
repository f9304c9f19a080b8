"""`dataset`: topics as a `Dataset` of pyarrow, which DuckDB takes as a table."""

from typing import TYPE_CHECKING, Unpack

from monedula.config import Settings
from monedula.reading._export import installed
from monedula.reading._topic_scan import ScanOptions, Topics, TopicScan, check_options

if TYPE_CHECKING:
    import pyarrow.dataset


def dataset(config: Settings, topics: Topics, **options: Unpack[ScanOptions]) -> "pyarrow.dataset.Dataset":
    """Topics as a `Dataset` of pyarrow, which DuckDB queries by the name of the variable: `SELECT ... FROM orders`.

    Nothing is read, and no broker is contacted, before a query runs; it reads the topics' contents at that time. DuckDB
    passes the columns and conditions of the query: only these columns are decoded, and conditions on `topic`,
    `partition`, `offset` and `timestamp` decide which partitions and offsets are fetched.

    Args:
        config: settings, as for `Consumer`.
        topics: one topic, several topics, or `(topic, partition)` pairs.
        **options: `start`, `end`, `max_lateness`, `key` and `value` as for `read`, and `headers`, whether to add the
            `headers` column. With `value=Json(schema, flatten=True)` each field is a column, and only fields that the
            query uses are decoded.

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
