"""An error of a partition comes after the rows before it, also those that another thread or task has in hand.

The seek behind it would skip them otherwise: if their holder failed, nobody would read them again.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula import Json
from monedula.testing import Broker

from tests.groups.ground import SETTINGS, TIMING

NODES = [1, 3, pytest.param(9, marks=pytest.mark.thorough), pytest.param(50, marks=pytest.mark.thorough)]


@pytest.fixture(params=NODES, ids=lambda nodes: f"{nodes}-nodes")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(nodes=request.param, topics={"orders": 1, "failed": 1}, settings=SETTINGS) as broker:
        yield broker


def settings_of(broker: Broker) -> dict[str, Any]:
    servers = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
    return {**servers, "group.id": "etl", **TIMING}


def offsets(batch: monedula.Batch) -> list[int | None]:
    return [record.offset for record in batch.records()]


def fill(broker: Broker) -> None:
    """Two sound records, a broken one, a sound one."""
    broker.append("orders", ['{"id": 0}', '{"id": 1}', "broken", '{"id": 3}'])


def fill_with_letters(broker: Broker) -> None:
    """A value for the dead letters, a sound record, and one whose key is an error."""
    keys = ['{"k": 0}', '{"k": 1}', "broken", '{"k": 3}']
    values = ["broken", '{"id": 1}', '{"id": 2}', '{"id": 3}']
    broker.append("orders", list(zip(keys, values, strict=True)))


LETTERS: dict[str, Any] = {"key": Json("k int"), "value": Json("id int", dead_letter="failed")}


def test_rows_in_another_thread_come_first(broker: Broker) -> None:
    fill(broker)
    with monedula.Consumer(settings_of(broker), ["orders"], value=Json("id int")) as consumer:
        taken, finishes = threading.Event(), threading.Event()
        got: list[Any] = []

        def other() -> None:
            got.append(offsets(consumer.poll(timeout=30)))
            taken.set()
            finishes.wait()
            got.append(consumer.commit())

        thread = threading.Thread(target=other)
        thread.start()
        taken.wait()
        for _ in range(3):
            assert len(consumer.poll(timeout=0)) == 0
        finishes.set()
        thread.join()
        with pytest.raises(monedula.DecodeError, match="at offset 2"):
            consumer.poll(timeout=30)
        assert got == [[0, 1], {("orders", 0): 2}]
        consumer.seek(("orders", 0), 3)
        assert offsets(consumer.poll(timeout=30)) == [3]


def test_a_thread_that_has_ended_is_not_waited_for(broker: Broker) -> None:
    fill(broker)
    with monedula.Consumer(settings_of(broker), ["orders"], value=Json("id int")) as consumer:
        thread = threading.Thread(target=lambda: consumer.poll(timeout=30))
        thread.start()
        thread.join()
        with pytest.raises(monedula.DecodeError, match="at offset 2"):
            consumer.poll(timeout=30)


def test_rows_in_another_task_come_first(broker: Broker) -> None:
    fill(broker)

    async def main() -> None:
        async with monedula.AsyncConsumer(settings_of(broker), ["orders"], value=Json("id int")) as consumer:
            taken, finishes = asyncio.Event(), asyncio.Event()

            async def other() -> dict[Any, int]:
                assert offsets(await consumer.poll(timeout=30)) == [0, 1]
                taken.set()
                await finishes.wait()
                return dict(await consumer.commit())

            task = asyncio.create_task(other())
            await taken.wait()
            for _ in range(3):
                assert len(await consumer.poll(timeout=0)) == 0
            finishes.set()
            assert await task == {("orders", 0): 2}
            with pytest.raises(monedula.DecodeError, match="at offset 2"):
                await consumer.poll(timeout=30)
            consumer.seek(("orders", 0), 3)
            assert offsets(await consumer.poll(timeout=30)) == [3]

    asyncio.run(main())


@pytest.mark.parametrize("group", [True, False], ids=["group", "assigned"])
def test_rows_whose_dead_letters_another_thread_awaits_come_first(broker: Broker, group: bool) -> None:
    fill_with_letters(broker)
    settings = settings_of(broker)
    if not group:
        del settings["group.id"]
    with monedula.Consumer(settings, **LETTERS) as consumer:
        consumer.subscribe(["orders"]) if group else consumer.assign(["orders"])
        got: list[Any] = []

        def other() -> None:
            got.append(offsets(consumer.poll(timeout=60)))

        thread = threading.Thread(target=other)
        with broker.fault(api="Produce", topic="failed", hold=True) as held:
            thread.start()
            held.wait()
            for _ in range(3):
                assert len(consumer.poll(timeout=0)) == 0
        thread.join()
        assert got == [[1]]
        with pytest.raises(monedula.DecodeError, match="at offset 2"):
            consumer.poll(timeout=30)
        consumer.seek(("orders", 0), 3)
        assert offsets(consumer.poll(timeout=30)) == [3]


def test_rows_whose_dead_letters_another_task_awaits_come_first(broker: Broker) -> None:
    fill_with_letters(broker)

    async def main() -> None:
        async with monedula.AsyncConsumer(settings_of(broker), ["orders"], **LETTERS) as consumer:

            async def other() -> list[int | None]:
                found = offsets(await consumer.poll(timeout=60))
                assert await consumer.commit() == {("orders", 0): 2}
                return found

            with broker.fault(api="Produce", topic="failed", hold=True) as held:
                task = asyncio.create_task(other())
                await asyncio.to_thread(held.wait)
                for _ in range(3):
                    assert len(await consumer.poll(timeout=0)) == 0
            assert await task == [1]
            with pytest.raises(monedula.DecodeError, match="at offset 2"):
                await consumer.poll(timeout=30)

    asyncio.run(main())


def test_a_batch_whose_dead_letter_failed_comes_before_the_error_of_its_partition(broker: Broker) -> None:
    fill_with_letters(broker)
    with monedula.Consumer(settings_of(broker), ["orders"], **LETTERS) as consumer:
        with broker.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE"):
            for _ in range(2):
                with pytest.raises(monedula.KafkaError) as raised:
                    consumer.poll(timeout=30)
                assert not isinstance(raised.value, monedula.DecodeError)
        assert offsets(consumer.poll(timeout=30)) == [1]
        with pytest.raises(monedula.DecodeError, match="at offset 2"):
            consumer.poll(timeout=30)
