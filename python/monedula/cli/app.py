"""The typer application: registers the commands of `monedula`, and its options `--verbose` and `--version`."""

import logging
from collections.abc import Callable
from inspect import getdoc
from typing import Annotated

import typer
from typer import Option

from monedula import __version__
from monedula.cli import (
    acls,
    bench,
    broker,
    brokers,
    cluster,
    completion,
    configs,
    consume,
    groups,
    landing,
    log_dirs,
    produce,
    quickstart,
    quotas,
    reassignments,
    schema,
    schemas,
    tokens,
    topics,
    transactions,
    users,
)

# Help without rich's boxes: it fits into 80 columns, is fast, and its examples can be copied.
_LOOK = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="monedula",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_LOOK,
)


def add(to: typer.Typer, verb: str, function: Callable[..., None]) -> None:
    """Add a command. The examples in the docstring of its function stand below the options in its help."""
    text, _, lines = (getdoc(function) or "").partition("\n\nExamples:\n")
    listed = "\n".join(f"  {line.strip()}" for line in lines.splitlines())
    to.command(verb, help=text, epilog=f"\b\nExamples:\n{listed}")(function)


add(app, "quickstart", quickstart.quickstart)
add(app, "consume", consume.consume)
add(app, "produce", produce.produce)
completion.prepare()
FAMILIES = {
    "topics": topics,
    "groups": groups,
    "transactions": transactions,
    "cluster": cluster,
    "brokers": brokers,
    "configs": configs,
    "reassignments": reassignments,
    "log-dirs": log_dirs,
    "land": landing,
    "schema": schema,
    "schemas": schemas,
    "acls": acls,
    "users": users,
    "quotas": quotas,
    "tokens": tokens,
}
for name, family in FAMILIES.items():
    kind = getattr(family, "GROUP", None)
    group = typer.Typer(help=family.HELP, cls=kind, no_args_is_help=True, rich_markup_mode=None)
    for verb, function in family.COMMANDS:
        add(group, verb, function)
    app.add_typer(group, name=name)
add(app, "bench", bench.bench)
add(app, "completion", completion.completion)
add(app, "broker", broker.broker)


@app.callback(invoke_without_command=True)
def root(
    verbose: Annotated[bool, Option("-v", "--verbose", help="Say what is being done, on standard error.")] = False,
    version: Annotated[bool, Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Kafka topics as Arrow record batches."""
    if verbose:
        logging.getLogger("monedula").setLevel(logging.DEBUG)
    if version:
        typer.echo(f"monedula {__version__}")
        raise typer.Exit
