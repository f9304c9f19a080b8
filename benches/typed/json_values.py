"""Records per second from JSON values to typed Arrow columns: our typed columns, and other ways to the same columns."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # so that `python benches/typed/json_values.py` works as well as `python -m`

from benches.typed.reading import RAW, Result, arrow_schema, compare, consume, event, raw, read  # noqa: E402


def value(number: int) -> bytes:
    """About 99 bytes of JSON, as in the other benches."""
    fields = {**event(number), "amount": f"{event(number)['amount']:.2f}"}
    return (
        '{{"id":{id},"user":"{user}","amount":{amount},"city":"{city}","session":"{session}"}}'.format(**fields)
    ).encode()


def typed(bootstrap: str, _: int) -> Result:
    """Our typed columns."""
    import monedula
    import pyarrow as pa

    spec = monedula.Json(arrow_schema(), flatten=True)
    return read(bootstrap, pa.record_batch, columns=["value"], value=spec)


def polars(bootstrap: str, _: int) -> Result:
    """Our binary column, and polars' `json_decode`."""
    import polars as pl

    order = pl.Struct(
        {"id": pl.Int64, "user": pl.String, "amount": pl.Float64, "city": pl.String, "session": pl.String}
    )

    def into(batch: Any) -> Any:
        decoded = pl.col("value").cast(pl.String).str.json_decode(order).alias("order")
        return pl.DataFrame(batch).select(decoded).unnest("order").to_arrow()

    return read(bootstrap, into, columns=["value"])


def pyarrow_json(bootstrap: str, _: int) -> Result:
    """Our binary column, and pyarrow's reader of JSON lines over its joined values."""
    import io

    import pyarrow as pa
    import pyarrow.json

    options = pyarrow.json.ParseOptions(explicit_schema=arrow_schema())

    def into(batch: Any) -> Any:
        values: list[Any] = pa.record_batch(batch)["value"].to_pylist()
        lines = b"\n".join(values)
        return pyarrow.json.read_json(io.BytesIO(lines), parse_options=options)

    return read(bootstrap, into, columns=["value"])


def duckdb(bootstrap: str, _: int) -> Result:
    """Our binary column, and DuckDB's `from_json`."""
    import duckdb as db
    import pyarrow as pa

    connection = db.connect()
    names = '{"id":"BIGINT","user":"VARCHAR","amount":"DOUBLE","city":"VARCHAR","session":"VARCHAR"}'
    query = f"SELECT unnest(from_json(decode(value), '{names}')) FROM records"

    def into(batch: Any) -> Any:
        records = pa.table(batch)
        connection.register("records", records)
        found = connection.sql(query)
        return found.to_arrow_table() if hasattr(found, "to_arrow_table") else found.arrow().read_all()

    return read(bootstrap, into, columns=["value"])


def confluent(bootstrap: str, records: int) -> Result:
    """confluent-kafka's `consume`, `orjson.loads` of each value, pyarrow."""
    import orjson

    return consume(bootstrap, records, orjson.loads)


READERS: dict[str, Callable[[str, int], Result]] = {
    "typed columns": typed,
    RAW: raw,
    "binary column + polars": polars,
    "binary column + pyarrow.json": pyarrow_json,
    "binary column + DuckDB": duckdb,
    "confluent-kafka + orjson + pyarrow": confluent,
}

if __name__ == "__main__":
    compare(__file__, READERS, value, __doc__)
