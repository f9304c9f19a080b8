"""`monedula quotas`: lists, sets and removes client quotas."""

from typing import Annotated, Any

from typer import Argument, Option

from monedula.admin import DEFAULT, QuotaEntity, QuotaName
from monedula.cli.administration import Connection, Yes, administration
from monedula.cli.failures import Failure, UsageError
from monedula.cli.running import confirm, say
from monedula.cli.settings import pair
from monedula.cli.tables import AsJson, show

User = Annotated[str | None, Option("-u", "--user", help="Of this user.")]
ClientId = Annotated[str | None, Option("--client-id", help="Of this client id; with --user, of both together.")]
Ip = Annotated[str | None, Option("--ip", help="Of this address.")]
Default = Annotated[
    list[str] | None,
    Option("-d", "--default", metavar="TYPE", help="The default of a type: user, client-id or ip. Repeatable."),
]

_TYPES = ("user", "client-id", "ip")


@administration("quotas list")
def list_quotas(
    connection: Connection,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    as_json: AsJson = False,
) -> None:
    """List quotas: all, or those that the options name.

    Examples:
        monedula quotas list
        monedula quotas list --user anna --json
        monedula quotas list --default user
    """
    wanted = _entity(user, client_id, ip, default)
    with connection.admin() as admin:
        found = admin.describe_client_quotas(user=wanted.user, client_id=wanted.client_id, ip=wanted.ip)
    rows = [
        (_shown(entity.user), _shown(entity.client_id), _shown(entity.ip), quota, value)
        for entity, quotas in sorted(found.items(), key=lambda item: _title(item[0]))
        for quota, value in sorted(quotas.items())
    ]
    show(("user", "client_id", "ip", "quota", "value"), rows, as_json)


@administration("quotas set")
def set_quotas(
    quotas: Annotated[list[str], Argument(metavar="NAME=NUMBER...", help="Such as producer_byte_rate=1000000.")],
    connection: Connection,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
) -> None:
    """Set quotas of a user, a client id, both together, or an address. Others that it has remain.

    Examples:
        monedula quotas set producer_byte_rate=1000000 --user anna
        monedula quotas set request_percentage=50 consumer_byte_rate=2e6 --default user --client-id reports
        monedula quotas set connection_creation_rate=10 --default ip
    """
    entity = _named(user, client_id, ip, default)
    values = dict(_quota(text) for text in quotas)
    with connection.admin() as admin:
        admin.alter_client_quotas({entity: values})
    say(f"set {', '.join(values)} of {_title(entity)}")


@administration("quotas remove")
def remove(
    connection: Connection,
    quotas: Annotated[list[str] | None, Argument(metavar="NAME...", help="Names of quotas; all if left out.")] = None,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    yes: Yes = False,
) -> None:
    """Remove quotas of a user, a client id, both, or an address.

    Examples:
        monedula quotas remove producer_byte_rate --user anna --yes
        monedula quotas remove --default ip --yes
    """
    entity = _named(user, client_id, ip, default)
    with connection.admin() as admin:
        found = admin.describe_client_quotas(user=entity.user, client_id=entity.client_id, ip=entity.ip, strict=True)
        present = found.get(entity, {})
        chosen = [name for name in quotas or sorted(present) if name in present]
        lacking = [name for name in quotas or () if name not in present]
        if lacking or not chosen:
            raise Failure(f"{_title(entity)} has no quota {', '.join(lacking)}".rstrip())
        confirm(f"Remove {', '.join(chosen)} of {_title(entity)}?", yes)
        admin.alter_client_quotas({entity: dict.fromkeys(chosen)})
    say(f"removed {', '.join(chosen)} of {_title(entity)}")


def _entity(user: str | None, client_id: str | None, ip: str | None, default: list[str] | None) -> QuotaEntity:
    given: dict[str, Any] = {"user": user, "client-id": client_id, "ip": ip}
    for kind in default or ():
        if kind not in _TYPES:
            raise UsageError(f"--default {kind}: expected one of {', '.join(_TYPES)}")
        if given[kind] is not None:
            raise UsageError(f"give --{kind} or --default {kind}, not both")
        given[kind] = DEFAULT
    return QuotaEntity(given["user"], given["client-id"], given["ip"])


def _named(user: str | None, client_id: str | None, ip: str | None, default: list[str] | None) -> QuotaEntity:
    entity = _entity(user, client_id, ip, default)
    if entity == QuotaEntity():
        raise UsageError("say whose: --user, --client-id, --ip, or --default with one of these")
    return entity


def _quota(text: str) -> tuple[str, float]:
    name, value = pair(text, "")
    try:
        return name, float(value)
    except ValueError:
        raise UsageError(f"{text}: expected a number behind =") from None


def _shown(name: str | QuotaName | None) -> str | None:
    return f"<{name.value}>" if isinstance(name, QuotaName) else name


def _title(entity: QuotaEntity) -> str:
    names = (("user", entity.user), ("client id", entity.client_id), ("address", entity.ip))
    return ", ".join(
        f"the default {kind}" if isinstance(name, QuotaName) else f"{kind} {name}"
        for kind, name in names
        if name is not None
    )


HELP = "List, set and remove client quotas."
COMMANDS = (("list", list_quotas), ("set", set_quotas), ("remove", remove))
