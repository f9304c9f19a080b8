"""Keys and values that are decoded into typed columns: the options for it, and the schema that travels to the tasks."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from monedula.errors import ArgumentError, ConfigError
from monedula.spark.values import boolean
from monedula.typed import CORRUPT_RECORD, Json

SUFFIXES = ("format", "mode", "columnNameOfCorruptRecord", "flatten")
"""What stands behind `value.` and `key.` in the names of the options."""

OPTIONS = (*(f"value.{suffix}" for suffix in SUFFIXES), *(f"key.{suffix}" for suffix in SUFFIXES[:-1]))

FROM_JSON = (
    "timeZone",
    "timestampFormat",
    "timestampNTZFormat",
    "dateFormat",
    "enableDateTimeParsingFallback",
    "enablePartialResults",
    "allowComments",
    "allowUnquotedFieldNames",
    "allowSingleQuotes",
    "allowNumericLeadingZeros",
    "allowNonNumericNumbers",
    "allowBackslashEscapingAnyCharacter",
    "allowUnquotedControlChars",
    "primitivesAsString",
    "prefersDecimal",
    "locale",
    "envelope",
)
"""Options of `Json`, which stand behind `value.` and `key.` as well."""

FROM_JSON_OPTIONS = tuple(f"{column}.{name}" for column in ("value", "key") for name in FROM_JSON)

_SESSION_TIME_ZONE = "spark.sql.session.timeZone"

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
    from_json: tuple[tuple[str, str], ...] = ()
    """The options of `from_json`."""
    driver_time_zone: str = "UTC"
    """The zone of timestamps that name none, if neither an option nor the session says it."""

    def with_schema(self, schema_json: str) -> "TypedColumn":
        """The same, with the schema of a query.

        Raises:
            ConfigError: if it has a type that no value is decoded to.
        """
        typed = replace(self, schema_json=schema_json)
        try:
            typed.decoder()
        except ArgumentError as error:
            what = str(error)
            if what.startswith("option "):
                name, _, reason = what.removeprefix("option ").partition(": ")
                name = f"{self.column}.{name}"
                raise ConfigError(f"option '{name}': {reason}", key=name) from None
            what = what.removeprefix("schema: ")
            raise ConfigError(f"schema: {self.column}: {what}", key=f"{self.column}.format") from None
        return typed

    def in_task(self) -> "TypedColumn":
        """The same, with the time zone of the session, as `from_json` has it.

        Spark gives a task the settings that the session has set. The session's zone without a setting is that of the
        driver.
        """
        from pyspark import TaskContext

        if any(name == "timeZone" for name, _ in self.from_json):
            return self
        context = TaskContext.get()
        given = context.getLocalProperty(_SESSION_TIME_ZONE) if context is not None else None
        return replace(self, from_json=(*self.from_json, ("timeZone", given or self.driver_time_zone)))

    def decoder(self) -> Json:
        """The decoder, on the driver or in a task."""
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        # Before Spark 4.2 timestamps are in UTC without being asked for.
        zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
        schema = to_arrow_schema(StructType.fromJson(json.loads(self.schema_json)), **zone)
        # As in from_json, the option may name a field that the schema does not have.
        has_field = self.mode == "null" and self.corrupt_record in schema.names
        given: dict[str, Any] = {"corrupt_record": self.corrupt_record} if has_field else {}
        return Json(schema, mode=self.mode, flatten=self.flatten, options=dict(self.from_json), **given)


def typed_columns(options: Mapping[str, str]) -> tuple[TypedColumn, ...]:
    """The columns that options ask to decode, without their schema.

    Raises:
        ConfigError: if an option has no such value, or says nothing without the format.
    """
    _check_unknown(options)
    typed = []
    for column in ("key", "value"):
        given = _given(options, column, SUFFIXES)
        from_json = _given(options, column, FROM_JSON)
        known = given.pop("format", "binary").strip().lower()
        if known not in ("binary", "json"):
            name = f"{column}.format"
            raise ConfigError(f"option '{name}' is '{known}': expected json, or binary (the default)", key=name)
        if known == "binary":
            for suffix, text in (given | from_json).items():
                if text != _DEFAULTS.get(suffix):
                    name = f"{column}.{suffix}"
                    raise ConfigError(f"option '{name}' is for {column}.format=json", key=name)
            continue
        mode = given.get("mode", "PERMISSIVE").strip().upper()
        if mode not in _MODES:
            name = f"{column}.mode"
            raise ConfigError(f"option '{name}' is '{given['mode']}': expected {', '.join(_MODES)}", key=name)
        flatten = column == "value" and boolean("value.flatten", given.get("flatten", "false"))
        corrupt_record = given.get("columnNameOfCorruptRecord", CORRUPT_RECORD)
        typed.append(
            TypedColumn(
                column,
                _MODES[mode],
                corrupt_record,
                flatten,
                from_json=tuple(sorted(from_json.items())),
                driver_time_zone=_time_zone_here(),
            )
        )
    if typed:
        _check_bare(options, typed[-1].column)
    return tuple(typed)


def _check_unknown(options: Mapping[str, str]) -> None:
    """Refuse options that begin as ours do, and are none: they would be without effect."""
    known = {name.lower() for name in (*OPTIONS, *FROM_JSON_OPTIONS)}
    for name in options:
        column = name.partition(".")[0]
        if column in ("key", "value") and "." in name and name not in known:
            names = ", ".join(f"{column}.{suffix}" for suffix in (*SUFFIXES, *FROM_JSON) if suffix != "flatten")
            raise ConfigError(f"option '{name}' is not known; expected one of {names}, value.flatten", key=name)


def _check_bare(options: Mapping[str, str], column: str) -> None:
    """Refuse options of `from_json` as they are written there, where they would be without effect."""
    for suffix in (*SUFFIXES[1:3], *FROM_JSON):
        if suffix.lower() in options:
            raise ConfigError(
                f"option '{suffix}' is '{column}.{suffix}' here, for the column that it is about", key=suffix
            )


def _given(options: Mapping[str, str], column: str, suffixes: tuple[str, ...]) -> dict[str, str]:
    return {suffix: options[name] for suffix in suffixes if (name := f"{column}.{suffix}".lower()) in options}


def _time_zone_here() -> str:
    """The name of this machine's time zone, by the rules of the C library; UTC if it has no name."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named:
        _, _, named = os.path.realpath("/etc/localtime").partition("zoneinfo/")
    try:
        ZoneInfo(named)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return "UTC"
    return named
