"""`run(..., transaction=producer)`: replies, dead letters and offsets are one transaction; nothing is lost or twice."""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import monedula
import pytest
from monedula import ArgumentError, TopicPartition
from monedula.errors import ProducerFencedError, TransactionAbortedError
from monedula.producer._transactions import AsyncTransactions, Transactions
from monedula.testing import Broker

from tests.groups.ground import PATIENCE_SECONDS, SETTINGS, Ground, until
from tests.groups.running import FACES, Runner, keyed
from tests.producer.test_transactions import committed

COUNT = 3_000


def member(ground: Ground, group: str, **more: Any) -> dict[str, Any]:
    return ground.settings(group, enable_auto_commit=False, isolation_level="read_committed", **more)


def alone(broker: Broker) -> dict[str, Any]:
    """Settings of the only member of a group."""
    own = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return {"bootstrap.servers": broker.bootstrap_servers, **own}


def sender(ground: Ground, name: str) -> dict[str, Any]:
    return {"bootstrap.servers": ground.bootstrap, "transactional.id": name}


def numbers(count: int) -> list[str]:
    return sorted(map(str, range(count)))


def echo(record: monedula.Record) -> Any:
    return record.value


@FACES
def test_replies_and_offsets_are_committed_together(ground: Ground, face: str) -> None:
    topic, target, group = ground.topic(2), ground.topic(), ground.name("group")
    for partition in range(2):
        keyed(ground, topic, 50, COUNT // 2, partition)
    runner = Runner(
        face, member(ground, group), topic, echo, transaction=sender(ground, group), reply_topic=target, until="latest"
    )
    runner.join()
    assert runner.committed == {TopicPartition(topic, partition): COUNT // 2 for partition in range(2)}
    assert committed(ground.bootstrap, target) == sorted([str(number) for number in range(COUNT // 2)] * 2)


def test_a_worker_that_is_killed_again_and_again_loses_nothing_and_repeats_nothing(ground: Ground) -> None:
    topic, target, group = ground.topic(4), ground.topic(2), ground.name("group")
    with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
        for number in range(COUNT):
            producer.send(topic, str(number), key=f"key {number % 100}")
    # As a static member, its successor need not wait until it is missed.
    settings = member(ground, group, group_instance_id="worker")
    for _ in range(4):
        worker = started(topic, target, group, settings)
        with worker:
            try:
                assert worker.stdout is not None
                assert worker.stdin is not None
                for _ in range(4):
                    assert worker.stdout.readline().strip().isdigit()
                    worker.stdin.write("go on\n")
                    worker.stdin.flush()
                assert worker.stdout.readline().strip().isdigit()
            finally:
                worker.kill()
    last = started(topic, target, group, settings)
    with last:
        assert last.stdin is not None
        last.stdin.close()
        last.stdin = None
        with monedula.Consumer(ground.settings(group)) as watching:

            def done() -> bool:
                found = watching.committed([TopicPartition(topic, partition) for partition in range(4)])
                return sum(at.offset for at in found.values() if at is not None) >= COUNT

            until(done)
        last.terminate()
        assert last.stdout is not None
        assert last.stdout.read().splitlines()[-1] == "ended"
    assert last.returncode == 0
    assert committed(ground.bootstrap, target) == numbers(COUNT)


def started(topic: str, target: str, group: str, settings: dict[str, Any]) -> "subprocess.Popen[str]":
    given = [f"{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "tests.groups.exactly_once", topic, target, group, *given]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@FACES
def test_while_members_come_and_go_nothing_is_twice(ground: Ground, face: str) -> None:
    topic, target, group = ground.topic(4), ground.topic(), ground.name("group")
    for partition in range(4):
        ground.append(topic, range(partition, COUNT, 4), partition)

    def worker(name: str, handler: Callable[[monedula.Record], Any] = echo) -> Runner:
        settings = member(ground, group)
        transaction = sender(ground, f"{group}-{name}")
        more: dict[str, Any] = {"reply_topic": target, "commit_interval": 0.01, "concurrency": 4, "order": "partition"}
        return Runner(face, settings, topic, handler, transaction=transaction, **more)

    begun, go_on = threading.Event(), threading.Event()

    def slow(record: monedula.Record) -> Any:
        if (record.offset or 0) == 100:
            begun.set()
            assert go_on.wait(PATIENCE_SECONDS)
        return record.value

    first = worker("first", slow)
    assert begun.wait(PATIENCE_SECONDS)
    second = worker("second")
    giving, taking = first.consumer, second.consumer
    assert giving is not None
    assert taking is not None
    until(lambda: bool(giving.rebalance_wanted or taking.assignment()))
    go_on.set()
    until(lambda: bool(taking.assignment()))
    first.wakeup()
    first.join()
    watching = monedula.Consumer(ground.settings(group))
    places = [TopicPartition(topic, partition) for partition in range(4)]
    with watching:
        until(lambda: sum(at.offset for at in watching.committed(places).values() if at is not None) >= COUNT)
    second.wakeup()
    second.join()
    assert committed(ground.bootstrap, target) == numbers(COUNT)


@FACES
def test_a_worker_that_is_fenced_ends_and_its_successor_goes_on(ground: Ground, face: str) -> None:
    topic, target, group = ground.topic(), ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    runner = Runner(face, member(ground, group), topic, echo, transaction=sender(ground, group), reply_topic=target)
    until(lambda: runner.metric("run_handled") == 10)
    with monedula.Producer(sender(ground, group)) as successor:
        successor.init_transactions()
        ground.append(topic, range(10, 20))
        with pytest.raises(ProducerFencedError):
            runner.join()
    again = Runner(
        face, member(ground, group), topic, echo, transaction=sender(ground, group), reply_topic=target, until="latest"
    )
    again.join()
    assert committed(ground.bootstrap, target) == numbers(20)


@FACES
def test_what_was_finished_before_a_failure_is_committed_and_nothing_behind_it(ground: Ground, face: str) -> None:
    topic, target, group = ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 1, 20)

    def handle(record: monedula.Record) -> Any:
        if record.offset == 7:
            raise LookupError("no such customer")
        return record.value

    settings, transaction = member(ground, group), sender(ground, group)
    runner = Runner(face, settings, topic, handle, transaction=transaction, reply_topic=target)
    with pytest.raises(LookupError):
        runner.join()
    assert committed(ground.bootstrap, target) == numbers(7)
    again = Runner(face, settings, topic, echo, transaction=transaction, reply_topic=target, until="latest")
    again.join()
    assert committed(ground.bootstrap, target) == numbers(20)


@FACES
def test_a_reply_behind_an_unfinished_record_waits_for_it(ground: Ground, face: str) -> None:
    topic, target, group = ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 10, 10)
    go_on = threading.Event()

    def handle(record: monedula.Record) -> Any:
        if record.offset == 3:
            assert go_on.wait(PATIENCE_SECONDS)
        return record.value

    settings, transaction = member(ground, group), sender(ground, group)
    runner = Runner(face, settings, topic, handle, transaction=transaction, reply_topic=target, until="latest")
    until(lambda: runner.metric("run_handled") == 9)
    until(lambda: len(committed(ground.bootstrap, target)) == 3)
    with monedula.Consumer(ground.settings(group)) as watching:
        place = TopicPartition(topic, 0)
        until(lambda: getattr(watching.committed([place])[place], "offset", None) == 3)
    assert committed(ground.bootstrap, target) == numbers(3)
    go_on.set()
    runner.join()
    assert committed(ground.bootstrap, target) == numbers(10)


@FACES
def test_records_of_one_call_are_committed_together(ground: Ground, face: str) -> None:
    topic, target, group = ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 2, 20)
    go_on = threading.Event()

    def handle(records: list[monedula.Record]) -> Any:
        if any(record.offset == 19 for record in records):
            assert go_on.wait(PATIENCE_SECONDS)
        return [monedula.Reply(record.value, key=record.key) for record in records]

    more: dict[str, Any] = {"reply_topic": target, "batch_size": 100, "until": "latest"}
    runner = Runner(face, member(ground, group), topic, handle, transaction=sender(ground, group), **more)
    until(lambda: runner.metric("run_handled") == 10)
    # The records of the other key are between those that are still handled: the offset cannot pass any of them.
    assert committed(ground.bootstrap, target) in ([], ["0"])
    go_on.set()
    runner.join()
    assert committed(ground.bootstrap, target) == numbers(20)


@FACES
def test_dead_letters_are_part_of_the_transaction(ground: Ground, face: str) -> None:
    topic, target, letters, group = ground.topic(), ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 5, 30)

    def handle(record: monedula.Record) -> Any:
        if (record.offset or 0) % 10 == 4:
            raise ValueError("no amount")
        return record.value

    more: dict[str, Any] = {"reply_topic": target, "dead_letter": letters, "until": "latest"}
    settings = member(ground, group)
    runner = Runner(
        face, settings, topic, handle, transaction=sender(ground, group), consumer={"headers": True}, **more
    )
    runner.join()
    assert committed(ground.bootstrap, letters) == ["14", "24", "4"]
    assert committed(ground.bootstrap, target) == sorted(set(numbers(30)) - {"4", "14", "24"})
    assert runner.metrics["run_dead_letters"] == 3


@FACES
def test_replies_are_encoded_and_one_that_does_not_fit_is_a_failure_of_the_handler(ground: Ground, face: str) -> None:
    topic, target, letters, group = ground.topic(), ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 5, 10)

    def handle(record: monedula.Record) -> Any:
        return {"id": "no number" if record.offset == 3 else record.offset}

    schema = {"type": "record", "name": "Reply", "fields": [{"name": "id", "type": "long"}]}
    with Broker(registry=True) as other:
        runner = Runner(
            face,
            member(ground, group),
            topic,
            handle,
            transaction={**sender(ground, group), "schema.registry.url": other.schema_registry_url},
            value=monedula.Avro(schema),
            consumer={"headers": True},
            reply_topic=target,
            dead_letter=letters,
            retries=monedula.Retry(1, backoff=0.0),
            until="latest",
        )
        runner.join()
        settings = {"bootstrap.servers": ground.bootstrap, "schema.registry.url": other.schema_registry_url}
        with monedula.read(settings, target, value=monedula.Avro(schema)) as stream:
            replies = [record.value for batch in stream for record in batch.records()]
    assert sorted(reply["id"] for reply in replies if isinstance(reply, dict)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    with monedula.read({"bootstrap.servers": ground.bootstrap}, letters, headers=True) as stream:
        (letter,) = (record for batch in stream for record in batch.records())
    assert letter.value == b"3"
    assert b"id: a str, and the schema has long there" in (dict(letter.headers or [])["__dlq.errors.message"] or b"")
    assert runner.metrics["run_retries"] == 1


@FACES
@pytest.mark.parametrize("api", ["TxnOffsetCommit", "AddOffsetsToTxn"])
def test_an_aborted_transaction_is_repeated(face: str, api: str) -> None:
    with Broker(topics={"orders": 1, "done": 1}, settings=SETTINGS) as broker:
        broker.append("orders", [(f"key {number}", str(number)) for number in range(100)])
        broker.fault(api=api, error="GROUP_AUTHORIZATION_FAILED", count=2)
        settings = alone(broker)
        transaction = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"}
        more: dict[str, Any] = {"reply_topic": "done", "until": "latest"}
        runner = Runner(face, settings, "orders", echo, transaction=transaction, **more)
        runner.join()
        assert committed(broker.bootstrap_servers, "done") == numbers(100)
        assert runner.committed == {TopicPartition("orders", 0): 100}


@FACES
def test_a_commit_whose_outcome_is_not_known_is_waited_for(face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_unknown = threading.Event()
    kind = Transactions if face == "sync" else AsyncTransactions
    end = kind._end_what_was_left

    def observed(self: Any, timeout: float | None = None) -> Any:
        if self._left == "commit":
            is_unknown.set()
        return end(self, timeout)

    monkeypatch.setattr(kind, "_end_what_was_left", observed)
    with Broker(topics={"orders": 1, "done": 1}, settings=SETTINGS) as broker:
        broker.append("orders", [(f"key {number}", str(number)) for number in range(20)])
        settings = alone(broker)
        transaction = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t", "max.block.ms": 500}
        held = broker.fault(api="EndTxn", hold=True, on="answer")
        more: dict[str, Any] = {"reply_topic": "done", "until": "latest", "transaction": transaction}
        runner = Runner(face, settings, "orders", echo, **more)
        assert is_unknown.wait(PATIENCE_SECONDS)
        until(lambda: runner.metric("run_handled") == 20)
        assert not runner.is_over()
        held.remove()
        runner.join()
        assert committed(broker.bootstrap_servers, "done") == numbers(20)
        assert runner.committed == {TopicPartition("orders", 0): 20}


@FACES
def test_transactions_that_never_succeed_end_the_run(face: str) -> None:
    with Broker(topics={"orders": 1, "done": 1}, settings=SETTINGS) as broker:
        broker.append("orders", [str(number) for number in range(10)])
        fault = broker.fault(api=["TxnOffsetCommit", "AddOffsetsToTxn"], error="GROUP_AUTHORIZATION_FAILED")
        settings = alone(broker)
        transaction = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"}
        more: dict[str, Any] = {"reply_topic": "done", "transaction": transaction}
        runner = Runner(face, settings, "orders", echo, **more)
        with pytest.raises(TransactionAbortedError):
            runner.join()
        fault.remove()
        again = Runner(face, settings, "orders", echo, **more, until="latest")
        again.join()
        assert committed(broker.bootstrap_servers, "done") == numbers(10)


@FACES
@pytest.mark.parametrize("api", ["TxnOffsetCommit", "EndTxn"])
def test_the_last_transaction_waits_no_longer_than_the_grace(face: str, api: str) -> None:
    with Broker(topics={"orders": 1, "done": 1}, settings=SETTINGS) as broker:
        broker.append("orders", [str(number) for number in range(10)])
        silent = broker.fault(api=api, drop=True)
        transaction = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t", "max.block.ms": 600_000}
        more: dict[str, Any] = {"reply_topic": "done", "transaction": transaction, "commit_interval": 600.0}
        runner = Runner(face, alone(broker), "orders", echo, grace=0.5, **more)
        until(lambda: runner.metric("run_handled") == 10)
        runner.wakeup()
        until(lambda: bool(runner.metrics))
        silent.remove()
        with pytest.raises((TransactionAbortedError, monedula.KafkaTimeoutError)):
            runner.join()
        again = Runner(face, alone(broker), "orders", echo, **more, until="latest")
        again.join()
        assert committed(broker.bootstrap_servers, "done") == numbers(10)


@FACES
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (monedula.workers.Reply(b"1", partition=7), "done-7"),
        (monedula.workers.Reply(b"1", topic="missing"), "missing"),
        (monedula.workers.Reply(b"1", topic="latest"), "RECORD"),
    ],
    ids=["partition", "topic", "no key"],
)
def test_a_reply_that_will_never_be_written_ends_the_run_at_once_and_is_named(
    face: str, reply: object, why: str
) -> None:
    with Broker(topics={"orders": 1, "done": 1}, settings=SETTINGS) as broker:
        broker.create_topic("latest", config={"cleanup.policy": "compact"})
        broker.append("orders", [str(number) for number in range(5)])
        ends = broker.observe(api="EndTxn")
        transaction = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"}
        transaction["topic.metadata.propagation.max.ms"] = "300"
        more: dict[str, Any] = {"reply_topic": "done", "transaction": transaction, "commit_interval": 600.0}
        more["until"] = "latest"
        runner = Runner(face, alone(broker), "orders", lambda each: reply if each.offset == 3 else each.value, **more)
        with pytest.raises(TransactionAbortedError, match=why) as raised:
            runner.join()
        note = "monedula: raised while the reply to orders-0 at offset 3, or its dead letter, was written"
        assert raised.value.__notes__[-1] == note
        assert not any("one after the other" in each for each in raised.value.__notes__)
        assert ends.hits == 1


BAD_REPLIES: dict[str, Callable[[], object]] = {
    "a number": lambda: 5,
    "a partition": lambda: monedula.Reply(b"1", partition=-7),
    "too large": lambda: monedula.Reply(b"x" * (2 << 20)),
    "a bad topic": lambda: monedula.Reply(b"1", topic="a b"),
    "no topic": lambda: monedula.Reply(b"1", topic=""),
}


@FACES
@pytest.mark.parametrize("is_transactional", [False, True], ids=["at once", "transaction"])
@pytest.mark.parametrize("bad", BAD_REPLIES)
def test_a_reply_that_is_no_record_is_a_failure_of_the_handler(
    ground: Ground, face: str, bad: str, is_transactional: bool
) -> None:
    topic, target, letters, group = ground.topic(), ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 5, 10)
    runner = Runner(
        face,
        member(ground, group) if is_transactional else ground.settings(group),
        topic,
        lambda each: BAD_REPLIES[bad]() if each.offset == 3 else each.value,
        transaction=sender(ground, group) if is_transactional else None,
        consumer={"headers": True},
        reply_topic=target,
        dead_letter=letters,
        retries=monedula.Retry(1, backoff=0.0),
        until="latest",
    )
    runner.join()
    assert runner.committed == {TopicPartition(topic, 0): 10}
    assert len(committed(ground.bootstrap, target)) == 9
    assert committed(ground.bootstrap, letters) == ["3"]
    assert runner.metrics["run_retries"] == 1


