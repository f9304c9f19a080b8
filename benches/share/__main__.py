"""Share consumers beside Java's and confluent-kafka's, on a real Kafka: `python -m benches.share`.

Each peer reads the same topic as the only member of a new group, in a process of its own, and in turn. It says how many
records it accepted or rejected, which has to be all of them; afterwards the group's lag has to be 0.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import monedula

from benches import data, running, table
from benches.share.arms import ARMS, BROKER, GROUP, PEERS, Arm
from tests.kafka import KafkaError, jars

RECORDS = 500_000


@dataclass(kw_only=True)
class Run(running.Run):
    """One measured run of one peer.

    Attributes:
        arm: by name.
        settled: how many records it accepted or rejected; `None` of a peer that only counts what it read.
    """

    arm: str
    settled: int | None = None


def main() -> int:
    """Measure, print, write."""
    options = _options()
    names, runs = options.peers.split(","), []
    try:
        with data.serve(("none",), options.records, fresh=True, config=BROKER) as (kafka, datasets):
            for arm in ARMS:
                _run(kafka, datasets["none"], arm, "monedula", 0, options)  # not counted: the broker's code is compiled
            machine = table.machine()  # now: its load is what disturbs the figures, and the peers are a load themselves
            for number in range(1, options.rounds + 1):
                for arm in ARMS:
                    # Each round starts with another peer, so that none always runs after the same neighbour.
                    shift = (number - 1) % len(names)
                    for name in filter(arm.takes, (*names[shift:], *names[:shift])):
                        runs.append(_run(kafka, datasets["none"], arm, name, number, options))
                        print(f"round {number} {arm.name:24} {name:15} {runs[-1].outcome}", file=sys.stderr)
    except KafkaError as error:
        raise SystemExit(str(error)) from error
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    for arm in ARMS:
        head = f"### {arm.name}: {options.records:,} records, {data.PARTITIONS} partitions; median of {options.rounds}"
        print("\n".join(["", head, "", *table.compared([run for run in runs if run.arm == arm.name])]))
    if options.output:
        found = {"machine": machine, "runs": [vars(run) for run in runs]}
        Path(options.output).write_text(json.dumps(found, indent=1) + "\n")
    wrong = [f"WRONG: {run.arm}, {run.peer}: {run.error}" for run in runs if run.error]
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches.share", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS, help="of the topic (default %(default)s)")
    parser.add_argument("--peers", default=",".join(PEERS), help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all share consumers"
    )
    parser.add_argument(
        "--group-set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all share groups"
    )
    parser.add_argument("--output", help="write every run to this JSON file")
    options = parser.parse_args()
    for name in options.peers.split(","):
        if name not in PEERS:
            parser.error(f"--peers: no peer {name!r}; there are {', '.join(PEERS)}")
    options.set, options.group_set = (
        dict(pair.split("=", 1) for pair in pairs) for pairs in (options.set, options.group_set)
    )
    return options


def _run(
    kafka: data.BenchKafka, dataset: data.Dataset, arm: Arm, name: str, number: int, options: argparse.Namespace
) -> Run:
    group = f"{name}-{ARMS.index(arm)}-{number}"
    run = Run(name, number, arm=arm.name)
    with monedula.Admin({"bootstrap.servers": kafka.bootstrap}) as admin:
        settings = {"bootstrap.servers": kafka.bootstrap, "group.id": group}
        if name != "monedula_group":
            admin.alter_configs({("group", group): {**GROUP, **options.group_set}})
            settings |= options.set
        broker_cpu_before = kafka.cpu_seconds()
        run.take(running.run(arm.command(name, dataset.topic, dataset.records, settings)))
        run.version = run.version or jars.kafka_version()  # Java's own is that of the broker
        run.broker_cpu_seconds = kafka.cpu_seconds() - broker_cpu_before
        if run.error is None:
            lags = {partition.partition: at.lag for partition, at in admin.group_lag(group).items()}
            run.error = _fault(run, dataset, lags)
    return run


def _fault(run: Run, dataset: data.Dataset, lags: Mapping[int, int | None]) -> str | None:
    """What disproves that it read the topic once, all of it."""
    settled = run.records if run.settled is None else run.settled
    if settled != dataset.records:
        return f"settled {settled:,} records in place of {dataset.records:,}"
    if not run.records:
        return "all came at once, before the clock: give it more records"
    if lags != dict.fromkeys(range(dataset.partitions), 0):
        return f"its group's lag by partition is {lags}"
    return None


if __name__ == "__main__":
    sys.exit(main())
