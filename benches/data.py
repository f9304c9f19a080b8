"""The workload: a real single-node Kafka with one topic for each codec, filled once and kept between runs."""

import argparse
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that `python benches/data.py` works as well as `python -m benches.data`

from benches import raw  # noqa: E402
from tests.kafka import HelperError, KafkaCluster, jars  # noqa: E402
from tests.kafka.cluster import Node, free_ports  # noqa: E402
from tests.kafka.secured.certificates import Certificates  # noqa: E402

RECORDS = 10_000_000
PARTITIONS = 4
CODECS = ("none", "lz4", "zstd")
BATCH_SIZE_BYTES = 16_384
LINGER_MS = 5
SECURITY = ("PLAINTEXT", "SSL")
FIRST_TIMESTAMP_MS = 1_790_000_000_000
# Never delete by age: the timestamps are part of the workload and do not move with the clock.
BROKER_SETTINGS = {"log.retention.ms": -1, "log.message.timestamp.after.max.ms": 1 << 60}


@dataclass(frozen=True)
class Dataset:
    """One filled topic, as one raw pass saw it."""

    codec: str
    topic: str
    records: int
    partitions: int
    batches: int
    stored_bytes: int


class BenchKafka(KafkaCluster):
    """One node with a listener for each of `SECURITY`, which serve the same topics."""

    def __init__(self, directory: Path | None, config: Mapping[str, object] | None = None) -> None:
        super().__init__(config={**BROKER_SETTINGS, **(config or {})}, fast_start=False, directory=directory)
        (self._tls_port,) = free_ports(1, self.host)

    @cached_property
    def certificates(self) -> Certificates:
        """Of the encrypted listener; made anew for each start."""
        return Certificates(self.directory / "certificates")

    def bootstrap_of(self, security: str) -> str:
        """`bootstrap.servers` of the listener."""
        return self.bootstrap if security == "PLAINTEXT" else f"{self.host}:{self._tls_port}"

    def client_settings(self, security: str) -> Mapping[str, str]:
        """What a client of the listener needs beside its address, by librdkafka's names."""
        if security == "PLAINTEXT":
            return {}
        return {"security.protocol": security, "ssl.ca.location": str(self.certificates.ca.file)}

    def context(self, security: str) -> ssl.SSLContext | None:
        """The same, for Python's own sockets."""
        if security == "PLAINTEXT":
            return None
        return ssl.create_default_context(cafile=self.certificates.ca.file)

    def cpu_seconds(self) -> float:
        """User and system time of the broker so far; 0 where there is no `/proc`."""
        stats = [Path(f"/proc/{node.pid}/stat") for node in self.nodes.values()]
        fields = [stat.read_text().rpartition(")")[2].split() for stat in stats if stat.exists()]
        return sum(int(ticks) for each in fields for ticks in each[11:13]) / os.sysconf("SC_CLK_TCK")

    def _properties(self, node: Node) -> dict[str, object]:
        properties = super()._properties(node)
        tls = f",SSL://{node.host}:{self._tls_port}"
        return {
            **properties,
            "listeners": f"{properties['listeners']}{tls}",
            "advertised.listeners": f"PLAINTEXT://{node.address}{tls}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.certificates.server.pem,
        }


@contextmanager
def serve(
    codecs: Sequence[str],
    records: int = RECORDS,
    *,
    partitions: int = PARTITIONS,
    batch_size_bytes: int = BATCH_SIZE_BYTES,
    linger_ms: int = LINGER_MS,
    fresh: bool = False,
    security: Sequence[str] = ("PLAINTEXT",),
    config: Mapping[str, object] | None = None,
) -> Iterator[tuple[BenchKafka, dict[str, Dataset]]]:
    """Run the Kafka of the benches with its topics filled and warm.

    Args:
        codecs: one topic each.
        records: in each topic.
        partitions: of each topic.
        batch_size_bytes: the producer's batch.size; Java's own default is 16 kB, and so is ours.
        linger_ms: the producer's linger.ms.
        fresh: use a temporary directory in place of the kept one.
        security: which of its listeners are warmed, of `SECURITY`.
        config: settings of the broker on top of those of all benches.
    """
    directory = None if fresh else jars.cache_directory() / "benches"
    with BenchKafka(directory, config) as kafka:
        datasets = {}
        for codec in codecs:
            datasets[codec] = ready(kafka, codec, records, partitions, batch_size_bytes, linger_ms, security)
        yield kafka, datasets


