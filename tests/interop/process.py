"""A program in another language that takes commands and prints events, as lines of JSON."""

import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Self

Event = dict[str, Any]

STOP_SECONDS = 10.0
POLL_SECONDS = 0.05
LOG_TAIL_BYTES = 4000


def eventually(what: str, condition: Callable[[], Any], timeout_seconds: float = 60.0) -> Any:
    """Ask until the answer is true, and return it.

    Raises:
        AssertionError: not in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_seconds} s for {what}"
        time.sleep(POLL_SECONDS)
    return found


class Refused(Exception):
    """The program answered a command with an error.

    Attributes:
        error: the name of the client's error.
    """

    def __init__(self, command: str, error: str, message: str) -> None:
        super().__init__(f"{command}: {error}: {message}")
        self.error = error


class Driver:
    """A running program.

    A command is a line `{"id": 1, "command": "produce", ...}` on its standard input; its answer a line
    `{"id": 1, "ok": ...}` or `{"id": 1, "error": ..., "message": ...}`. Every other line is an event, kept in `events`
    in the order in which it came.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.events: list[Event] = []
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        self._changed = threading.Condition()
        self._answers: dict[int, queue.SimpleQueue[Event]] = {}
        self._numbers = count(1)
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Of the program."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code of the program; `None` while it runs."""
        return self._process.poll()

    def call(self, command: str, timeout_seconds: float = 60.0, **fields: Any) -> Any:
        """Run a command and return its answer.

        Raises:
            Refused: it answered with an error.
            AssertionError: it did not answer in time, or the program ended.
        """
        number = next(self._numbers)
        answers = self._answers.setdefault(number, queue.SimpleQueue())
        line = json.dumps({"id": number, "command": command, **fields}) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
            answer = answers.get(timeout=timeout_seconds)
        except (OSError, queue.Empty) as error:
            raise AssertionError(f"{command}: no answer within {timeout_seconds} s\n{self.log_tail()}") from error
        if not answer:
            raise AssertionError(f"{command}: the program ended\n{self.log_tail()}")
        if "error" in answer:
            raise Refused(command, answer["error"], answer.get("message", ""))
        return answer["ok"]

    def wait(self, what: str, condition: Callable[[list[Event]], Any], timeout_seconds: float = 60.0) -> Any:
        """Wait until a condition of the events so far is true; returns its value.

        Raises:
            AssertionError: not in time.
        """
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while True:
                if found := condition(self.events):
                    return found
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    last = "\n".join(map(str, self.events[-20:]))
                    raise AssertionError(
                        f"waited {timeout_seconds} s for {what}; last of {len(self.events)} events:\n{last}\n"
                        f"{self.log_tail()}"
                    )
                self._changed.wait(left)

    def log_tail(self) -> str:
        """The end of its standard error."""
        size = self._log.seek(0, os.SEEK_END)
        return os.pread(self._log.fileno(), LOG_TAIL_BYTES, max(0, size - LOG_TAIL_BYTES)).decode(errors="replace")

    def terminate(self) -> int:
        """End the program cleanly (SIGTERM), and return its exit code."""
        self._process.terminate()
        return self.wait_ended()

    def wait_ended(self, timeout_seconds: float = 60.0) -> int:
        """Wait until the program ends by itself and all its events are read; returns its exit code."""
        try:
            ended = self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired as error:
            last = "\n".join(map(str, self.events[-20:]))
            raise AssertionError(f"still running after {timeout_seconds} s\n{last}\n{self.log_tail()}") from error
        self._reader.join(STOP_SECONDS)
        return ended

    def kill(self) -> None:
        """End the program at once."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the program: one that reads commands ends when there are no more."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)
        self._log.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                if not line.endswith(b"\n"):
                    break  # the program was killed in the middle of it
                event = json.loads(line)
                with self._changed:
                    if "id" in event:
                        self._answers[event["id"]].put(event)
                    else:
                        self.events.append(event)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            for answers in self._answers.values():
                answers.put({})
            self._changed.notify_all()
