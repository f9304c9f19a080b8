"""Tables: drawn with rich on a terminal, and as lines for programs in a pipe."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monedula.cli.rendering import escaped

if TYPE_CHECKING:
    from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]

Row = Sequence[object]


def show(names: Sequence[str], rows: Iterable[Row], as_json: bool = False) -> None:
    """Write a table to standard output: drawn on a terminal, otherwise tab-separated without a header.

    Args:
        names: the column names; with JSON they are the keys.
        rows: the rows; a cell is a text, a number, a boolean, a sequence of these, or `None`.
        as_json: write JSON lines instead.
    """
    if as_json or not sys.stdout.isatty():
        sys.stdout.write("".join(line_of(names, row, as_json) for row in rows))
        sys.stdout.flush()
        return
    from rich.console import Console

    Console().print(drawn(names, list(rows)))


def line_of(names: Sequence[str], row: Row, as_json: bool) -> str:
    """A row as a line for programs: JSON, or tab-separated."""
    if as_json:
        return json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=list) + "\n"
    return "\t".join(_cell(value, "") for value in row) + "\n"


def drawn(names: Sequence[str], rows: Sequence[Row], title: str | None = None) -> "Table":
    """A rich table for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column, name in enumerate(names):
        numbers = bool(rows) and all(isinstance(row[column], int | float | None) for row in rows)
        justify: Any = "right" if numbers else "left"
        table.add_column(name.replace("_", " "), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value, "-")) for value in row))
    return table


def _cell(value: object, nothing: str) -> str:
    if value is None:
        return nothing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, str | int):
        return escaped(str(value))
    return ",".join(_cell(item, nothing) for item in value) if isinstance(value, Iterable) else escaped(str(value))
