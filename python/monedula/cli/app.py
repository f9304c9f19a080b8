"""The typer application: registers the commands of `monedula`, and its options `--verbose` and `--version`."""

import logging
from typing import Annotated

import typer

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
    log_dirs,
    produce,
    quickstart,
    quotas,
    reassignments,
    schema,
    schemas,
    tokens,
    topics,
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


def examples(lines: str) -> str:
    """The epilog of a command's help: one line for each example."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines.strip().splitlines())


app.command("quickstart", epilog=examples(quickstart.EXAMPLES))(quickstart.quickstart)
app.command("consume", epilog=examples(consume.EXAMPLES))(consume.consume)
app.command("produce", epilog=examples(produce.EXAMPLES))(produce.produce)
completion.prepare()
FAMILIES = {
    "topics": topics,
    "groups": groups,
    "cluster": cluster,
    "brokers": brokers,
    "configs": configs,
    "reassignments": reassignments,
    "log-dirs": log_dirs,
    "schema": schema,
    "schemas": schemas,
    "acls": acls,
    "users": users,
    "quotas": quotas,
    "tokens": tokens,
}
for name, family in FAMILIES.items():
    group = typer.Typer(help=family.HELP, no_args_is_help=True, rich_markup_mode=None)
    for verb, function, lines in family.COMMANDS:
        group.command(verb, epilog=examples(lines))(function)
    app.add_typer(group, name=name)
app.command("bench", epilog=examples(bench.EXAMPLES))(bench.bench)
app.command("completion", epilog=examples(completion.EXAMPLES))(completion.completion)
app.command("broker", epilog=examples(broker.EXAMPLES))(broker.broker)


@app.callback(invoke_without_command=True)
def root(
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say what is being done, on standard error.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Kafka topics as Arrow record batches."""
    if verbose:
        logging.getLogger("monedula").setLevel(logging.DEBUG)
    if version:
        typer.echo(f"monedula {__version__}")
        raise typer.Exit