def ready(
    kafka: BenchKafka,
    codec: str,
    records: int,
    partitions: int = PARTITIONS,
    batch_size_bytes: int = BATCH_SIZE_BYTES,
    linger_ms: int = LINGER_MS,
    security: Sequence[str] = ("PLAINTEXT",),
) -> Dataset:
    """One topic, filled if it is not yet, and warm on these listeners."""
    topic = f"events-{codec}-{records}-{partitions}-{batch_size_bytes}-{linger_ms}"
    ends = _end_offsets(kafka, topic)
    if ends is None or sum(ends.values()) != records:
        fill(kafka, topic, records, codec, partitions, batch_size_bytes, linger_ms)
    return [warm(kafka, topic, codec, records, protocol) for protocol in security][-1]


def fill(
    kafka: KafkaCluster,
    topic: str,
    records: int,
    codec: str,
    partitions: int,
    batch_size_bytes: int,
    linger_ms: int,
) -> None:
    """Create a topic and fill it; from the start again if an earlier fill was interrupted."""
    if _end_offsets(kafka, topic) is not None:
        kafka.helper.delete_topic(topic)
    kafka.helper.create_topic(topic, partitions=partitions)
    source = str(Path(__file__).with_name("Fill.java"))
    settings = [str(batch_size_bytes), str(linger_ms), str(FIRST_TIMESTAMP_MS)]
    log_level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [jars.java(), log_level, "-Xmx512m", "-cp", jars.class_path(), source]
    command += [kafka.bootstrap, topic, str(records), codec, *settings]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds = json.loads(ran.stdout)["seconds"]
    print(f"filled {topic}: {records:,} records in {seconds} s ({records / seconds:,.0f}/s)", file=sys.stderr)


def warm(kafka: BenchKafka, topic: str, codec: str, records: int, security: str) -> Dataset:
    """One untimed raw pass over a listener, which also proves that the topic holds what it should.

    Raises:
        RuntimeError: it holds another number of records.
    """
    ends = _end_offsets(kafka, topic) or {}
    started = time.monotonic()
    seen = raw.drain(kafka.bootstrap_of(security), topic, ends, context=kafka.context(security))
    if seen.records != records:
        raise RuntimeError(f"{topic} holds {seen.records:,} records in place of {records:,}")
    seconds = time.monotonic() - started
    print(f"warmed {topic} over {security}: {seen.stored_bytes / 1e6:,.0f} MB in {seconds:.2f} s", file=sys.stderr)
    return Dataset(codec, topic, records, len(ends), seen.batches, seen.stored_bytes)


def _end_offsets(kafka: KafkaCluster, topic: str) -> dict[int, int] | None:
    try:
        return {partition: end for partition, (_, end) in kafka.helper.offsets(topic).items()}
    except HelperError as error:
        if error.error != "UnknownTopicOrPartitionException":
            raise
        return None


def main() -> None:
    """Fill the topics, print where they are, and serve them until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--codecs", default=",".join(CODECS))
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE_BYTES, help="the producer's, in bytes")
    parser.add_argument("--linger-ms", type=int, default=LINGER_MS)
    parser.add_argument("--fresh", action="store_true", help="keep nothing")
    arguments = parser.parse_args()
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with serve(
        arguments.codecs.split(","),
        arguments.records,
        batch_size_bytes=arguments.batch_size,
        linger_ms=arguments.linger_ms,
        fresh=arguments.fresh,
    ) as (kafka, datasets):
        for dataset in datasets.values():
            ratio = dataset.records * 107 / dataset.stored_bytes
            print(f"{kafka.bootstrap} {dataset.topic} {dataset.batches:,} batches, {ratio:.2f}x")
        over.wait()


if __name__ == "__main__":
    main()
