"""Rebalances beside Java and confluent-kafka, on a real three-node Kafka: `python -m benches.groups`.

Five members read 50 partitions under a steady load; one joins, one closes, all are bounced one after the other, one is
killed, one closes. For each phase: the longest time that a partition which did not move went without records, the same
for those that moved, and the stopped partition-seconds: the sum of all times without records beyond `STOPPED_MS` each.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benches import table
from benches.groups import members
from benches.groups.arms import ARMS, BROKER, DELAY_MS, HEARTBEAT_MS, SESSION_MS, Arm
from benches.groups.members import Group
from tests.kafka import KafkaCluster

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "steady"
STOPPED_MS = 500.0
"""Records of a partition come every 100 ms: what takes much longer is a stop. The steady phase has hardly any."""
PHASES = ("steady", "scale up", "scale down", "rolling bounce")
ENDS = ("kill", "close")


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benches.groups", description=__doc__)
    parser.add_argument("--arms", default=",".join(ARMS), help="client/policy, in a row (default: %(default)s)")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--rate", type=int, default=500, help="records/s in all (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each phase's quiet part (default %(default)s)")
    parser.add_argument("--restart-seconds", type=float, default=0.0, help="from a bounced member's end to its return")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--phases", default=",".join((*PHASES, *ENDS)))
    parser.add_argument("--save", type=Path, help="where the last round's rolling bounces are kept, for the picture")
    options = parser.parse_args()
    options.phases = options.phases.split(",")
    print(", ".join(f"{key} {value}" for key, value in table.machine().items()))
    found: dict[str, list[Measured]] = {name: [] for name in options.arms.split(",")}
    with KafkaCluster(nodes=3, config=BROKER) as kafka:
        kafka.helper.create_topic(TOPIC, partitions=options.partitions, replication=3)
        with _load(kafka.bootstrap, options.partitions, options.rate):
            for number in range(options.rounds):
                # Each round starts with another, so that none always runs after the same neighbour.
                order = list(found)[number % len(found) :] + list(found)[: number % len(found)]
                for name in order:
                    measured = Measured(ARMS[name], kafka.bootstrap, number, options)
                    measured.run()
                    found[name].append(measured)
                    print(f"round {number + 1} {name}: {measured.phases}", file=sys.stderr)
                if options.save is not None:
                    options.save.write_text(json.dumps([rounds[-1].strip for rounds in found.values()]))
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


class Measured:
    """One round of one of the compared.

    Attributes:
        phases: figures by name, by phase.
        strip: the rolling bounce, for the picture.
    """

    def __init__(self, arm: Arm, bootstrap: str, number: int, options: argparse.Namespace) -> None:
        self.phases: dict[str, dict[str, float]] = {}
        self.strip: dict[str, Any] = {}
        self._arm = arm
        self._options = options
        self._number = number
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"{arm.client}-{arm.policy}-{number}",
            "auto.offset.reset": "latest",
            "fetch.min.bytes": "1",
            **arm.settings,
        }
        self._group = Group(arm.client, TOPIC, options.partitions, settings)

    def run(self) -> None:
        """Go through all phases."""
        group, options = self._group, self._options
        changes: dict[str, Callable[[], object]] = {
            "steady": lambda: None,
            "scale up": group.start,
            "scale down": lambda: group.close(group.members[-1]),
            "rolling bounce": self._bounce,
        }
        try:
            for _ in range(options.members):
                group.start()
            group.settle("start")
            time.sleep(options.seconds)
            for name, change in changes.items():
                if name in options.phases:
                    self._phase(name, change)
            for name, end in {"kill": group.kill, "close": group.close}.items():
                if name in options.phases:
                    self.phases[name] = {"first record elsewhere": self._takeover(end)}
        finally:
            group.end()

    def _phase(self, name: str, change: Callable[[], object]) -> None:
        group, partitions = self._group, self._options.partitions
        before, since = group.owners(), time.monotonic_ns()
        change()
        group.settle(name)
        time.sleep(self._options.seconds)
        until = time.monotonic_ns()
        deliveries = group.deliveries(since, until)
        gaps = members.gaps(deliveries, partitions, since, until)
        moved = members.moved(deliveries, before)
        stops = [gap for gap in gaps if gap.ms > STOPPED_MS]
        self.phases[name] = {
            **self.phases.get(name, {}),
            "stayed": max((gap.ms for gap in gaps if gap.partition not in moved), default=0.0),
            "moved": max((gap.ms for gap in gaps if gap.partition in moved), default=0.0),
            "moves": float(len(moved)),
            "stopped": sum(gap.ms - STOPPED_MS for gap in stops) / 1e3,
        }
        if name == "rolling bounce":
            self.strip |= {
                "arm": self._arm.name,
                "partitions": partitions,
                "seconds": (until - since) / 1e9,
                "stopped": self.phases[name]["stopped"],
                "gaps": [[gap.partition, (gap.since - since) / 1e9, (gap.until - since) / 1e9] for gap in stops],
                "bounces": [(at - since) / 1e9 for at in self.strip["bounces"]],
            }

    def _bounce(self) -> None:
        group, closed, disturbed = self._group, [], 0
        # Heartbeats follow the last rebalance: bounced at once, each client would be met at a moment of its own.
        pauses = random.Random(self._number)
        for member in list(group.members):
            time.sleep(pauses.uniform(1, 3) * HEARTBEAT_MS / 1e3)
            successor = group.prepare()
            closed.append(group.close(member))
            survivors = members.Survivors(group.members)
            if not member.closed.wait(members.DEADLINE_SECONDS):
                raise SystemExit(f"{self._arm.name}: a member did not close")
            time.sleep(self._options.restart_seconds)
            group.join(successor)
            group.settle("rolling bounce")
            disturbed += survivors.disturbed()
        self.phases["rolling bounce"] = {"disturbed": float(disturbed)}
        self.strip["bounces"] = closed

    def _takeover(self, end: Callable[[members.Member], int]) -> float:
        """From a member's end to the first record of the last of its partitions elsewhere, ms."""
        group = self._group
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
                time.sleep(self._options.seconds)
                return (max(first.values()) - at) / 1e6
            time.sleep(members.POLL_SECONDS)
        raise SystemExit(f"{self._arm.name}: nobody took over {sorted(owned)}")


