"""A member of a group in a process of its own: `python -m tests.groups.behaviour.member '{"group": ...}'`.

It prints an event a line, as `history.py` lists them, and takes commands, a line of JSON each, as the `Driver` of
`tests.interop.process` sends them.
"""

import json
import os
import queue
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.groups.behaviour.history import crc

CLOSE_SECONDS = 20.0
ERRORS_MAX = 200
"""Number of consecutive errors after which it stops; each comes from a call that would otherwise wait."""


@dataclass
class Options:
    """The options of a member.

    Attributes:
        bootstrap: `bootstrap.servers`.
        group: `group.id`.
        topics: the topics to subscribe to.
        client: the client that implements it.
        settings: by Kafka's names.
        commit: each batch by itself, synchronously or not; by the client's own commits; or not at all.
        max_rows: of a batch.
        slow_seconds: how long each batch takes.
        pipelined: batches are worked on and committed in a second thread, while the first reads on.
        sink: a topic that each record is written to, into the same partition, before the batch is committed.
    """

    bootstrap: str
    group: str
    topics: list[str]
    client: Literal["monedula", "confluent", "share"] = "monedula"
    settings: dict[str, Any] = field(default_factory=dict)
    commit: Literal["batch", "async", "auto", "none"] = "batch"
    max_rows: int = 100_000
    slow_seconds: float = 0.0
    pipelined: bool = False
    sink: str | None = None


