"""`monedula acls`: lists, adds and removes ACLs."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, get_args

from typer import Option

from monedula.admin import AclBinding, AclFilter, AclOperation, AclPatternType, AclResourceType
from monedula.admin.security_types import CLUSTER
from monedula.cli.administration import Connection, Yes, administration
from monedula.cli.failures import Failure, UsageError
from monedula.cli.running import confirm, say
from monedula.cli.tables import AsJson, Row, show

Principals = Annotated[list[str] | None, Option("-u", "--principal", help="Whose, such as User:anna. Repeatable.")]
Operations = Annotated[
    list[str] | None, Option("-o", "--operation", help="Such as read, write or describe-configs. Repeatable.")
]
Topics = Annotated[list[str] | None, Option("-t", "--topic", help="On this topic. Repeatable.")]
Groups = Annotated[list[str] | None, Option("-g", "--group", help="On this consumer group. Repeatable.")]
TransactionalIds = Annotated[
    list[str] | None, Option("--transactional-id", help="On this transactional id. Repeatable.")
]
Tokens = Annotated[list[str] | None, Option("--delegation-token", help="On the token with this id. Repeatable.")]
Users = Annotated[list[str] | None, Option("--user", help="On this user, for whom others create tokens. Repeatable.")]
Cluster = Annotated[bool, Option("--cluster", help="On the cluster.")]
Deny = Annotated[bool, Option("--deny", help="Deny, which wins over any ACL that allows.")]

_PATTERNS: list[AclPatternType] = [pattern for pattern in get_args(AclPatternType) if pattern != "any"]
_OPERATIONS: list[AclOperation] = [operation for operation in get_args(AclOperation) if operation != "any"]
_LETTERS: dict[str, AclOperation] = {operation.replace("_", ""): operation for operation in _OPERATIONS}
_Resource = tuple[AclResourceType, str]
_TYPES: tuple[AclResourceType, ...] = ("topic", "group", "transactional_id", "delegation_token", "user")
_COLUMNS = ("principal", "permission", "operation", "resource", "name", "pattern", "host")


@administration("acls list")
def list_acls(
    connection: Connection,
    principal: Principals = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    delegation_token: Tokens = None,
    user: Users = None,
    cluster: Cluster = False,
    pattern: Annotated[
        str | None,
        Option(help="literal, prefixed, or match: every pattern that covers the name; any of them by default."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List ACLs: all, or those that the options name.

    Examples:
        monedula acls list
        monedula acls list --principal User:anna --json
        monedula acls list --topic orders --pattern match
    """
    resources = _resources(cluster, topic, group, transactional_id, delegation_token, user)
    filters = _filters(principal, operation, resources, _pattern(pattern), None, None)
    with connection.admin() as admin:
        found = dict.fromkeys(acl for each in filters for acl in admin.describe_acls(each))
    # A host that is no restriction is the one column that nobody misses.
    spare = () if any(acl.host != "*" for acl in found) else ("host",)
    show(_COLUMNS, map(_row, sorted(found, key=_order)), as_json, spare=spare)


@administration("acls add")
def add(
    principal: Annotated[list[str], Option("-u", "--principal", help="Who, such as User:anna. Repeatable.")],
    operation: Annotated[
        list[str], Option("-o", "--operation", help="What, such as read or describe-configs; all. Repeatable.")
    ],
    connection: Connection,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    delegation_token: Tokens = None,
    user: Users = None,
    cluster: Cluster = False,
    prefixed: Annotated[
        bool, Option("--prefixed", help="On all that begin with the name; without it, * is all.")
    ] = False,
    deny: Deny = False,
    host: Annotated[
        list[str] | None, Option("--host", help="From this address only; from any by default. Repeatable.")
    ] = None,
) -> None:
    """Add ACLs. Each principal, operation, resource and host that is given, with each other.

    Examples:
        monedula acls add --principal User:anna --operation read --topic orders --group etl
        monedula acls add --principal User:anna --operation write --operation describe --topic logs- --prefixed
        monedula acls add --principal 'User:*' --deny --operation all --topic secret --host 192.0.2.7
    """
    resources = _resources(cluster, topic, group, transactional_id, delegation_token, user)
    if not resources:
        raise UsageError(
            "name what it is on: --topic, --group, --transactional-id, --delegation-token, --user, --cluster"
        )
    acls = [
        AclBinding(
            who,
            _operation(what),
            kind,
            name,
            "prefixed" if prefixed and kind != "cluster" else "literal",
            "deny" if deny else "allow",
            where,
        )
        for who in principal
        for what in operation
        for kind, name in resources
        for where in host or ["*"]
    ]
    with connection.admin() as admin:
        for acl in admin.create_acls(acls):
            say(f"added: {_sentence(acl)}")


