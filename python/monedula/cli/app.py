"""The commands."""

import typer

from monedula import __version__
from monedula.cli.broker import broker

app = typer.Typer(name="monedula", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(broker)


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True)) -> None:
    """Kafka topics as Arrow record batches."""
    if version:
        typer.echo(f"monedula {__version__}")
        raise typer.Exit