@FACES
@pytest.mark.parametrize(
    ("config", "reply"),
    [({"cleanup.policy": "compact"}, monedula.Reply(b"1")), ({"max.message.bytes": 1_000}, b"x" * 5_000)],
    ids=["no key", "too large"],
)
def test_a_reply_that_the_broker_refuses_is_a_failure_of_the_handler(face: str, config: Any, reply: object) -> None:
    with Broker(topics={"orders": 1, "letters": 1}, settings=SETTINGS) as broker:
        broker.create_topic("done", config=config)
        broker.append("orders", [(f"key {number}", str(number)) for number in range(5)])
        runner = Runner(
            face,
            {**alone(broker), "enable.auto.commit": True},
            "orders",
            lambda each: reply if each.offset == 3 else each.value,
            consumer={"headers": True},
            reply_topic="done",
            dead_letter="letters",
            retries=monedula.Retry(1, backoff=0.0),
            until="latest",
        )
        runner.join()
        assert committed(broker.bootstrap_servers, "done") == ["0", "1", "2", "4"]
        assert committed(broker.bootstrap_servers, "letters") == ["3"]
        assert runner.metrics["run_retries"] == 1


def test_a_reply_without_a_topics_name_is_refused_when_it_is_made() -> None:
    for topic in ("", "a b", 5):
        with pytest.raises(ArgumentError, match=r"is no topic's name.*reply_topic="):
            monedula.Reply(b"1", topic=topic)  # type: ignore[arg-type]


