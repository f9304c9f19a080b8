"""`monedula tokens`: creates, lists, renews and expires delegation tokens."""

from datetime import timedelta
from typing import Annotated

from typer import Argument, Option

from monedula.admin import Admin, DelegationToken
from monedula.cli.administration import Connection, Yes, administration
from monedula.cli.failures import Failure
from monedula.cli.positions import duration_of
from monedula.cli.running import confirm, say
from monedula.cli.tables import AsJson, show
from monedula.types.times import EPOCH

TokenId = Annotated[str, Argument(help="Id of the token.")]

_COLUMNS = ("token_id", "owner", "renewers", "issued", "expires", "latest")


@administration("tokens list")
def list_tokens(
    connection: Connection,
    owner: Annotated[
        list[str] | None, Option("--owner", help="Only those of this principal, such as User:anna. Repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List delegation tokens, without their passwords.

    Examples:
        monedula tokens list
        monedula tokens list --owner User:anna --json
    """
    with connection.admin() as admin:
        tokens = admin.describe_delegation_tokens(owner)
    show(_COLUMNS, [_row(tokens[name]) for name in sorted(tokens)], as_json, spare=("issued", "latest", "renewers"))


@administration("tokens create")
def create(
    connection: Connection,
    owner: Annotated[
        str | None, Option("--owner", help="Whose rights it has, such as User:anna; yours if left out.")
    ] = None,
    renewer: Annotated[
        list[str] | None, Option("--renewer", help="Who may renew it beside its owner. Repeatable.")
    ] = None,
    lifetime: Annotated[
        str | None, Option(help="Until when it can be renewed, such as 7d; as long as the broker allows.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a delegation token, and write it to standard output. Its id is a user name, with that password.

    Examples:
        monedula tokens create --json > token.json
        monedula tokens create --owner User:anna --renewer User:scheduler --lifetime 7d
    """
    longest = None if lifetime is None else duration_of(lifetime, "--lifetime")
    with connection.admin() as admin:
        token = admin.create_delegation_token(owner=owner, renewers=renewer or (), max_lifetime=longest)
    password = token.password.expose().decode()
    show((*_COLUMNS, "password"), [(*_row(token), password)], as_json)


@administration("tokens renew")
def renew(
    token_id: TokenId,
    connection: Connection,
    period: Annotated[
        str | None, Option("--for", help="For how long from now on, such as 1d; by default the broker decides.")
    ] = None,
) -> None:
    """Let a token be valid for longer.

    Examples:
        monedula tokens renew 8RJqbJ4cQ3Wx8n0kq2vJ1w
        monedula tokens renew 8RJqbJ4cQ3Wx8n0kq2vJ1w --for 1d
    """
    length = None if period is None else duration_of(period, "--for")
    with connection.admin() as admin:
        expiry = admin.renew_delegation_token(_found(admin, token_id), period=length)
    say(f"{token_id} expires {_time(expiry)}")


@administration("tokens expire")
def expire(
    token_id: TokenId,
    connection: Connection,
    after: Annotated[str | None, Option(help="In which time, such as 1h; at once if left out.")] = None,
    yes: Yes = False,
) -> None:
    """Let a token expire: at once, or earlier than it would.

    Examples:
        monedula tokens expire 8RJqbJ4cQ3Wx8n0kq2vJ1w --yes
        monedula tokens expire 8RJqbJ4cQ3Wx8n0kq2vJ1w --after 1h --yes
    """
    length = None if after is None else duration_of(after, "--after")
    when = "at once" if length is None else f"in {after}"
    with connection.admin() as admin:
        token = _found(admin, token_id)
        confirm(f"Let the token {token_id} of {token.owner} expire {when}?", yes)
        expiry = admin.expire_delegation_token(token, after=length)
    say(f"deleted {token_id}" if length is None or expiry is None else f"{token_id} expires {_time(expiry)}")


def _found(admin: Admin, token_id: str) -> DelegationToken:
    tokens = admin.describe_delegation_tokens()
    if token_id not in tokens:
        raise Failure(f"there is no token {token_id} that you may see; see monedula tokens list")
    return tokens[token_id]


def _row(token: DelegationToken) -> tuple[object, ...]:
    times = (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp)
    return (token.token_id, token.owner, token.renewers, *map(_time, times))


def _time(timestamp_ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(timespec="seconds")


HELP = "Create, list, renew and expire delegation tokens."
COMMANDS = (("list", list_tokens), ("create", create), ("renew", renew), ("expire", expire))
