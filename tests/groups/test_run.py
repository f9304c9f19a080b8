"""`run`: a handler is called for each record, many at once, in order by key; commits stop before what is unfinished."""

import asyncio
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import monedula
import pytest
from monedula import TopicPartition
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import PATIENCE_SECONDS, SETTINGS, Ground, committed, take, until
from tests.groups.running import Runner

FACES = pytest.mark.parametrize("face", ["sync", "async"])


def settings_for(ground: Ground, protocol: str, group: str, **more: Any) -> dict[str, Any]:
    """Settings of a member under a protocol."""
    settings = ground.settings(group, group_protocol=protocol, auto_commit_interval_ms=50, **more)
    if protocol == "consumer":
        del settings["heartbeat.interval.ms"]
    return settings


def keyed(ground: Ground, topic: str, keys: int, records: int, partition: int = 0) -> None:
    """Append records whose keys come in turn."""
    with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
        for number in range(records):
            producer.send(topic, str(number), key=f"key {number % keys}", partition=partition)


class Calls:
    """Notes which records are handled, and which at the same time."""

    def __init__(self, lane: Callable[[monedula.Record], object]) -> None:
        self.offsets: dict[object, list[int]] = defaultdict(list)
        self.overlaps: list[object] = []
        self._lane = lane
        self._running: set[object] = set()
        self._lock = threading.Lock()

    def __call__(self, record: monedula.Record) -> None:
        lane = self._lane(record)
        with self._lock:
            if lane in self._running:
                self.overlaps.append(lane)
            self._running.add(lane)
            self.offsets[lane].append(record.offset or 0)
        time.sleep(0.0005)
        with self._lock:
            self._running.discard(lane)

    @property
    def count(self) -> int:
        return sum(map(len, self.offsets.values()))


@FACES
@pytest.mark.both_protocols
@pytest.mark.parametrize("order", ["key", "partition"])
def test_records_of_one_key_or_partition_come_one_after_the_other(
    ground: Ground, protocol: str, face: str, order: str
) -> None:
    topic = ground.topic(2)
    for partition in range(2):
        keyed(ground, topic, 7, 200, partition)
    calls = Calls(lambda record: (record.partition, record.key if order == "key" else None))
    settings = settings_for(ground, protocol, ground.name("group"))
    runner = Runner(face, settings, topic, calls, concurrency=16, order=order, until="latest")
    runner.join()
    assert calls.overlaps == []
    assert all(offsets == sorted(set(offsets)) for offsets in calls.offsets.values())
    assert calls.count == 400
    assert runner.committed == {TopicPartition(topic, 0): 200, TopicPartition(topic, 1): 200}
    assert runner.metrics["run_handled"] == 400


@FACES
@pytest.mark.parametrize("order", ["key", "partition", "none"])
def test_all_others_are_handled_side_by_side(ground: Ground, face: str, order: str) -> None:
    topic = ground.topic(4)
    for partition in range(4):
        keyed(ground, topic, 1, 2, partition)
    # Four handlers have to be called before the first of them goes on.
    together = threading.Barrier(4)
    runner = Runner(
        face,
        ground.settings(ground.name("group")),
        topic,
        lambda _: together.wait(PATIENCE_SECONDS),
        concurrency=4,
        order=order,
        until="latest",
    )
    runner.join()
    assert runner.metrics["run_handled"] == 8


@FACES
def test_records_without_a_key_wait_for_nobody(ground: Ground, face: str) -> None:
    topic, together = ground.topic(), threading.Barrier(8)
    ground.append(topic, range(8))
    settings = ground.settings(ground.name("group"))
    Runner(face, settings, topic, lambda _: together.wait(PATIENCE_SECONDS), concurrency=8, until="latest").join()


@FACES
def test_a_slow_key_holds_up_its_offset_only_and_the_member_stays(ground: Ground, face: str) -> None:
    topic, group = ground.topic(), ground.name("group")
    keyed(ground, topic, 5, 500)
    go_on, others = threading.Event(), threading.Event()
    count, lock = [0], threading.Lock()

    def handle(record: monedula.Record) -> None:
        if record.offset == 101:
            assert go_on.wait(PATIENCE_SECONDS)
        with lock:
            count[0] += 1
            if count[0] == 500 - 80:  # 80 of the same key wait behind it, itself included
                others.set()

    # Longer than the member may go without a poll.
    settings = settings_for(ground, "classic", group, max_poll_interval_ms=1500, session_timeout_ms=1500)
    runner = Runner(face, settings, topic, handle, concurrency=4, until="latest")
    assert others.wait(PATIENCE_SECONDS)
    until(lambda: runner.metric("run_oldest_seconds") > 3)
    assert runner.metric("group_partitions_lost") == 0
    with monedula.Consumer(ground.settings(group)) as watching:
        until(lambda: committed(watching, topic) == [101])
        go_on.set()
        runner.join()
        assert committed(watching, topic) == [500]


