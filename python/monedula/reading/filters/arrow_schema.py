"""The pyarrow schema of records, against which expressions are checked."""

from typing import Any


def records_schema() -> Any:
    """The `pyarrow.Schema` of batches with every column."""
    import pyarrow as pa

    header: Any = pa.struct([("key", pa.string()), ("value", pa.binary())])
    fields: list[tuple[str, Any]] = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.field("element", header))),
    ]
    return pa.schema(fields)
