"""What the commands that administer a cluster share: the client, and options."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from monedula.admin import Admin
from monedula.cli.settings import settings_of

Partitions = Annotated[
    list[str] | None, typer.Option("-p", "--partition", help="Only these partitions: 0, 0,2 or 0-3. Repeatable.")
]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


@contextmanager
def administering(servers: str | None, setting: list[str] | None, file: Any) -> Iterator[Admin]:
    """An admin client with the settings of the options, closed at the end of the block."""
    with Admin(settings_of(servers, setting, file)) as admin:
        yield admin
