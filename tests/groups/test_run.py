"""`run`: a handler is called for each record, many at once, in order by key; commits stop before what is unfinished."""

import json
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
from tests.groups.ground import PATIENCE_SECONDS, Ground, committed, until
from tests.groups.running import FACES, Runner, keyed, settings_for


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
def test_decoded_keys_order_records_too(ground: Ground, face: str) -> None:
    topic = ground.topic()
    with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
        for number in range(100):
            key = None if number % 5 == 4 else json.dumps({"id": number % 5, "of": "decoded"})
            producer.send(topic, str(number), key=key)
    calls = Calls(lambda record: record.key["id"] if record.key else record.offset)
    settings = ground.settings(ground.name("group"))
    forms = {"key": monedula.Json("id bigint, of string")}
    Runner(face, settings, topic, calls, consumer=forms, concurrency=16, until="latest").join()
    assert calls.overlaps == []
    assert all(offsets == sorted(offsets) for offsets in calls.offsets.values())
    assert {len(offsets) for offsets in calls.offsets.values()} == {1, 20}
    assert calls.count == 100


@FACES
def test_no_record_of_any_key_begins_after_a_failure(ground: Ground, face: str) -> None:
    topic, group = ground.topic(), ground.name("group")
    keyed(ground, topic, 1000, 1000)
    seen: list[int] = []

    def handle(record: monedula.Record) -> None:
        seen.append(record.offset or 0)
        if record.offset == 100:
            raise LookupError("for good")

    runner = Runner(face, ground.settings(group), topic, handle, concurrency=1, until="latest")
    with pytest.raises(LookupError) as raised:
        runner.join()
    assert seen == list(range(101))
    assert raised.value.__notes__ == [f"monedula: raised while handling {topic}-0 at offset 100, after 1 attempt"]
    with monedula.Consumer(ground.settings(group)) as watching:
        assert committed(watching, topic) == [100]


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
        ({"grace": -1}, "grace=-1"),
        ({"grace": math.nan}, "grace=nan"),
        ({"timeout": -1, "until": "latest"}, "timeout=-1"),
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
