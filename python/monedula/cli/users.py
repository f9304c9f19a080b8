"""`monedula users`: lists users that log in by SCRAM, sets their passwords, and deletes them."""

import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from monedula.admin import ScramDeletion, ScramMechanism, ScramUpsertion, Secret
from monedula.cli.administration import Connection, Yes, administration
from monedula.cli.failures import Failure, UsageError
from monedula.cli.files import standard_input
from monedula.cli.running import confirm, say, text_in
from monedula.cli.tables import AsJson, show

PASSWORD_VARIABLE = "MONEDULA_USER_PASSWORD"

User = Annotated[str, Argument(help="Name of the user, without User:.")]
Mechanism = Annotated[
    str, Option("-m", "--mechanism", help="SCRAM-SHA-512 or SCRAM-SHA-256; each has a password of its own.")
]

_MECHANISMS: dict[str, ScramMechanism] = {
    name: mechanism
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for name in (mechanism, mechanism.removeprefix("SCRAM-"))
}


@administration("users list")
def list_users(
    connection: Connection,
    users: Annotated[list[str] | None, Argument(help="Names of users; all if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """List users that have a SCRAM password. The mechanisms that it is for are shown.

    Examples:
        monedula users list
        monedula users list anna --json
    """
    with connection.admin() as admin:
        found = admin.describe_user_scram_credentials(users or None)
    rows = [(user, each.mechanism, each.iterations) for user in sorted(found) for each in found[user]]
    show(("user", "mechanism", "iterations"), rows, as_json)


@administration("users set")
def set_password(
    user: User,
    connection: Connection,
    mechanism: Mechanism = "SCRAM-SHA-512",
    iterations: Annotated[int, Option(min=4096, max=16384, help="Of the hash.")] = 4096,
    password_file: Annotated[
        Path | None,
        Option("--password-file", metavar="FILE", help="Its first line is the password; - is standard input."),
    ] = None,
) -> None:
    """Create a user, or set the password of one.

    The password comes from --password-file, from the environment variable MONEDULA_USER_PASSWORD, or is asked for. It
    is no option: everyone on a machine can read the arguments of a command.

    Examples:
        monedula users set anna
        monedula users set anna --password-file anna.txt --iterations 16384
    """
    chosen = _mechanism(mechanism)
    upsertion = ScramUpsertion(user, _password(user, password_file), chosen, iterations)
    with connection.admin() as admin:
        admin.alter_user_scram_credentials(upsertion)
    say(f"set the {chosen} password of {user}")


@administration("users delete")
def delete(
    user: User,
    connection: Connection,
    mechanism: Annotated[str | None, Option("-m", "--mechanism", help="Only the password for this one.")] = None,
    yes: Yes = False,
) -> None:
    """Delete the SCRAM passwords of a user. They are of no use any more; ACLs of the user remain.

    Examples:
        monedula users delete anna --yes
        monedula users delete anna --mechanism SCRAM-SHA-256 --yes
    """
    only = None if mechanism is None else _mechanism(mechanism)
    with connection.admin() as admin:
        (found,) = admin.describe_user_scram_credentials(user).values()
        chosen = [each.mechanism for each in found if only in (None, each.mechanism)]
        if not chosen:
            raise Failure(f"{user} has no {only} password")
        confirm(f"Delete the {' and '.join(chosen)} password of {user}?", yes)
        for name, kind in admin.alter_user_scram_credentials([ScramDeletion(user, _mechanism(at)) for at in chosen]):
            say(f"deleted the {kind} password of {name}")


def _mechanism(text: str) -> ScramMechanism:
    mechanism = _MECHANISMS.get(text.upper())
    if mechanism is None:
        raise UsageError(f"--mechanism {text}: expected SCRAM-SHA-256 or SCRAM-SHA-512")
    return mechanism


def _password(user: str, file: Path | None) -> Secret:
    if file is not None:
        password = _first_line(standard_input().readline() if str(file) == "-" else text_in(file))
    elif PASSWORD_VARIABLE in os.environ:
        password = Secret(os.environ[PASSWORD_VARIABLE])
    elif sys.stdin.isatty():
        password = Secret(getpass(f"Password of {user}: ", stream=sys.stderr))
        if password != Secret(getpass("Again: ", stream=sys.stderr)):
            raise Failure("the two passwords differ; nothing was done")
    else:
        raise UsageError(f"nobody can be asked for the password here: give --password-file, or set {PASSWORD_VARIABLE}")
    if not password:
        raise Failure("the password is empty")
    return password


def _first_line(text: str) -> Secret:
    # Spaces belong to a password; the end of the line does not.
    return Secret(text.split("\n", 1)[0].removesuffix("\r"))


HELP = "List, set and delete users that log in by SCRAM."
COMMANDS = (("list", list_users), ("set", set_password), ("delete", delete))
