"""The Rust program that speaks the wire, and the connections that it has open."""

import base64
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Self

from tests import programs

ANSWER_SECONDS = 30.0


class WireUnavailable(Exception):
    """The program cannot be built."""


class WireError(Exception):
    """The program refused a command, or a broker did not answer."""


class Closed(Exception):
    """The broker closed the connection in place of an answer."""


def build() -> Path:
    """Build the program, and say where it is."""
    if shutil.which("cargo") is None:
        raise WireUnavailable("no cargo in PATH")
    try:
        return programs.build("examples/wire", release=False)[0]
    except programs.BuildError as error:
        raise WireError(str(error)) from None


class Wire:
    """The running program."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._news = threading.Condition()
        self._outcomes: dict[int, dict[str, Any]] = {}
        self._answers: dict[tuple[str, int], dict[str, Any]] = {}
        self._closed: dict[str, str] = {}
        self._ended = False
        self._ids = count(1)
        self._names = count(1)
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def command(self, op: str, **fields: Any) -> Any:
        """Carry out a command.

        Raises:
            WireError: the program says why it cannot.
        """
        number = next(self._ids)
        if self._process.stdin is None:
            raise WireError("no standard input")
        with self._news:
            self._process.stdin.write(json.dumps({"id": number, "op": op, **fields}) + "\n")
            self._process.stdin.flush()
        self._wait(lambda: number in self._outcomes, ANSWER_SECONDS, f"{op} {fields}")
        outcome = self._outcomes.pop(number)
        if "error" in outcome:
            raise WireError(f"{op}: {outcome['error']}")
        return outcome["ok"]

    def connect(self, address: str) -> "Connection":
        """Connect to a broker."""
        name = str(next(self._names))
        self.command("connect", connection=name, address=address)
        return Connection(self, name)

    def encode(self, api: str, version: int, body: Mapping[str, Any], correlation: int, client_id: str | None) -> bytes:
        """The bytes of a request, header first and without the length."""
        fields = {"api": api, "version": version, "body": body, "correlation": correlation, "client_id": client_id}
        return base64.b64decode(self.command("encode", **fields))

    def answered(self, connection: str, correlation: int) -> bool:
        """Whether an answer has come, or none can."""
        return (connection, correlation) in self._answers or connection in self._closed or self._ended

    def answer(self, connection: str, correlation: int, timeout_seconds: float) -> dict[str, Any]:
        """Wait for an answer.

        Raises:
            Closed: the broker closed the connection.
            WireError: nothing came in time.
        """
        waited_for = f"the answer to request {correlation} of connection {connection}"
        self._wait(lambda: self.answered(connection, correlation), timeout_seconds, waited_for)
        if (connection, correlation) not in self._answers:
            raise Closed(self._closed.get(connection, "the program ended"))
        return self._answers.pop((connection, correlation))

    def _wait(self, condition: Any, timeout_seconds: float, what: str) -> None:
        deadline = time.monotonic() + timeout_seconds
        with self._news:
            while not condition():
                if self._ended:
                    raise WireError(f"the wire program ended with {self._process.poll()}: {what}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise WireError(f"waited {timeout_seconds} s for {what}")
                self._news.wait(left)

    def _read(self) -> None:
        for line in self._process.stdout or ():
            told = json.loads(line)
            with self._news:
                if "id" in told:
                    self._outcomes[told["id"]] = told
                elif "closed" in told:
                    self._closed[told["connection"]] = told["closed"]
                else:
                    self._answers[told["connection"], told["correlation"]] = told
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


class Connection:
    """One connection to a broker."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire = wire
        self.name = name
        self._correlations = count(1)

    def correlation(self) -> int:
        """The next correlation id."""
        return next(self._correlations)

    def send(self, frame: bytes, api: str | None, version: int, correlation: int) -> None:
        """Send a frame whose answer is to be read as that API's; with None it is not read."""
        text = base64.b64encode(frame).decode()
        fields = {"api": api, "version": version, "correlation": correlation, "frame": text}
        self.wire.command("send", connection=self.name, **fields)

    def bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.wire.command("bytes", connection=self.name, bytes=base64.b64encode(data).decode())

    def close(self) -> None:
        """Close it."""
        self.wire.command("close", connection=self.name)
