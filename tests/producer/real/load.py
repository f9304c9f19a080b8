"""A producer under load on a thread, the records that it sent, and the log as another client reads it at the end."""

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Self

import monedula
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.producer.real.checker import Sent, Stored

DEADLINE_SECONDS = 90.0
SETTLE_SECONDS = 30.0
"""How long followers may take to catch up with their leader. Records that are missing then are lost."""
QUICK = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}
"""A short wait for nodes that are down."""


class Load:
    """Sends `partition:number` to every partition, in turn, until stopped.

    Args:
        bootstrap: where.
        topic: the topic.
        partitions: how many of its partitions.
        interval_seconds: between two rounds over the partitions.
        settings: of the producer.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, interval_seconds: float = 0.002, **settings: Any
    ) -> None:
        self.producer = monedula.Producer({"bootstrap.servers": bootstrap, **QUICK, **settings})
        self._topic = topic
        self._interval = interval_seconds
        self._sent: dict[int, list[tuple[bytes, Any]]] = {partition: [] for partition in range(partitions)}
        self._over = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self.producer.close(0.0 if kind is not None else DEADLINE_SECONDS)

    def acknowledged(self, partition: int) -> int:
        """How many records of a partition are acknowledged, in the order of sending."""
        sent = self._sent[partition]
        # Searched from the end: the last records are done last.
        return next((n for n in range(len(sent), 0, -1) if sent[n - 1][1].done()), 0)

    def flows(self, partitions: list[int] | None = None, more: int = 50) -> None:
        """Wait until this many more records of each partition are acknowledged.

        Raises:
            AssertionError: they are not, in time.
        """
        for partition in self._sent if partitions is None else partitions:
            goal = len(self._sent[partition]) + more
            until(partial(self._has, partition, goal), f"records to flow in {partition}")

    def stop(self) -> dict[int, list[Sent]]:
        """Stop, wait until every record has an outcome, and return the records."""
        self._over.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed
        self.producer.flush(DEADLINE_SECONDS)
        return {partition: [outcome(value, future) for value, future in sent] for partition, sent in self._sent.items()}

    def _has(self, partition: int, goal: int) -> bool:
        return self.acknowledged(partition) >= goal

    def _run(self) -> None:
        try:
            for number in count():
                for partition, sent in self._sent.items():
                    value = f"{partition}:{number}".encode()
                    sent.append((value, self.producer.send(self._topic, value, partition=partition)))
                # A clock, not a condition: this is the load, and nothing is concluded from it.
                if self._over.wait(self._interval):
                    return
        except BaseException as error:
            self._failed = error


def outcome(value: bytes, future: Any) -> Sent:
    """The outcome of a record, without waiting."""
    if not future.done():
        return Sent(value, is_done=False)
    error = future.exception(0)
    if error is not None:
        return Sent(value, error=f"{type(error).__name__}: {error}")
    return Sent(value, future.result(0).offset)


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that another thread or process does.

    Raises:
        AssertionError: it did not come in time.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for {what}"
        time.sleep(0.01)


def messages_of(bootstrap: str, topic: str, at_least: int = 1) -> dict[int, list[Any]]:
    """Everything that a topic holds now, by partition, as confluent-kafka reads it.

    Waits for records that only the leader has yet (acks=1), and for topics that only some nodes know yet.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 2}
    consumer = Consumer({**settings, "enable.partition.eof": False, "check.crcs": True})
    try:
        ends: dict[int, int] = {}

        def is_there() -> bool:
            for p in consumer.list_topics(topic, 30.0).topics[topic].partitions:
                ends[p] = consumer.get_watermark_offsets(TopicPartition(topic, p), 30.0)[1]
            return sum(ends.values()) >= at_least

        settled = time.monotonic() + SETTLE_SECONDS
        while not is_there() and time.monotonic() < settled:
            time.sleep(0.05)
        assert ends, f"nobody knows {topic}"
        found: dict[int, list[Any]] = {partition: [] for partition in ends}
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p, end in ends.items() if end > 0])
        left = {p for p, end in ends.items() if end > 0}
        deadline = time.monotonic() + DEADLINE_SECONDS
        while left:
            assert time.monotonic() < deadline, f"{topic}: {left} cannot be read to {ends}"
            for message in consumer.consume(10_000, 0.5):
                assert message.error() is None, message.error()
                found[message.partition()].append(message)
                if message.offset() == ends[message.partition()] - 1:
                    left.discard(message.partition())
    finally:
        consumer.close()
    return found


def log_of(bootstrap: str, topic: str, at_least: int = 1) -> dict[int, list[Stored]]:
    """Offsets and values of all records of a topic; waits for so many."""
    found = messages_of(bootstrap, topic, at_least)
    return {p: [Stored(message.offset(), message.value()) for message in messages] for p, messages in found.items()}