def _print(found: dict[str, list[Measured]], options: argparse.Namespace) -> None:
    print(
        f"\n{options.members} members, {options.partitions} partitions, {options.rate:,} records/s, three nodes, "
        f"session {SESSION_MS} ms, heartbeat {HEARTBEAT_MS} ms, deferred waits {DELAY_MS} ms, bounced members back in "
        f"{options.restart_seconds:g} s; {options.rounds} rounds: median, mean of stopped, sum of disturbed"
    )
    print("\n| | client/policy | longest gap, stayed, ms | moved, ms | moved | stopped, p.-s | spread | disturbed |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")

    def median(rounds: list[Measured], phase: str, key: str) -> float:
        return statistics.median(each.phases[phase][key] for each in rounds)

    for phase in (name for name in PHASES if name in options.phases):
        for name, rounds in found.items():
            longest = [median(rounds, phase, key) for key in ("stayed", "moved", "moves")]
            stopped = [each.phases[phase]["stopped"] for each in rounds]
            disturbed = ""
            if phase == "rolling bounce":
                disturbed = f"{sum(each.phases[phase]['disturbed'] for each in rounds):,.0f}"
            print(
                f"| {phase} | {name} | {longest[0]:,.0f} | {longest[1]:,.0f} | {longest[2]:,.0f} "
                f"| {statistics.mean(stopped):,.1f} | {min(stopped):,.1f}-{max(stopped):,.1f} | {disturbed} |"
            )
    ends = [name for name in ENDS if name in options.phases]
    if ends:
        print("\n| first record elsewhere, ms | client/policy | median | spread |\n|---|---|---:|---:|")
    for phase in ends:
        for name, rounds in found.items():
            values = [each.phases[phase]["first record elsewhere"] for each in rounds]
            print(f"| {phase} | {name} | {statistics.median(values):,.0f} | {min(values):,.0f}-{max(values):,.0f} |")


if __name__ == "__main__":
    sys.exit(main())
