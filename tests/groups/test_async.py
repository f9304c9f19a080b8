"""The asyncio consumer as a member."""

import asyncio
from collections.abc import Callable
from typing import Any

import monedula
import monedula._asyncio.client_loop
import pytest
from monedula import TopicPartition
from monedula.testing import Broker

from tests.groups.ground import PATIENCE_SECONDS, Ground, values

Open = Callable[..., monedula.AsyncConsumer]


def opened(ground: Ground | Broker, group: str, topics: Any = None, **settings: Any) -> monedula.AsyncConsumer:
    bootstrap = ground.bootstrap_servers if isinstance(ground, Broker) else ground.bootstrap
    timing = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200, "auto_offset_reset": "earliest"}
    return monedula.AsyncConsumer(None, topics, bootstrap_servers=bootstrap, group_id=group, **{**timing, **settings})


async def take(consumer: monedula.AsyncConsumer, count: int) -> list[int]:
    seen: list[int] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(seen) < count:
            seen += values(await consumer.poll(timeout=1))
    return seen


async def until(is_so: Callable[[], bool], *consumers: monedula.AsyncConsumer) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():
            for consumer in consumers:
                await consumer.poll(timeout=0.05)
            await asyncio.sleep(0)


@pytest.mark.both_protocols
async def test_subscribe_commit_and_go_on(ground: Ground, protocol: str) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(5), partition)
    async with opened(ground, group, topic, enable_auto_commit=False, group_protocol=protocol) as first:
        assert sorted(await take(first, 10)) == sorted([*range(5), *range(5)])
        assert await first.commit() == {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 5}
        task = first.commit_async({(topic, 0): (3, "note")})
        assert await task == {TopicPartition(topic, 0): 3}
        found = await first.committed()
        assert found[TopicPartition(topic, 0)] == monedula.OffsetAndMetadata(3, "note", 0)
        with pytest.raises(monedula.ArgumentError):
            await first.commit(5)  # type: ignore[arg-type]
    async with opened(ground, group, topic, group_protocol=protocol) as second:
        assert await take(second, 2) == [3, 4]


@pytest.mark.both_protocols
async def test_coroutine_callbacks_run_before_records_and_survive_cancelled_waits(
    ground: Ground, protocol: str
) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    order: list[str] = []
    go_on = asyncio.Event()
    async with opened(ground, ground.name("group"), group_protocol=protocol) as consumer:

        async def assigned(partitions: set[TopicPartition]) -> None:
            order.append("begin")
            await go_on.wait()
            assert await consumer.committed(partitions) == dict.fromkeys(partitions)
            order.append("end")

        consumer.subscribe(topic, on_assigned=assigned)
        batches = consumer.batches()
        while not order:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(batches), 0.05)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.poll(timeout=30), 0.05)
        go_on.set()
        assert await take(consumer, 3) == [0, 1, 2]
    assert order == ["begin", "end"]


