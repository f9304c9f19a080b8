"""The I/O source of polars behind `monedula.scan`."""

from collections.abc import Iterator
from inspect import signature
from typing import Any

import polars as pl

from monedula._filters.conditions import Condition, Unknown
from monedula._filters.polars_expressions import of_polars
from monedula.consumer._base import MAX_ROWS
from monedula.reading._topic_scan import TopicScan


def lazy_frame(source: TopicScan) -> pl.LazyFrame:
    try:
        from polars.io.plugins import register_io_source
    except ImportError:
        message = f"polars {pl.__version__} takes no sources: monedula.scan() needs 1.20 or newer"
        raise ImportError(message) from None
    with source.empty() as stream:
        schema: dict[str, Any] = dict(pl.DataFrame(stream).schema)
    shown: dict[str, Any] = {"explain_name": "monedula", "explain_detail": ", ".join(source.topics)}
    known = signature(register_io_source).parameters
    frame: pl.LazyFrame = register_io_source(
        _Frames(source, list(schema)), schema=schema, **{key: value for key, value in shown.items() if key in known}
    )
    return frame


class _Frames:
    """Callback of polars that yields the frames of a query."""

    def __init__(self, source: TopicScan, names: list[str]) -> None:
        self._source = source
        self._names = names

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        shown = self._names if with_columns is None else with_columns
        compared = [] if predicate is None else predicate.meta.root_names()
        # Read at least one column, to count rows by.
        read = [name for name in self._names if name in shown or name in compared] or ["partition"]
        missing = n_rows
        if missing == 0:
            return
        condition: Condition = Unknown("") if predicate is None else of_polars(predicate)
        if predicate is None and missing is not None:
            batches: Any = self._source.read_first(missing, read)
        else:
            batches = self._source.read(condition, read, min(batch_size or MAX_ROWS, MAX_ROWS))
        try:
            for batch in batches:
                frame = pl.DataFrame(batch)
                if predicate is not None:
                    frame = frame.filter(predicate)
                frame = frame.select(shown)
                if missing is not None:
                    frame = frame.head(missing)
                    missing -= frame.height
                yield frame
                if missing == 0:
                    return
        finally:
            batches.close()
