"""Every peer on one workload, each in a process of its own, interleaved over several rounds.

`python benches/harness.py` measures everything; `--records 300000 --peers monedula,confluent_pyarrow,drain --rounds 1`
is the short form for CI, which asserts counts and columns and never a time. Exit code 1: a peer failed, or read
something else than what is there.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that `python benches/harness.py` works as well as `python -m benches.harness`

from benches import data, running, table  # noqa: E402
from tests.kafka import KafkaError  # noqa: E402

VERIFY_RECORDS_MAX = 1_000_000


@dataclass(frozen=True)
class Peer:
    """How one peer is run.

    Attributes:
        module: in benches.peers.
        settings: of its client, on top of what the module sets.
        records_max: it is slow: give it no more than this.
        codecs: what it can read; everything by default.
        builds: it has something to build first.
        checks: it can say what it read (`--verify`).
        python_path: where it is imported from; by default what is installed.
        tls: it can read over TLS, by librdkafka's names of the settings or by Java's.
    """

    module: str
    settings: dict[str, str] = field(default_factory=dict)
    records_max: int | None = None
    codecs: tuple[str, ...] = data.CODECS
    builds: bool = False
    checks: bool = False
    python_path: Path | None = None
    tls: Literal["librdkafka", "java"] | None = None


MONEDULA = Peer("monedula_batches", checks=True, tls="librdkafka")
PEERS = {
    "monedula": MONEDULA,
    "monedula_group": Peer("monedula_group", checks=True, tls="librdkafka"),
    "drain": Peer("drain", builds=True, tls="librdkafka"),
    "confluent_consume": Peer("confluent_consume", tls="librdkafka"),
    "confluent_pyarrow": Peer("confluent_pyarrow", checks=True, tls="librdkafka"),
    "kafkarrow": Peer("kafkarrow_poll", codecs=("none", "lz4"), checks=True),
    "aiokafka": Peer("aiokafka_getmany"),
    "kafka_python": Peer("kafka_python_poll", records_max=500_000),
    "java": Peer("java_perf", tls="java"),
    "franz_go": Peer("franz_go", builds=True),
}
BEFORE = "monedula@before"
VARIANTS = {
    "confluent_consume@crc": Peer("confluent_consume", {"check.crcs": "true"}),
    "confluent_pyarrow@crc": Peer("confluent_pyarrow", {"check.crcs": "true"}, checks=True),
    "confluent_pyarrow@nogc": Peer("confluent_pyarrow", {"gc": "off"}, checks=True),
    "java@large": Peer(
        "java_perf", {"fetch-size": "8388608", "fetch.max.bytes": "67108864", "max.poll.records": "5000"}
    ),
    "franz_go@large": Peer("franz_go", {"partition-max-bytes": "8388608", "fetch-max-bytes": "67108864"}, builds=True),
}


def peer(name: str) -> Peer:
    """A peer, or a variant of one, by name. `monedula@64MB` is monedula with that budget (queued.max.bytes).

    Raises:
        SystemExit: there is none of that name.
    """
    if budget := re.fullmatch(r"monedula@(\d+)MB", name):
        return replace(MONEDULA, settings={"queued.max.bytes": str(int(budget[1]) * 1_000_000)})
    known = {**PEERS, **VARIANTS}
    if name not in known:
        raise SystemExit(f"no peer {name!r}; there are {', '.join(known)} and monedula@<n>MB")
    return known[name]


@dataclass(kw_only=True)
class Run(running.Run):
    """One measured run of one peer, and what it read with `--verify`."""

    codec: str
    security: str
    checks: dict[str, list[int]] | None = None


@dataclass(frozen=True)
class Arm:
    """A topic, and the listener that it is read over."""

    kafka: data.BenchKafka
    dataset: data.Dataset
    security: str

    def takes(self, chosen: Peer) -> bool:
        """Whether the peer can read it."""
        return self.dataset.codec in chosen.codecs and (self.security == "PLAINTEXT" or chosen.tls is not None)

    def settings(self, chosen: Peer) -> Mapping[str, str]:
        """Of the peer's client."""
        security = self.kafka.client_settings(self.security)
        if chosen.tls == "java" and security:
            security = {
                "security.protocol": security["security.protocol"],
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": security["ssl.ca.location"],
            }
        return {**chosen.settings, **security}


