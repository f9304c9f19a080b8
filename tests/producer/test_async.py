"""The asyncio producer: the same methods, and a loop that is never blocked."""

import asyncio

import monedula
import pytest
from monedula.testing import Broker

from tests.groups.ground import Ground
from tests.producer.conftest import stored

PATIENCE = 30.0


async def test_sending_awaiting_flushing(ground: Ground) -> None:
    topic = ground.topic(2)
    async with monedula.AsyncProducer(bootstrap_servers=ground.bootstrap) as sender:
        place = await sender.send(topic, "a value", key="a key", headers={"a": "1"}, partition=1)
        assert (place.topic, place.partition, place.offset) == (topic, 1, 0)
        futures = [sender.send(topic, str(number), partition=0) for number in range(100)]
        await sender.flush(PATIENCE)
        assert all(future.done() for future in futures)
        assert [(await future).offset for future in futures] == list(range(100))
        assert await sender.partitions_for(topic) == [0, 1]
        assert sender.metrics()["records_acknowledged"] >= 101
        assert sender.health()["connections"] >= 1
    with pytest.raises(monedula.errors.ClosedError, match="the producer is closed"):
        sender.send(topic, "x")
    assert len(stored(ground.bootstrap, topic)) == 101


async def test_the_loop_goes_on_while_an_answer_is_awaited(broker: Broker) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    async with monedula.AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as sender:
        waits = [
            asyncio.ensure_future(sender.send("orders", "x")),
            asyncio.create_task(sender.flush()),
        ]
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waits[0].done()
        assert not waits[1].done()
        fault.remove()
        await asyncio.wait_for(asyncio.gather(*waits), PATIENCE)


async def test_callbacks(ground: Ground) -> None:
    called: list[monedula.SendFuture] = []
    async with monedula.AsyncProducer(bootstrap_servers=ground.bootstrap) as sender:
        future = sender.send(ground.topic(), "x", on_delivery=called.append)
        await sender.flush()
        assert called == [future]


async def test_a_wait_that_is_cancelled_loses_nothing(broker: Broker) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    async with monedula.AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as sender:
        future = sender.send("orders", "x")
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await future
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await sender.flush()
        fault.remove()
        async with asyncio.timeout(PATIENCE):
            assert (await future).offset == 0


async def test_closing_is_bounded(broker: Broker) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    sender = monedula.AsyncProducer(bootstrap_servers=broker.bootstrap_servers)
    future = sender.send("orders", "x")
    async with asyncio.timeout(PATIENCE):
        await sender.close(timeout=0.1)
        with pytest.raises(monedula.errors.ClosedError):
            await future
        await sender.close()
    fault.remove()


def test_a_producer_outlives_a_loop(ground: Ground) -> None:
    topic = ground.topic()
    sender = monedula.AsyncProducer(bootstrap_servers=ground.bootstrap)

    async def send() -> int | None:
        return (await sender.send(topic, "x")).offset

    assert [asyncio.run(send()) for _ in range(3)] == [0, 1, 2]
    asyncio.run(sender.close())