@FACES
@pytest.mark.parametrize(
    ("at", "position", "handled", "missing"),
    [
        (5, 3, 6 + 7, []),
        (5, "committed", 6 + 10, []),
        (5, "earliest", 6 + 10, []),
        (2, 7, 3 + 3, ["3", "4", "5", "6"]),
        (2, "latest", 3, ["3", "4", "5", "6", "7", "8", "9"]),
    ],
)
def test_a_seek_keeps_the_replies_before_it_and_those_behind_are_written_once(
    ground: Ground, face: str, at: int, position: Any, handled: int, missing: list[str]
) -> None:
    topic, target, group = ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 1, 10)
    is_sought = threading.Event()

    def handle(record: monedula.Record) -> Any:
        if record.offset == at and not is_sought.is_set():
            is_sought.set()
            assert runner.consumer is not None
            runner.consumer.seek((topic, 0), position)
        return record.value

    more: dict[str, Any] = {"reply_topic": target, "commit_interval": 600.0, "until": "latest"}
    runner = Runner(face, member(ground, group), topic, handle, transaction=sender(ground, group), **more)
    runner.join()
    assert committed(ground.bootstrap, target) == sorted(set(numbers(10)) - set(missing))
    assert runner.committed == {TopicPartition(topic, 0): 10}
    assert runner.metrics["run_handled"] == handled