@FACES
@pytest.mark.parametrize("limit", ["max_queued_records", "max_queued_bytes"])
def test_no_more_is_taken_than_may_wait(ground: Ground, face: str, limit: str) -> None:
    topic, go_on = ground.topic(), threading.Event()
    limits: dict[str, Any] = {limit: 200 if limit == "max_queued_records" else 20_000}
    keyed(ground, topic, 100, 5000)
    runner = Runner(
        face,
        ground.settings(ground.name("group")),
        topic,
        lambda _: go_on.wait(PATIENCE_SECONDS),
        concurrency=2,
        until="latest",
        **limits,
    )
    until(lambda: runner.metric("run_in_flight") == 2)
    taken = runner.metric("records_delivered")
    beats = runner.metric("group_heartbeat_count")
    until(lambda: runner.metric("group_heartbeat_count") > beats + 2)
    waiting = runner.metric("run_waiting") + runner.metric("run_in_flight")
    assert 0 < waiting == runner.metric("records_delivered") <= 2 * max(taken, 100)
    assert waiting <= 1000
    go_on.set()
    runner.join()
    assert runner.metrics["run_handled"] == 5000


@FACES
@pytest.mark.parametrize("order", ["key", "partition", "none"])
def test_lists_have_what_may_be_handled_in_order(ground: Ground, face: str, order: str) -> None:
    topic = ground.topic(2)
    for partition in range(2):
        keyed(ground, topic, 3, 300, partition)
    seen: list[list[tuple[int, bytes | None, int]]] = []

    def handle(records: list[monedula.Record]) -> None:
        seen.append([(record.partition or 0, record.key, record.offset or 0) for record in records])

    settings = ground.settings(ground.name("group"))
    Runner(face, settings, topic, handle, order=order, batch_size=20, concurrency=4, until="latest").join()
    assert max(map(len, seen)) > 1
    assert max(map(len, seen)) <= 20
    assert len({record for records in seen for record in records}) == 600 == sum(map(len, seen))
    for records in seen:
        assert records == sorted(records, key=lambda record: record[2])
        assert len({record[0] for record in records}) == 1
        if order == "key":
            assert len({record[1] for record in records}) == 1


@FACES
def test_a_retry_holds_up_its_key_and_no_other(ground: Ground, face: str) -> None:
    topic, lock = ground.topic(), threading.Lock()
    keyed(ground, topic, 2, 20)
    calls: list[int] = []
    others = threading.Event()

    def handle(record: monedula.Record) -> None:
        with lock:
            calls.append(record.offset or 0)
            if len([offset for offset in calls if offset % 2]) == 10:
                others.set()
        if record.offset == 4 and calls.count(4) < 4:
            if calls.count(4) == 3:
                assert others.wait(PATIENCE_SECONDS), "the other key goes on meanwhile"
            raise TimeoutError("not yet")

    retry = monedula.Retry(3, backoff=0.01, on=TimeoutError)
    runner = Runner(face, ground.settings(ground.name("group")), topic, handle, retries=retry, until="latest")
    runner.join()
    assert [offset for offset in calls if not offset % 2] == [0, 2, 4, 4, 4, 4, *range(6, 20, 2)]
    assert runner.metrics["run_retries"] == 3
    assert runner.committed == {TopicPartition(topic, 0): 20}


@FACES
def test_what_a_handler_raises_ends_the_run_and_the_rest_is_read_again(ground: Ground, face: str) -> None:
    topic, group = ground.topic(), ground.name("group")
    keyed(ground, topic, 5, 50)

    def handle(record: monedula.Record) -> None:
        if record.offset == 12:
            raise LookupError("no such customer")

    runner = Runner(face, ground.settings(group), topic, handle, concurrency=2, retries=monedula.Retry(2, backoff=0))
    with pytest.raises(LookupError, match="no such customer") as raised:
        runner.join()
    assert raised.value.__notes__[0] == f"monedula: raised while handling {topic}-0 at offset 12, after 3 attempts"
    with monedula.Consumer(ground.settings(group), topics=topic) as consumer:
        assert committed(consumer, topic) == [12]
        assert take(consumer, 38) == list(range(12, 50))


