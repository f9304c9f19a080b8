"""Keys and values that are decoded into typed columns: the options for it, and the schema that travels to the tasks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from monedula.errors import ArgumentError, ConfigError
from monedula.spark.values import boolean
from monedula.typed import CORRUPT_RECORD, Json

SUFFIXES = ("format", "mode", "columnNameOfCorruptRecord", "flatten")
"""What stands behind `value.` and `key.` in the names of the options."""

OPTIONS = (*(f"value.{suffix}" for suffix in SUFFIXES), *(f"key.{suffix}" for suffix in SUFFIXES[:-1]))

_DEFAULTS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD, "flatten": "false"}

_MODES: Mapping[str, Literal["null", "fail", "drop"]] = {
    "PERMISSIVE": "null",
    "FAILFAST": "fail",
    "DROPMALFORMED": "drop",
}


@dataclass(frozen=True)
class TypedColumn:
    """How a column is decoded. It is part of what identifies a client, so it is made of texts."""

    column: str
    mode: Literal["null", "fail", "drop"]
    corrupt_record: str
    flatten: bool
    schema_json: str = ""
    """The Spark schema of its fields, as JSON."""

    def with_schema(self, schema_json: str) -> "TypedColumn":
        """The same, with the schema of a query.

        Raises:
            ConfigError: if it has a type that no value is decoded to.
        """
        typed = replace(self, schema_json=schema_json)
        try:
            typed.decoder()
        except ArgumentError as error:
            what = str(error).removeprefix("schema: ")
            raise ConfigError(f"schema: {self.column}: {what}", key=f"{self.column}.format") from None
        return typed

    def decoder(self) -> Json:
        """The decoder, on the driver or in a task."""
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        schema = to_arrow_schema(StructType.fromJson(json.loads(self.schema_json)), timezone="UTC")
        given: dict[str, Any] = {} if self.mode != "null" else {"corrupt_record": self.corrupt_record}
        return Json(schema, mode=self.mode, flatten=self.flatten, **given)


def typed_columns(options: Mapping[str, str]) -> tuple[TypedColumn, ...]:
    """The columns that options ask to decode, without their schema.

    Raises:
        ConfigError: if an option has no such value, or says nothing without the format.
    """
    typed = []
    for column in ("key", "value"):
        given = {suffix: options[name] for suffix in SUFFIXES if (name := f"{column}.{suffix}".lower()) in options}
        known = given.pop("format", "binary").strip().lower()
        if known not in ("binary", "json"):
            name = f"{column}.format"
            raise ConfigError(f"option '{name}' is '{known}': expected json, or binary (the default)", key=name)
        if known == "binary":
            for suffix, text in given.items():
                if text != _DEFAULTS[suffix]:
                    name = f"{column}.{suffix}"
                    raise ConfigError(f"option '{name}' is for {column}.format=json", key=name)
            continue
        mode = given.get("mode", "PERMISSIVE").strip().upper()
        if mode not in _MODES:
            name = f"{column}.mode"
            raise ConfigError(f"option '{name}' is '{given['mode']}': expected {', '.join(_MODES)}", key=name)
        flatten = column == "value" and boolean("value.flatten", given.get("flatten", "false"))
        corrupt_record = given.get("columnNameOfCorruptRecord", CORRUPT_RECORD)
        typed.append(TypedColumn(column, _MODES[mode], corrupt_record, flatten))
    return tuple(typed)
