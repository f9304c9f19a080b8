"""Standard streams and files of commands: what an error says of them, and what becomes of a file that is incomplete."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO, TextIOBase, TextIOWrapper
from pathlib import Path
from typing import NoReturn, TextIO

STANDARD_OUTPUT = "standard output"
_STANDARD_DESCRIPTOR_MAX = 2


class StreamClosedError(OSError):
    """A standard stream that is needed was closed by the parent process."""

    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(None, f"is closed{hint}", name)

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


class _ClosedOutput(TextIOBase):
    """Takes the place of a standard output that is closed: whoever writes there is told."""

    def writable(self) -> bool:
        return True

    def write(self, _text: str) -> NoReturn:
        raise StreamClosedError(STANDARD_OUTPUT)


class _NamedOutput(TextIOWrapper):
    """A standard output whose errors name it: those of the system do not say what could not be written."""

    def __init__(self, output: TextIOWrapper) -> None:
        # The other one closes the file once nothing refers to it.
        self._output = output
        super().__init__(output.buffer, output.encoding, output.errors, line_buffering=output.line_buffering)

    def write(self, text: str) -> int:
        with named(STANDARD_OUTPUT):
            return super().write(text)

    def flush(self) -> None:
        with named(STANDARD_OUTPUT):
            super().flush()


def prepare_streams() -> None:
    """Put something in place of standard streams that the parent process closed, and name the output in its errors.

    Their descriptors lead nowhere then: a socket that got such a number would be read and written as if it were the
    stream.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_DESCRIPTOR_MAX:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or StringIO()
    sys.stdout = sys.stdout or _ClosedOutput()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout = _NamedOutput(sys.stdout)
    sys.stderr = sys.stderr or StringIO()


def standard_input(hint: str = "") -> TextIO:
    """Standard input."""
    if sys.__stdin__ is None:
        raise StreamClosedError("standard input", hint)
    return sys.stdin


@contextmanager
def named(name: Path | str) -> Iterator[None]:
    """Name what is written in errors of the system, which name a file only if it cannot be opened."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(name)) from None


def write_text(file: Path, text: str) -> None:
    """Write a file; if that fails, as on a full disk, none is left that has only a part of the text."""
    stream = file.open("w", encoding="utf-8")
    try:
        with named(file), stream:
            stream.write(text)
    except OSError:
        remove_broken(file)
        raise


def remove_broken(file: Path) -> None:
    """Remove a file that is incomplete; devices and pipes stay."""
    with suppress(OSError):
        if file.is_file():
            file.resolve().unlink()
