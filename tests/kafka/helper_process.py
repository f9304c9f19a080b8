"""The JVM behind `KafkaHelper`: numbered commands and answers over its pipes, and another one when it is stuck."""

import contextlib
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from tests.kafka import jars, prepared
from tests.kafka.errors import HelperError, KafkaError
from tests.kafka.reaper import Reaper

START_TIMEOUT_SECONDS = 60.0
# Below the 120 s that a test may take: a test that was cut off would leave a stuck JVM to the next one.
ANSWER_TIMEOUT_SECONDS = 90.0
OPTIONS = (
    "-XX:-UsePerfData",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx512m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)


class HelperProcess:
    """Runs `Helper.java`, one command at a time.

    Every command has a number, and so has its answer. A JVM whose answer is not read to its end (too late, or the wait
    was interrupted, as pytest-timeout interrupts a test) is killed and the next command gets another one: an answer
    that is left in the pipe would be taken for that of the next command, and so on for all later ones.

    Args:
        bootstrap: `bootstrap.servers` of its clients.
        reaper: ends the JVM with the session.
        host: the JVM of a node that runs the helper beside it, while that node answers. It is asked in place of a JVM
            of its own, and never killed: once an answer of it was not read, the helper has its own.
        answer_timeout_seconds: for one command.
    """

    def __init__(
        self,
        bootstrap: str,
        reaper: Reaper | None = None,
        host: "Callable[[], subprocess.Popen[bytes] | None] | None" = None,
        *,
        answer_timeout_seconds: float = ANSWER_TIMEOUT_SECONDS,
    ) -> None:
        self._bootstrap = bootstrap
        self._reaper = reaper
        self._answer_timeout_seconds = answer_timeout_seconds
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._read = b""
        self._closed = False
        self._host = host
        self._hosts: list[subprocess.Popen[bytes]] = []
        self._unread: list[subprocess.Popen[bytes]] = []  # the hosts with an answer left in the pipe
        self._process: subprocess.Popen[bytes] | None = None
        self._ready("start")

    @property
    def pid(self) -> int:
        """The pid of the JVM, which is started if there is none. Never -1, which is every process to `kill`."""
        with self._lock:
            return self._ready("pid").pid

    def run(self, command: str, fields: dict[str, Any]) -> Any:
        """The answer to a command.

        Raises:
            HelperError: Java refused it.
            KafkaError: no answer in time, or the JVM is gone. The next command starts another JVM, without the
                transactions that were left open.
        """
        with self._lock:
            self._ready(command)
            number = next(self._numbers)
            line = json.dumps({"id": number, "command": command, **fields}) + "\n"
            answer = self._exchange(command, line.encode(), number, self._answer_timeout_seconds)
        if "error" in answer:
            raise HelperError(command, answer["error"], answer["message"])
        return answer["ok"]

    def close(self) -> None:
        """End the JVM. Safe to call again."""
        with self._lock:
            self._closed = True
            self._leave_host()
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):  # then it is killed
                    self._process.wait(timeout=5)
            self._end()

    def end_own(self) -> None:
        """End the JVM of its own, with the transactions that are open in it: the host comes back."""
        with self._lock:
            self._leave_host()
            self._end()

    def _ready(self, command: str) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise KafkaError(f"{command}: the helper is closed")
        host = self._host() if self._host is not None else None
        if host is not None and host.poll() is None and host not in self._unread:
            return self._hosted(host)
        self._leave_host()
        if self._process is None or self._process.poll() is not None:
            self._end()
            return self._started()
        return self._process

    def _hosted(self, host: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
        if self._process is host:
            return host
        self._leave_host()
        self._end()
        if host in self._hosts:
            self._process = host
            return host
        self._hosts.append(host)
        return self._ask_first(host)

    def _leave_host(self) -> None:
        if self._process in self._hosts:
            self._process, self._read = None, b""

    def _program(self) -> list[str]:
        """What the JVM runs."""
        return [*prepared.loaded_before_kafka(), "-cp", prepared.class_path(), "Helper", self._bootstrap]

    def _started(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [jars.java(), *OPTIONS, *self._program()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        if self._reaper is not None:
            self._reaper.watch(process.pid)
        return self._ask_first(process)

    def _ask_first(self, process: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
        self._process = process
        assert process.stdin is not None
        # A JVM that does not read would otherwise block the write of a large command for ever.
        os.set_blocking(process.stdin.fileno(), False)
        self._exchange("start", b"", 0, START_TIMEOUT_SECONDS)
        return process

    def _exchange(self, command: str, line: bytes, number: int, timeout_seconds: float) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(self._written_and_read(command, line, timeout_seconds))
            if answer["id"] != number:
                raise KafkaError(f"{command}: the helper JVM answered {answer['id']}, not {number}")
        except BaseException:
            if self._process in self._hosts:
                self._unread.append(self._process)
            self._leave_host()
            self._end()
            raise
        return answer

    def _written_and_read(self, command: str, line: bytes, timeout_seconds: float) -> bytes:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = time.monotonic() + timeout_seconds
        unwritten = memoryview(line)  # cutting the bytes themselves copies them: 50 MB took minutes
        while b"\n" not in self._read:
            writers = [process.stdin] if unwritten else []
            left = max(0.0, deadline - time.monotonic())
            readable, writable, _ = select.select([process.stdout], writers, [], left)
            if writable:
                try:
                    unwritten = unwritten[os.write(process.stdin.fileno(), unwritten[: 1 << 16]) :]
                except BrokenPipeError as error:
                    raise KafkaError(f"{command}: the helper JVM is gone: {error}") from error
            if readable:
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise KafkaError(f"{command}: the helper JVM ended")
                self._read += chunk
            if not readable and not writable:
                raise KafkaError(f"{command}: no answer from the helper JVM within {timeout_seconds} s")
        answer, _, self._read = self._read.partition(b"\n")
        return answer

    def _end(self) -> None:
        process, self._process, self._read = self._process, None, b""
        if process is None:
            return
        process.kill()
        process.wait(timeout=30)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        if self._reaper is not None:
            self._reaper.forget(process.pid)
