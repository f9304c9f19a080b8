"""`run` of share consumers: what becomes of records whose handler returns, raises, or takes long."""

import asyncio
import json
import logging
import threading
import time
from collections import Counter, defaultdict
from typing import Any

import monedula
import pytest
from monedula import ArgumentError

from tests.groups.ground import Ground
from tests.groups.running import FACES
from tests.share.conftest import LOCK_SECONDS, Member
from tests.share.reading import PATIENCE_SECONDS, one, take, values
from tests.share.running import ShareRunner, undone, until

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "deliveryCount"]


@pytest.fixture
def settings(ground: Ground, group: str) -> dict[str, Any]:
    """Of a member of `group`."""
    return {"bootstrap.servers": ground.bootstrap, "group.id": group, "fetch.max.wait.ms": 100}


def number(record: monedula.Record) -> int:
    """The record's value as a number."""
    return int(record.value or b"")


@FACES
def test_what_the_handler_returns_for_is_accepted(
    ground: Ground, group: str, settings: dict[str, Any], face: str
) -> None:
    topic = ground.topic(2)
    for partition in range(2):
        ground.append(topic, range(10), partition)
    seen: Counter[tuple[int | None, int]] = Counter()
    runner = ShareRunner(face, settings, topic, lambda record: seen.update([(record.partition, number(record))]))
    until(lambda: runner.metric("records_acknowledged") == 20, lambda: seen)
    runner.wakeup()
    runner.join()
    assert seen == {(partition, value): 1 for partition in range(2) for value in range(10)}
    assert runner.metrics["run_handled"] == 20
    assert undone(ground.bootstrap, group) == 0


@FACES
def test_a_slow_handler_keeps_no_other_record_unacknowledged(
    ground: Ground, group: str, settings: dict[str, Any], face: str
) -> None:
    topic, goes_on = ground.topic(), threading.Event()
    ground.append(topic, range(8))

    def handle(record: monedula.Record) -> None:
        if number(record) == 0:
            goes_on.wait(PATIENCE_SECONDS)

    runner = ShareRunner(face, settings, topic, handle, concurrency=2)
    until(lambda: runner.metric("records_acknowledged") == 7)
    assert undone(ground.bootstrap, group) == 1
    goes_on.set()
    until(lambda: runner.metric("records_acknowledged") == 8)
    runner.wakeup()
    runner.join()


