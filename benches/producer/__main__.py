"""The producer beside its peers, each in a process of its own, on a real Kafka: `python -m benches.producer`.

Every run has a topic of its own, which is read once more without any client when the peer has ended: a peer that lost
records, or wrote some twice, fails the run. `--records 300000 --rounds 1 --peers ...` is the short form for CI, which
asserts counts and content, never a time.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benches import running
from benches.producer import report, workload
from benches.producer.report import Run
from benches.producer.stored import stored
from benches.table import machine
from tests.kafka import KafkaCluster, KafkaError

RECORDS = 3_000_000
CODECS = ("none", "lz4")
VERIFY_RECORDS_MAX = 1_000_000
# A topic that was read is in nobody's way: its segments go at once.
BROKER_SETTINGS = {
    "log.retention.ms": -1,
    "log.message.timestamp.after.max.ms": 1 << 60,
    "log.segment.delete.delay.ms": 100,
}


@dataclass(frozen=True)
class Peer:
    """How one peer is run.

    Attributes:
        module: in benches.producer.peers.
        settings: of its client, on top of what the module sets.
        records_max: it is slow: give it no more than this.
        is_ordered: it sends the pool in order, so that its content is known, not only its count.
    """

    module: str
    settings: dict[str, str] = field(default_factory=dict)
    records_max: int | None = None
    is_ordered: bool = True


PEERS = {
    "floor": Peer("floor"),
    "monedula_batch": Peer("monedula_batch"),
    "monedula_send_many": Peer("monedula_send_many"),
    "monedula_send": Peer("monedula_send"),
    "confluent": Peer("confluent_produce"),
    "confluent@callbacks": Peer("confluent_produce", {"callbacks": "on"}),
    "java": Peer("java_perf", is_ordered=False),
    "aiokafka": Peer("aiokafka_send", records_max=300_000),
    "kafka_python": Peer("kafka_python_send", records_max=100_000),
}
VARIANTS = {
    "monedula_encoded": Peer("monedula_encoded", is_ordered=False),
    "confluent_encoded": Peer("confluent_encoded", records_max=300_000, is_ordered=False),
    "confluent@idempotent": Peer("confluent_produce", {"enable.idempotence": "true"}),
    "monedula_batch@plain": Peer("monedula_batch", {"enable.idempotence": "false"}),
    "monedula_send@plain": Peer("monedula_send", {"enable.idempotence": "false"}),
    "java@large": Peer("java_perf", {"batch.size": "262144", "buffer.memory": "67108864"}, is_ordered=False),
}


def main() -> int:
    """Measure, verify, print, write."""
    options = _options()
    names = options.peers.split(",")
    verify = options.records <= VERIFY_RECORDS_MAX if options.verify is None else options.verify
    runs = []
    try:
        with KafkaCluster(config=BROKER_SETTINGS, fast_start=False) as kafka:
            _warm(kafka)
            on = machine()  # now: its load is what disturbs the figures, and the peers are a load themselves
            for number in range(1, options.rounds + 1):
                for codec in options.codecs.split(","):
                    # Each round starts with another peer, so that none always runs after the same neighbour.
                    shift = (number - 1) % len(names)
                    for name in (*names[shift:], *names[:shift]):
                        runs.append(_run(kafka, name, codec, number, options.records, verify=verify))
                        print(runs[-1].in_words(), file=sys.stderr)
    except KafkaError as error:
        raise SystemExit(str(error)) from error
    print(report.render(runs, on, options.records, options.rounds))
    if options.output:
        Path(options.output).write_text(
            json.dumps({"machine": on, "runs": [vars(run) for run in runs]}, indent=1) + "\n"
        )
    wrong = [run.in_words() for run in runs if run.error]
    for line in wrong:
        print(f"WRONG: {line}", file=sys.stderr)
    if verify and not wrong:
        print("verified: every topic holds what was sent, record by record")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.producer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=RECORDS, help="of each peer (default %(default)s)")
    parser.add_argument("--codecs", default=",".join(CODECS), help="default %(default)s")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"default all; also {', '.join(VARIANTS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", help="write every run to this JSON file")
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        help=f"compare keys and values as well, not only counts (default: up to {VERIFY_RECORDS_MAX:,} records)",
    )
    options = parser.parse_args()
    if options.records <= 0 or options.records % workload.POOL_RECORDS:
        parser.error(f"--records: a multiple of {workload.POOL_RECORDS:,}, not {options.records:,}")
    known = {**PEERS, **VARIANTS}
    for name in options.peers.split(","):
        if name not in known:
            parser.error(f"--peers: no peer {name!r}; there are {', '.join(known)}")
    return options


def _warm(kafka: KafkaCluster) -> None:
    """Both codecs once: the broker's own code is compiled before anything is timed."""
    for codec in CODECS:
        warmed = _run(kafka, "floor", codec, 0, 10 * workload.POOL_RECORDS, verify=False)
        if warmed.error:
            raise SystemExit(f"the floor does not work: {warmed.error}")


def _run(kafka: KafkaCluster, name: str, codec: str, number: int, records: int, *, verify: bool) -> Run:
    peer = {**PEERS, **VARIANTS}[name]
    wanted = min(records, peer.records_max or records)
    topic = f"{name.replace('@', '-')}-{codec}-{number}"
    kafka.helper.create_topic(topic, partitions=workload.PARTITIONS)
    try:
        run = Run(name, codec, number)
        ended = running.run(_command(kafka.bootstrap, topic, peer, codec, wanted))
        run.peak_rss_bytes, run.error = ended.peak_rss_bytes, ended.error
        for key, value in ended.said.items():
            setattr(run, key, value)
        if run.error is None:
            _judge(kafka, topic, run, wanted, verify=verify and peer.is_ordered)
    finally:
        kafka.helper.delete_topic(topic)
    return run


def _command(bootstrap: str, topic: str, peer: Peer, codec: str, records: int) -> Sequence[str]:
    command = [
        sys.executable,
        "-m",
        f"benches.producer.peers.{peer.module}",
        "--bootstrap",
        bootstrap,
        "--topic",
        topic,
    ]
    command += ["--records", str(records), "--partitions", str(workload.PARTITIONS)]
    for key, value in {"compression.type": codec, **peer.settings}.items():
        command += ["--set", f"{key}={value}"]
    return command


def _judge(kafka: KafkaCluster, topic: str, run: Run, wanted: int, *, verify: bool) -> None:
    ends = {partition: end for partition, (_, end) in kafka.helper.offsets(topic).items()}
    found = stored(kafka.bootstrap, topic, ends, verify=verify)
    run.batches, run.stored_bytes = found.batches, found.stored_bytes
    if run.records != wanted or found.records != wanted:
        run.error = f"said to have sent {run.records:,} and wrote {found.records:,} in place of {wanted:,}"
    elif found.sums is not None and found.sums != workload.pool().sums(wanted):
        run.error = "other keys or values were written than were sent"


if __name__ == "__main__":
    sys.exit(main())
