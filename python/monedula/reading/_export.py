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


def column(data: Any, name: object) -> Any:
    """A column of a batch by its name, as a `pyarrow.Array`."""
    if not isinstance(name, str):
        raise TypeError(
            f"a {type(data).__name__} has columns by name, such as batch['value'], not {name!r}; records() yields its "
            "rows, and head(n) has the first ones"
        )
    names: list[str] = data.schema.names
    if name not in names:
        raise KeyError(f"there is no column {name!r}; the columns are {', '.join(names)}")
    return to_pyarrow(data).column(names.index(name))


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
