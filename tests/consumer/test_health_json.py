"""`health()` and `lag()` as JSON."""

import asyncio
import json
from datetime import UTC, datetime
from time import sleep
from typing import Any

import monedula
from monedula.testing import Broker
from monedula.types.json_dict import JsonDict


def settings(broker: Broker) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "etl",
        "auto.offset.reset": "earliest",
    }


def through_json(told: JsonDict[Any, Any]) -> Any:
    read = json.loads(json.dumps(told.to_json()))
    assert read == told.to_json(), "what is written is what is read"
    return read


def test_a_consumer_tells_its_health_and_lag() -> None:
    with Broker(topics={"orders": 2}, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.append("orders", ["a", "b", "c"], partition=1)
        with monedula.Consumer(settings(broker), topics=["orders"]) as consumer:
            while not (batch := consumer.poll(timeout=5.0, max_rows=1)):
                pass
            assert batch.num_rows == 1
            health, lag = consumer.health(), consumer.lag()
        by_pair: Any = lag
        assert by_pair["orders", 1] == lag[monedula.TopicPartition("orders", 1)] == 2
        assert through_json(lag)["orders-1"] == 2
        assert {at.topic for at in lag} == {"orders"}
        assert health["partitions"]["orders", 1]["position"] == 1
        told = through_json(health)
        assert told.keys() == health.keys()
        assert told["partitions"].keys() == {"orders-0", "orders-1"}
        assert told["partitions"]["orders-1"] == health["partitions"]["orders", 1]
        assert sorted(told["group"]["owned"]) == ["orders-0", "orders-1"]


def test_the_times_of_failures_are_texts() -> None:
    with monedula.Consumer({"bootstrap.servers": "127.0.0.1:1", "bootstrap.timeout.ms": 60_000}) as consumer:
        consumer.assign("orders")
        while consumer.health()["failing_since"] is None:
            consumer.poll(timeout=0.1)
        health = consumer.health()
        told = through_json(health)
        assert datetime.fromisoformat(told["failing_since"]) == health["failing_since"] < datetime.now(UTC)
        assert through_json(consumer.lag()) == {}


def test_an_async_consumer_tells_the_same() -> None:
    async def main(broker: Broker) -> None:
        async with monedula.AsyncConsumer(settings(broker)) as consumer:
            consumer.assign([("orders", 0)])
            while not await consumer.poll(timeout=5.0):
                pass
            assert through_json(consumer.health())["partitions"]["orders-0"]["position"] == 2
            assert through_json(consumer.lag()) == {"orders-0": 0}

    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ["a", "b"])
        asyncio.run(main(broker))


def test_producers_tell_their_health() -> None:
    def check(health: JsonDict[str, Any]) -> None:
        told = through_json(health)
        assert told.keys() == health.keys()
        assert (told["ok"], told["topics"], told["records_unfinished"]) == (True, 1, 1)
        assert told["batches_in_flight_by_broker"] == {"1": 1}

    async def send_and_check(broker: Broker) -> None:
        async with monedula.AsyncProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            sent = producer.send("orders", "a")
            while not producer.health()["batches_in_flight"]:
                await asyncio.sleep(0.01)
            check(producer.health())
            await sent

    with Broker(topics={"orders": 1}) as broker:
        broker.fault(api="Produce", delay_ms=1000)
        with monedula.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            producer.send("orders", "a")
            while not producer.health()["batches_in_flight"]:
                sleep(0.01)
            check(producer.health())
        asyncio.run(send_and_check(broker))


def test_a_topic_with_dashes_keeps_its_name() -> None:
    lags = JsonDict({monedula.TopicPartition("orders-2-late", 10): None, monedula.TopicPartition("orders", 2): 1})
    assert lags.to_json() == {"orders-2-late-10": None, "orders-2": 1}
