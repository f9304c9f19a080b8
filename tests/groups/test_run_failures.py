"""`run` when handlers raise: attempts, the end of the run, dead letters, `on_error`."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import monedula
import pytest
from monedula import TopicPartition
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import PATIENCE_SECONDS, SETTINGS, Ground, committed, take, until
from tests.groups.running import FACES, Runner, keyed


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


@pytest.mark.parametrize("where", ["handler", "on_error", "idle"])
def test_a_cancelled_task_of_a_run_ends_it_with_an_error(broker: Broker, where: str) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["0", "1", "2"])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}
    workers: list[asyncio.Task[Any]] = []

    async def cancelled() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.sleep(0)

    async def handle(record: monedula.Record) -> None:
        workers.append(asyncio.current_task())  # type: ignore[arg-type]
        if record.offset == 1 and where == "handler":
            await cancelled()
        if record.offset == 1 and where == "on_error":
            raise ValueError
        if record.offset == 2:
            asyncio.get_running_loop().call_later(0.01, workers[0].cancel)  # it waits for a record then

    async def on_error(*_: object) -> None:
        await cancelled()

    async def main() -> None:
        async with monedula.AsyncConsumer(settings, topics="orders") as consumer:
            with pytest.raises(RuntimeError, match="a task in which run\\(\\) calls handlers was cancelled"):
                await consumer.run(handle, concurrency=1, on_error=on_error)
            found = await consumer.committed()
            at = found[TopicPartition("orders", 0)]
            assert at is not None
            assert at.offset == (3 if where == "idle" else 1)

    asyncio.run(main())


def test_who_cancels_every_task_cancels_the_run(broker: Broker) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["0", "1", "2"])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}

    async def main() -> None:
        async with monedula.AsyncConsumer(settings, topics="orders") as consumer:
            begun = asyncio.Event()

            async def handle(_: monedula.Record) -> None:
                begun.set()
                await asyncio.Event().wait()

            run = asyncio.create_task(consumer.run(handle))
            await begun.wait()
            for task in sorted(asyncio.all_tasks() - {asyncio.current_task()}, key=lambda task: task is run):
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

    asyncio.run(main())


@FACES
def test_a_wakeup_that_a_handler_raises_is_an_error(ground: Ground, face: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))

    def handle(record: monedula.Record) -> None:
        if record.offset == 1:
            raise monedula.errors.WakeupError("of another consumer, that the handler reads")

    runner = Runner(face, ground.settings(ground.name("group")), topic, handle, order="partition")
    with pytest.raises(monedula.errors.WakeupError, match="of another consumer"):
        runner.join()


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
def test_a_topic_for_dead_letters_that_is_missing_is_said_once(
    broker: Broker, face: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("orders")
    broker.append("orders", map(str, range(8)))
    begun = threading.Barrier(8)

    def handle(_: monedula.Record) -> None:
        begun.wait(PATIENCE_SECONDS)
        raise LookupError("no such customer")

    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}
    run: dict[str, Any] = {"dead_letter": "nowhere", "concurrency": 8, "consumer": {"headers": True}}
    with pytest.raises(monedula.UnknownTopicError, match="nowhere"):
        Runner(face, settings, "orders", handle, **run).join()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


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


async def of_a_coroutine(_: monedula.Record) -> None:
    pytest.fail("nobody awaits it")


def of_a_generator(record: monedula.Record) -> Any:
    yield record.value


async def of_an_async_generator(record: monedula.Record) -> Any:
    yield record.value


@FACES
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("hidden", [of_a_coroutine, of_a_generator, of_an_async_generator])
def test_a_handler_whose_code_did_not_run_has_handled_nothing(
    ground: Ground, face: str, hidden: Callable[[monedula.Record], object]
) -> None:
    topic, letters, group = ground.topic(), ground.topic(), ground.name("group")
    keyed(ground, topic, 1, 5)
    runner = Runner(
        face,
        ground.settings(group),
        topic,
        lambda each: hidden(each) if each.offset == 2 else None,
        consumer={"headers": True},
        retries=3,
        dead_letter=letters,
        on_error=lambda *_: "skip",
        until="latest",
    )
    with pytest.raises(monedula.ArgumentError, match=r"handler: it returned <.*which run") as raised:
        runner.join()
    assert raised.value.__notes__ == [f"monedula: raised while handling {topic}-0 at offset 2, after 1 attempt"]
    with monedula.Consumer(ground.settings(group)) as watching:
        assert committed(watching, topic, [0]) == [2]


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


def test_a_handler_that_ends_the_program_ends_the_run(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    ground.append(topic, range(5))

    def handle(_: monedula.Record) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        member(ground.name("group"), topic).run(handle, retries=5)


@FACES
def test_an_error_without_a_text_is_a_dead_letter_too(ground: Ground, face: str) -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    topic, letters = ground.topic(), ground.topic()
    ground.append(topic, range(1))

    def fail(_: monedula.Record) -> None:
        raise UnprintableError

    settings, consumer = ground.settings(ground.name("group")), {"headers": True}
    Runner(face, settings, topic, fail, consumer=consumer, dead_letter=letters, until="latest").join()
    with monedula.read({"bootstrap.servers": ground.bootstrap}, letters, headers=True) as stream:
        (record,) = [record for batch in stream for record in batch.records()]
    assert b"its text cannot be had" in (dict(record.headers or [])["__dlq.errors.message"] or b"")
