"""Decoded values as JSON text, for the outputs of `monedula consume` that are text."""

import base64
import json
import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from monedula import Batch, Record


def with_texts(records: Iterable[Record]) -> Iterator[Record]:
    """The records with their values as JSON in UTF-8."""
    for each in records:
        yield Record(
            each.topic,
            each.partition,
            each.offset,
            each.timestamp,
            each.timestamp_type,
            each.key,
            _bytes(each.value),
            each.headers,
        )


def with_text_column(batch: Batch) -> Any:
    """The batch with its values as JSON in UTF-8."""
    import pyarrow

    arrow = pyarrow.record_batch(batch)
    index = arrow.schema.get_field_index("value")
    if index < 0:
        return arrow
    texts = pyarrow.array([_bytes(each.value) for each in batch.records()], pyarrow.binary())
    return arrow.set_column(index, "value", texts)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else json_text(value).encode()


def json_text(value: Any) -> str:
    """A value as JSON: times in ISO 8601, lengths in seconds as in Protobuf's JSON, bytes in base64.

    A number that JSON does not have is its name, and a decimal keeps its digits.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            fields = (f"{_quoted(_name(name))}:{json_text(each)}" for name, each in value.items())
            return f"{{{','.join(fields)}}}"
        case list() | tuple():
            return f"[{','.join(map(json_text, value))}]"
        case float():
            return repr(value) if math.isfinite(value) else _NAMES[repr(value)]
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case timedelta():
            micros = value // timedelta(microseconds=1)
            whole, rest = divmod(abs(micros), 1_000_000)
            return f'"{"-" if micros < 0 else ""}{whole}{f".{rest:06}" if rest else ""}s"'
        case datetime() | date() | time():
            return f'"{value.isoformat().replace("+00:00", "Z")}"'
    return _quoted(str(value))


def _name(key: Any) -> str:
    """The name for the key of a map, which may be a number, or true or false."""
    return json_text(key) if isinstance(key, bool) else str(key)


_NAMES = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
