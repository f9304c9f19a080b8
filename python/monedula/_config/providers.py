r"""Config providers (KIP-297, KIP-421): settings whose values are taken from the environment or from a file.

`${env:NAME}` is an environment variable, `${file:/run/secrets/kafka.properties:password}` an entry of a properties
file, `${directory:/run/secrets:password}` the contents of a file. They are opt-in: the setting `config.providers` names
those that a client may use. Values are looked up when a client is made; under Spark, by each process for itself.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from monedula._config.properties import properties
from monedula._config.texts import dotted, is_utf8
from monedula.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

PROVIDERS = "config.providers"
ALLOWED_VARIABLE = "MONEDULA_CONFIG_PROVIDERS"
"""Environment variable with the providers that settings of this process may use: `env,file`, or `none`."""

_CLASSES = {
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "directory",
}
_BY_NAME = {"env": "env", "file": "file", "dir": "directory", "directory": "directory"}
_PACKAGE = "org.apache.kafka.common.config.provider."
_PARAMETERS = {"env": {"allowlist.pattern"}, "file": {"allowed.paths"}, "directory": {"allowed.paths"}}
# Same pattern as Java's: provider, then path or nothing, then key.
_VARIABLE = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}]*)\}")
_MAX_FILE_BYTES = 1 << 20


def resolved(settings: Iterable[tuple[str, str]], find: Callable[[str], str] = str) -> list[tuple[str, str]]:
    """Resolve the variables in settings, and remove the settings of config providers.

    Only providers that `config.providers` names are used. A variable of `env`, `file` or `directory` that is not named
    there is refused, since its text would be sent as a password. An empty `config.providers` takes all values as they
    are; values from a provider are taken as they are, too.

    Args:
        settings: names and values.
        find: locates a file with a relative path; in the working directory by default.

    Raises:
        ConfigError: a provider is not known, not named or not allowed, or a variable has no value. Values are never
            shown.
    """
    given = list(settings)
    own = {dotted(key): value for key, value in given if dotted(key).startswith(PROVIDERS)}
    providers = _providers(own, find) if own else {}
    values = [(key, value) for key, value in given if dotted(key) not in own]
    if not own or providers:
        _refuse_unnamed(values, providers)
    return [(key, _replaced(key, value, providers)) for key, value in values]


def has_variables(value: str) -> bool:
    """Return true if a value may have variables, if `config.providers` is set."""
    return _VARIABLE.search(value) is not None


class _Provider:
    def __init__(self, name: str, kind: str, parameters: Mapping[str, str], find: Callable[[str], str]) -> None:
        self.name = name
        self.kind = kind
        self._find = find
        unknown = sorted(set(parameters) - _PARAMETERS[kind])
        if unknown:
            key = f"{PROVIDERS}.{name}.param.{unknown[0]}"
            raise ConfigError(f"{key}: this provider has the parameter {', '.join(_PARAMETERS[kind])} alone", key=key)
        pattern = parameters.get("allowlist.pattern")
        try:
            self._names = None if pattern is None else re.compile(pattern)
        except re.error as error:
            key = f"{PROVIDERS}.{name}.param.allowlist.pattern"
            raise ConfigError(f"{key}: not a regular expression: {error}", key=key) from None
        allowed = parameters.get("allowed.paths")
        self._paths = None if allowed is None else [_absolute(each) for each in allowed.split(",") if each.strip()]

    def value(self, path: str, key: str) -> str:
        match self.kind:
            case "env":
                return self._of_environment(f"{path}:{key}" if path else key)
            case "file":
                return self._of_file(path, key)
            case _:
                if key in ("", ".", "..") or "/" in key or os.sep in key:
                    raise LookupError(f"{key!r} is not the name of a file")
                return self._read(f"{path}/{key}", path)

    def _of_environment(self, name: str) -> str:
        if self._names is not None and not self._names.fullmatch(name):
            raise LookupError(f"{PROVIDERS}.{self.name}.param.allowlist.pattern does not allow the variable {name}")
        if name not in os.environ:
            raise LookupError(f"this process has no environment variable {name}")
        if not is_utf8(os.environ[name]):
            raise LookupError(f"the environment variable {name} is not UTF-8")
        return os.environ[name]

    def _of_file(self, path: str, key: str) -> str:
        text = self._read(path, path)
        try:
            values = {entry.key: entry.value for entry in properties(text)}
        except ValueError as error:
            raise LookupError(f"{path}: {error}") from None
        if key not in values:
            raise LookupError(f"{path} has no entry {key}")
        return values[key]

    def _read(self, path: str, named: str) -> str:
        if not named.strip():
            raise LookupError(f"a path is missing: it is ${{{self.name}:PATH:KEY}}")
        absolute = _absolute(path)
        if self._paths is not None and not any(absolute.is_relative_to(allowed) for allowed in self._paths):
            raise LookupError(f"{PROVIDERS}.{self.name}.param.allowed.paths does not allow {path}")
        try:
            with _absolute(self._find(path.strip())).open("rb") as file:
                content = file.read(_MAX_FILE_BYTES + 1)
        except OSError as error:
            raise LookupError(f"{path} cannot be read: {error.strerror}") from None
        if len(content) > _MAX_FILE_BYTES:
            raise LookupError(f"{path} has more than {_MAX_FILE_BYTES} bytes")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise LookupError(f"{path} is not UTF-8") from None


def _providers(own: Mapping[str, str], find: Callable[[str], str]) -> dict[str, _Provider]:
    if PROVIDERS not in own:
        message = f"{next(iter(own))}: {PROVIDERS} must name the provider, as in {PROVIDERS}=env,file"
        raise ConfigError(message, key=next(iter(own)))
    names = [name.strip() for name in own[PROVIDERS].split(",") if name.strip()]
    _check_keys(own, names)
    return {name: _provider(name, own, find) for name in names}


def _provider(name: str, own: Mapping[str, str], find: Callable[[str], str]) -> _Provider:
    of_class = f"{PROVIDERS}.{name}.class"
    if of_class in own:
        kind = _CLASSES.get(own[of_class].strip().removeprefix(_PACKAGE))
        key, message = (
            of_class,
            f"no class of Java is loaded; known are {', '.join(_PACKAGE + each for each in _CLASSES)}",
        )
    else:
        kind = _BY_NAME.get(name)
        key, message = PROVIDERS, f"{name!r} is none of env, file, directory; {of_class} may say which of them it is"
    if kind is None:
        raise ConfigError(f"{key}: {message}", key=key)
    allowed = os.environ.get(ALLOWED_VARIABLE)
    if allowed is not None and kind not in {_BY_NAME.get(each.strip()) for each in allowed.split(",")}:
        message = f"the environment variable {ALLOWED_VARIABLE} does not allow the provider {kind} in this process"
        raise ConfigError(f"{PROVIDERS}: {message}", key=PROVIDERS)
    prefix = f"{PROVIDERS}.{name}.param."
    parameters = {key.removeprefix(prefix): value for key, value in own.items() if key.startswith(prefix)}
    return _Provider(name, kind, parameters, find)


def _refuse_unnamed(settings: Iterable[tuple[str, str]], named: Iterable[str]) -> None:
    """Refuse variables of known providers that are not enabled.

    Raises:
        ConfigError: a value has one. It is not shown, nor is the variable's name.
    """
    for key, value in settings:
        for provider in (found[1] for found in _VARIABLE.finditer(value)):
            if provider in _BY_NAME and provider not in named:
                state = f"does not name {provider}" if named else "is not set"
                advice = f"Set {PROVIDERS}={','.join([*named, provider])} to have it looked up"
                literal = f"or an empty {PROVIDERS} if the text itself is meant"
                message = f"the value has a variable ${{{provider}:...}}, and {PROVIDERS} {state}. {advice}, {literal}"
                raise ConfigError(f"{key}: {message}", key=PROVIDERS)


def _check_keys(own: Mapping[str, str], names: list[str]) -> None:
    for key in own:
        rest = key.removeprefix(f"{PROVIDERS}.")
        name, _, what = rest.partition(".")
        if key != PROVIDERS and (name not in names or not (what == "class" or what.startswith("param."))):
            message = f"expected {PROVIDERS}.NAME.class or {PROVIDERS}.NAME.param.PARAMETER, for a NAME of {PROVIDERS}"
            raise ConfigError(f"{key}: {message}", key=key)


def _replaced(key: str, value: str, providers: Mapping[str, _Provider]) -> str:
    def value_of(found: re.Match[str]) -> str:
        name, path, of = found[1], found[2] or "", found[3]
        if name not in providers:
            return found[0]  # unknown providers stay text, as in Java
        return providers[name].value(path, of)

    try:
        return _VARIABLE.sub(value_of, value)
    except LookupError as error:
        raise ConfigError(f"{key}: {error.args[0]}", key=key) from None


def _absolute(path: str) -> "Path":
    """Return the path without `..`. Links are followed only on opening: Kubernetes mounts secrets as links."""
    from pathlib import Path  # slow to import, and most clients have no providers

    return Path(os.path.abspath(path.strip()))  # noqa: PTH100 (`Path.absolute` leaves `..` as it is)
