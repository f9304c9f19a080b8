"""Names in the cluster for a shell that completes: topics and groups."""

from collections.abc import Callable, Iterable

import typer

from monedula.admin import Admin
from monedula.cli.running import UsageError
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


def _names(context: typer.Context, incomplete: str, names: Callable[[Admin], Iterable[str]]) -> list[str]:
    given = (context.params.get(name) for name in ("bootstrap_servers", "setting", "settings_file"))
    try:
        with Admin(settings_of(*given)) as admin:
            return sorted(name for name in names(admin) if name.startswith(incomplete))
    except (KafkaError, UsageError, OSError):
        # There is no place for an error in the middle of a line.
        return []