async def test_what_a_callback_raises_comes_out_of_the_next_wait(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    error = KeyError("the user's own")
    failures = 3
    async with opened(ground, ground.name("group")) as consumer:

        async def fail(_: set[TopicPartition]) -> None:
            nonlocal failures
            await asyncio.sleep(0)
            failures -= 1
            if failures >= 0:
                raise error

        consumer.subscribe(topic, on_assigned=fail)
        # Nothing is handed out before it went well.
        for _ in range(3):
            with pytest.raises(KeyError) as caught:
                await take(consumer, 3)
            assert caught.value is error
        assert await take(consumer, 3) == [0, 1, 2]
        assert failures == -1


async def test_a_coroutine_callback_must_not_poll(ground: Ground) -> None:
    refused: list[str] = []
    async with opened(ground, ground.name("group")) as consumer:

        async def assigned(_: set[TopicPartition]) -> None:
            for call in (consumer.poll, consumer.unsubscribe, consumer.close):
                with pytest.raises(monedula.ArgumentError, match="inside of a rebalance callback") as caught:
                    await call()
                refused.append(str(caught.value).partition("(")[0])

        consumer.subscribe(ground.topic(), on_assigned=assigned)
        await until(lambda: bool(refused), consumer)
    assert refused == ["poll", "unsubscribe", "close"]


@pytest.mark.both_protocols
async def test_two_members_share_and_close_revokes(ground: Ground, protocol: str) -> None:
    topic, group = ground.topic(4), ground.name("group")
    revoked: list[set[TopicPartition]] = []
    first, second = opened(ground, group, group_protocol=protocol), opened(ground, group, group_protocol=protocol)

    async def give_up(partitions: set[TopicPartition]) -> None:
        await first.commit(dict.fromkeys(partitions, 1))
        revoked.append(partitions)

    first.subscribe(topic, on_revoked=give_up)
    second.subscribe(topic)
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
    had = first.assignment()
    await first.close()
    assert revoked[-1] == had
    await until(lambda: len(second.assignment()) == 4, second)
    found = await second.committed(had)
    assert {at.offset for at in found.values() if at is not None} == {1}
    await second.unsubscribe()
    assert second.assignment() == set()
    await second.close()


async def test_each_task_finishes_its_own_batches(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(topic, range(9))
    async with opened(ground, ground.name("group"), topic, enable_auto_commit=False) as consumer:
        held, go_on = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            batch = await consumer.poll(timeout=20, max_rows=3)
            assert values(batch) == [0, 1, 2]
            held.set()
            await go_on.wait()
            assert await consumer.commit(batch) == {TopicPartition(topic, 0): 3}

        holding = asyncio.create_task(hold())
        await held.wait()
        second = await asyncio.wait_for(consumer.poll(timeout=20, max_rows=3), 30)
        assert values(second) == [3, 4, 5]
        # Asking again finishes one's own batch, not that of the other task.
        third = await asyncio.wait_for(consumer.poll(timeout=20, max_rows=3), 30)
        assert values(third) == [6, 7, 8]
        assert (await consumer.committed())[TopicPartition(topic, 0)] is None
        go_on.set()
        await holding
        assert await consumer.commit() == {TopicPartition(topic, 0): 9}


async def test_async_for_over_records_commits_row_by_row(ground: Ground) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    async with opened(ground, group, topic) as consumer:
        async for record in consumer.records(timeout=20):
            if record.offset == 6:
                break
    async with opened(ground, group) as watching:
        found = (await watching.committed([(topic, 0)]))[TopicPartition(topic, 0)]
    assert found is not None
    assert found.offset == 7, "the row at which the loop was left is finished by leaving the block"


async def test_max_poll_exceeded_and_rejoin(broker: Broker) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["0", "1"])
    async with opened(broker, "etl", "orders", max_poll_interval_ms=1000, session_timeout_ms=1500) as consumer:
        assert values(await consumer.poll(timeout=20, max_rows=1)) == [0]
        await until(lambda: consumer.metrics()["group_partitions_lost"] == 1)  # without a poll
        with pytest.raises(monedula.errors.MaxPollExceededError):
            await consumer.poll(timeout=20)
        assert await take(consumer, 2) == [0, 1]


@pytest.mark.both_protocols
async def test_a_wait_in_an_idle_topic_is_polling_and_gives_up_partitions(ground: Ground, protocol: str) -> None:
    topic, group = ground.topic(2), ground.name("group")
    settings = {"group_protocol": protocol, "max_poll_interval_ms": 1000, "session_timeout_ms": 1500}
    async with opened(ground, group, topic, **settings) as first, opened(ground, group, **settings) as second:
        revoked: list[set[TopicPartition]] = []
        first.subscribe(topic, on_revoked=revoked.append)
        await until(lambda: len(first.assignment()) == 2, first)
        beats = first.metrics()["group_heartbeat_count"]
        # From here on there is one wait: no record arrives, and no new call is made.
        waiting = asyncio.create_task(first.poll(timeout=600))
        async with asyncio.timeout(PATIENCE_SECONDS):
            # More than twice the interval: under the classic protocol they go out in 50 ms at the most often.
            while first.metrics()["group_heartbeat_count"] < beats + 45:
                await asyncio.sleep(0.05)
        assert first.metrics()["group_partitions_lost"] == 0
        assert len(first.assignment()) == 2
        second.subscribe(topic)
        await until(lambda: len(second.assignment()) == len(first.assignment()) == 1, second)
        assert len(revoked) == 1
        assert not waiting.done()
        first.wakeup()
        with pytest.raises(monedula.errors.WakeupError):
            await waiting


@pytest.mark.both_protocols
async def test_a_task_that_ended_with_a_batch_holds_nobody_up(
    ground: Ground, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    first = opened(ground, group, topic, group_protocol=protocol)
    second = opened(ground, group, group_protocol=protocol)

    async def fail() -> None:
        assert values(await first.poll(timeout=20, max_rows=4)) == [0, 1, 2, 3]
        raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError):
        await asyncio.create_task(fail())
    assert await take(first, 6) == [4, 5, 6, 7, 8, 9]
    await until(lambda: f"{topic}-0 before offset 4" in caplog.text, first)
    second.subscribe(topic)
    unsubscribing = asyncio.create_task(first.unsubscribe(timeout=PATIENCE_SECONDS))
    assert await take(second, 10) == list(range(10)), "what is not finished is read again"
    await unsubscribing
    await first.close()
    await second.close()


async def test_leaving_the_block_finishes_what_was_handed_out(ground: Ground) -> None:
    topic, group = ground.topic(), ground.name("group")
    ground.append(topic, range(10))
    async with opened(ground, group, topic) as consumer:
        assert values(await consumer.poll(timeout=20, max_rows=4)) == [0, 1, 2, 3]

    async def fail() -> None:
        async with opened(ground, group, topic) as consumer:
            assert values(await consumer.poll(timeout=20, max_rows=4)) == [4, 5, 6, 7]
            raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError):
        await fail()
    consumer = opened(ground, group, topic)
    assert values(await consumer.poll(timeout=20, max_rows=4)) == [4, 5, 6, 7]
    await consumer.close()
    async with opened(ground, group, topic) as consumer:
        assert await take(consumer, 2) == [8, 9]


