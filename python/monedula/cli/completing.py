"""Names in the cluster for a shell that completes: topics, groups, and what else has settings."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer

from monedula.admin import Admin, ConfigResource
from monedula.cli.failures import Failure, UsageError
from monedula.cli.settings import settings_of
from monedula.errors import KafkaError

PATIENCE_SECONDS = 2.0
"""Somebody waits at the prompt, or for the message of a command that has failed already."""


def names_in_cluster(
    options: Mapping[str, Any],
    names: Callable[[Admin], Iterable[str]],
    adapted: Callable[[dict[str, str]], dict[str, str]] = dict,
) -> list[str]:
    """The names of a cluster, if it answers: neither a prompt nor an error has a place for errors and the log."""
    given = (options.get(name) for name in ("bootstrap_servers", "setting", "settings_file"))
    logging.disable()
    try:
        with Admin(adapted(settings_of(*given))) as admin:
            return list(names(admin))
    except (KafkaError, Failure, UsageError, OSError):
        return []
    finally:
        logging.disable(logging.NOTSET)


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    """The topics whose names begin like that."""
    return _names(context, incomplete, lambda admin: admin.list_topics(timeout=PATIENCE_SECONDS))


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """The groups whose ids begin like that."""
    return _names(context, incomplete, lambda admin: admin.list_groups(timeout=PATIENCE_SECONDS))


def complete_resources(context: typer.Context, incomplete: str) -> list[str]:
    """The names of what has settings, of the type that stands before."""
    kind = _kind(context)
    if kind == "topic":
        return complete_topics(context, incomplete)
    if kind == "group":
        return complete_groups(context, incomplete)

    def names(admin: Admin) -> list[str]:
        if kind == "client_metrics":
            return [each.name for each in admin.list_config_resources(kind, timeout=PATIENCE_SECONDS)]
        brokers = [str(node.id) for node in admin.describe_cluster(timeout=PATIENCE_SECONDS).nodes]
        return ["all", *brokers] if kind == "broker" else brokers

    return _names(context, incomplete, names)


def complete_settings(context: typer.Context, incomplete: str) -> list[str]:
    """The names of the settings of the resource that stands before."""
    return [name.removesuffix("=") for name in complete_pairs(context, incomplete)]


def complete_pairs(context: typer.Context, incomplete: str) -> list[str]:
    """The same, with the sign behind which the value stands."""
    resource = ConfigResource(_kind(context), {"all": ""}.get(str(context.params["name"]), context.params["name"]))

    def names(admin: Admin) -> list[str]:
        (entries,) = admin.describe_configs(resource, timeout=PATIENCE_SECONDS).values()
        return [f"{name}=" for name in entries]

    return _names(context, incomplete, names)


def _kind(context: typer.Context) -> Any:
    return str(context.params["kind"]).replace("-", "_")


def _names(context: typer.Context, incomplete: str, names: Callable[[Admin], Iterable[str]]) -> list[str]:
    return sorted(name for name in names_in_cluster(context.params, names) if name.startswith(incomplete))
