"""Checks of the arguments of `Broker` whose wrong types would otherwise be errors about something else."""

from collections.abc import Iterable, Mapping

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
    """Check that arguments are lists: a text is a list of its letters.

    Raises:
        ConfigError: one is a text, or no list.
    """
    for name, given in arguments.items():
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
            kind = type(given).__name__
            raise ConfigError(
                f"{name}: expected a list such as {_EXAMPLES[name]}, not a value of type {kind}", key=name
            )


def check_acls(acls: Iterable[object]) -> None:
    """Check that each is an `Acl`.

    Raises:
        ConfigError: one is something else.
    """
    for acl in acls:
        if not isinstance(acl, Acl):
            message = f"expected entries such as {_EXAMPLES['acls'][1:-1]}, not of type {type(acl).__name__}"
            raise ConfigError(f"acls: {message}", key="acls")


def check_mappings(**arguments: object) -> None:
    """Check that arguments are mappings.

    Raises:
        ConfigError: one is something else.
    """
    for name, given in arguments.items():
        if given is not None and not isinstance(given, Mapping):
            kind = type(given).__name__
            raise ConfigError(
                f"{name}: expected a dict such as {_EXAMPLES[name]}, not a value of type {kind}", key=name
            )
