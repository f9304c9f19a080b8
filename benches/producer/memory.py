"""Peak memory beside `buffer.memory`: `python -m benches.producer.memory`.

The embedded broker, in this process, holds every Produce request: a broker that has died as far as a producer can see.
Each case runs in a process of its own, which says when it is full, and is told when it is to go on.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from monedula.testing import Broker

from benches.producer import workload
from benches.running import high_water_bytes
from benches.table import machine

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "held"
BUFFER_BYTES = 67_108_864
FULL_AFTER_MS = 500
LOADED_RECORDS = 3_000_000
OUTSTANDING = 1_000_000
OUTSTANDING_BUFFER_BYTES = 268_435_456
FLUSH_SECONDS = 120.0


def _say(**what: object) -> None:
    print(json.dumps({**what, "peak_rss_bytes": high_water_bytes(os.getpid())}), flush=True)


def monedula_dead(bootstrap: str) -> None:
    """`send` until the buffer stays full."""
    import monedula

    pool = workload.pool()
    producer = _monedula(bootstrap, **{"max.block.ms": FULL_AFTER_MS})
    producer.partitions_for(TOPIC)
    _say(what="start")
    sent: deque[Any] = deque(maxlen=1)
    count = 0
    try:
        while True:
            index = count % workload.POOL_RECORDS
            sent.append(producer.send(TOPIC, pool.values[index], pool.keys[index]))
            count += 1
    except monedula.errors.BufferFullError:
        _say(what="full", records=count)
    producer.close(0)


def monedula_load(bootstrap: str) -> None:
    """`send_batch` at full speed; the broker answers."""
    table = workload.pool().table()
    with _monedula(bootstrap) as producer:
        producer.partitions_for(TOPIC)
        _say(what="start")
        waiting: deque[Any] = deque()
        for _ in range(LOADED_RECORDS // workload.POOL_RECORDS):
            waiting.append(producer.send_batch(table, topic=TOPIC))
        for future in waiting:
            future.result()
    _say(what="done", records=LOADED_RECORDS)


def monedula_outstanding(bootstrap: str) -> None:
    """A million futures without an answer; then all of them have one."""
    pool = workload.pool()
    with _monedula(bootstrap, **{"buffer.memory": OUTSTANDING_BUFFER_BYTES}) as producer:
        producer.partitions_for(TOPIC)
        _say(what="start")
        futures: list[Any] = []
        for count in pool.passes(OUTSTANDING):
            futures += [producer.send(TOPIC, pool.values[index], pool.keys[index]) for index in range(count)]
        _say(what="full", records=sum(not future.done() for future in futures))
        sys.stdin.readline()
        producer.flush(FLUSH_SECONDS)
        offsets = {(future.result(0).partition, future.result(0).offset) for future in futures}
        _say(what="done", records=len(offsets))


def confluent_dead(bootstrap: str) -> None:
    """`produce` until it raises `BufferError`."""
    from confluent_kafka import Producer

    pool = workload.pool()
    limits = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": BUFFER_BYTES // 1024}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **limits})
    producer.list_topics(TOPIC, 30.0)
    _say(what="start")
    count = 0
    try:
        while True:
            index = count % workload.POOL_RECORDS
            producer.produce(TOPIC, pool.values[index], pool.keys[index])
            count += 1
    except BufferError:
        _say(what="full", records=count)
    producer.purge()


def _monedula(bootstrap: str, **settings: Any) -> Any:
    import monedula

    return monedula.Producer({"bootstrap.servers": bootstrap, "acks": "all", "buffer.memory": BUFFER_BYTES, **settings})


CASES: dict[str, Callable[[str], None]] = {
    "monedula_dead": monedula_dead,
    "monedula_load": monedula_load,
    "monedula_outstanding": monedula_outstanding,
    "confluent_dead": confluent_dead,
}


def main() -> None:
    """Run the cases, print what each one's memory came to."""
    parser = argparse.ArgumentParser(prog="python -m benches.producer.memory", description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        CASES[options.case](options.bootstrap)
        return
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    print("\n| case | buffer MB | records | RSS before, MB | peak RSS, MB | beyond both, MB |")
    print("|---|---:|---:|---:|---:|---:|")
    for case in options.cases.split(","):
        said = _run(case)
        buffer = (OUTSTANDING_BUFFER_BYTES if case == "monedula_outstanding" else BUFFER_BYTES) / 1e6
        before, peak = (said[index]["peak_rss_bytes"] / 1e6 for index in (0, -1))
        records = said[-1]["records"]
        print(f"| {case} | {buffer:.0f} | {records:,} | {before:.0f} | {peak:.0f} | {peak - before - buffer:.0f} |")


def _run(case: str) -> list[dict[str, Any]]:
    said = []
    with Broker(topics={TOPIC: workload.PARTITIONS}) as broker:
        held = None if case == "monedula_load" else broker.fault(api="Produce", hold=True)
        command = [sys.executable, "-m", "benches.producer.memory", "--case", case]
        command += ["--bootstrap", broker.bootstrap_servers]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("a case without pipes")
            for line in process.stdout:
                said.append(json.loads(line))
                if said[-1]["what"] == "full" and held is not None:
                    held.remove()
                    process.stdin.write("\n")
                    process.stdin.flush()
        if process.returncode != 0:
            raise SystemExit(f"{case} ended with {process.returncode}")
    return said


if __name__ == "__main__":
    main()
