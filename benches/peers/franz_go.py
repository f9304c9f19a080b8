"""franz-go: a small Go program with kgo, built from `franz_go/` and run in place of this process."""

import os
import shutil
import subprocess
from pathlib import Path

from benches import measure
from tests.kafka import jars

SOURCE = Path(__file__).with_name("franz_go")


def prepare() -> None:
    """Build the program.

    Raises:
        RuntimeError: there is no Go.
    """
    go = shutil.which("go")
    if go is None:
        raise RuntimeError("no `go` in PATH: install Go, or leave franz_go out with --peers")
    program().parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([go, "build", "-o", str(program()), "."], cwd=SOURCE, check=True)


def program() -> Path:
    """Where the built program stands."""
    return jars.cache_directory() / "franz_go"


def read(job: measure.Job) -> None:
    """Become the program: what the harness measures is Go, without a Python around it."""
    settings = [f"-{key}={value}" for key, value in job.settings.items()]
    os.execv(program(), [str(program()), *settings, job.bootstrap, job.topic, str(job.records), str(job.partitions)])


if __name__ == "__main__":
    measure.run(read, prepare)
