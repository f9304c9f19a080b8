"""What the tests against a real Kafka share: consumers, reading until something is there, and a writer beside them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import monedula
import pyarrow
from monedula._monedula import ConsumerCore

TIMEOUT_SECONDS = 60.0


def consumer(bootstrap: str, **settings: Any) -> monedula.Consumer:
    """A consumer that begins at the start of the log unless told otherwise, and that waits for nobody long."""
    defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "reconnect_backoff_max_ms": 200}
    return monedula.Consumer(bootstrap_servers=bootstrap, **{**defaults, **settings})


@contextmanager
def core(bootstrap: str) -> Iterator[ConsumerCore]:
    """The core of a consumer, for what has no public face yet; it waits for nobody long."""
    client = ConsumerCore([("bootstrap.servers", bootstrap), ("reconnect.backoff.max.ms", "200")])
    try:
        yield client
    finally:
        client.close(1.0)


def committed(
    bootstrap: str, group: str, partitions: list[tuple[str, int]] | None = None
) -> dict[monedula.TopicPartition, monedula.OffsetAndMetadata | None]:
    """The offsets committed to a group."""
    with monedula.Admin(bootstrap_servers=bootstrap) as admin:
        return admin.list_group_offsets(group, partitions, timeout=TIMEOUT_SECONDS)


def rows(batch: monedula.Batch) -> list[dict[str, Any]]:
    """The rows of a batch, by column name."""
    found: list[dict[str, Any]] = pyarrow.record_batch(batch).to_pylist()
    return found


def take(source: monedula.Consumer, count: int, timeout: float = TIMEOUT_SECONDS) -> list[dict[str, Any]]:
    """Rows until there are `count`; fails if they do not come in time."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + timeout
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} rows in {timeout} s; {source.health()}"
        found += rows(source.poll(0.5))
    return found


def poll_until(source: monedula.Consumer, condition: Callable[[], bool], timeout: float = TIMEOUT_SECONDS) -> None:
    """Poll, and drop what comes, until `condition` holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s; {source.health()}"
        source.poll(0.1)


def values(found: list[dict[str, Any]]) -> list[bytes | None]:
    """The values of rows."""
    return [row["value"] for row in found]


def offsets(found: list[dict[str, Any]]) -> list[int]:
    """The offsets of rows."""
    return [row["offset"] for row in found]


def table(bootstrap: str, topics: Any, settings: dict[str, Any] | None = None, **how: Any) -> list[dict[str, Any]]:
    """A bounded read's rows."""
    config = {"bootstrap.servers": bootstrap, **(settings or {})}
    found: list[dict[str, Any]] = pyarrow.table(monedula.read(config, topics, **how)).to_pylist()
    return found


class Writer:
    """Writes numbered values to every partition, each acknowledged by all replicas, until told to stop."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.written: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 0}
        )
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.005):
            for partition, written in self.written.items():
                value = f"{partition}:{number}".encode()
                self._producer.produce(self._topic, value, partition=partition)
                written.append(value)
            number += 1
            self._producer.poll(0)

    def stop(self) -> int:
        """Ends the writing, waits until all is acknowledged, and returns how many records there are."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(TIMEOUT_SECONDS)
        assert left == 0, f"{left} records are not acknowledged"
        return sum(len(written) for written in self.written.values())


@contextmanager
def writing(bootstrap: str, topic: str, partitions: int) -> Iterator[Writer]:
    """A writer that is at work inside of the `with` block."""
    writer = Writer(bootstrap, topic, partitions)
    writer._thread.start()
    try:
        yield writer
    finally:
        writer._stop.set()
        writer._thread.join()


def read_all_of(source: monedula.Consumer, writer: Writer, found: list[dict[str, Any]]) -> None:
    """Ends the writing, reads the rest, and checks that nothing is lost, nothing came twice, and all is in order."""
    expected = writer.stop()
    found += take(source, expected - len(found))
    found += rows(source.poll(0.5))
    for partition, written in writer.written.items():
        mine = [row for row in found if row["partition"] == partition]
        assert values(mine) == written
        assert offsets(mine) == list(range(len(written)))
