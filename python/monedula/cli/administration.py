"""Client and options of the commands that administer a cluster."""

from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from typer import Option

from monedula.admin import Admin
from monedula.cli.running import command
from monedula.cli.settings import BootstrapServers, Setting, SettingsFile, settings_of
from monedula.cli.tables import Headings, headings

Partitions = Annotated[
    list[str] | None, Option("-p", "--partition", help="Only these partitions: 0, 0,2 or 0-3. Repeatable.")
]
Yes = Annotated[bool, Option("-y", "--yes", help="Do not ask.")]
DryRun = Annotated[bool, Option("--dry-run", help="Only show what would be done.")]


class Connection(NamedTuple):
    """The options -b, -X and -F, by which a command reaches the cluster."""

    bootstrap_servers: str | None
    setting: list[str] | None
    settings_file: Path | None

    def admin(self) -> Admin:
        """A new admin client, to be used in a `with` block.

        Raises:
            UsageError: if an option is no setting.
        """
        return Admin(settings_of(*self))


_OPTIONS = {"bootstrap_servers": BootstrapServers, "setting": Setting, "settings_file": SettingsFile}


def administration(name: str, headings_behind: str = "as_json") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the command `name`, with the options of a `Connection` in place of its parameter `connection`.

    A function that has the parameter `headings_behind` shows tables, and gets the option `--headings` behind that one.
    """

    def wrap(function: Callable[..., None]) -> Callable[..., None]:
        def connected(**options: Any) -> None:
            with headings(options.pop("headings", False)):
                function(connection=Connection(*map(options.pop, _OPTIONS)), **options)

        servers, *last = (
            Parameter(option, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for option, annotation in _OPTIONS.items()
        )
        parameters = [
            servers if each.name == "connection" else each.replace(kind=Parameter.KEYWORD_ONLY)
            for each in signature(function).parameters.values()
        ]
        names = [each.name for each in parameters]
        if headings_behind in names:
            shown = Parameter("headings", Parameter.KEYWORD_ONLY, default=False, annotation=Headings)
            parameters.insert(names.index(headings_behind) + 1, shown)
        parameters += last
        made = command(name)(connected)
        made.__doc__ = function.__doc__
        # Typer reads the options from the signature.
        vars(made)["__signature__"] = signature(function).replace(parameters=parameters)
        made.__annotations__ = {each.name: each.annotation for each in parameters}
        return made

    return wrap
