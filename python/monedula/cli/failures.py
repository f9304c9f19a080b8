"""Errors of commands: `UsageError` and `Failure`, which `running` turns into one line and an exit code."""


class UsageError(Exception):
    """The command line is invalid, whatever the cluster is like; the message says what is expected."""


class Failure(Exception):
    """The command cannot be executed, as the cluster or a file is now; the message says why.

    Attributes:
        cause: the error behind it, if there is one.
    """

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.cause = cause


def require(package: str, extra: str, purpose: str) -> None:
    """Check that a package is installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise Failure(f'{purpose} needs {package}: pip install "monedula[cli,{extra}]"')