@FACES
@pytest.mark.parametrize("order", ["key", "partition"])
def test_nothing_of_the_same_key_or_partition_is_begun_after_a_failure(ground: Ground, face: str, order: str) -> None:
    topic = ground.topic()
    keyed(ground, topic, 1, 300)
    handled: list[int | None] = []

    def handle(record: monedula.Record) -> None:
        handled.append(record.offset)
        if record.offset == 1:
            raise LookupError("no such customer")

    runner = Runner(face, ground.settings(ground.name("group")), topic, handle, concurrency=8, order=order)
    with pytest.raises(LookupError):
        runner.join()
    assert handled == [0, 1]


@FACES
def test_the_end_waits_for_one_more_attempt_only(ground: Ground, face: str) -> None:
    topic, group = ground.topic(), ground.name("group")
    keyed(ground, topic, 1, 3)
    handled: list[int | None] = []

    def handle(record: monedula.Record) -> None:
        handled.append(record.offset)
        if record.offset == 1:
            raise TimeoutError("not yet")

    retry = monedula.Retry(None, backoff=1000.0, max_backoff=1000.0)
    runner = Runner(face, ground.settings(group), topic, handle, retries=retry, grace=1000.0)
    until(lambda: runner.metric("run_retries") == 1)
    runner.wakeup()
    runner.join()
    assert handled == [0, 1, 1], "the record behind it, of the same key, is not handled before it"
    assert runner.committed == {TopicPartition(topic, 0): 1}


def test_a_handler_whose_own_task_is_cancelled_has_failed(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))

    async def handle(_: monedula.Record) -> None:
        cancelled = asyncio.create_task(asyncio.sleep(PATIENCE_SECONDS))
        cancelled.cancel()
        await cancelled

    async def main() -> None:
        async with monedula.AsyncConsumer(ground.settings(ground.name("group")), topics=topic) as consumer:
            with pytest.raises(RuntimeError, match="the handler waited for was cancelled"):
                await consumer.run(handle)

    asyncio.run(main())


def test_a_consumer_reads_on_after_a_run_that_failed(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    keyed(ground, topic, 5, 50)
    consumer = member(ground.name("group"), topic)

    def handle(record: monedula.Record) -> None:
        if record.offset == 12:
            raise LookupError

    with pytest.raises(LookupError):
        consumer.run(handle)
    assert committed(consumer, topic) == [12]
    assert take(consumer, 38) == list(range(12, 50))
    handled: list[int | None] = []
    ground.append(topic, [1])
    consumer.run(lambda record: handled.append(record.offset), until="latest")
    assert handled == [50]
    assert consumer.metrics()["run_handled"] >= 13, "counted over all runs"


@FACES
def test_a_dead_letter_is_the_record_with_its_cause(ground: Ground, face: str) -> None:
    topic, letters, group = ground.topic(2), ground.topic(), ground.name("group")
    bad = [("trace", b"\x00\xff"), ("trace", b"2"), ("none", None)]
    with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
        producer.send(topic, b"good", key=b"k", partition=1)
        producer.send(topic, b"\xfe bad", key=b"\xfd", headers=bad, timestamp=1_700_000_000_123, partition=1)
        producer.send(topic, None, key=b"\xfd", partition=1)

    def handle(record: monedula.Record) -> None:
        if record.value != b"good":
            raise ValueError("kein Bär")

    runner = Runner(
        face,
        ground.settings(group),
        topic,
        handle,
        retries=monedula.Retry(2, backoff=0),
        dead_letter=letters,
        until="latest",
        consumer={"headers": True},
    )
    runner.join()
    assert runner.committed[TopicPartition(topic, 1)] == 3
    assert (runner.metrics["run_dead_letters"], runner.metrics["run_handled"]) == (2, 1)
    with monedula.read({"bootstrap.servers": ground.bootstrap}, letters, headers=True) as stream:
        first, second = [record for batch in stream for record in batch.records()]
    assert (first.key, first.value, first.timestamp) == (b"\xfd", b"\xfe bad", 1_700_000_000_123)
    assert (first.headers or [])[:3] == bad
    assert dict((first.headers or [])[3:]) == {
        "__dlq.errors.topic": topic.encode(),
        "__dlq.errors.partition": b"1",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": group.encode(),
        "__dlq.errors.delivery.count": b"3",
        "__dlq.errors.message": "ValueError: kein Bär".encode(),
        "__dlq.errors.exception": b"ValueError",
    }
    assert (second.key, second.value) == (b"\xfd", None)


@FACES
def test_an_offset_waits_for_its_dead_letter(face: str) -> None:
    with Broker(topics={"orders": 1, "failed": 1}, settings=SETTINGS) as broker:
        broker.append("orders", ["good", "bad", "good"])
        held = broker.fault(api="Produce", topic="failed", hold=True)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}
        settings["auto.commit.interval.ms"] = 50  # type: ignore[assignment]

        def handle(record: monedula.Record) -> None:
            if record.value == b"bad":
                raise ValueError

        arguments: dict[str, Any] = {"dead_letter": "failed", "until": "latest", "consumer": {"headers": True}}
        runner = Runner(face, settings, "orders", handle, **arguments)
        with monedula.Consumer(settings) as watching:
            until(lambda: committed(watching, "orders") == [1])
            until(lambda: runner.metric("run_handled") == 2)
            assert committed(watching, "orders") == [1]
            held.remove()
            runner.join()
            assert committed(watching, "orders") == [3]


