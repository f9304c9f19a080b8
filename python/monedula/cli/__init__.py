"""The command `monedula`. Its commands need the extra `cli`; this module does not, to be able to say so."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        import typer  # noqa: F401 - whether it is there is the question
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
