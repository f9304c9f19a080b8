"""The embedded broker beside a real Kafka, in one run: `python -m benches.broker`.

Start-up to the first answer; ready-made batches pushed down one connection (acks=all, the `push` example of our client
crate); the same records fetched and dropped (`drain`); memory for each idle member of a group. Exit code 1: something
was refused, or the records that came back are not as many as were written.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from benches import table
from benches.broker import members, servers
from tests import programs

TOPIC = "events"
PARTITIONS = 4
Start = Callable[[], AbstractContextManager[servers.Server]]


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benches.broker", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000, help="in each topic (default %(default)s)")
    parser.add_argument("--codecs", default="none,lz4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--members", type=int, default=5000, help="idle members, each in a group of its own (default %(default)s)"
    )
    options = parser.parse_args()
    binary, push, drain = programs.build("monedula-broker", "examples/push", "examples/drain")
    print(", ".join(f"{key} {value}" for key, value in table.machine().items()))
    _start_up(binary, options.rounds)
    starts: dict[str, Start] = {
        "embedded": lambda: servers.embedded(binary),
        "kafka": lambda: servers.kafka(quick=False),
    }
    _throughput(starts, push, drain, options.codecs.split(","), options.records, options.rounds)
    _memory(starts, options.members)
    return 0


def _start_up(binary: Path, rounds: int) -> None:
    def seconds(start: Start) -> float:
        with start() as server:
            return server.ready_seconds

    in_process = servers.repeated(10 * rounds, servers.in_process)
    embedded = servers.repeated(10 * rounds, lambda: seconds(lambda: servers.embedded(binary)))
    kafka = servers.repeated(rounds, lambda: seconds(lambda: servers.kafka(quick=True)))
    print("\n| start to the first answer | median | times as fast as Kafka |\n|---|---:|---:|")
    for name, values in {"in this process": in_process, "as a program": embedded, "Kafka": kafka}.items():
        ratio = statistics.median(kafka) / statistics.median(values)
        print(f"| {name} | {statistics.median(values) * 1000:,.1f} ms | {ratio:,.0f} |")


def _throughput(
    starts: dict[str, Start], push: Path, drain: Path, codecs: list[str], records: int, rounds: int
) -> None:
    rates: dict[tuple[str, str, str], list[float]] = {}
    for number in range(rounds):
        # Each round starts with the other, so that neither always runs after the same neighbour.
        for name in sorted(starts, reverse=number % 2 == 1):
            with starts[name]() as server:
                for codec in codecs:
                    topic = f"{TOPIC}-{codec}"
                    subprocess.run([sys.executable, "-c", _CREATE, server.address, topic, str(PARTITIONS)], check=True)
                    work = [server.address, topic, str(records)]
                    commands: dict[str, list[Path | str]] = {"produce": [push, *work, codec], "fetch": [drain, *work]}
                    for what, command in commands.items():
                        rate = _run(f"{what} of {topic}", command, records)
                        rates.setdefault((what, codec, name), []).append(rate)
                        print(f"round {number + 1} {what} {codec} {name}: {rate:,.0f}/s", file=sys.stderr)
    print(f"\n{records:,} records, {PARTITIONS} partitions, one connection; median of {rounds}")
    print("\n| records/s | embedded | spread | Kafka | spread | ratio |\n|---|---:|---:|---:|---:|---:|")
    for what in ("produce", "fetch"):
        for codec in codecs:
            ours, theirs = rates[what, codec, "embedded"], rates[what, codec, "kafka"]
            ratio = statistics.median(ours) / statistics.median(theirs)
            print(f"| {what}, {codec} | {_cells(ours)} | {_cells(theirs)} | {ratio:.2f} |")


def _cells(rates: list[float]) -> str:
    millions = [rate / 1e6 for rate in rates]
    return f"{statistics.median(millions):.2f} M | {min(millions):.2f}-{max(millions):.2f} M"


_CREATE = """
import sys, time
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
address, topic, partitions = sys.argv[1:]
client = AdminClient({"bootstrap.servers": address})
client.create_topics([NewTopic(topic, int(partitions), 1)])[topic].result(30)
# A topic is there before its partitions are led: Kafka would refuse the first records of those that are not.
consumer = Consumer({"bootstrap.servers": address, "group.id": "leaders"})
deadline = time.monotonic() + 30
for partition in range(int(partitions)):
    while True:
        try:
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=5)
            break
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
consumer.close()
"""


def _run(what: str, command: list[Path | str], records: int) -> float:
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=600).stdout)
    if result["records"] < records:
        raise SystemExit(f"{what}: {result['records']:,} records in place of {records:,}")
    return float(result["records"] / result["seconds"])


def _memory(starts: dict[str, Start], count: int) -> None:
    each = {}
    for name, start in starts.items():
        with start() as server:
            each[name] = members.bytes_per_member(server, count)
    print(f"\n| resident memory for each of {count:,} idle group members |\n|---:|")
    for name, value in each.items():
        print(f"| {name}: {value / 1000:,.1f} kB |")


if __name__ == "__main__":
    sys.exit(main())
