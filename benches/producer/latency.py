"""Time of one acknowledged send: send, wait, next; `python -m benches.producer.latency`.

The senders take turns on one real Kafka, each in a process of its own, and send one small record at a time with
acks=all.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benches.table import machine
from tests.kafka import KafkaCluster

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "single"
VALUE = b"v" * 107
WARM_UP_SENDS = 500
SENDS_MIN = 200

Send = Callable[[], object]
"""Sends one record and returns once it is acknowledged."""


def confluent(bootstrap: str, **settings: Any) -> Send:
    """confluent-kafka: `produce`, then `poll` until the callback was called."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    outcomes: list[object] = []

    def send() -> None:
        producer.produce(TOPIC, VALUE, on_delivery=lambda error, _: outcomes.append(error))
        while not outcomes:
            producer.poll(1.0)
        if (error := outcomes.pop()) is not None:
            raise RuntimeError(str(error))

    return send


def monedula(bootstrap: str, **settings: Any) -> Send:
    """monedula: `send`, then `result` of its future."""
    import monedula

    producer = monedula.Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    return lambda: producer.send(TOPIC, VALUE).result()


SENDERS: dict[str, Callable[[str], Send]] = {
    "monedula": lambda bootstrap: monedula(bootstrap),
    "confluent": lambda bootstrap: confluent(bootstrap),
    "monedula@linger0": lambda bootstrap: monedula(bootstrap, **{"linger.ms": 0}),
    "confluent@linger0": lambda bootstrap: confluent(bootstrap, **{"linger.ms": 0}),
}


def turn(sender: str, bootstrap: str, seconds: float) -> list[float]:
    """Milliseconds of each send, after a warm-up."""
    send = SENDERS[sender](bootstrap)
    for _ in range(WARM_UP_SENDS):
        send()
    waits_ms = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        send()
        waits_ms.append((time.perf_counter() - began) * 1e3)
    return waits_ms


def main() -> None:
    """Start Kafka, let the senders take turns, print p50 and p99."""
    parser = argparse.ArgumentParser(prog="python -m benches.producer.latency", description=__doc__)
    parser.add_argument("--senders", default=",".join(SENDERS))
    parser.add_argument("--turns", type=int, default=4, help="of each sender (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn (default %(default)s)")
    parser.add_argument("--sender", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sender:
        print(json.dumps(turn(options.sender, options.bootstrap, options.seconds)))
        return
    senders = options.senders.split(",")
    samples_ms: dict[str, list[list[float]]] = {sender: [] for sender in senders}
    with KafkaCluster(fast_start=False) as kafka:
        kafka.helper.create_topic(TOPIC)
        on = machine()
        for number in range(options.turns):
            # Each round starts with another, so that none always runs after the same neighbour.
            shift = number % len(senders)
            for sender in (*senders[shift:], *senders[:shift]):
                command = [sys.executable, "-m", "benches.producer.latency", "--sender", sender]
                command += ["--bootstrap", kafka.bootstrap, "--seconds", str(options.seconds)]
                ran = subprocess.run(
                    command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=options.seconds + 120
                )
                samples_ms[sender].append(json.loads(ran.stdout))
    print(", ".join(f"{key} {value}" for key, value in on.items()))
    print(_table(samples_ms))


def _table(samples_ms: dict[str, list[list[float]]]) -> str:
    lines = ["", "| sender | sends | p50 ms | p99 ms | p99 ms of each turn |", "|---|---:|---:|---:|---|"]
    for sender, turns in samples_ms.items():
        every = [wait for turn in turns for wait in turn]
        if len(every) < SENDS_MIN:
            raise SystemExit(f"{sender} sent only {len(every)} records: the figures would mean nothing")
        each = ", ".join(f"{_percentile(turn, 99):.2f}" for turn in turns)
        lines.append(
            f"| {sender} | {len(every)} | {statistics.median(every):.2f} | {_percentile(every, 99):.2f} | {each} |"
        )
    return "\n".join(lines)


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    main()