@FACES
def test_a_seek_waits_for_the_replies_of_handlers_that_still_run(ground: Ground, face: str) -> None:
    topic, target, group = ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 2, 10)
    is_sought = threading.Event()

    def handle(record: monedula.Record) -> Any:
        assert runner.consumer is not None
        if record.offset == 0:
            assert is_sought.wait(PATIENCE_SECONDS)
            until(lambda: runner.metric("run_handled") >= 3)  # also 7 and 9, which have the other key
        elif record.offset == 1:
            runner.consumer.seek((topic, 0), 7)
            is_sought.set()
        return record.value

    more: dict[str, Any] = {"reply_topic": target, "commit_interval": 0.0, "until": "latest"}
    runner = Runner(face, member(ground, group), topic, handle, transaction=sender(ground, group), **more)
    runner.join()
    assert committed(ground.bootstrap, target) == ["0", "1", "7", "8", "9"]
    assert runner.committed == {TopicPartition(topic, 0): 10}


@FACES
def test_a_seek_into_the_records_of_one_call_repeats_its_replies_and_loses_none(ground: Ground, face: str) -> None:
    topic, target, group = ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 1, 4)
    is_sought = threading.Event()

    def handle(records: list[monedula.Record]) -> Any:
        if not is_sought.is_set():
            is_sought.set()
            assert runner.consumer is not None
            runner.consumer.seek((topic, 0), 2)
        return [monedula.Reply(record.value, key=record.key) for record in records]

    more: dict[str, Any] = {"reply_topic": target, "commit_interval": 600.0, "batch_size": 4, "until": "latest"}
    runner = Runner(face, member(ground, group), topic, handle, transaction=sender(ground, group), **more)
    runner.join()
    assert committed(ground.bootstrap, target) == ["0", "1", "2", "2", "3", "3"]


