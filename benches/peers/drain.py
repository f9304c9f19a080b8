"""The floor: our own client crate's `drain` example, which fetches, steps over batches, and drops the bytes."""

import os

from benches import measure
from tests import programs

PROGRAM = "examples/drain"


def prepare() -> None:
    """Build the example."""
    programs.build(PROGRAM)


def read(job: measure.Job) -> None:
    """Become the example; it prints {"records", "seconds", "cpu_seconds"}."""
    program = programs.path(PROGRAM)
    os.execv(program, [str(program), job.bootstrap, job.topic, str(job.records)])


if __name__ == "__main__":
    measure.run(read, prepare)