@FACES
def test_a_dead_letter_that_cannot_be_written_ends_the_run(ground: Ground, face: str) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(5))

    def handle(record: monedula.Record) -> None:
        if record.offset == 2:
            raise ValueError

    nowhere = ground.name("nowhere")
    runner = Runner(face, ground.settings(group), topic, handle, dead_letter=nowhere, consumer={"headers": True})
    with pytest.raises(monedula.KafkaError) as raised:
        runner.join()
    assert f"{topic}-0 at offset 2" in raised.value.__notes__[0]
    with monedula.Consumer(ground.settings(group)) as watching:
        assert committed(watching, topic) == [2]


@FACES
def test_dead_letters_are_written_with_the_login_of_the_consumer(face: str, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(security="SASL_SSL", users={"anna": "secret"}, topics={"orders": 1, "failed": 1}) as broker:
        broker.append("orders", ["bad"])
        settings = {**broker.client_settings("anna"), "group.id": "etl", "auto.offset.reset": "earliest"}

        def handle(_: monedula.Record) -> None:
            raise ValueError

        arguments: dict[str, Any] = {"dead_letter": "failed", "until": "latest", "consumer": {"headers": True}}
        runner = Runner(face, settings, "orders", handle, **arguments)
        runner.join()
        assert "secret" not in repr(vars(runner.consumer))
        assert runner.committed == {TopicPartition("orders", 0): 1}
    assert "group.id" not in caplog.text, "the producer is given settings that it knows"


@FACES
def test_on_error_decides(ground: Ground, face: str) -> None:
    topic, letters = ground.topic(), ground.topic()
    ground.append(topic, ["skip", "dead_letter", "retry", "None", "good"])
    asked: list[tuple[str, int]] = []

    def handle(record: monedula.Record) -> None:
        if record.value != b"good":
            raise ValueError

    def on_error(record: monedula.Record, error: Exception, attempts: int) -> str | None:
        assert isinstance(error, ValueError)
        said = (record.value or b"").decode()
        asked.append((said, attempts))
        return ("retry" if attempts < 3 else "skip") if said == "retry" else None if said == "None" else said

    runner = Runner(
        face,
        ground.settings(ground.name("group")),
        topic,
        handle,
        on_error=on_error,
        retries=monedula.Retry(1, backoff=0),
        dead_letter=letters,
        until="latest",
        consumer={"headers": True},
    )
    runner.join()
    counted = {name: runner.metrics[f"run_{name}"] for name in ("skipped", "dead_letters", "retries", "handled")}
    assert counted == {"skipped": 2, "dead_letters": 2, "retries": 3, "handled": 1}
    assert sorted(asked) == sorted(
        [("skip", 1), ("dead_letter", 1), ("retry", 1), ("retry", 2), ("retry", 3), ("None", 1), ("None", 2)]
    )


@pytest.mark.parametrize("said", ["ignore", "dead_letter", 7])
def test_another_verdict_is_refused(ground: Ground, member: MemberFactory, said: object) -> None:
    topic = ground.topic()
    ground.append(topic, [1])

    def handle(_: monedula.Record) -> None:
        raise ValueError

    with pytest.raises(monedula.ArgumentError, match="on_error returned"):
        member(ground.name("group"), topic).run(handle, on_error=lambda *_: said)


@FACES
@pytest.mark.both_protocols
def test_a_rebalance_waits_for_what_was_begun_and_repeats_nothing(ground: Ground, protocol: str, face: str) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        keyed(ground, topic, 50, 3000, partition)
    settings = settings_for(ground, protocol, group)
    seen: list[tuple[int, int]] = []
    go_on, busy = threading.Event(), threading.Event()

    def slow(record: monedula.Record) -> None:
        seen.append((record.partition or 0, record.offset or 0))
        if len(seen) > 400 and not go_on.is_set():
            busy.set()
            assert go_on.wait(PATIENCE_SECONDS)

    def quick(record: monedula.Record) -> None:
        seen.append((record.partition or 0, record.offset or 0))

    first = Runner(face, settings, topic, slow, concurrency=8, until="latest")
    assert busy.wait(PATIENCE_SECONDS)
    second = Runner(face, settings, topic, quick, concurrency=8)
    giving, taking = first.consumer, second.consumer
    assert giving is not None
    assert taking is not None
    # All handlers may be busy with the partition that stays; the other one is released at once then.
    until(lambda: bool(giving.rebalance_wanted or taking.assignment()))
    go_on.set()
    first.join()
    until(lambda: len(seen) >= 6000)
    second.wakeup()
    second.join()
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(3000)]
    with monedula.Consumer(ground.settings(group)) as watching:
        assert committed(watching, topic, [0, 1]) == [3000, 3000]