@FACES
@pytest.mark.parametrize("way", ["rewind", "committed", "rewind, then an offset"])
@pytest.mark.parametrize(
    ("api", "on"), [("TxnOffsetCommit", "request"), ("TxnOffsetCommit", "answer"), ("EndTxn", "answer")]
)
def test_going_back_while_a_transaction_is_committed_writes_nothing_twice(
    face: str, api: str, on: Any, way: str
) -> None:
    with Broker(topics={"orders": 1, "done": 1}, settings=SETTINGS) as broker:
        broker.append("orders", [str(number) for number in range(10)])
        late = broker.fault(api=api, hold=True, on=on, count=1)
        transaction = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"}
        more: dict[str, Any] = {"reply_topic": "done", "order": "partition", "batch_size": 10, "until": "latest"}

        def handle(records: list[monedula.Record]) -> Any:
            return [monedula.Reply(record.value) for record in records]

        runner = Runner(face, alone(broker), "orders", handle, transaction=transaction, **more)
        until(lambda: late.hits == 1)
        consumer = runner.consumer
        assert consumer is not None
        if way == "committed":
            consumer.seek(("orders", 0), "committed")
            # A look-up that did not wait is answered before that of a client that has to connect first.
            with monedula.Consumer(alone(broker)) as watching:
                watching.committed([TopicPartition("orders", 0)])
        else:
            consumer.rewind()
        if way == "rewind, then an offset":
            consumer.seek(("orders", 0), 10)
        late.remove()
        runner.join()
        assert committed(broker.bootstrap_servers, "done") == numbers(10)
        assert runner.committed == {TopicPartition("orders", 0): 10}
        assert runner.metrics["run_handled"] == 10


