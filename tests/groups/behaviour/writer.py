"""Steady load, and the log as another client reads it in the end."""

import threading
import time
from collections.abc import Sequence
from itertools import count
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.groups.behaviour.history import Truth

DEADLINE_SECONDS = 90.0


class Writer:
    """Writes `topic:partition:number` into every partition, in turn, until stopped, with acks=all.

    Args:
        bootstrap: where.
        topic: the topic.
        partitions: how many of its partitions.
        records_per_second: in all.
        prefixes: what values begin with, in turn.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        records_per_second: float = 300.0,
        prefixes: Sequence[str] = ("",),
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._prefixes = prefixes
        self._interval = 1 / records_per_second
        self._bootstrap = bootstrap
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 2,
            }
        )
        self._failed: list[str] = []
        self._ends: dict[tuple[str, int], int] = {}
        self._over = threading.Event()
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._stands = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._goes_on.set()
        self._thread.join()

    @property
    def ends(self) -> dict[tuple[str, int], int]:
        """The offset after the last that was acknowledged, by partition."""
        return dict(self._ends)

    def pause(self) -> dict[tuple[str, int], int]:
        """Write no more until `go_on`; returns where the partitions end."""
        self._stands.clear()
        self._goes_on.clear()
        assert self._stands.wait(DEADLINE_SECONDS)
        assert self._producer.flush(DEADLINE_SECONDS) == 0
        return self.ends

    def go_on(self) -> None:
        """Write again."""
        self._goes_on.set()

    def stop(self) -> dict[tuple[str, int], int]:
        """Stop, wait until everything is acknowledged, and return where the partitions end."""
        self._over.set()
        self._goes_on.set()
        self._thread.join()
        left = self._producer.flush(DEADLINE_SECONDS)
        assert left == 0, f"{left} records are not acknowledged after {DEADLINE_SECONDS} s"
        assert not self._failed, self._failed[:5]
        return self.ends

    def _write(self) -> None:
        at = time.monotonic()
        for number in count():
            for partition in range(self._partitions):
                if self._over.is_set():
                    return
                if not self._goes_on.is_set():
                    self._stands.set()
                    self._goes_on.wait()
                    at = time.monotonic()
                value = f"{self._prefixes[number % len(self._prefixes)]}{self._topic}:{partition}:{number}"
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                self._producer.poll(0)
                # A clock, not a condition: this is the load, and nothing is concluded from it.
                at += self._interval
                self._over.wait(max(0.0, at - time.monotonic()))

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))
        else:
            self._ends[message.topic(), message.partition()] = message.offset() + 1


def write(bootstrap: str, topic: str, values: dict[int, list[str]]) -> dict[tuple[str, int], int]:
    """Write values, by partition; returns where the partitions end."""
    ends: dict[tuple[str, int], int] = {}
    failed: list[str] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            failed.append(str(error))
        else:
            ends[topic, message.partition()] = message.offset() + 1

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for partition, texts in values.items():
        for text in texts:
            producer.produce(topic, text, partition=partition, on_delivery=delivered)
            producer.poll(0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert not failed, failed[:5]
    return ends


def numbered(topic: str, partitions: int, records: int, first: int = 0) -> dict[int, list[str]]:
    """Values as `Writer` makes them, this many for each partition."""
    return {p: [f"{topic}:{p}:{n}" for n in range(first, first + records)] for p in range(partitions)}


def truth_of(bootstrap: str, ends: dict[tuple[str, int], int]) -> Truth:
    """Every record below these offsets, read from the beginning.

    Raises:
        AssertionError: not in time, or an offset is missing.
    """
    found: dict[tuple[str, int], list[bytes]] = {partition: [] for partition in ends}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "truth", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in ends])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(len(found[partition]) < end for partition, end in ends.items()):
            assert time.monotonic() < deadline, "the log could not be read to its end"
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    values = found[message.topic(), message.partition()]
                    assert message.offset() == len(values), f"offset {message.offset()} follows {len(values) - 1}"
                    values.append(message.value())
    finally:
        consumer.close()
    return {partition: values[: ends[partition]] for partition, values in found.items()}
