"""How every command ends: errors as one line, Ctrl-C and broken pipes without a traceback."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from io import StringIO
from time import monotonic
from types import FrameType
from typing import Any, NoReturn

import typer

from monedula.errors import KafkaError

FAILED = 1
WRONG_ARGUMENTS = 2

# As a shell reports a program that a signal ended.
_SIGNALLED = 128

_CALM_SECONDS = 3.0
_REPEAT_SECONDS = 30.0


class UsageError(Exception):
    """The command line makes no sense; the message says what would."""


class Failure(Exception):
    """The command cannot do what it was told; the message says why."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C, or SIGTERM."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.exit_code = _SIGNALLED + number


def run(app: typer.Typer) -> NoReturn:
    """Run the command line, and exit."""
    # A program whose output was closed has none to look at.
    sys.stdout = sys.stdout or StringIO()
    sys.stderr = sys.stderr or StringIO()
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_Calm())
    logging.basicConfig(handlers=[handler], format="monedula: %(message)s", level=logging.WARNING)
    try:
        code = app(prog_name="monedula", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = _SIGNALLED + signal.SIGINT
    except Exception as error:
        # Click's own errors, of which typer has a copy: they are known by their method.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            # A family without a verb: its help is what is wanted, and all that there is to say.
            print(error.format_message(), file=sys.stderr)
            raise SystemExit(WRONG_ARGUMENTS) from None
        context = getattr(error, "ctx", None)
        path = "monedula" if context is None else context.command_path
        print(f"{path}: {error.format_message()} (see {path} --help)", file=sys.stderr)
        code = getattr(error, "exit_code", WRONG_ARGUMENTS)
    raise SystemExit(code if isinstance(code, int) else 0)


def command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the command `name`: what goes wrong in it becomes one line and an exit code."""

    def wrap(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def guarded(*arguments: Any, **options: Any) -> None:
            try:
                with _terminated():
                    function(*arguments, **options)
                    sys.stdout.flush()
            except UsageError as error:
                _end(name, f"{error} (see monedula {name} --help)", WRONG_ARGUMENTS)
            except (Failure, KafkaError) as error:
                _end(name, str(error), FAILED)
            except BrokenPipeError:
                _forget_stdout()
                raise typer.Exit(_SIGNALLED + signal.SIGPIPE) from None
            except OSError as error:
                where = "" if error.filename is None else f"{error.filename}: "
                _end(name, f"{where}{error.strerror or error}", FAILED)
            except KeyboardInterrupt as error:
                raise typer.Exit(getattr(error, "exit_code", _SIGNALLED + signal.SIGINT)) from None

        return guarded

    return wrap


def say(message: str) -> None:
    """Tell the user something that is no data."""
    print(message, file=sys.stderr, flush=True)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is done that cannot be undone.

    Raises:
        UsageError: if nobody can be asked.
        Failure: if the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here whether that is meant: add --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("nothing was done")


def require(package: str, extra: str, purpose: str) -> None:
    """Make sure that a package is there.

    Raises:
        Failure: if it is not; the message says what to install.
    """
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise Failure(f'{purpose} needs {package}: pip install "monedula[cli,{extra}]"')


class _Calm(logging.Filter):
    """Lets a warning through if it still holds after seconds, and again after half a minute.

    What fails at once says so itself, in one line; whoever waits for a broker that is gone has to be told why.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next = monotonic() + _CALM_SECONDS

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is shown."""
        if logging.getLogger("monedula").isEnabledFor(logging.DEBUG) or record.levelno > logging.WARNING:
            return True
        if monotonic() < self._next:
            return False
        self._next = monotonic() + _REPEAT_SECONDS
        return True


class Interrupts:
    """Holds Ctrl-C back while a batch is written, so that it is written whole; the second one is let through."""

    def __init__(self) -> None:
        self.torn = False
        """Whether a piece of work was begun and not ended."""
        self._pending: Stopped | None = None

    def __enter__(self) -> "Interrupts":
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it back."""
        self.torn = True
        yield
        self.torn = False
        if self._pending is not None:
            raise self._pending

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if not self.torn or self._pending is not None:
            raise Stopped(number)
        self._pending = Stopped(number)


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM ends a command in order, as Ctrl-C does."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise Stopped(number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(name: str, problem: str, code: int) -> NoReturn:
    line = " ".join(problem.split())
    print(f"monedula {name}: {line}", file=sys.stderr)
    raise typer.Exit(code)


def _forget_stdout() -> None:
    # The interpreter flushes standard output once more at its end, and would complain about the pipe there.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