@FACES
@pytest.mark.parametrize("verb", ["commit", "commit_async"])
def test_offsets_are_not_committed_beside_the_transactions(ground: Ground, face: str, verb: str) -> None:
    topic, target, group = ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 1, 3)

    def handle(record: monedula.Record) -> Any:
        assert runner.consumer is not None
        with pytest.raises(ArgumentError, match=r"commits offsets in its transactions: leave out commit\(\)"):
            getattr(runner.consumer, verb)({(topic, 0): 1})
        return record.value

    more: dict[str, Any] = {"reply_topic": target, "until": "latest"}
    runner = Runner(face, member(ground, group), topic, handle, transaction=sender(ground, group), **more)
    runner.join()
    assert committed(ground.bootstrap, target) == numbers(3)


@FACES
def test_without_transactions_a_reply_is_acknowledged_before_its_record_counts(ground: Ground, face: str) -> None:
    topic, target, group = ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 5, 50)
    runner = Runner(face, ground.settings(group), topic, echo, reply_topic=target, until="latest")
    runner.join()
    assert runner.committed == {TopicPartition(topic, 0): 50}
    with monedula.read({"bootstrap.servers": ground.bootstrap}, target) as stream:
        replies = [(record.key, record.value) for batch in stream for record in batch.records()]
    assert sorted(replies) == sorted((f"key {number % 5}".encode(), str(number).encode()) for number in range(50))


def test_producers_that_cannot_work_are_refused_at_the_start(ground: Ground) -> None:
    topic, group = ground.topic(), ground.name("group")
    of_group = ground.settings(group)
    plain, transactional = {"bootstrap.servers": ground.bootstrap}, sender(ground, group)
    with (
        monedula.Producer(transactional) as in_transactions,
        monedula.Producer(plain) as beside,
        monedula.Consumer(of_group, topic, headers=True) as consumer,
        monedula.Consumer(member(ground, group), topic, headers=True) as by_hand,
    ):
        refusals: list[tuple[Callable[[], object], str]] = [
            (lambda: consumer.run(echo, dead_letter="d", producer=in_transactions), "transactional.id"),
            (lambda: by_hand.run(echo, reply_topic="d", transaction=beside), "no transactional.id"),
            (lambda: consumer.run(echo, reply_topic="d", transaction=in_transactions), "enable.auto.commit is on"),
            (lambda: by_hand.run(echo, transaction=in_transactions), "name their topic"),
            (
                lambda: by_hand.run(echo, reply_topic="d", producer=beside, transaction=in_transactions),
                "leave out producer=",
            ),
        ]
        for refused, message in refusals:
            with pytest.raises(ArgumentError, match=message):
                refused()
