"""Behaviour in an event loop: cancellation, concurrent tasks, a loop that is never blocked."""

import asyncio
import random
from collections.abc import Callable

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster

COUNT = 3000
Open = Callable[..., monedula.AsyncConsumer]


@pytest.fixture
def open_consumer(kafka: KafkaCluster) -> Open:
    def make(*topics: str) -> monedula.AsyncConsumer:
        made = monedula.AsyncConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")
        if topics:
            made.assign(list(topics))
        return made

    return make


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    made = topic(3)
    kafka.helper.produce(made, [{"value": str(n), "partition": n % 3} for n in range(COUNT)])
    return made


def numbers(batch: monedula.Batch) -> list[int]:
    return [int(record.value or b"") for record in batch.records()]


async def test_async_for_reads_all(open_consumer: Open, name: str) -> None:
    seen: list[int] = []
    async with open_consumer(name) as consumer:
        async for batch in consumer.batches(timeout=20):
            seen += numbers(batch)
            if len(seen) == COUNT:
                break
    assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize("step", ["poll", "anext"])
async def test_waits_cancelled_at_any_moment_lose_nothing_and_repeat_nothing(
    kafka: KafkaCluster, open_consumer: Open, name: str, step: str
) -> None:
    chance = random.Random(7)
    seen: list[int] = []
    async with open_consumer(name) as consumer:
        batches = consumer.batches(max_rows=50)
        began = cancelled = 0

        async def wait() -> monedula.Batch:
            nonlocal began
            began += 1
            return await (consumer.poll(timeout=20, max_rows=50) if step == "poll" else anext(batches))

        async def cancel(waiting: asyncio.Task[monedula.Batch]) -> None:
            nonlocal cancelled
            waiting.cancel()
            try:
                seen.extend(numbers(await waiting))
            except asyncio.CancelledError:
                cancelled += 1

        while len(seen) < COUNT:
            waiting = asyncio.ensure_future(wait())
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(chance.random() / 2000)
            await cancel(waiting)
            if chance.randrange(3) == 0:
                seen += numbers(await consumer.poll(timeout=20, max_rows=50))
        # All records are read: these waits are in progress when they are cancelled, and take no later record.
        before, began, cancelled = len(seen), 0, 0
        for passes in range(20):
            waiting = asyncio.ensure_future(wait())
            for _ in range(passes + 1):
                await asyncio.sleep(0)
            await cancel(waiting)
        assert (began, cancelled, len(seen)) == (20, 20, before)
        kafka.helper.produce(name, [{"value": str(n), "partition": n % 3} for n in range(COUNT, COUNT + 9)])
        while len(seen) < COUNT + 9:
            seen += numbers(await wait())
    assert sorted(seen) == list(range(COUNT + 9))


async def test_tasks_share_a_consumer_without_losing_or_repeating_a_record(open_consumer: Open, name: str) -> None:
    seen: list[int] = []

    async def read(consumer: monedula.AsyncConsumer) -> None:
        async for batch in consumer.batches(max_rows=40, timeout=2):
            seen.extend(numbers(batch))

    async with open_consumer(name) as consumer:
        await asyncio.gather(*(read(consumer) for _ in range(4)))
    assert sorted(seen) == list(range(COUNT))


async def test_the_loop_goes_on_while_a_task_waits(open_consumer: Open, topic: TopicFactory) -> None:
    async with open_consumer(topic()) as consumer:
        waiting = asyncio.ensure_future(consumer.poll(timeout=1.0))
        turns = 0
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0.001)
        assert not waiting.result()
    assert turns > 100


async def test_lookups_run_beside_each_other_and_beside_a_poll(open_consumer: Open, name: str) -> None:
    async with open_consumer(name) as consumer:
        batch, ends, starts, partitions = await asyncio.gather(
            consumer.poll(timeout=20),
            consumer.end_offsets(),
            consumer.beginning_offsets(),
            consumer.partitions_of(name),
        )
    assert batch
    assert set(ends) == set(starts) == set(partitions)


async def test_closing_ends_the_waits_of_other_tasks(open_consumer: Open, topic: TopicFactory) -> None:
    consumer = open_consumer(topic())

    async def iterate() -> None:
        async for _ in consumer.batches():
            pass

    waits = [asyncio.ensure_future(consumer.poll(timeout=60)) for _ in range(3)]
    iterating = asyncio.ensure_future(iterate())
    await asyncio.sleep(0)  # each task runs until it waits
    await consumer.close()
    ended = await asyncio.wait_for(asyncio.gather(*waits, iterating, return_exceptions=True), 10)
    assert [type(error) for error in ended] == [monedula.errors.ClosedError] * 4
    await consumer.close()


async def test_a_timeout_around_a_poll_ends_it(open_consumer: Open, topic: TopicFactory) -> None:
    async with open_consumer(topic()) as consumer:
        # It ends with that time-out, neither with a batch nor with the poll's own time-out two minutes later.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await consumer.poll(timeout=120)
        # It leaves nothing behind that would block the next wait.
        assert (await consumer.poll(timeout=0)).num_rows == 0


async def test_leaving_records_early_gives_back_what_was_read_ahead(open_consumer: Open, name: str) -> None:
    async with open_consumer() as consumer:
        consumer.assign([(name, 0)])
        seen = []
        for _ in range(3):
            async for record in consumer.records(timeout=20):
                seen.append(record.offset)
                break
    assert seen == [0, 1, 2]


def test_another_loop_is_told_to_open_its_own(open_consumer: Open, name: str) -> None:
    consumer = open_consumer(name)

    async def poll() -> monedula.Batch:
        return await consumer.poll(timeout=20)

    assert asyncio.run(poll())
    with pytest.raises(monedula.ArgumentError, match="another event loop; make one in each loop"):
        asyncio.run(poll())