async def test_close_is_bounded_though_a_callback_never_ends(ground: Ground) -> None:
    consumer = opened(ground, ground.name("group"))
    never = asyncio.Event()
    consumer.subscribe(ground.topic(), on_revoked=lambda _: never.wait())
    await until(lambda: bool(consumer.assignment()), consumer)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await consumer.close(timeout=0.5)
    with pytest.raises(monedula.errors.ClosedError):
        await consumer.poll()


async def test_what_callbacks_take_is_not_counted_as_waiting(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("orders")
    broker.append("orders", ["0"])
    held, slow = broker.fault(api="Fetch", hold=True), [0.0]
    time = monedula._asyncio.client_loop.ClientLoop.time
    monkeypatch.setattr(monedula._asyncio.client_loop.ClientLoop, "time", lambda self: time(self) + slow[0])

    def told(_: object) -> None:
        slow[0] += 1000 * PATIENCE_SECONDS

    async def assigned(_: set[TopicPartition]) -> None:
        told(_)
        asyncio.get_running_loop().call_later(0.05, held.remove)

    async with opened(broker, "group", on_event=told) as consumer:
        consumer.subscribe("orders", on_assigned=assigned)
        assert values(await anext(consumer.batches(timeout=PATIENCE_SECONDS))) == [0]
    assert slow[0]


def test_a_consumer_that_is_not_closed_leaves_when_its_loop_ends(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("orders", 1)
    broker.append("orders", ["0", "1", "2"])
    kept: list[monedula.AsyncConsumer] = []

    async def first() -> None:
        kept.append(opened(broker, "etl", "orders"))
        async for _ in kept[0].records():
            raise LookupError("its handler")

    async def second() -> list[int]:
        async with opened(broker, "etl", "orders") as consumer:
            return await take(consumer, 3)

    with pytest.raises(LookupError):
        asyncio.run(first())
    assert not broker.group("etl").members
    assert "was not closed before its event loop ended" in caplog.text
    with pytest.raises(monedula.errors.ClosedError):
        kept[0].assignment()
    caplog.clear()
    assert asyncio.run(second()) == [0, 1, 2], "the row in hand was not committed"
    assert "not closed" not in caplog.text
