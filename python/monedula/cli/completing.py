"""Names in the cluster for a shell that completes: topics, groups, and what else has settings."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import typer

from monedula.admin import Admin, ConfigResource
from monedula.cli.failures import Failure, UsageError
from monedula.cli.settings import settings_of
from monedula.errors import KafkaError

# Somebody waits at the prompt.
_PATIENCE_SECONDS = 2.0


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    """The topics whose names begin like that."""
    return _names(context, incomplete, lambda admin: admin.list_topics(timeout=_PATIENCE_SECONDS))


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """The groups whose ids begin like that."""
    return _names(context, incomplete, lambda admin: admin.list_groups(timeout=_PATIENCE_SECONDS))


def complete_resources(context: typer.Context, incomplete: str) -> list[str]:
    """The names of what has settings, of the type that stands before."""
    kind = _kind(context)
    if kind == "topic":
        return complete_topics(context, incomplete)
    if kind == "group":
        return complete_groups(context, incomplete)
    if kind == "client_metrics":
        return _names(
            context,
            incomplete,
            lambda admin: [
                each.name for each in admin.list_config_resources("client_metrics", timeout=_PATIENCE_SECONDS)
            ],
        )
    everyone = ["all"] if kind == "broker" else []
    return _names(
        context,
        incomplete,
        lambda admin: [
            *everyone,
            *(str(node.id) for node in admin.describe_cluster(timeout=_PATIENCE_SECONDS).nodes),
        ],
    )


def complete_settings(context: typer.Context, incomplete: str) -> list[str]:
    """The names of the settings of the resource that stands before."""
    return [name.removesuffix("=") for name in complete_pairs(context, incomplete)]


def complete_pairs(context: typer.Context, incomplete: str) -> list[str]:
    """The same, with the sign behind which the value stands."""
    resource = ConfigResource(_kind(context), {"all": ""}.get(str(context.params["name"]), context.params["name"]))

    def names(admin: Admin) -> list[str]:
        (entries,) = admin.describe_configs(resource, timeout=_PATIENCE_SECONDS).values()
        return [f"{name}=" for name in entries]

    return _names(context, incomplete, names)


def _kind(context: typer.Context) -> Any:
    return str(context.params["kind"]).replace("-", "_")


def _names(context: typer.Context, incomplete: str, names: Callable[[Admin], Iterable[str]]) -> list[str]:
    given = (context.params.get(name) for name in ("bootstrap_servers", "setting", "settings_file"))
    # There is no place for an error in the middle of a line, nor for what the log has of a broker that does not answer.
    logging.disable()
    try:
        with Admin(settings_of(*given)) as admin:
            return sorted(name for name in names(admin) if name.startswith(incomplete))
    except (KafkaError, Failure, UsageError, OSError):
        return []
    finally:
        logging.disable(logging.NOTSET)
