"""Commands that are forked from a process which has imported them: their imports took most of the time of these tests.

`Forks` is the side of the tests. This file run as a program is the process that is forked; it ends with the tests.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

MESSAGE_BYTES = 1 << 20


class Forks:
    """Runs commands; their process is started by the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, arguments: Sequence[str], stdin: bytes, cwd: Path | None, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command on pipes to its end.

        Raises:
            subprocess.TimeoutExpired: it did not end in time, and was killed.
        """
        request = {"arguments": [*arguments], "cwd": str(cwd or Path.cwd()), "environment": {**environment}}
        own, theirs = zip(os.pipe(), os.pipe(), os.pipe(), os.pipe(), strict=True)
        (its_stdin, stdout, stderr, status), (to_stdin, its_stdout, its_stderr, its_status) = own, theirs
        passed = [its_stdin, its_stdout, its_stderr, its_status]
        try:
            socket.send_fds(self.control(), [json.dumps(request).encode()], passed)
        finally:
            for descriptor in passed:
                os.close(descriptor)
        with ThreadPoolExecutor(3) as pool, os.fdopen(status) as news:
            pool.submit(_write, to_stdin, stdin)
            outputs = [pool.submit(_read, stream) for stream in (stdout, stderr)]
            pid = int(news.readline())
            if not select.select([news], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired([*arguments], timeout)
            code = os.waitstatus_to_exitcode(int(news.readline()))
            return subprocess.CompletedProcess([*arguments], code, *(output.result() for output in outputs))

    def control(self) -> socket.socket:
        """Where the process takes commands: see `forked_command.py`."""
        with self._lock:
            if self._control is None:
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                # -P: this file's folder is no place for modules.
                command = [sys.executable, "-P", __file__, str(theirs.fileno())]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                )
                theirs.close()
            return self._control


def _write(descriptor: int, data: bytes) -> None:
    # A command may end without having read all.
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as stream:
        stream.write(data)


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()


def _anew(stream: TextIO, mode: str) -> TextIOWrapper:
    """A stream over another file than before: streams remember of what kind theirs is."""
    binary = os.fdopen(stream.fileno(), f"{mode}b", closefd=False)
    return TextIOWrapper(binary, stream.encoding, stream.errors, line_buffering=bool(stream.line_buffering))


def next_command(control: socket.socket) -> None:
    """Wait for commands. Returns in the process of each, which has its pipes, arguments and variables."""
    # Children that nobody waits for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 4)
        if not message:
            sys.exit()
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    control.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, status = descriptors
    pid = os.fork()
    if pid != 0:
        # Tells how the command ended.
        for descriptor in (0, 1, 2, *streams):
            os.close(descriptor)
        os.write(status, f"{pid}\n".encode())
        os.write(status, f"{os.waitpid(pid, 0)[1]}\n".encode())
        os._exit(0)
    os.close(status)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = _anew(sys.stdin, "r"), _anew(sys.stdout, "w"), _anew(sys.stderr, "w")
    request = json.loads(message)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    sys.path.insert(0, "")
    signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    import runpy

    from monedula.cli.app import app
    from typer.main import get_command

    # A command has typer import the rest of itself.
    get_command(app).main(["--version"], prog_name="monedula", standalone_mode=False)
    sys.stdout.flush()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    next_command(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("monedula", run_name="__main__", alter_sys=True)
