"""The common options of decoded and encoded columns: formats, schemas in files, and the time zone."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from monedula.errors import ArgumentError, ConfigError
from monedula.formats.avro import PRIMITIVES
from monedula.spark.options.values import bad_value, refused

FORMATS = ("json", "avro", "protobuf")

OF_AVRO = ("recursiveFieldMaxDepth", "enableStableIdentifiersForUnionType", "stableIdentifierPrefixForUnionType")
"""Options of `Avro`, which stand behind `value.` and `key.` as well."""

_SESSION_ZONE = "spark.sql.session.timeZone"

Options = tuple[tuple[str, str], ...]
"""Options of a format, in a form that is compared and sent to tasks."""

Source = bytes | tuple[tuple[str, str], ...]
"""A schema of Protobuf, in such a form: descriptors, or texts with the names of their files."""


def given_options(options: Mapping[str, str], column: str, suffixes: Iterable[str]) -> dict[str, str]:
    """The options of a column by their suffixes, from `options` (names in lower case)."""
    return {suffix: options[name] for suffix in suffixes if (name := f"{column}.{suffix}".lower()) in options}


def take_format(column: str, given: dict[str, str]) -> str:
    """Take the format out of the options of a column; `binary` if there is none."""
    text = given.pop("format", "binary").strip().lower()
    if text not in (*FORMATS, "binary"):
        raise bad_value(f"{column}.format", text, f"{', '.join(FORMATS)}, or binary (the default)")
    return text


def unfit(column: str, suffix: str, formats: str) -> ConfigError:
    """The error for an option that says nothing with the format of its column."""
    return refused(f"{column}.{suffix}", f"is for {column}.format={formats}")


def with_time_zone(options: Options, of_driver: str) -> Options:
    """Options of `from_json` or `to_json` with a zone for times that name none: that of the session, in a task."""
    if any(name == "timeZone" for name, _ in options):
        return options
    from pyspark import TaskContext

    # A task has the settings that the session was given. Without one its zone is that of the driver.
    context = TaskContext.get()
    of_session = None if context is None else context.getLocalProperty(_SESSION_ZONE)
    return (*options, ("timeZone", of_session or of_driver))


def time_zone_here() -> str:
    """The name of this machine's time zone, by the rules of the C library; UTC if it has no name."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named:
        _, _, named = os.path.realpath("/etc/localtime").partition("zoneinfo/")
    try:
        ZoneInfo(named)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return "UTC"
    return named


def avro_text(schema: str, option: str = "schemas") -> str:
    """The text of an Avro schema, or what the file of that name has."""
    if schema.lstrip().startswith(("{", "[", '"')) or schema.strip() in PRIMITIVES:
        return schema
    try:
        return Path(schema).read_text()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"{schema:.400}: {reason}", argument=option, hint="expected an Avro schema, or a file with it"
        ) from None


def protobuf_source(schema: str) -> Source:
    """The text of a `.proto` file, or what a file has: such a text, or descriptors."""
    if any(sign in schema for sign in "{;"):
        return (("schema.proto", schema),)
    path = Path(schema)
    try:
        found = path.read_bytes()
        return ((path.name, found.decode()),) if path.suffix == ".proto" else found
    except OSError as error:
        raise ArgumentError(
            f"{schema}: {error.strerror}", hint="expected .proto text, or a file with it or descriptors"
        ) from None
    except ValueError:
        raise ArgumentError(f"{schema!r}: is neither .proto text nor the name of a file with such in UTF-8") from None
