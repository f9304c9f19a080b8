"""Readers of one topic that take turns: it is in an embedded broker, in a process of its own, and so is each reader."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

TOPIC = "orders"
PARTITIONS = 4

Reader = Callable[[str, int], Any]
"""Reads so many records from the broker at this address. Returns what JSON can carry."""


class Turns(NamedTuple):
    """What the readers returned, one value for each round.

    Attributes:
        records: how many records the topic has.
        results: by the reader's name.
    """

    records: int
    results: dict[str, list[Any]]


def take_turns(
    script: str, readers: Mapping[str, Reader], fill: Callable[[Any, int], None], *, about: str | None, records: int
) -> Turns | None:
    """Run a bench from its command line.

    Args:
        script: the file of the bench, which is run again for the broker and for each reader.
        readers: what is measured, by name.
        fill: writes the records to the broker's topic.
        about: the docstring of the bench.
        records: how many records by default.

    Returns:
        The results; `None` in the processes of the broker and of readers.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0] if about else "")
    parser.add_argument("--records", type=int, default=records)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="a part of a reader's name")
    parser.add_argument(
        "--cores", type=int, help="how many cores a reader may use, the last ones; default: all (Linux)"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        _serve(fill, given.records)
        return None
    if given.read:
        name, bootstrap = given.read
        if given.cores:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-given.cores :])
        print(json.dumps(readers[name](bootstrap, given.records)))
        return None
    command = [sys.executable, script, "--records", str(given.records)]
    names = [name for name in readers if given.only is None or given.only in name]
    results: dict[str, list[Any]] = {name: [] for name in names}
    with subprocess.Popen([*command, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        bootstrap = server.stdout.readline().strip()
        for _ in range(given.rounds):
            for name in names:
                read = [*command, "--read", name, bootstrap, *(["--cores", str(given.cores)] if given.cores else [])]
                ended = subprocess.run(read, capture_output=True, text=True, check=False)
                if ended.returncode:
                    sys.exit(f"{name}: {ended.stderr}")
                results[name].append(json.loads(ended.stdout))
        server.stdin.close()
    return Turns(given.records, results)


def _serve(fill: Callable[[Any, int], None], records: int) -> None:
    """An embedded broker with the topic, until standard input ends."""
    from monedula.testing import Broker

    with Broker(topics={TOPIC: PARTITIONS}, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        fill(broker, records)
        print(broker.bootstrap_servers, flush=True)
        sys.stdin.read()