def main() -> int:
    """Fill, warm, measure, verify, print, write."""
    options = _options()
    names = options.peers.split(",") + [f"monedula@{budget}" for budget in options.budget.split(",") if budget]
    if options.before is not None:
        VARIANTS[BEFORE] = Peer(MONEDULA.module, checks=True, python_path=options.before.resolve())
        names.append(BEFORE)
    codecs, security = options.codecs.split(","), options.security.split(",")
    _prepare(names)
    verify = options.records <= VERIFY_RECORDS_MAX if options.verify is None else options.verify
    try:
        with data.serve(
            codecs, options.records, batch_size_bytes=options.batch_size, fresh=options.fresh, security=security
        ) as (kafka, datasets):
            machine = table.machine()  # now: its load is what disturbs the figures, and the peers are a load themselves
            arms = [Arm(kafka, dataset, protocol) for dataset in datasets.values() for protocol in security]
            runs = _measure(arms, names, options.rounds)
            checked = _verify(arms, names) if verify else []
    except KafkaError as error:
        raise SystemExit(str(error)) from error
    print(table.render(runs, list(datasets.values()), machine, options.rounds))
    if options.output:
        results = {
            "machine": machine,
            "datasets": [vars(dataset) for dataset in datasets.values()],
            "runs": [vars(run) for run in runs],
        }
        Path(options.output).write_text(json.dumps(results, indent=1) + "\n")
    failed = [run for run in (*runs, *checked) if run.error]
    wrong = [f"{run.peer} on {run.codec} over {run.security}: {run.error}" for run in failed] + _differences(checked)
    for line in wrong:
        print(f"WRONG: {line}", file=sys.stderr)
    if verify and not wrong:
        print(f"verified: {len(checked)} reads agree with each other in every column")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=data.RECORDS, help="in each topic (default %(default)s)")
    parser.add_argument("--codecs", default=",".join(data.CODECS), help="default %(default)s")
    parser.add_argument(
        "--security", default="PLAINTEXT", help=f"the listeners, of {', '.join(data.SECURITY)} (default %(default)s)"
    )
    parser.add_argument("--peers", default=",".join(PEERS), help=f"default all; also {', '.join(VARIANTS)}")
    parser.add_argument("--budget", default="", help="monedula once more with these budgets, for example 64MB,256MB")
    parser.add_argument(
        "--before", type=Path, help="a folder with another build of the package monedula: one more peer, " + BEFORE
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=data.BATCH_SIZE_BYTES, help="the producer's, in bytes")
    parser.add_argument("--output", help="write every run to this JSON file")
    parser.add_argument("--fresh", action="store_true", help="fill a temporary Kafka and keep nothing")
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        help=f"compare what was read, in runs of their own (default: up to {VERIFY_RECORDS_MAX:,} records)",
    )
    return parser.parse_args()


def _prepare(names: Sequence[str]) -> None:
    for module in sorted({peer(name).module for name in names if peer(name).builds}):
        subprocess.run([sys.executable, "-m", f"benches.peers.{module}", "--prepare"], cwd=ROOT, check=True)


def _measure(arms: Sequence[Arm], names: Sequence[str], rounds: int) -> list[Run]:
    runs = []
    for number in range(1, rounds + 1):
        for arm in arms:
            # Each round starts with another peer, so that none always runs after the same neighbour.
            shift = (number - 1) % len(names)
            for name in (*names[shift:], *names[:shift]):
                if arm.takes(peer(name)):
                    runs.append(_run(arm, name, number, verify=False))
                    _progress(runs[-1])
    return runs


def _verify(arms: Sequence[Arm], names: Sequence[str]) -> list[Run]:
    return [
        _run(arm, name, 0, verify=True) for arm in arms for name in names if peer(name).checks and arm.takes(peer(name))
    ]


def _run(arm: Arm, name: str, number: int, *, verify: bool) -> Run:
    chosen, dataset, bootstrap = peer(name), arm.dataset, arm.kafka.bootstrap_of(arm.security)
    wanted = min(dataset.records, chosen.records_max or dataset.records)
    command = [sys.executable, "-m", f"benches.peers.{chosen.module}", "--bootstrap", bootstrap]
    command += ["--topic", dataset.topic, "--records", str(wanted), "--partitions", str(dataset.partitions)]
    for key, value in arm.settings(chosen).items():
        command += ["--set", f"{key}={value}"]
    if verify:
        command.append("--verify")
    run = Run(name, number, codec=dataset.codec, security=arm.security)
    environment = {} if chosen.python_path is None else {"PYTHONPATH": str(chosen.python_path)}
    broker_cpu_before = arm.kafka.cpu_seconds()
    ended = running.run(command, environment=environment)
    run.broker_cpu_seconds = arm.kafka.cpu_seconds() - broker_cpu_before
    run.take(ended)
    if run.error:
        return run
    # A peer that is to read the whole topic must end with exactly its records; one that stops early may overshoot.
    if run.records < wanted or (wanted == dataset.records and run.records != wanted):
        run.error = f"read {run.records:,} records in place of {wanted:,}"
    return run


def _differences(checked: Sequence[Run]) -> list[str]:
    """Every codec's topic holds the same records, so all verified reads must agree, across codecs as well."""
    reads = [run for run in checked if run.checks is not None]
    if not reads:
        return []
    expected = _columns(reads[0])
    return [
        f"{run.peer} on {run.codec} over {run.security} read other columns than {reads[0].peer} on {reads[0].codec}"
        for run in reads[1:]
        if _columns(run) != expected
    ]


def _columns(run: Run) -> list[list[int]]:
    return sorted((run.checks or {}).values())


def _progress(run: Run) -> None:
    print(f"round {run.round} {run.codec:5} {run.security:9} {run.peer:22} {run.outcome}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
