"""Rebalances beside Java and confluent-kafka, on a real three-node Kafka: `python -m benches.groups`.

Five members read 50 partitions under a steady load, cooperatively; one joins, one closes, all are bounced one after the
other, one is killed. For each phase: the longest time that a partition which did not move went without records, the
same for those that moved, and the stopped time of all partitions beyond what the steady phase shows.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benches import table
from benches.groups import members
from benches.groups.members import Group
from tests.kafka import KafkaCluster

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ("monedula", "confluent", "java")
TOPIC = "steady"
SESSION_MS, HEARTBEAT_MS = 6000, 2000
STRATEGY = {
    "monedula": "cooperative-sticky",
    "confluent": "cooperative-sticky",
    "java": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
Phases = dict[str, dict[str, float]]


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benches.groups", description=__doc__)
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--rate", type=int, default=2500, help="records/s in all (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each phase's quiet part (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in table.machine().items()))
    found: dict[str, list[Phases]] = {client: [] for client in options.clients.split(",")}
    with KafkaCluster(nodes=3) as kafka:
        kafka.helper.create_topic(TOPIC, partitions=options.partitions, replication=3)
        with _load(kafka.bootstrap, options.partitions, options.rate):
            for number in range(options.rounds):
                # Each round starts with another, so that none always runs after the same neighbour.
                order = list(found)[number % len(found) :] + list(found)[: number % len(found)]
                for client in order:
                    group = f"{client}-{number}"
                    found[client].append(_measure(client, kafka.bootstrap, group, options))
                    print(f"round {number + 1} {client}: {found[client][-1]}", file=sys.stderr)
    _print(found, options)
    return 0


@contextmanager
def _load(bootstrap: str, partitions: int, rate: int) -> Iterator[None]:
    command = [sys.executable, "-m", "benches.groups.load", bootstrap, TOPIC, str(partitions), str(rate)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT)
    try:
        yield
        if process.poll() is not None:
            raise SystemExit(f"the load ended early: {process.returncode}")
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(20)


def _measure(client: str, bootstrap: str, group_id: str, options: argparse.Namespace) -> Phases:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "auto.offset.reset": "latest",
        "partition.assignment.strategy": STRATEGY[client],
        "session.timeout.ms": str(SESSION_MS),
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
        "fetch.min.bytes": "1",
    }
    group = Group(client, TOPIC, options.partitions, settings)
    phases: Phases = {}

    def phase(name: str, change: Callable[[], object]) -> None:
        before, since = group.owners(), time.monotonic_ns()
        change()
        group.settle(name)
        time.sleep(options.seconds)
        until = time.monotonic_ns()
        phases[name] = _figures(group, before, since, until, options.partitions)

    try:
        for _ in range(options.members):
            group.start()
        group.settle("start")
        time.sleep(options.seconds)
        phase("steady", lambda: None)
        phase("scale up", group.start)
        phase("scale down", lambda: group.close(group.members[-1]))
        phase("rolling bounce", lambda: _bounce(group))
        for name, end in {"kill": group.kill, "close": group.close}.items():
            phases[name] = {"first record elsewhere": _takeover(group, end, options)}
    finally:
        group.end()
    return phases


def _bounce(group: Group) -> None:
    for member in list(group.members):
        group.close(member)
        group.start()
        group.settle("rolling bounce")


def _takeover(group: Group, end: Callable[[members.Member], int], options: argparse.Namespace) -> float:
    """From a member's end to the first record of the last of its partitions elsewhere, ms."""
    member = group.members[0]
    owned = set(member.owned)
    at = end(member)
    deadline = time.monotonic() + members.DEADLINE_SECONDS
    while time.monotonic() < deadline:
        first: dict[int, int] = {}
        for it in group.deliveries(at, time.monotonic_ns()):
            if it.partition in owned and it.member != member.number:
                first.setdefault(it.partition, it.at)
        if set(first) == owned:
            group.start()
            group.settle("after a takeover")
            time.sleep(options.seconds)
            return (max(first.values()) - at) / 1e6
        time.sleep(members.POLL_SECONDS)
    raise SystemExit(f"{group.client}: nobody took over {sorted(owned)}")


def _figures(group: Group, before: dict[int, int], since: int, until: int, partitions: int) -> dict[str, float]:
    found = members.gaps(group.deliveries(since, until), before, partitions, since, until)
    stayed = [gap for gap, moved in found.values() if not moved]
    moved = [gap for gap, moved in found.values() if moved]
    return {
        "stayed": max(stayed, default=0.0),
        "moved": max(moved, default=0.0),
        "moves": float(len(moved)),
        "sum": sum(gap for gap, _ in found.values()) / 1e3,
    }


def _print(found: dict[str, list[Phases]], options: argparse.Namespace) -> None:
    print(
        f"\n{options.members} members, {options.partitions} partitions, {options.rate:,} records/s, three nodes, "
        f"session {SESSION_MS} ms, heartbeat {HEARTBEAT_MS} ms; median of {options.rounds}"
    )
    print("\n| ms | client | longest gap, stayed | longest gap, moved | moved | gaps of all, s |")
    print("|---|---|---:|---:|---:|---:|")
    for name in ("steady", "scale up", "scale down", "rolling bounce"):
        for client, rounds in found.items():
            figures = [
                statistics.median(phases[name][key] for phases in rounds) for key in ("stayed", "moved", "moves", "sum")
            ]
            print(
                f"| {name} | {client} | {figures[0]:,.0f} | {figures[1]:,.0f} | {figures[2]:,.0f} | {figures[3]:,.1f} |"
            )
    print("\n| first record elsewhere, ms | client | median | spread |\n|---|---|---:|---:|")
    for name in ("kill", "close"):
        for client, rounds in found.items():
            values = [phases[name]["first record elsewhere"] for phases in rounds]
            print(f"| {name} | {client} | {statistics.median(values):,.0f} | {min(values):,.0f}-{max(values):,.0f} |")


if __name__ == "__main__":
    sys.exit(main())
