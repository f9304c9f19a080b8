"""Records of JSON for tests of typed columns, good and bad."""

import json
from typing import Any

import monedula
import pyarrow as pa

FIELDS: list[Any] = [("id", pa.int64()), ("user", pa.string()), ("tags", pa.list_(pa.string()))]
SCHEMA = pa.schema(FIELDS)


def anything(value: object) -> Any:
    """What a type checker would refuse."""
    return value


def document(number: int) -> str:
    return json.dumps({"id": number, "user": f"u{number}", "tags": ["t"] * (number % 3), "unknown": {"x": [1]}})


def value_of(record: monedula.Record) -> Any:
    return record.value


def bad(number: int) -> str:
    return f'{{"id":{number},"user":"bad","tags":["a",'
