"""`monedula configs`: settings of topics, brokers, groups, client metrics and broker loggers."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from monedula.admin import Admin, Append, ConfigResource, Subtract
from monedula.cli.administration import Connection, DryRun, Yes, administration
from monedula.cli.completing import complete_pairs, complete_resources, complete_settings
from monedula.cli.failures import Failure, UsageError
from monedula.cli.files import standard_input
from monedula.cli.running import confirm, say
from monedula.cli.settings import pair, read_properties
from monedula.cli.tables import AsJson, show
from monedula.cli.topic_names import expanded
from monedula.config import is_secret


class Kind(StrEnum):
    """A type of resource that has settings."""

    topic = "topic"
    broker = "broker"
    group = "group"
    client_metrics = "client-metrics"
    broker_logger = "broker-logger"


# The name that stands for the settings which all brokers share.
_ALL_BROKERS = "all"

_SECRET = re.compile(r"(password|secret)(\.key)?$")

KindArgument = Annotated[Kind, Argument(help="What has the settings.", show_default=False)]
Name = Annotated[
    str,
    Argument(
        help="Its name; for a broker its id, or `all` for what all brokers share.", autocompletion=complete_resources
    ),
]


@administration("configs list")
def list_configs(
    connection: Connection,
    kind: Annotated[Kind | None, Argument(help="Only resources of this type.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List what has settings. That is every topic and broker, and groups and client metrics with their own.

    Examples:
        monedula configs list
        monedula configs list group
    """
    with connection.admin() as admin:
        found = admin.list_config_resources(() if kind is None else _type(kind))
    show(("type", "name"), sorted((each.type.replace("_", "-"), each.name) for each in found), as_json)


