"""Settings: a dict by Kafka's dotted names, or keywords with underscores; `config_keys` lists the known ones."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from monedula import _monedula
from monedula._arguments import as_text
from monedula._config.oauth_tokens import NAMES, TokenSource
from monedula._config.providers import resolved
from monedula._config.texts import dotted, is_utf8
from monedula._migration_hints import refuse_settings
from monedula.errors import ArgumentError, ConfigError

Settings = Mapping[str, Any]
"""Kafka's settings by name; values are texts, paths, numbers, booleans, or lists of texts."""


_SECRET_NAMES = re.compile(
    r"pass?wor|passphrase|secret|jaas|hmac|\.key$|\.key\.pem$|private|user\.info$|auth\.token$|proxy\.url$|socks5\.proxy$"
)


class ConfigKey(NamedTuple):
    """One setting that this client knows."""

    name: str
    aliases: list[str]
    default: str | None
    """The default value; `None` if the setting is required."""
    values: str
    description: str
    role: str
    """The clients that use it: `"all"`, `"consumer"`, `"producer"`, `"consumer and producer"`, `"share consumer"` or
    `"admin"`; the others accept it and warn."""


def config_keys() -> list[ConfigKey]:
    """All settings, each with its default, its possible values and its description."""
    return [ConfigKey(*row) for row in _monedula.config_keys()]


class RawSettings(list[tuple[str, str]]):
    """Settings in the core's form, of which no value is printed: a password may be among them.

    Attributes:
        token_source: the user's code that brings tokens for OAUTHBEARER, or `None`.
    """

    token_source: TokenSource | None = None

    def __repr__(self) -> str:
        return f"<{len(self)} settings: {', '.join(key for key, _ in self)}>"


class HiddenValues(dict[str, str]):
    """Settings by name, of which no value is printed."""

    def __repr__(self) -> str:
        return f"<{len(self)} settings: {', '.join(self)}>"


def is_secret(key: str) -> bool:
    """Return true if the value of a setting is a password or a key; unknown names may be misspelled secrets."""
    return _SECRET_NAMES.search(key.strip().replace("_", ".").lower()) is not None


def raw_settings(
    config: Settings | None,
    settings: Settings,
    *,
    example: str = "{'bootstrap.servers': 'localhost:9092'}",
    in_place_of_text: str = "",
    client: str = "Consumer",
) -> RawSettings:
    """The settings of the dict and the keywords in the core's form, with the values of config providers.

    The core checks names and values. In the traceback of an error no frame has a value as a local variable: tools that
    show locals would show passwords. Callers drop theirs as well, by `del` in `finally`.

    Args:
        config: the dict.
        settings: the keywords.
        example: a dict that would do, for the error.
        in_place_of_text: what the error says if `config` is a text, which was meant for something else.
        client: whose arguments and methods an error names for the settings of other clients.
    """
    if isinstance(config, RawSettings) and not settings:
        return config
    try:
        if config is not None and not isinstance(config, Mapping):
            hint = f"; {in_place_of_text}" if isinstance(config, str) and in_place_of_text else ""
            raise ConfigError(f"settings must be a dict such as {example}, not of type {type(config).__name__}{hint}")
        return _raw(config, settings, client)
    except ConfigError as error:
        error.__context__ = None
        raise error.with_traceback(None) from None  # without the frames below, which have values
    finally:
        del config, settings


def _raw(config: Settings | None, settings: Settings, client: str) -> RawSettings:
    given = [*(config or {}).items(), *settings.items()]
    refuse_foreign((str(key) for key, _ in given), client)
    providers = [item for item in given if _is_token_provider(*item)]
    raw = RawSettings(
        resolved([(_name(key), _text(key, value)) for key, value in given if not _is_token_provider(key, value)])
    )
    if providers:
        raw.token_source = _token_source(providers, raw)
    elif any(dotted(key) in ("sasl.mechanism", "sasl.mechanisms") and value == "AWS_MSK_IAM" for key, value in raw):
        raw.token_source = _msk_iam(raw)
    return raw


def _msk_iam(raw: RawSettings) -> TokenSource | None:
    """What botocore has to sign, because a profile has the credentials; the core signs with all others itself."""
    from monedula._config.msk_iam import MskIam, has_profile

    settings = {dotted(key): value for key, value in raw}
    jaas = settings.get("sasl.jaas.config")
    options = _monedula.jaas_options(jaas) if jaas else {}
    return TokenSource(MskIam(settings, options), "") if has_profile(options) else None


def _is_token_provider(key: object, value: object) -> bool:
    return dotted(str(key)) in NAMES and not isinstance(value, str)


def _token_source(providers: list[tuple[Any, Any]], raw: RawSettings) -> TokenSource:
    (key, provider), *others = providers
    if others:
        raise ConfigError(f"{key} and {others[0][0]} are the same setting; give one of them", key=str(key))
    config = next((value for name, value in raw if dotted(name) == "sasl.oauthbearer.config"), "")
    try:
        return TokenSource(provider, config)
    except TypeError as error:
        raise ConfigError(f"{key}: {error}", key=str(key)) from None


def refuse_foreign(names: Iterable[str], client: str = "Consumer") -> None:
    """Refuse settings that only other clients have, with what to use instead: of `client`, where they differ."""
    unknown = {name for name in names if dotted(name) not in _known_names()}
    if unknown:
        refuse_settings(unknown, client)


@cache
def _known_names() -> frozenset[str]:
    return frozenset(name for key in config_keys() for name in (key.name, *key.aliases))


def raw_columns(columns: Sequence[str] | None) -> list[str] | None:
    """The names of columns as a list. The core checks that they exist."""
    if columns is None:
        return None
    if not isinstance(columns, (str, bytes, Mapping)) and isinstance(columns, Iterable):
        names = list(columns)
        if all(isinstance(name, str) for name in names):
            return [as_text("columns", name) for name in names]
    one = f"; one column is columns=[{columns!r}]" if isinstance(columns, str) else ""
    raise ArgumentError.of("columns", columns, f"expected a list of names, such as ['key', 'value']{one}")


def _name(key: object) -> str:
    name = str(key)
    if not is_utf8(name):
        raise ConfigError(f"{name!r} is no setting: it cannot be written as UTF-8", key=name)
    return name


def _is_path(value: object) -> bool:
    from pathlib import PurePath  # slow to import, and most settings are texts

    return isinstance(value, PurePath)


def _text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)) or _is_path(value):
        text = str(value)
        if not is_utf8(text):
            message = (
                "the value is not UTF-8: a byte of an environment variable or a file was written in another encoding"
            )
            raise ConfigError(f"{key}: {message}", key=str(key))
        return text
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    kind = type(value).__name__
    if dotted(str(key)) not in _known_names():
        return f"<{kind}>"  # an unknown key, such as `value_deserializer=json.loads`: the core's error explains it
    # The value is left out: it may be a password, as bytes.
    raise ConfigError(f"{key}: expected a text, a whole number or a boolean, not a value of type {kind}", key=str(key))


class Unpicklable:
    """Base of classes whose objects are bound to their process: pickling or copying one raises `TypeError`."""

    def __reduce__(self) -> tuple[Any, ...]:
        message = "its connections belong to this process. Make one where it is used, from the same settings"
        raise TypeError(f"{type(self).__name__}: it can be neither pickled nor copied: {message}")