@FACES
def test_a_record_is_tried_again_here_and_then_released(
    ground: Ground, settings: dict[str, Any], face: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, counts = ground.topic(), defaultdict[int, list[int | None]](list)
    ground.append(topic, range(3))

    def handle(record: monedula.Record) -> None:
        counts[number(record)].append(record.delivery_count)
        if number(record) == 1 and len(counts[1]) < 5:
            raise ValueError("not yet")

    retries = monedula.Retry(1, backoff=0)
    with caplog.at_level(logging.ERROR, "monedula"):
        runner = ShareRunner(face, settings, topic, handle, consumer={"columns": COLUMNS}, retries=retries)
        until(lambda: runner.metric("records_acknowledged") >= 5, lambda: counts)
        runner.wakeup()
        runner.join()
    assert counts == {0: [1], 1: [1, 1, 2, 2, 3], 2: [1]}
    figures = [runner.metrics[f"run_{name}"] for name in ("handled", "retries", "released", "rejected")]
    assert figures == [3, 2, 2, 0]
    told = [record for record in caplog.records if "its records are released" in record.message]
    assert [str(record.exc_info and record.exc_info[1]) for record in told] == ["not yet", "not yet"]
    (note,) = told[0].exc_info[1].__notes__  # type: ignore[index, union-attr]
    assert note == f"monedula: raised while handling {topic}-0 at offset 1, after 2 attempts"


@FACES
@pytest.mark.parametrize(
    ("said", "delivered", "figure"), [("release", 2, "released"), ("reject", 1, "rejected"), ("skip", 1, "skipped")]
)
def test_on_error_says_what_becomes_of_a_record(
    ground: Ground, group: str, settings: dict[str, Any], face: str, said: str, delivered: int, figure: str
) -> None:
    topic, deliveries = ground.topic(), Counter[int]()
    ground.append(topic, range(3))
    asked: list[tuple[int, str, int]] = []

    def handle(record: monedula.Record) -> None:
        deliveries[number(record)] += 1
        if number(record) == 1 and deliveries[1] == 1:
            raise ValueError("bad")

    def on_error(record: monedula.Record, error: Exception, attempts: int) -> str:
        asked.append((number(record), str(error), attempts))
        return said

    runner = ShareRunner(face, settings, topic, handle, on_error=on_error, retries=9)
    until(lambda: runner.metric("records_acknowledged") == 2 + delivered, lambda: deliveries)
    assert undone(ground.bootstrap, group) == 0
    runner.wakeup()
    runner.join()
    assert deliveries == {0: 1, 1: delivered, 2: 1}
    assert asked == [(1, "bad", 1)]
    assert runner.metrics[f"run_{figure}"] == 1


@FACES
def test_a_run_that_stops_releases_what_was_not_handled(
    ground: Ground, settings: dict[str, Any], member: Member, face: str
) -> None:
    topic = ground.topic()
    ground.append(topic, range(5))

    def handle(record: monedula.Record) -> None:
        if number(record) == 2:
            raise ValueError("stop")

    runner = ShareRunner(face, settings, topic, handle, concurrency=1, on_error=lambda *_: "stop")
    with pytest.raises(ValueError, match="stop") as raised:
        runner.join()
    assert raised.value.__notes__ == [f"monedula: raised while handling {topic}-0 at offset 2, after 1 attempt"]
    assert runner.metrics["run_handled"] == 2
    assert take(member([topic]), 3) == [2, 3, 4]


@FACES
def test_records_that_wait_at_the_end_are_released_and_those_begun_are_accepted(
    ground: Ground, settings: dict[str, Any], member: Member, face: str
) -> None:
    topic, began, goes_on = ground.topic(), threading.Event(), threading.Event()
    ground.append(topic, range(5))

    def handle(_: monedula.Record) -> None:
        began.set()
        goes_on.wait(PATIENCE_SECONDS)

    runner = ShareRunner(face, settings, topic, handle, concurrency=1)
    assert began.wait(PATIENCE_SECONDS)
    runner.wakeup()
    until(lambda: runner.metric("run_waiting") == 0)
    goes_on.set()
    runner.join()
    assert runner.metrics["run_handled"] == 1
    other = member([topic], columns=["value", "deliveryCount"])
    batch = one(other)
    # At once, before locks are over.
    assert values(batch) == [1, 2, 3, 4]
    assert {record.delivery_count for record in batch.records()} == {2}


@FACES
def test_a_handler_that_is_not_waited_for_has_its_record_released(
    ground: Ground, settings: dict[str, Any], member: Member, face: str
) -> None:
    topic, began, goes_on = ground.topic(), threading.Event(), threading.Event()
    ground.append(topic, range(1))

    def handle(_: monedula.Record) -> None:
        began.set()
        goes_on.wait(PATIENCE_SECONDS)

    runner = ShareRunner(face, settings, topic, handle, grace=0.3)
    assert began.wait(PATIENCE_SECONDS)
    runner.wakeup()
    until(lambda: runner.metric("run_abandoned") == 1)
    assert take(member([topic]), 1) == [0]
    goes_on.set()
    runner.join()


@FACES
def test_locks_of_records_that_are_handled_or_wait_are_renewed(
    ground: Ground, settings: dict[str, Any], member: Member, face: str
) -> None:
    topic, seen = ground.topic(), Counter[int]()
    ground.append(topic, range(3))
    began: list[float] = []

    def handle(record: monedula.Record) -> None:
        began.append(time.monotonic())
        seen[number(record)] += 1
        if number(record) == 0:
            until(lambda: time.monotonic() > began[0] + LOCK_SECONDS * 1.5)

    # `share.renew.max.ms` counts from when the last handler began.
    renewed = {**settings, "share.renew.max.ms": int(LOCK_SECONDS * 2000)}
    runner = ShareRunner(face, renewed, topic, handle, concurrency=1)
    until(lambda: len(began) == 1)
    other = member([topic])
    while time.monotonic() < began[0] + LOCK_SECONDS * 1.4:
        assert not other.poll(timeout=0.2)
    until(lambda: runner.metric("records_acknowledged") == 3)
    runner.wakeup()
    runner.join()
    assert seen == {0: 1, 1: 1, 2: 1}


@FACES
def test_a_record_whose_lock_is_over_is_not_begun_and_its_late_acceptance_counts_for_nothing(
    ground: Ground, settings: dict[str, Any], member: Member, face: str
) -> None:
    topic, seen = ground.topic(), Counter[int]()
    ground.append(topic, range(3))
    goes_on = threading.Event()

    def handle(record: monedula.Record) -> None:
        seen[number(record)] += 1
        goes_on.wait(PATIENCE_SECONDS)

    # One that takes no more meanwhile: it would be given the records itself.
    arguments: dict[str, Any] = {"concurrency": 1, "max_queued_records": 1}
    runner = ShareRunner(face, {**settings, "share.renew.max.ms": 0}, topic, handle, **arguments)
    until(lambda: len(seen) == 1)
    other = member([topic], acknowledge="explicit")
    # They come as soon as the locks are over.
    batches = [one(other)]
    while sum(map(len, batches)) < 3:
        batches.append(one(other))
    goes_on.set()
    until(lambda: runner.consumer.health()["unacknowledged_records"] == 3)
    runner.wakeup()
    runner.join()
    assert seen == {0: 1}
    for batch in batches:
        other.accept(batch)
    assert other.commit() == {(topic, 0): 3}


@FACES
def test_a_decision_of_the_handler_counts_before_its_return(
    ground: Ground, settings: dict[str, Any], face: str
) -> None:
    topic, counts = ground.topic(), defaultdict[int, list[int | None]](list)
    ground.append(topic, range(2))
    made = threading.Event()

    def handle(record: monedula.Record) -> None:
        made.wait(PATIENCE_SECONDS)
        counts[number(record)].append(record.delivery_count)
        if number(record) == 1 and record.delivery_count == 1:
            runner.consumer.release(record)

    runner = ShareRunner(face, settings, topic, handle, consumer={"columns": COLUMNS})
    made.set()
    until(lambda: runner.metric("records_acknowledged") == 3, lambda: counts)
    runner.wakeup()
    runner.join()
    assert counts == {0: [1], 1: [1, 2]}


@FACES
def test_records_that_cannot_be_decoded_are_released_and_end_no_run(
    ground: Ground, group: str, settings: dict[str, Any], face: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, seen = ground.topic(), list[object]()
    with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
        for value in ('{"a": 1}', "no JSON", '{"a": 2}'):
            producer.send(topic, value)
    with monedula.Admin(bootstrap_servers=ground.bootstrap) as admin:
        admin.alter_configs({("group", group): {"share.delivery.count.limit": 2}})
    consumer = {"value": monedula.Json("a int")}

    def told() -> list[str]:
        return [record.message for record in caplog.records if "cannot read" in record.message]

    with caplog.at_level(logging.WARNING, "monedula"):
        runner = ShareRunner(face, settings, topic, lambda record: seen.append(record.value), consumer=consumer)
        until(lambda: len(seen) == len(told()) == 2 and undone(ground.bootstrap, group) == 0, lambda: seen)
        runner.wakeup()
        runner.join()
    assert sorted(map(str, seen)) == ["{'a': 1}", "{'a': 2}"]
    assert [topic in each for each in told()] == [True, True], "it was delivered twice"


@FACES
def test_lists_of_records_are_decided_together(ground: Ground, settings: dict[str, Any], face: str) -> None:
    topic, lists = ground.topic(), list[list[int]]()
    ground.append(topic, range(6))

    def handle(records: list[monedula.Record]) -> None:
        lists.append([number(record) for record in records])
        if lists[-1][0] == 2 and len(lists) < 4:
            raise ValueError

    runner = ShareRunner(face, settings, topic, handle, batch_size=2, concurrency=1, on_error=lambda *_: "release")
    until(lambda: runner.metric("records_acknowledged") == 8, lambda: lists)
    runner.wakeup()
    runner.join()
    assert lists[:3] == [[0, 1], [2, 3], [4, 5]]
    assert sorted(value for each in lists[3:] for value in each) == [2, 3]


@FACES
def test_a_dead_letter_is_the_record_with_its_cause_and_the_record_is_accepted(
    ground: Ground, group: str, settings: dict[str, Any], face: str
) -> None:
    topic, letters = ground.topic(), ground.topic()
    with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
        producer.send(topic, b"\xfe bad", key=b"\xfd", headers=[("trace", b"1")], timestamp=1_700_000_000_123)

    def fail(_: monedula.Record) -> None:
        raise ValueError("kein Bär")

    consumer = {"headers": True, "columns": [*COLUMNS, "headers"]}
    arguments: dict[str, Any] = {"retries": monedula.Retry(2, backoff=0), "dead_letter": letters}
    runner = ShareRunner(face, settings, topic, fail, consumer=consumer, **arguments)
    until(lambda: runner.metric("records_acknowledged") == 1)
    runner.wakeup()
    runner.join()
    assert runner.metrics["run_dead_letters"] == 1
    assert undone(ground.bootstrap, group) == 0
    with monedula.read({"bootstrap.servers": ground.bootstrap}, letters, headers=True) as stream:
        (letter,) = [record for batch in stream for record in batch.records()]
    assert (letter.key, letter.value, letter.timestamp) == (b"\xfd", b"\xfe bad", 1_700_000_000_123)
    assert dict(letter.headers or []) == {
        "trace": b"1",
        "__dlq.errors.topic": topic.encode(),
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"0",
        "__dlq.errors.group": group.encode(),
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": "ValueError: kein Bär".encode(),
        "__dlq.errors.exception": b"ValueError",
    }


@FACES
def test_replies_are_written_before_their_record_is_accepted(
    ground: Ground, settings: dict[str, Any], face: str
) -> None:
    topic, replies = ground.topic(), ground.topic()
    ground.append(topic, range(3))
    runner = ShareRunner(face, settings, topic, lambda record: json.dumps(number(record) * 2), reply_topic=replies)
    until(lambda: runner.metric("records_acknowledged") == 3)
    runner.wakeup()
    runner.join()
    with monedula.read({"bootstrap.servers": ground.bootstrap}, replies) as stream:
        assert sorted(number(record) for batch in stream for record in batch.records()) == [0, 2, 4]


def test_a_cancelled_run_releases_what_it_handles(ground: Ground, settings: dict[str, Any], member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    seen: list[int] = []

    async def main() -> None:
        began = asyncio.Event()

        async def handle(record: monedula.Record) -> None:
            seen.append(number(record))
            began.set()
            await asyncio.sleep(PATIENCE_SECONDS)

        async with monedula.AsyncShareConsumer(settings, topic) as consumer:
            task = asyncio.create_task(consumer.run(handle, concurrency=1))
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert consumer.health()["rows_in_hand"] == 0

    asyncio.run(main())
    assert seen == [0]
    assert take(member([topic]), 3) == [0, 1, 2]


def test_a_run_ends_once_nothing_comes_for_so_long(ground: Ground, group: str, member: Member) -> None:
    topic, seen = ground.topic(), list[int]()
    ground.append(topic, range(3))
    consumer = member([topic])
    consumer.run(lambda record: seen.append(number(record)), timeout=2.0)
    assert sorted(seen) == [0, 1, 2]
    assert undone(ground.bootstrap, group) == 0
    assert consumer.health()["rows_in_hand"] == 0
    ground.append(topic, [3])
    assert values(one(consumer)) == [3], "it can be read on"


@pytest.mark.parametrize(
    ("consumer", "arguments", "message"),
    [
        ({}, {"dead_letter": "failed"}, "headers=True"),
        ({"headers": True, "value": monedula.Json("a int")}, {"dead_letter": "failed"}, "return 'reject'"),
        ({"headers": True}, {"dead_letter": "jobs"}, "handled again, for ever"),
        ({}, {"reply_topic": "jobs"}, "handled again, for ever"),
        ({}, {"concurrency": 0}, "concurrency"),
        ({"topics": None}, {}, "subscribe"),
    ],
)
def test_arguments_are_checked(
    settings: dict[str, Any], consumer: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    topics = consumer.get("topics", "jobs")
    more = {name: value for name, value in consumer.items() if name != "topics"}
    with (
        monedula.ShareConsumer(settings, topics, **more) as made,
        pytest.raises(ArgumentError, match=message),
    ):
        made.run(print, **arguments)


@FACES
def test_an_unknown_verdict_ends_the_run(ground: Ground, settings: dict[str, Any], face: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(1))

    def fail(_: monedula.Record) -> None:
        raise ValueError

    runner = ShareRunner(face, settings, topic, fail, on_error=lambda *_: "forget")
    with pytest.raises(ArgumentError, match=r"'release', 'reject'"):
        runner.join()


def test_consumers_of_other_groups_cannot_release(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(topic, range(1))
    with (
        monedula.Consumer(ground.settings(ground.name("group")), topic) as consumer,
        pytest.raises(ArgumentError, match="on_error returned 'release'"),
    ):
        consumer.run(lambda _: 1 / 0, on_error=lambda *_: "release", until="latest")


@FACES
def test_a_run_accepts_what_its_caller_holds_as_the_next_poll_would(
    ground: Ground, group: str, settings: dict[str, Any], face: str
) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    seen: list[int] = []

    async def main() -> None:
        async with monedula.AsyncShareConsumer(settings, topic) as consumer:
            assert len(await consumer.poll(timeout=PATIENCE_SECONDS)) == 3
            await consumer.run(lambda record: seen.append(number(record)), timeout=0.5)

    if face == "async":
        asyncio.run(main())
    else:
        with monedula.ShareConsumer(settings, topic) as consumer:
            assert values(one(consumer)) == [0, 1, 2]
            consumer.run(lambda record: seen.append(number(record)), timeout=0.5)
    assert seen == []
    assert undone(ground.bootstrap, group) == 0


def test_a_run_counts_what_it_releases_itself(ground: Ground, group: str, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(4))
    consumer = member([topic])

    def handle(records: list[monedula.Record]) -> None:
        for record in records:
            if number(record) < 3:
                consumer.accept(record)
        if len(records) > 1:
            raise ValueError

    consumer.run(handle, batch_size=4, timeout=0.5)
    assert consumer.metrics()["run_released"] == 1
    assert undone(ground.bootstrap, group) == 0


@FACES
def test_a_wakeup_ends_a_run_whose_queue_is_full(
    ground: Ground, settings: dict[str, Any], member: Member, face: str
) -> None:
    topic, goes_on = ground.topic(), threading.Event()
    ground.append(topic, range(20))
    seen: list[int] = []

    def handle(record: monedula.Record) -> None:
        seen.append(number(record))
        goes_on.wait(PATIENCE_SECONDS)

    runner = ShareRunner(face, settings, topic, handle, concurrency=2, max_queued_records=20)
    until(lambda: len(seen) == 2)
    runner.wakeup()
    until(lambda: runner.metric("run_waiting") == 0)
    goes_on.set()
    runner.join()
    assert len(seen) == 2
    assert take(member([topic]), 18) == sorted(set(range(20)) - set(seen))