@administration("configs describe")
def describe(
    kind: KindArgument,
    names: Annotated[
        list[str],
        Argument(
            help="Their names; of topics also ^REGEX; of brokers ids, or `all`.",
            metavar="NAME...",
            autocompletion=complete_resources,
        ),
    ],
    connection: Connection,
    everything: Annotated[bool, Option("--all", help="Show those too that have their default.")] = False,
    help_: Annotated[bool, Option("--documentation", help="With what the broker says about each.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show settings that are not the default, with where they are set. Secrets are not shown.

    Examples:
        monedula configs describe topic orders
        monedula configs describe broker 1 --all
        monedula configs describe group etl --json
    """
    with connection.admin() as admin:
        resources = [_resource(kind, name) for name in (expanded(admin, names) if kind is Kind.topic else names)]
        found = admin.describe_configs(resources, documentation=help_)
    show_settings(found, everything, help_, as_json)


def show_settings(found: Any, everything: bool, with_help: bool, as_json: bool) -> None:
    """Write the settings of resources: those that are not the default, or all."""
    rows: list[tuple[object, ...]] = [
        (resource.name or _ALL_BROKERS, entry.name, entry.value, entry.source, *([entry.documentation] * with_help))
        for resource, entries in found.items()
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if everything or not entry.is_default or (not resource.name and entry.source == "all brokers")
    ]
    names = ("resource", "setting", "value", "source", *(["documentation"] * with_help))
    show(names, rows, as_json, spare=("resource", "source") if len(found) == 1 else ("source",))
    if not rows and not as_json:
        say("every setting has its default (--all shows them)")


@administration("configs set")
def set_(
    kind: KindArgument,
    name: Name,
    connection: Connection,
    pairs: Annotated[
        list[str] | None, Argument(help="KEY=VALUE ...", metavar="[KEY=VALUE]...", autocompletion=complete_pairs)
    ] = None,
    append: Annotated[
        list[str] | None, Option(metavar="KEY=VALUE", help="Add to a setting that is a list. Repeatable.")
    ] = None,
    subtract: Annotated[
        list[str] | None, Option(metavar="KEY=VALUE", help="Remove from a setting that is a list. Repeatable.")
    ] = None,
    file: Annotated[
        Path | None,
        Option("--file", metavar="FILE", help="More settings, and secrets, in a properties file; - for a pipe."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Change settings; all others stay as they are. A --dry-run lets the broker check them.

    Examples:
        monedula configs set topic orders retention.ms=86400000 cleanup.policy=compact
        monedula configs set topic orders --append cleanup.policy=compact
        monedula configs set broker all log.cleaner.threads=2 --dry-run
        monedula configs set group etl consumer.session.timeout.ms=50000
    """
    changes: dict[str, Any] = {}
    given: list[tuple[str, str, type[str] | type[Append] | type[Subtract]]] = [
        *((text, "setting", str) for text in pairs or ()),
        *((text, "--append", Append) for text in append or ()),
        *((text, "--subtract", Subtract) for text in subtract or ()),
    ]
    for text, option, change in given:
        key, value = pair(text, option)
        if _is_secret(key):
            raise UsageError(
                f"{key}: everyone on this machine can read the arguments of a command. Put it into a file, or a pipe, "
                "for --file"
            )
        _add(changes, key, change(value))
    if file is not None:
        if file == Path("-"):
            standard_input()
            file = Path("/dev/stdin")
        for key, value in read_properties(file).items():
            _add(changes, key, value)
    if not changes:
        raise UsageError("say what to change: KEY=VALUE, --append, --subtract or --file")
    with connection.admin() as admin:
        admin.alter_configs({_resource(kind, name): changes}, validate_only=dry_run)
    say(f"{'would change' if dry_run else 'changed'} {', '.join(changes)} of {_title(kind, name)}")


@administration("configs delete")
def delete(
    kind: KindArgument,
    name: Name,
    connection: Connection,
    keys: Annotated[
        list[str] | None, Argument(help="Names of settings.", metavar="[KEY]...", autocompletion=complete_settings)
    ] = None,
    everything: Annotated[bool, Option("--all", help="All that are set for this resource itself.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Go back to the default of settings. Client metrics that have none left are gone.

    Examples:
        monedula configs delete topic orders retention.ms
        monedula configs delete group etl --all --yes
    """
    if bool(keys) == everything:
        raise UsageError("name the settings, or give --all")
    with connection.admin() as admin:
        chosen = list(dict.fromkeys(keys or ())) or sorted(_own(admin, kind, name))
        if not chosen:
            raise Failure(f"{_title(kind, name)} has no settings of its own")
        if everything:
            confirm(f"Delete {', '.join(chosen)} of {_title(kind, name)}?", yes or dry_run)
        admin.alter_configs({_resource(kind, name): dict.fromkeys(chosen)}, validate_only=dry_run)
    say(f"{'would delete' if dry_run else 'deleted'} {', '.join(chosen)} of {_title(kind, name)}")


def _own(admin: Admin, kind: Kind, name: str) -> list[str]:
    """The settings of a resource that are set for itself, and not by the file of a broker."""
    resource = _resource(kind, name)
    (entries,) = admin.describe_configs(resource).values()
    own = resource.type if resource.name else "all brokers"
    return [entry.name for entry in entries.values() if entry.source == own]


def _resource(kind: Kind, name: str) -> ConfigResource:
    if kind in (Kind.broker, Kind.broker_logger) and not name.isdecimal():
        if kind is Kind.broker and name == _ALL_BROKERS:
            return ConfigResource("broker", "")
        also = f", or {_ALL_BROKERS}" if kind is Kind.broker else ""
        raise UsageError(f"{kind} {name}: expected the id of a broker{also}")
    return ConfigResource(_type(kind), name)


def _type(kind: Kind) -> Any:
    return kind.value.replace("-", "_")


def _title(kind: Kind, name: str) -> str:
    return "all brokers" if kind is Kind.broker and name == _ALL_BROKERS else f"{kind} {name}"


def _is_secret(key: str) -> bool:
    """Return true if a broker's setting is a secret: under its own name, or behind the prefix of a listener."""
    parts = key.split(".")
    return bool(_SECRET.search(key)) or any(is_secret(".".join(parts[first:])) for first in range(len(parts)))


def _add(changes: dict[str, Any], key: str, change: Any) -> None:
    if key in changes:
        raise UsageError(f"{key} is given twice")
    changes[key] = change


HELP = "Show and change settings of topics, brokers and others."
COMMANDS = (("list", list_configs), ("describe", describe), ("set", set_), ("delete", delete))
