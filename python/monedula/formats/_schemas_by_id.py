"""Writers' schemas by id, for options of the command line and of Spark: JSON, as text or in a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from monedula.errors import ArgumentError

_EXPECTED = """expected {"7": "old.avsc", "9": {...}}: schemas by their ids or GUIDs, or a file with that"""


_MAX_DIGITS = 30
"""Limit above the digits of any id: Python refuses to parse integers of very many digits."""


def schemas_by_id(given: str, read: Callable[[str], Any]) -> dict[int | str, Any] | list[Any]:
    """Return the schemas by their ids or GUIDs; a list of them for `framing="single_object"`.

    Args:
        given: a JSON object, or the name of a file with one. Its values are schemas, or texts for `read`.
        read: makes a schema of its text, or of the name of its file.
    """
    is_text = given.lstrip().startswith(("{", "["))
    try:
        schemas = json.loads(given if is_text else Path(given).read_text(), object_pairs_hook=_once)
    except OSError as error:
        raise ArgumentError(f"{given}: {error.strerror}; {_EXPECTED}", argument="schemas") from None
    except (ValueError, RecursionError) as error:
        where = "" if is_text else f"{given}: "
        raise ArgumentError(f"{where}no JSON, {error}; {_EXPECTED}", argument="schemas") from None

    def schema(each: Any) -> Any:
        return read(each) if isinstance(each, str) else each

    if isinstance(schemas, list):
        return [schema(each) for each in schemas]
    if not isinstance(schemas, dict):
        raise ArgumentError(_EXPECTED, argument="schemas")
    return {_key(key): schema(each) for key, each in schemas.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        raise ValueError(f"an object has {twice[0]!r} twice")
    return dict(pairs)


def _key(text: str) -> int | str:
    """Convert an id to a number. Texts such as `07`, next to `7`, stay texts, which are refused as no GUIDs."""
    is_number = text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS and (text == "0" or text[0] != "0")
    return int(text) if is_number else text
