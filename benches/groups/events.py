"""What members say, one JSON object a line on standard output, on the machine's monotonic clock (ns).

`{"at": ..., "what": "assigned" | "revoked" | "lost", "partitions": [...]}` and
`{"at": ..., "what": "records", "counts": {"partition": n}}`. First of all, `{"at": ..., "what": "ready"}`: a member has
imported what it needs and waits for a byte on standard input; with that it joins. Last of all, `{"at": ..., "what":
"closed"}`: its `close()` has returned. Interpreters and JVMs take their time to start and to end, which is not the
clients'.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping


def arguments(given: list[str]) -> tuple[str, dict[str, str]]:
    """Topic and settings of a member's command line."""
    topic, *pairs = given
    return topic, dict(pair.split("=", 1) for pair in pairs)


def wait_for_go() -> None:
    """Say that the member is ready, and wait until it may join."""
    _say({"what": "ready"})
    os.read(sys.stdin.fileno(), 1)


def changed(what: str, partitions: Iterable[int]) -> None:
    """Say that partitions were assigned, revoked or lost."""
    _say({"what": what, "partitions": sorted(partitions)})


def records(counts: Mapping[int, int]) -> None:
    """Say how many records of each partition came."""
    _say({"what": "records", "counts": counts})


def at_end_of_input(then: Callable[[], object]) -> None:
    """Wait for the end of standard input: the order to close."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    then()


def closed() -> None:
    """Say that `close()` has returned."""
    _say({"what": "closed"})


def _say(event: dict[str, object]) -> None:
    # One write, so that a line is whole even if the process is killed.
    os.write(sys.stdout.fileno(), (json.dumps({"at": time.monotonic_ns(), **event}) + "\n").encode())
