"""Writers' schemas by their ids, as an option of the command line and of Spark has them: JSON, as text or in a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from monedula.errors import ArgumentError

_EXPECTED = """expected {"7": "old.avsc", "9": {...}}: schemas by their ids or GUIDs, or a file with that"""


def schemas_by_id(given: str, read: Callable[[str], Any]) -> dict[int | str, Any] | list[Any]:
    """The schemas by their ids or GUIDs; a list of them for `framing="single_object"`.

    Args:
        given: a JSON object, or the name of a file with one. Its values are schemas, or texts for `read`.
        read: makes a schema of its text, or of the name of its file.

    Raises:
        ArgumentError: if it is none of these.
    """
    is_text = given.lstrip().startswith(("{", "["))
    try:
        schemas = json.loads(given if is_text else Path(given).read_text())
    except OSError as error:
        raise ArgumentError(f"schemas: {given}: {error.strerror}; {_EXPECTED}") from None
    except (ValueError, RecursionError) as error:
        where = "" if is_text else f"{given}: "
        raise ArgumentError(f"schemas: {where}no JSON, {error}; {_EXPECTED}") from None

    def schema(each: Any) -> Any:
        return read(each) if isinstance(each, str) else each

    if isinstance(schemas, list):
        return [schema(each) for each in schemas]
    if not isinstance(schemas, dict):
        raise ArgumentError(f"schemas: {_EXPECTED}")
    return {int(key) if key.isascii() and key.isdecimal() else key: schema(each) for key, each in schemas.items()}
