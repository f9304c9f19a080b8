"""The floor: our own client crate's `drain` example, which fetches, steps over batches, and drops the bytes."""

import os
import subprocess
from pathlib import Path

from benches import measure

ROOT = Path(__file__).resolve().parents[2]


def prepare() -> None:
    """Build the example."""
    command = ["cargo", "build", "--release", "--locked", "--package", "monedula-client", "--example", "drain"]
    subprocess.run(command, cwd=ROOT, check=True)


def program() -> Path:
    """Where the built example stands."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / "drain"


def read(job: measure.Job) -> None:
    """Become the example; it prints {"records", "seconds", "cpu_seconds"}."""
    os.execv(program(), [str(program()), job.bootstrap, job.topic, str(job.records)])


if __name__ == "__main__":
    measure.run(read, prepare)