@administration("acls remove")
def remove(
    connection: Connection,
    principal: Principals = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    delegation_token: Tokens = None,
    user: Users = None,
    cluster: Cluster = False,
    pattern: Annotated[str | None, Option(help="literal, prefixed, or match; any of them by default.")] = None,
    host: Annotated[str | None, Option("--host", help="Only those for this address.")] = None,
    deny: Annotated[bool, Option("--deny", help="Only those that deny.")] = False,
    every: Annotated[bool, Option("--all", help="All ACLs, where no other option names some.")] = False,
    yes: Yes = False,
) -> None:
    """Remove the ACLs that the options name; they are shown first.

    Examples:
        monedula acls remove --principal User:anna --topic orders --yes
        monedula acls remove --topic old- --pattern prefixed --yes
    """
    resources = _resources(cluster, topic, group, transactional_id, delegation_token, user)
    if not (principal or operation or resources or host or every):
        raise UsageError("say which ACLs: --principal, --operation, a resource, --host, or --all")
    filters = _filters(principal, operation, resources, _pattern(pattern), host, "deny" if deny else None)
    with connection.admin() as admin:
        found = sorted({acl for each in filters for acl in admin.describe_acls(each)}, key=_order)
        if not found:
            raise Failure("no ACL is like that")
        for acl in found:
            say(_sentence(acl))
        confirm(f"Remove {'this ACL' if len(found) == 1 else f'these {len(found)} ACLs'}?", yes)
        # Removes the ACLs that were shown, not those that the filters match by now.
        removed = [acl for acls in admin.delete_acls(found).values() for acl in acls]
    say(f"removed: {len(removed)}")


def _filters(
    principals: list[str] | None,
    operations: list[str] | None,
    resources: Sequence[_Resource],
    pattern: AclPatternType,
    host: str | None,
    permission: Any,
) -> Iterable[AclFilter]:
    named: Sequence[tuple[AclResourceType, str | None]] = resources or [("any", None)]
    whose: Sequence[str | None] = principals or [None]
    chosen: Sequence[AclOperation] = [_operation(name) for name in operations or ()] or ["any"]
    return [
        AclFilter(principal, operation, kind, name, pattern, permission or "any", host)
        for principal in whose
        for operation in chosen
        for kind, name in named
    ]


def _operation(text: str) -> AclOperation:
    """The operation, also in the spelling of Kafka's tools: `DescribeConfigs`, `describe-configs`."""
    letters = text.lower().replace("_", "").replace("-", "")
    if letters not in _LETTERS:
        known = ", ".join(name.replace("_", "-") for name in _OPERATIONS)
        raise UsageError(f"--operation {text}: expected one of {known}")
    return _LETTERS[letters]


def _pattern(text: str | None) -> AclPatternType:
    if text is None:
        return "any"
    for pattern in _PATTERNS:
        if text.lower() == pattern:
            return pattern
    raise UsageError(f"--pattern {text}: expected one of {', '.join(_PATTERNS)}")


def _resources(cluster: bool, *named: list[str] | None) -> list[_Resource]:
    """The resources that the options name: whether the cluster, then names of each type in `_TYPES`."""
    found = [(kind, name) for kind, names in zip(_TYPES, named, strict=True) for name in names or ()]
    return [*found, ("cluster", CLUSTER)] if cluster else found


def _order(acl: AclBinding) -> tuple[str, ...]:
    return acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.operation, acl.host


def _row(acl: AclBinding) -> Row:
    resource = acl.resource_type, acl.resource_name, acl.pattern_type
    return (acl.principal, acl.permission_type, acl.operation, *resource, acl.host)


def _sentence(acl: AclBinding) -> str:
    verb = "may" if acl.permission_type == "allow" else "may not"
    begins = " that begin with" if acl.pattern_type == "prefixed" else ""
    kind = acl.resource_type.replace("_", " ") + ("s" if begins else "")
    where = "" if acl.host == "*" else f" from {acl.host}"
    return f"{acl.principal} {verb} {acl.operation.replace('_', ' ')} {kind}{begins} {acl.resource_name}{where}"


HELP = "List, add and remove ACLs."
COMMANDS = (("list", list_acls), ("add", add), ("remove", remove))
