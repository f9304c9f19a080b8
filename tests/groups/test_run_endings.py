"""`run` when a rebalance takes partitions, and at its end: what is begun is waited for, what is not is read again."""

import asyncio
import inspect
import threading
from typing import Any

import monedula
import pytest
from monedula import TopicPartition
from monedula.testing import Broker
from monedula.workers.plans import as_plan
from monedula.workers.runs import Ending, Run

from tests.groups.conftest import MemberFactory
from tests.groups.ground import PATIENCE_SECONDS, SETTINGS, Ground, committed, take, until
from tests.groups.running import FACES, Runner, keyed, settings_for


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
    until(lambda: "handlers still run at the end of run(), which waits for them for at most grace=0.1 s" in caplog.text)
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
    with pytest.raises(monedula.errors.ClosedError):
        consumer.run(lambda _: begun.set(), concurrency=2)
    closer.join()


@pytest.mark.both_protocols
def test_closing_a_consumer_in_a_handler_commits_what_other_handlers_have_finished(
    ground: Ground, protocol: str
) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(30))
    settings = settings_for(ground, protocol, group)
    settings["auto.commit.interval.ms"] = 100_000

    def handle(record: monedula.Record) -> None:
        if record.offset == 20:
            consumer.close()

    consumer = monedula.Consumer(settings, topic)
    with pytest.raises(monedula.errors.ClosedError):
        consumer.run(handle)
    with monedula.Consumer(ground.settings(group)) as watching:
        assert committed(watching, topic, [0]) == [20], "the record whose handler closed it is not finished"


@FACES
@pytest.mark.both_protocols
def test_leaving_the_group_in_a_handler_commits_what_other_handlers_have_finished(
    ground: Ground, protocol: str, face: str
) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(30))
    settings = settings_for(ground, protocol, group)
    settings["auto.commit.interval.ms"] = 100_000

    def handle(record: monedula.Record) -> None:
        if record.offset == 20:
            left = runner.consumer.unsubscribe() if runner.consumer is not None else None
            if inspect.iscoroutine(left):
                assert runner.loop is not None
                asyncio.run_coroutine_threadsafe(left, runner.loop).result(PATIENCE_SECONDS)

    runner = Runner(face, settings, topic, handle, order="partition")
    with pytest.raises(monedula.ArgumentError, match="nothing is assigned"):
        runner.join()
    with monedula.Consumer(ground.settings(group)) as watching:
        assert committed(watching, topic, [0]) == [20], "the record whose handler left is not finished"


def member_of(broker: Broker, **settings: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


@FACES
@pytest.mark.both_protocols
def test_a_topic_that_is_deleted_does_not_fail_the_end(broker: Broker, protocol: str, face: str) -> None:
    broker.create_topic("kept", 1)
    broker.create_topic("deleted", 2)
    broker.append("kept", ["a"])
    broker.append("deleted", ["a"], partition=1)
    settings = member_of(broker, group_protocol=protocol, auto_commit_interval_ms=100_000)
    runner = Runner(face, settings, ["kept", "deleted"], lambda _: None)
    until(lambda: runner.metric("run_handled") == 2)
    broker.delete_topic("deleted")
    runner.wakeup()
    runner.join()
    assert runner.committed[TopicPartition("kept", 0)] == 1


@FACES
def test_a_dead_letter_that_is_not_written_at_the_end_fails_nothing(broker: Broker, face: str) -> None:
    broker.create_topic("orders", 1)
    broker.create_topic("dead", 1)
    broker.append("orders", ["a"])
    produce = broker.fault(api="Produce", hold=True)

    def fail(_: monedula.Record) -> None:
        raise ValueError("bad")

    runner = Runner(face, member_of(broker), "orders", fail, consumer={"headers": True}, dead_letter="dead", grace=0.1)
    until(lambda: produce.hits > 0)
    runner.wakeup()
    runner.join()
    assert runner.error is None
    assert runner.committed[TopicPartition("orders", 0)] == 0, "it is read again"


def test_handlers_and_the_last_commit_share_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("monedula.workers.runs.monotonic", lambda: now)
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "etl"}
    signature = inspect.signature(monedula.Consumer.run).parameters.values()
    given = {each.name: each.default for each in signature if each.name not in ("self", "handler")}
    with monedula.Consumer(settings, topics=["orders"]) as consumer:
        run = Run(consumer._member, as_plan(handler=print, **{**given, "grace": 30.0}), None, None)
        woken, at_its_end = Ending(run, monedula.errors.WakeupError("woken up")), Ending(run, None)
        now = 112.0
        assert (woken.seconds_left(), at_its_end.seconds_left()) == (18.0, 30.0)
        now = 129.0
        assert Ending(run, KeyboardInterrupt()).seconds_left() == 5.0
        assert woken.seconds_left() == 5.0, "what is finished is committed, however long the handlers took"
