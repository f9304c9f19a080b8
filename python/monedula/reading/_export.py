"""Conversion of Arrow data to pyarrow, pandas and polars, shared by `Batch`, `RecordStream` and `Table`."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def to_pyarrow(data: Any) -> Any:
    """Make a `pyarrow.RecordBatch` of a batch, or a `pyarrow.Table` of any other Arrow data."""
    pyarrow = installed("pyarrow", "arrow")
    return pyarrow.record_batch(data) if hasattr(data, "__arrow_c_array__") else pyarrow.table(data)


def to_pandas(data: Any, options: Mapping[str, Any] | None) -> Any:
    """A `pandas.DataFrame`, with the options of pyarrow's `to_pandas`."""
    installed("pandas", "pandas")
    return to_pyarrow(data).to_pandas(**(options or {}))


def to_polars(data: Any) -> Any:
    """A `polars.DataFrame`."""
    return installed("polars", "polars").DataFrame(data)


def no_array(data: object) -> TypeError:
    """Make the error of `__array__`, without which `pandas.DataFrame(data)` would make one column of batches."""
    kind = type(data).__name__
    return TypeError(
        f"a {kind} is a table, not an array: use its to_pandas(), which pandas.DataFrame.from_arrow() does as well; "
        "pandas.DataFrame() and numpy do not read Arrow"
    )


def installed(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        message = f"{name} is not installed: pip install 'monedula[{extra}]'"
        raise ModuleNotFoundError(message, name=name) from None
