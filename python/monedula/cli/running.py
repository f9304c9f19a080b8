"""Runs the commands: errors become one line and an exit code, Ctrl-C and broken pipes end without a traceback."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, NoReturn

import typer

from monedula.cli.failures import Failure, UsageError
from monedula.cli.files import STANDARD_OUTPUT, StreamClosedError, prepare_streams, standard_input
from monedula.cli.wording import CommandWording
from monedula.errors import ArgumentError, ConfigError, DecodeError, KafkaError

FAILED = 1
"""The exit code if the command failed, which with another cluster or another content of a file could work."""
WRONG_ARGUMENTS = 2
"""The exit code if the command line or the settings make no sense, whatever the cluster is like."""

# A shell reports 128 + n for a program that signal n ended.
_SIGNALLED = 128

# Events of the log that say what the call which follows raises, and the command tells then.
_RAISED = frozenset({"records_failed", "partition_stopped", "group_failed"})

_CALM_SECONDS = 3.0
_REPEAT_SECONDS = 30.0


def text_in(file: Path) -> str:
    """The text of a file, or what comes from standard input for `-`."""
    try:
        return standard_input().read() if file == Path("-") else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Failure(f"{file} is not UTF-8") from None


class Stopped(KeyboardInterrupt):
    """Raised for Ctrl-C and SIGTERM."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.exit_code = _SIGNALLED + number


def run(app: typer.Typer) -> NoReturn:
    """Run the command line, and exit."""
    prepare_streams()
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_Calm())
    logging.basicConfig(handlers=[handler], format="monedula: %(message)s", level=logging.WARNING)
    try:
        code = app(prog_name="monedula", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = _SIGNALLED + signal.SIGINT
    except BrokenPipeError:
        _forget_stdout()
        code = _SIGNALLED + signal.SIGPIPE
    except OSError as error:
        say(f"monedula: {error if isinstance(error, StreamClosedError) else _told(error)}")
        code = FAILED
    except Exception as error:
        # Errors of click, or of the copy of click in typer: only their method tells them from other errors.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            # A command group without a subcommand, such as `monedula topics`: print its help.
            say(error.format_message())
            raise SystemExit(WRONG_ARGUMENTS) from None
        context = getattr(error, "ctx", None)
        path = "monedula" if context is None else context.command_path
        say(f"{path}: {_usage_problem(path, error)} (see {path} --help)")
        code = getattr(error, "exit_code", WRONG_ARGUMENTS)
    raise SystemExit(code if isinstance(code, int) else 0)


def command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the command `name`: its errors become one line on standard error and an exit code."""

    def wrap(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def guarded(*arguments: Any, **options: Any) -> None:
            try:
                with handled(_stop, signal.SIGTERM):
                    function(*arguments, **options)
                    sys.stdout.flush()
            except UsageError as error:
                _end(name, f"{error} (see monedula {name} --help)", WRONG_ARGUMENTS)
            except (ArgumentError, ConfigError) as error:
                # With a code, it is a broker's answer.
                _end(name, CommandWording().told(error), WRONG_ARGUMENTS if error.code is None else FAILED)
            except DecodeError as error:
                told = CommandWording().told(error)
                # A landing job has said what it can do about such records.
                is_told = "bad_records" in (error.hint or "")
                _end(name, told if is_told else f"{told}; --bad null or --bad drop goes on", FAILED)
            except (Failure, KafkaError) as error:
                from monedula.cli.positions import with_time
                from monedula.cli.similar import with_similar

                cause = getattr(error, "cause", None) or error
                # A text of the command itself may quote data, so no word of it is replaced.
                told = str(error) if isinstance(error, Failure) else CommandWording().told(error)
                _end(name, with_time(with_similar(told, cause, options), options), FAILED)
            except BrokenPipeError:
                _forget_stdout()
                raise typer.Exit(_SIGNALLED + signal.SIGPIPE) from None
            except StreamClosedError as error:
                _end(name, str(error), FAILED)
            except OSError as error:
                _end(name, _told(error), FAILED)
            except KeyboardInterrupt as error:
                raise typer.Exit(getattr(error, "exit_code", _SIGNALLED + signal.SIGINT)) from None

        return guarded

    return wrap


def say(message: str) -> None:
    """Print a message for the user on standard error, apart from the data on standard output.

    A standard error that takes nothing, as on a full disk, fails no command.
    """
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation before something that cannot be undone; `yes` skips the question."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here whether that is meant: add --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("nothing was done")


class _Calm(logging.Filter):
    """Drops the warnings of the first 3 seconds; after that it passes one warning every 30 seconds.

    A command that fails at once prints its error in one line anyway; only a command that waits for an unreachable
    broker has to show why. What the command tells itself is dropped at all times. Errors pass always, what landing
    jobs say of lost records too, and with --verbose everything does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next = monotonic() + _CALM_SECONDS

    def filter(self, record: logging.LogRecord) -> bool:
        if logging.getLogger("monedula").isEnabledFor(logging.DEBUG) or record.levelno > logging.WARNING:
            return True
        if record.name == "monedula.landing":
            return True
        if monotonic() < self._next or getattr(record, "event", None) in _RAISED:
            return False
        self._next = monotonic() + _REPEAT_SECONDS
        return True


class Interrupts:
    """Delays Ctrl-C and SIGTERM until a batch is written completely; a second signal takes effect at once."""

    def __init__(self) -> None:
        self.torn = False
        """True if a batch was begun and not written completely."""
        self._pending: Stopped | None = None

    def __enter__(self) -> "Interrupts":
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay signals until the end of the block."""
        self.torn = True
        yield
        self.torn = False
        if self._pending is not None:
            raise self._pending

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if not self.torn or self._pending is not None:
            raise Stopped(number)
        self._pending = Stopped(number)


def _stop(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


@contextmanager
def handled(handler: Callable[[int, FrameType | None], object], *numbers: int) -> Iterator[None]:
    """Handle signals until the end of the block; the process has its own handlers back then."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _usage_problem(path: str, error: Any) -> str:
    from monedula.cli.other_tools import advice_on

    # pydantic, which checks the choices, says first whose exception it was.
    problem = str(error.format_message()).replace(": Value error, ", ": ", 1)
    advice = advice_on(path, error)
    return problem if advice is None else f"{problem}; here: {advice}"


def _end(name: str, problem: str, code: int) -> NoReturn:
    say(f"monedula {name}: {' '.join(problem.split())}")
    raise typer.Exit(code)


def _told(error: OSError) -> str:
    """The text of an error of the system, with its file."""
    if error.filename == STANDARD_OUTPUT:
        _forget_stdout()
    return f"{'' if error.filename is None else f'{error.filename}: '}{error.strerror or error}"


def _forget_stdout() -> None:
    # The interpreter flushes standard output again at exit, and would print an error about the broken pipe.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
