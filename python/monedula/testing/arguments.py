"""Checks of the arguments of `Broker` whose wrong types would otherwise be errors about something else."""

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike

from monedula._arguments import whole_number
from monedula.errors import ConfigError
from monedula.testing.security import Acl

_EXAMPLES = {
    "listeners": '["PLAINTEXT"]',
    "mechanisms": '["SCRAM-SHA-512"]',
    "super_users": '["admin"]',
    "racks": '["rack-1"]',
    "acls": '[Acl("User:anna", "READ", "TOPIC", "orders")]',
    "settings": '{"num.partitions": 3}',
    "max_versions": '{"Fetch": 11}',
}

_PORT = (0, 65535, "a port, a whole number")
_MANY = (1 << 63) - 1
_NUMBERS = {
    "nodes": (1, 65535, "a whole number of nodes"),
    "port": _PORT,
    "control_port": _PORT,
    "first_node_id": (0, (1 << 31) - 1, "the id of a node, a whole number"),
    "seed": (0, _MANY, "a whole number"),
    "coordinator_load_ms": (0, _MANY, "a whole number of milliseconds"),
    "max_reauth_ms": (0, _MANY, "a whole number of milliseconds"),
}
"""The least and the most, and what it is."""

_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "host": (str, "a text such as '127.0.0.1'"),
    "first_use": (str, "a text such as 'once'"),
    "security": (str, "a text such as 'SASL_SSL'"),
    "client_auth": (str, "a text such as 'required'"),
    "unsecured_tokens": (bool, "True or False"),
    "client_metrics": (bool, "True or False"),
    "data_dir": ((str, PathLike, type(None)), "the path of a directory"),
}
"""The types of values, and what they are."""


def check_versions(versions: Mapping[str, int] | None) -> None:
    """Check the highest versions of APIs."""
    for name, version in (versions or {}).items():
        number = whole_number(version)
        if number is None or not -(1 << 15) <= number < 1 << 15:
            message = f"expected the number of a version, such as {_EXAMPLES['max_versions']}"
            raise ConfigError(f"max_versions: {name!r}: {version!r}: {message}", key="max_versions")


def check_numbers(**arguments: object) -> dict[str, int]:
    """The arguments that are numbers, checked."""
    numbers = {}
    for name, given in arguments.items():
        least, most, what = _NUMBERS[name]
        number = whole_number(given)
        if number is None or not least <= number <= most:
            bounds = "0 or more, of 63 bits" if most == _MANY else f"from {least} to {most}"
            raise ConfigError(f"{name}={given!r}: expected {what}, {bounds}", key=name)
        numbers[name] = number
    return numbers


def check_kinds(**arguments: object) -> None:
    """Check that arguments are texts, paths, or `True` or `False`."""
    for name, given in arguments.items():
        kinds, what = _KINDS[name]
        if not isinstance(given, kinds):
            raise ConfigError(f"{name}={given!r}: expected {what}", key=name)


def check_users(users: object) -> None:
    """Check users with their passwords.

    Raises:
        ConfigError: they are no mapping of texts to texts. Passwords are not shown.
    """
    if users is None:
        return
    if not isinstance(users, Mapping):
        message = 'expected names with their passwords, such as {"anna": "secret"}'
        raise ConfigError(f"users: {message}, not a value of type {type(users).__name__}", key="users")
    for user, password in users.items():
        if not isinstance(user, str):
            raise ConfigError(f"users: the name of a user is a text, not of type {type(user).__name__}", key="users")
        if not isinstance(password, str):
            kind = type(password).__name__
            raise ConfigError(f"users: the password of {user!r} is a text, not of type {kind}", key="users")


def check_lists(**arguments: Iterable[object]) -> None:
    """Check that arguments are lists, all but `acls` of texts: a text is a list of its letters."""
    for name, given in arguments.items():
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
            kind = type(given).__name__
            raise ConfigError(
                f"{name}: expected a list such as {_EXAMPLES[name]}, not a value of type {kind}", key=name
            )
        if name != "acls" and not isinstance(given, Iterator):
            for each in given:
                if not isinstance(each, str):
                    raise ConfigError(f"{name}: {each!r} is no text; expected {_EXAMPLES[name]}", key=name)


def check_acls(acls: Iterable[object]) -> None:
    """Check that each is an `Acl`."""
    for acl in acls:
        if not isinstance(acl, Acl):
            message = f"expected entries such as {_EXAMPLES['acls'][1:-1]}, not of type {type(acl).__name__}"
            raise ConfigError(f"acls: {message}", key="acls")


def check_mappings(**arguments: object) -> None:
    """Check that arguments are mappings."""
    for name, given in arguments.items():
        if given is not None and not isinstance(given, Mapping):
            kind = type(given).__name__
            raise ConfigError(
                f"{name}: expected a dict such as {_EXAMPLES[name]}, not a value of type {kind}", key=name
            )
