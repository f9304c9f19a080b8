"""The options for the cluster's address and the client's settings, which the commands share."""

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from typer import Option

from monedula._config.properties import properties
from monedula._config.providers import PROVIDERS, has_variables
from monedula._config.texts import dotted
from monedula.cli.failures import Failure, UsageError
from monedula.config import config_keys, is_secret

SERVERS_VARIABLE = "MONEDULA_BOOTSTRAP_SERVERS"
_DEFAULT_SERVERS = "localhost:9092"

BootstrapServers = Annotated[
    str | None,
    Option(
        "-b",
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help=f"Where the cluster is; else what {SERVERS_VARIABLE} says, or {_DEFAULT_SERVERS}.",
    ),
]
Setting = Annotated[
    list[str] | None,
    Option("-X", "--setting", metavar="KEY=VALUE", help="A setting of the client by Kafka's name. Repeatable."),
]
SettingsFile = Annotated[
    Path | None, Option("-F", "--settings-file", metavar="FILE", help="A properties file with settings of the client.")
]

_PASSWORD_IN_URL = re.compile(r"https?://[^/?#,]*:[^/?#,]*@")


_SERVERS = "bootstrap.servers"
_PROPAGATION = "topic.metadata.propagation.max.ms"
_PROPAGATION_MS = "2000"
"""Somebody who misspelt a topic waits for the error; programs wait longer for a topic that is new."""


def settings_of(servers: str | None, pairs: list[str] | None, file: Path | None) -> dict[str, str]:
    """The settings from the options: `-b` overrides `-X`, `-X` the file, and the file the environment."""
    settings = {} if file is None else read_properties(file)
    given: dict[str, str] = {}
    for key, value in (pair(text, "-X") for text in pairs or ()):
        if (is_secret(key) or _PASSWORD_IN_URL.search(value)) and not has_variables(value):
            raise UsageError(
                f"-X {key}: everyone on this machine can read the arguments of a command. Put it into a file for -F, "
                f"or give -X config.providers=env and -X '{key}=${{env:NAME}}' for an environment variable NAME"
            )
        given[key] = value
    settings = overruled(settings, given)
    if servers is not None:
        settings = overruled(settings, {_SERVERS: servers})
    elif _SERVERS not in map(_canonical, settings):
        settings[_SERVERS] = os.environ.get(SERVERS_VARIABLE) or _DEFAULT_SERVERS
    if _PROPAGATION not in map(_canonical, settings):
        settings[_PROPAGATION] = _PROPAGATION_MS
    return settings


def overruled(settings: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings with those given, in place of the same ones under another name: an alias, or with underscores."""
    meant = {_canonical(key) for key in given}
    return {**{key: value for key, value in settings.items() if _canonical(key) not in meant}, **given}


def _canonical(key: str) -> str:
    """Kafka's name of a setting; one that is not known is as it is, with dots."""
    name = dotted(key)
    return _names_by_alias().get(name, name)


@cache
def _names_by_alias() -> dict[str, str]:
    return {alias: key.name for key in config_keys() for alias in key.aliases}


def admin_settings(settings: dict[str, str]) -> dict[str, str]:
    """The settings of another client that an admin client has too."""
    keys = (key for key in config_keys() if key.role in ("all", "admin"))
    known = {name for key in keys for name in (key.name, *key.aliases)}

    def is_known(name: str) -> bool:
        given = dotted(name)
        return given in known or given.startswith(PROVIDERS)

    return {name: value for name, value in settings.items() if is_known(name)}


def names_registry(settings: dict[str, str], is_typed: bool) -> bool:
    """Return true if the settings name a schema registry.

    Raises:
        UsageError: if its URL is empty, and keys or values are typed: they would be without a frame.
    """
    urls = [value for name, value in settings.items() if dotted(name) == "schema.registry.url"]
    if is_typed and not all(url.strip() for url in urls):
        raise UsageError(
            "schema.registry.url is empty, as of a variable that is not set; without a registry leave it out"
        )
    return bool(urls)


def pair(text: str, option: str) -> tuple[str, str]:
    """Key and value of `key=value`."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UsageError(f"{option} {text}: expected key=value")
    return key.strip(), value


def read_properties(file: Path) -> dict[str, str]:
    """The settings of a Java properties file: `key=value` or `key: value`, `#` and `!` for comments.

    Raises:
        Failure: if it is not UTF-8.
        UsageError: if a line has another form. It is not shown: a password may be in it.
    """
    settings: dict[str, str] = {}
    try:
        for entry in properties(file.read_text(encoding="utf-8")):
            if not entry.is_separated or not entry.key:
                raise UsageError(f"{file}, line {entry.line}: expected key=value")
            settings[entry.key] = entry.value
    except UnicodeDecodeError:
        raise Failure(f"{file} is not UTF-8") from None
    except ValueError as error:
        raise UsageError(f"{file}, {error}") from None
    return settings
