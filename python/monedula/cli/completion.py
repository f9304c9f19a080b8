"""`monedula completion`: what a shell needs to complete commands and options. The scripts are typer's own."""

import os
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer import Argument
from typer import completion as of_typer

from monedula.cli.running import command

_VARIABLE = "_MONEDULA_COMPLETE"


class Shell(StrEnum):
    """A shell that can complete."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


@command("completion")
def completion(shell: Annotated[Shell, Argument(help="Which shell.", show_default=False)]) -> None:
    """Write the script that lets a shell complete commands.

    It completes options too, and names of topics and groups.

    For bash: `source <(monedula completion bash)` in ~/.bashrc. For zsh: the file _monedula in a directory of
    $fpath. For fish: the file ~/.config/fish/completions/monedula.fish.

    Examples:
        monedula completion bash > monedula.bash
        monedula completion zsh > _monedula
        monedula completion fish > monedula.fish
    """
    write: Any = vars(of_typer)["get_completion_script"]
    typer.echo(write(prog_name="monedula", complete_var=_VARIABLE, shell=shell.value))


def prepare() -> None:
    """Let a script of `monedula completion` ask what can be completed, if it is one that runs the command."""
    if _VARIABLE in os.environ:
        vars(of_typer)["completion_init"]()