@FACES
def test_a_rebalance_waits_no_longer_than_its_grace(
    ground: Ground, face: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(5))
    settings = settings_for(ground, "classic", group)
    go_on, begun = threading.Event(), threading.Event()

    def hang(record: monedula.Record) -> None:
        if record.offset == 3:
            begun.set()
            assert go_on.wait(PATIENCE_SECONDS)

    first = Runner(face, settings, topic, hang, grace=0.2)
    assert begun.wait(PATIENCE_SECONDS)
    with monedula.Consumer(settings) as second:
        first_consumer = first.consumer
        assert first_consumer is not None
        second.subscribe(topic)
        first_consumer.subscribe([ground.topic()])  # gives the partition up
        assert take(second, 2) == [3, 4]
    assert "stay uncommitted, and are handled again" in caplog.text
    assert first.metric("run_abandoned") == 1
    go_on.set()
    first.wakeup()
    first.join()


@FACES
def test_waiting_records_of_a_lost_partition_are_not_begun(face: str) -> None:
    with Broker(topics={"orders": 1}, settings=SETTINGS) as broker:
        broker.append("orders", [("one key", str(number)) for number in range(100)])
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}
        settings |= {"heartbeat.interval.ms": 100, "session.timeout.ms": 6000}  # type: ignore[dict-item]
        seen: list[int] = []
        go_on, begun = threading.Event(), threading.Event()

        def handle(record: monedula.Record) -> None:
            seen.append(record.offset or 0)
            if len(seen) == 10:
                begun.set()
                assert go_on.wait(PATIENCE_SECONDS)

        runner = Runner(face, settings, "orders", handle, until="latest")
        assert begun.wait(PATIENCE_SECONDS)
        broker.fault(api="Heartbeat", error="UNKNOWN_MEMBER_ID", count=1)
        until(lambda: runner.metric("group_partitions_lost") == 1)
        until(lambda: runner.metric("group_partitions_gained") == 2)
        go_on.set()
        runner.join()
        # The next assignment begins at the committed offset; the records that waited came from the one before.
        again = seen[10:]
        assert again == list(range(again[0], 100))
        assert again[0] <= 10
        assert runner.committed == {TopicPartition("orders", 0): 100}


@FACES
def test_the_end_waits_no_longer_than_its_grace(ground: Ground, face: str, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(5))
    go_on, begun = threading.Event(), threading.Event()

    def hang(record: monedula.Record) -> None:
        if record.offset == 3:
            begun.set()
            assert go_on.wait(PATIENCE_SECONDS)

    runner = Runner(face, ground.settings(group), topic, hang, grace=0.1)
    assert begun.wait(PATIENCE_SECONDS)
    until(lambda: runner.metric("run_handled") == 4)
    runner.wakeup()
    until(lambda: "handlers still run after 0.1 s" in caplog.text)
    go_on.set()
    runner.join()
    assert runner.committed == {TopicPartition(topic, 0): 3}


