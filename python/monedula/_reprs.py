"""What objects show of themselves: the parts of their reprs, and tables in HTML for notebooks."""

from collections.abc import Iterable, Sequence
from itertools import islice

_NAMES = 3
_ROWS = 10
_CHARACTERS = 60
"""Length of a cell in HTML; what is longer is cut."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as `1,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some(names: Iterable[str]) -> str:
    """The first names, and how many there are besides."""
    known = sorted(names)
    more = f" and {len(known) - _NAMES} more" if len(known) > _NAMES else ""
    return ", ".join(known[:_NAMES]) + more


def of_client(client: object, servers: str, facts: Sequence[str]) -> str:
    """The repr of a client.

    Args:
        client: the client.
        servers: its bootstrap servers; empty while it is being made.
        facts: what there is to say of it.
    """
    kind = type(client)
    # A password may stand before the host by mistake.
    hosts = (server.rpartition("@")[2] for server in servers.split(","))
    at = f" of {some(hosts)}" if servers else ""
    told = f": {', '.join(facts)}" if facts else ""
    return f"<{kind.__module__.partition('.')[0]}.{kind.__name__}{at}{told}>"


def html_table(caption: str, names: Sequence[str], rows: Iterable[Sequence[object]], total: int) -> str:
    """The first rows of a table as HTML; the core calls this for batches.

    Args:
        caption: what the table is.
        names: the names of the columns.
        rows: the cells of the rows, as Python has them; the first ones are enough.
        total: the number of rows of the whole table.
    """
    from html import escape

    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    shown = ["".join(f"<td>{escape(_text(cell))}</td>" for cell in row) for row in islice(rows, _ROWS)]
    body = "".join(f"<tr>{cells}</tr>" for cells in shown)
    rest = f"<p>{len(shown):,} of {counted(total, 'row')}</p>" if len(shown) < total else ""
    table = f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table + rest


def _text(cell: object) -> str:
    readable = _readable(cell)
    text = readable if isinstance(readable, str) else str(readable)
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"


def _readable(cell: object) -> object:
    """A cell in which bytes that are a text, times and the like are a str."""
    if isinstance(cell, bytes):
        try:
            text = cell.decode()
        except UnicodeDecodeError:
            return repr(cell)
        return text if all(character.isprintable() or character.isspace() for character in text) else repr(cell)
    if isinstance(cell, dict):
        return {_readable(key): _readable(value) for key, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_readable(each) for each in cell]
    return cell if cell is None or isinstance(cell, int | float) else str(cell)
