"""The floor: our own client crate's `drain` example, which fetches, steps over batches, and drops the bytes.

With `ssl.ca.location` its socket is encrypted by rustls: the floor of TLS.
"""

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
    authorities = [job.settings["ssl.ca.location"]] if "ssl.ca.location" in job.settings else []
    os.execv(program, [str(program), job.bootstrap, job.topic, str(job.records), *authorities])


if __name__ == "__main__":
    measure.run(read, prepare)