def test_cancelling_a_run_cancels_its_handlers_and_commits_what_is_finished(ground: Ground) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))

    async def main() -> None:
        begun, cancelled = asyncio.Event(), list[int]()

        async def handle(record: monedula.Record) -> None:
            if record.offset == 6:
                begun.set()
                try:
                    await asyncio.sleep(PATIENCE_SECONDS)
                except asyncio.CancelledError:
                    cancelled.append(6)
                    raise

        async with monedula.AsyncConsumer(ground.settings(group), topics=topic) as consumer:
            run = asyncio.create_task(consumer.run(handle, concurrency=2))
            await begun.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert cancelled == [6]
            found = await consumer.committed()
            assert [at.offset for at in found.values() if at is not None] == [6]
            batch = await consumer.poll(timeout=20)
            assert [record.offset for record in batch.records()] == [6, 7, 8, 9]

    asyncio.run(main())


def test_closing_a_consumer_ends_its_run(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    keyed(ground, topic, 5, 50)
    consumer, begun = member(ground.name("group"), topic), threading.Event()

    def close() -> None:
        assert begun.wait(PATIENCE_SECONDS)
        consumer.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(monedula.ClosedError):
        consumer.run(lambda _: begun.set(), concurrency=2)
    closer.join()


def test_a_handler_that_ends_the_program_ends_the_run(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    ground.append(topic, range(5))

    def handle(_: monedula.Record) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        member(ground.name("group"), topic).run(handle, retries=5)


def test_callbacks_run_in_the_thread_that_runs(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    ground.append(topic, range(5))
    consumer, threads = member(ground.name("group")), list[int]()
    consumer.subscribe(topic, on_assigned=lambda _: threads.append(threading.get_ident()))
    consumer.run(lambda _: None, until="latest")
    assert threads == [threading.get_ident()]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"concurrency": 0}, "concurrency=0"),
        ({"order": "keys"}, "order='keys'"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"retries": -1}, "retries=-1"),
        ({"retries": "three"}, "retries='three'"),
        ({"retries": 1.5}, "retries=1.5"),
        ({"dead_letter": "failed"}, "headers=True"),
        ({"dead_letter": "no topic"}, "no topic's name"),
        ({"producer": object()}, "dead_letter="),
        ({"on_error": "skip"}, "on_error='skip'"),
        ({"max_queued_records": 0}, "max_queued_records=0"),
        ({"grace": "long"}, "grace='long'"),
        ({"until": "later"}, "until='later'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    broker: Broker, member: MemberFactory, arguments: dict[str, Any], problem: str
) -> None:
    broker.create_topic("orders")
    with pytest.raises(monedula.ArgumentError) as refused:
        member("etl", "orders").run(print, **arguments)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"retries": -1},
        {"backoff": -0.5},
        {"backoff": "1s"},
        {"backoff": math.nan},
        {"factor": 0.5},
        {"max_backoff": -1},
        {"jitter": 1.5},
        {"on": "TimeoutError"},
        {"on": ("TimeoutError",)},
        {"on": KeyboardInterrupt},
        {"on": ()},
    ],
)
def test_a_retry_that_makes_no_sense_is_refused_when_it_is_made(arguments: dict[str, Any]) -> None:
    ((name, value),) = arguments.items()
    with pytest.raises(monedula.ArgumentError) as refused:
        monedula.Retry(**arguments)
    assert f"{name}={value!r}" in str(refused.value)


def test_consumers_that_cannot_run_are_refused(broker: Broker, member: MemberFactory) -> None:
    broker.create_topic("orders")
    by_hand = member("etl")
    by_hand.assign("orders")
    for consumer in (member(None), member("nothing"), by_hand):
        with pytest.raises(monedula.ArgumentError, match=r"group\.id"):
            consumer.run(print)
    with pytest.raises(monedula.ArgumentError, match=r"enable\.auto\.commit"):
        member("by-hand", "orders", enable_auto_commit=False).run(print)
    with pytest.raises(monedula.ArgumentError, match="column key"):
        member("columns", "orders", columns=["value"]).run(print)

    async def handle(record: monedula.Record) -> None:
        pass

    with pytest.raises(monedula.ArgumentError, match="coroutine"):
        member("awaited", "orders").run(handle)
    running = member("running", "orders")
    refused: list[str] = []

    def again(_: monedula.Record) -> None:
        try:
            running.run(print)
        except monedula.ArgumentError as error:
            refused.append(str(error))

    broker.append("orders", ["1"])
    running.run(again, until="latest")
    assert "under way" in refused[0]
