"""The command `monedula`. Its subcommands need the extra `cli`; this module does not, so it can say what to install."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        import typer  # noqa: F401 - only to see whether it is installed
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "typer":
            raise
        print('the command line needs typer: pip install "monedula[cli]"', file=sys.stderr)
        raise SystemExit(1) from None
    try:
        from monedula.cli.app import app
        from monedula.cli.running import run

        run(app)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