class Log:
    """The output: events, and answers to commands."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def event(self, event: str, at: int | None = None, **fields: object) -> None:
        """Print an event of now, or of `at`."""
        self.line({"t": time.monotonic_ns() if at is None else at, "event": event, **fields})

    def line(self, line: dict[str, Any]) -> None:
        """Print a line."""
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            while data:
                data = data[os.write(1, data) :]


class Member(ABC):
    """The base of all kinds of members."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.log = Log()
        self.slow_seconds = options.slow_seconds
        self.is_closing = threading.Event()
        self._is_answered = threading.Event()
        self._batches = 0
        self._commits = 0
        self._errors = 0
        self._held = threading.Event()
        self._held.set()
        self._pipeline: queue.Queue[tuple[int, Any, list[list[Any]]]] = queue.Queue()
        self._sink = None if options.sink is None else Sink(options.bootstrap, options.sink)

    def main(self) -> None:
        """Read until the command to close."""
        threading.Thread(target=self._obey, daemon=True).start()
        threading.Thread(target=self._work_on, daemon=True).start()
        self.open()
        self.log.event("opened")
        while not self.is_closing.is_set() and self._errors < ERRORS_MAX:
            try:
                self.read()
                self._errors = 0
            except self.error_type as error:
                self._errors += 1
                self.log.event("error", error=type(error).__name__, message=str(error)[:500])
        self.log.event("closing")
        self.close()
        self.log.event("closed")
        if self.is_closing.is_set():
            # The end of the process would be before the answer to the command.
            self._is_answered.wait()

    error_type: type[Exception]

    @abstractmethod
    def open(self) -> None:
        """Make the consumer and subscribe."""

    @abstractmethod
    def read(self) -> None:
        """Read batches until the command to close; may return earlier."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group in order."""

    @abstractmethod
    def wake(self) -> None:
        """End `read`, from another thread."""

    @abstractmethod
    def commit(self, batch: Any, offsets: list[list[Any]]) -> None:
        """Commit a batch as `options.commit` says."""

    def command_status(self) -> dict[str, Any]:
        """How it is."""
        return {}

    def work(
        self, batch: Any, parts: list[list[Any]], values: Iterable[tuple[int, bytes]], at: int, **facts: object
    ) -> None:
        """Log a batch, work on it, commit it."""
        self._batches += 1
        number = self._batches
        self.log.event("batch", at, n=number, parts=parts, **facts)
        if self._sink is not None:
            self._sink.write(values)
        if self.options.pipelined:
            self._pipeline.put((number, batch, parts))
        else:
            self.finish(number, batch, parts)

    def finish(self, number: int, batch: Any, parts: list[list[Any]]) -> None:
        """Take the time that a batch takes, then commit it."""
        if not self._held.is_set():
            self.log.event("held", n=number)
            self._held.wait()
        if self.slow_seconds:
            time.sleep(self.slow_seconds)
        self.log.event("finished", n=number)
        if self.options.commit in ("batch", "async"):
            self.commit(batch, [[topic, partition, last + 1] for topic, partition, _, last, _, _ in parts])

    def drain(self) -> None:
        """Wait until all batches that were read are finished and committed."""
        self._pipeline.join()

    def _work_on(self) -> None:
        while True:
            self.finish(*self._pipeline.get())
            self._pipeline.task_done()

    def next_commit(self, offsets: list[list[Any]]) -> int:
        """Log that a commit is invoked; returns its number."""
        self._commits += 1
        self.log.event("commit", c=self._commits, offsets=offsets)
        return self._commits

    def _obey(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            number, name = command.pop("id"), command.pop("command")
            try:
                self.log.line({"id": number, "ok": getattr(self, f"command_{name}")(**command)})
            except Exception as error:
                self.log.line({"id": number, "error": type(error).__name__, "message": str(error)})
            if name == "close":
                self._is_answered.set()
        # The parent process has ended.
        os._exit(2)

    def command_close(self) -> None:
        """Leave in order."""
        self.is_closing.set()
        self._held.set()
        self.wake()

    def command_quit(self) -> None:
        """End without a word."""
        os._exit(0)

    def command_slow(self, seconds: float) -> None:
        """Take this long for each batch from now on."""
        self.slow_seconds = seconds

    def command_hold(self) -> None:
        """Stay with the next batch, or the one in work, until `release`."""
        self._held.clear()

    def command_release(self) -> None:
        """Go on."""
        self._held.set()

    def command_memory(self) -> dict[str, int]:
        """Memory, threads and file descriptors of the process."""
        with Path("/proc/self/status").open() as status:
            fields = dict(line.split(":", 1) for line in status)
        return {
            "rss_bytes": int(fields["VmRSS"].split()[0]) * 1024,
            "peak_bytes": int(fields["VmHWM"].split()[0]) * 1024,
            "threads": int(fields["Threads"]),
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        }


class Ours(Member):
    """monedula's consumer."""

    def open(self) -> None:
        import monedula
        from monedula import events

        self.error_type = monedula.KafkaError

        def on_event(event: Any) -> None:
            if isinstance(event, events.Joined):
                self.log.event("generation", generation=event.generation, leader=event.leader, assignor=event.assignor)
            elif isinstance(event, events.Retried):
                self.log.event("retried", api=event.api, reason=event.reason)
            elif isinstance(event, events.StateChanged):
                self.log.event("state", before=event.before, after=event.after)
            elif isinstance(event, events.Reserved | events.Released):
                self.log.event(type(event).__name__, partitions=sorted([*each] for each in event.partitions))
            elif isinstance(event, events.RebalanceStarted | events.CoordinatorLost | events.Left):
                self.log.event(type(event).__name__, reason=event.reason)
            elif isinstance(event, events.LeaseExpired | events.LeaseRenewed):
                self.log.event(type(event).__name__)

        settings = {
            "bootstrap.servers": self.options.bootstrap,
            "group.id": self.options.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": self.options.commit == "auto",
            **self.options.settings,
        }
        self.consumer = monedula.Consumer(
            settings, columns=["topic", "partition", "offset", "value"], on_event=on_event
        )
        self.consumer.subscribe(
            self.options.topics,
            on_assigned=lambda partitions: self._moved("assigned", partitions),
            on_revoked=self._on_revoked,
            on_lost=lambda partitions: self._moved("lost", partitions),
        )

    def read(self) -> None:
        for batch in self.consumer.batches(max_rows=self.options.max_rows, max_wait=0.02):
            at = time.monotonic_ns()
            parts, values = _parts(batch)
            self.work(batch, parts, values, at)
            if self.is_closing.is_set():
                return

    def commit(self, batch: Any, offsets: list[list[Any]]) -> None:
        number = self.next_commit(offsets)
        # The reading thread has polled since, which finishes this batch and later ones.
        what = batch.offsets if self.options.pipelined else batch
        if self.options.commit == "async":
            future = self.consumer.commit_async(what)
            future.add_done_callback(lambda done: self._committed(number, offsets, done.result))
        else:
            self._committed(number, offsets, lambda: self.consumer.commit(what))

    def close(self) -> None:
        if self.options.commit == "auto":
            # The batch is finished, but no further poll says so.
            self._try("commit", self.consumer.commit)
        self._try("close", lambda: self.consumer.close(timeout=CLOSE_SECONDS))

    def wake(self) -> None:
        self.consumer.wakeup()

    def command_status(self) -> dict[str, Any]:
        health = self.consumer.health()
        return {
            "metrics": self.consumer.metrics(),
            "group": json.loads(json.dumps(health.get("group"), default=str)),
            "assignment": [list(partition) for partition in self.consumer.assignment()],
            "subscription": sorted(self.consumer.subscription()),
        }

    def command_rebalance(self) -> None:
        """Have the group assign anew."""
        self.consumer.enforce_rebalance("the test wants it")

    def command_pause(self, partitions: list[list[Any]]) -> None:
        """Pause partitions."""
        self.consumer.pause(*[(topic, partition) for topic, partition in partitions])

    def command_resume(self, partitions: list[list[Any]]) -> None:
        """Resume partitions."""
        self.consumer.resume(*[(topic, partition) for topic, partition in partitions])

    def _committed(self, number: int, offsets: list[list[Any]], result: Any) -> None:
        import monedula

        try:
            done = result()
        except monedula.KafkaError as error:
            fine = getattr(error, "committed", {})
            failed = [each for each in offsets if (each[0], each[1]) not in fine]
            if fine:
                self.log.event("committed", c=number, offsets=[[*partition, at] for partition, at in fine.items()])
            self.log.event(
                "commit_failed", c=number, offsets=failed, error=type(error).__name__, message=str(error)[:300]
            )
        else:
            self.log.event("committed", c=number, offsets=[[*partition, offset] for partition, offset in done.items()])

    def _on_revoked(self, partitions: Iterable[tuple[str, int]]) -> None:
        self.drain()
        self._moved("revoked", partitions)

    def _moved(self, event: str, partitions: Iterable[tuple[str, int]]) -> None:
        self.log.event(event, partitions=sorted([*partition] for partition in partitions))

    def _try(self, what: str, call: Any) -> None:
        try:
            call()
        except self.error_type as error:
            self.log.event("error", error=type(error).__name__, message=f"{what}: {error}"[:500])


class Confluent(Member):
    """librdkafka's consumer, to have the suite itself judged, and for groups of different clients."""

    def open(self) -> None:
        from confluent_kafka import Consumer, KafkaException

        self.error_type = KafkaException
        settings = dict(self.options.settings)
        if settings.get("group.protocol") == "consumer":
            # A setting of the brokers there; ours has it as the consumer's own, for its lease.
            del settings["session.timeout.ms"]
        self.consumer = Consumer(
            {
                "bootstrap.servers": self.options.bootstrap,
                "group.id": self.options.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": self.options.commit == "auto",
                "topic.metadata.refresh.interval.ms": 500,
                "fetch.wait.max.ms": 100,
                **settings,
            }
        )
        self.consumer.subscribe(
            self.options.topics,
            on_assign=lambda _, partitions: self._moved("assigned", partitions),
            on_revoke=lambda _, partitions: self._moved("revoked", partitions),
            on_lost=lambda _, partitions: self._moved("lost", partitions),
        )

    def read(self) -> None:
        messages = [m for m in self.consumer.consume(self.options.max_rows % 1000 or 1000, 0.05) if m.error() is None]
        if not messages:
            return
        at = time.monotonic_ns()
        found: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        for message in messages:
            found.setdefault((message.topic(), message.partition()), []).append((message.offset(), message.value()))
        parts = [_part(*partition, records) for partition, records in found.items()]
        values = [(message.partition(), message.value()) for message in messages]
        self.work(None, parts, values, at)

    def commit(self, batch: Any, offsets: list[list[Any]]) -> None:  # noqa: ARG002
        from confluent_kafka import TopicPartition

        number = self.next_commit(offsets)
        try:
            self.consumer.commit(offsets=[TopicPartition(*each) for each in offsets], asynchronous=False)
        except self.error_type as error:
            self.log.event(
                "commit_failed", c=number, offsets=offsets, error=type(error).__name__, message=str(error)[:300]
            )
        else:
            self.log.event("committed", c=number, offsets=offsets)

    def close(self) -> None:
        self.consumer.close()

    def wake(self) -> None:
        """Nothing to do: `read` returns soon."""

    def _moved(self, event: str, partitions: Any) -> None:
        self.log.event(event, partitions=sorted([each.topic, each.partition] for each in partitions))


class Sharing(Member):
    """monedula's consumer of share groups. A record's value says what becomes of it, as for `Share.java`."""

    def open(self) -> None:
        import monedula
        from monedula import events

        self.error_type = monedula.KafkaError
        self._decisions: dict[str, list[int]] = {}

        def on_event(event: Any) -> None:
            if isinstance(event, events.Joined):
                self.log.event("generation", generation=event.generation)

        names = {"bootstrap.servers": self.options.bootstrap, "group.id": self.options.group}
        self.consumer = monedula.ShareConsumer(
            {**names, **self.options.settings},
            self.options.topics,
            columns=["topic", "partition", "offset", "value", "deliveryCount"],
            on_event=on_event,
        )

    def read(self) -> None:
        for batch in self.consumer.batches(max_rows=self.options.max_rows):
            at = time.monotonic_ns()
            parts, values = _parts(batch)
            rows, self._decisions = [], {}
            for number, record in enumerate(batch.records()):
                value, deliveries = record.value or b"", record.delivery_count or 0
                decision = _decision(value, deliveries)
                self._decisions.setdefault(decision, []).append(number)
                rows.append([record.topic, record.partition, record.offset, deliveries, decision, crc([value])])
            self.work(batch, parts, values, at, rows=rows, deadline=int((batch.deadline or 0.0) * 1e9))
            if self.is_closing.is_set():
                return

    def commit(self, batch: Any, offsets: list[list[Any]]) -> None:
        import monedula

        partitions = [(topic, partition) for topic, partition, _ in offsets]
        outcomes = dict.fromkeys(partitions, "done")
        for decision, rows in self._decisions.items():
            getattr(self.consumer, decision)(batch, rows)
        try:
            self.consumer.commit(batch)
        except monedula.errors.AcknowledgeError as error:
            for at, result in ((at, error.results[at]) for at in outcomes if at in error.results):
                # Without offsets, what was taken only in part is not known.
                is_known = not result.failed or (not result.rows and result.code != "UNKNOWN")
                outcomes[at] = ("failed" if result.failed else "done") if is_known else "unknown"
            reason = str(error)[:300]
        except monedula.KafkaError as error:
            outcomes, reason = dict.fromkeys(partitions, "unknown"), str(error)[:300]
        else:
            reason = ""
        told = [[*at, outcome] for at, outcome in outcomes.items()]
        self.log.event("acknowledged", n=self._batches, outcomes=told, reason=reason)

    def close(self) -> None:
        try:
            self.consumer.close(timeout=CLOSE_SECONDS)
        except self.error_type as error:
            self.log.event("error", error=type(error).__name__, message=f"close: {error}"[:500])

    def wake(self) -> None:
        self.consumer.wakeup()

    def command_status(self) -> dict[str, Any]:
        health: dict[str, Any] = json.loads(json.dumps(self.consumer.health(), default=str))
        return {"metrics": self.consumer.metrics(), "health": health}


def _decision(value: bytes, deliveries: int) -> str:
    if value.startswith(b"reject"):
        return "reject"
    return "release" if value.startswith(b"release") and deliveries == 1 else "accept"


class Sink:
    """Writes records on, each into the partition that it came from."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2}
        self._producer = Producer({**settings, "reconnect.backoff.max.ms": 500})
        self._failed: list[str] = []

    def write(self, values: Iterable[tuple[int, bytes]]) -> None:
        """Write, and wait until all of it is there.

        Raises:
            RuntimeError: it is not.
        """
        for partition, value in values:
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
        left = self._producer.flush(60.0)
        if left or self._failed:
            raise RuntimeError(f"{left} records are not written after 60 s; failed: {self._failed[:3]}")

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(str(error))


def _parts(batch: Any) -> tuple[list[list[Any]], list[tuple[int, bytes]]]:
    """The offsets of each partition in a batch, in the order of the batch; and all values with their partitions."""
    found: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    values = []
    for record in batch.records():
        found.setdefault((record.topic, record.partition), []).append((record.offset, record.value))
        values.append((record.partition, record.value))
    return [_part(*partition, records) for partition, records in found.items()], values


def _part(topic: str, partition: int, records: list[tuple[int, bytes]]) -> list[Any]:
    # Records out of order must show: the checksum is that of the order in which they came.
    checked = crc(value for _, value in records)
    return [topic, partition, records[0][0], records[-1][0], len(records), checked]


KINDS: dict[str, type[Member]] = {"monedula": Ours, "confluent": Confluent, "share": Sharing}


def main() -> None:
    """Be a member."""
    options = Options(**json.loads(sys.argv[1]))
    KINDS[options.client](options).main()


if __name__ == "__main__":
    main()
