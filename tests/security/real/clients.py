"""What the tests share: one thing that needs the brokers for each kind of client, and reading until it is there."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import monedula

from tests.kafka.secured import SecuredKafka

TIMEOUT_SECONDS = 60.0
Settings = Mapping[str, Any]
QUICK = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}


def consume(settings: Settings, topic: str) -> int:
    """A member of a group reads until it has a record; how many it has."""
    own = {**settings, **QUICK, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    with monedula.Consumer(own, [topic]) as consumer:
        return take(consumer, 1)


def consume_async(settings: Settings, topic: str) -> int:
    """Likewise under asyncio, with partitions that are assigned."""

    async def read() -> int:
        async with monedula.AsyncConsumer({**settings, **QUICK, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign(topic)
            deadline = time.monotonic() + TIMEOUT_SECONDS
            rows = 0
            while not rows:
                assert time.monotonic() < deadline, consumer.health()
                rows += (await consumer.poll(timeout=0.5)).num_rows
            return rows

    return asyncio.run(read())


def produce(settings: Settings, topic: str) -> int:
    """A producer sends a record; its offset."""
    with monedula.Producer({**settings, **QUICK}) as producer:
        offset = producer.send(topic, b"x").result(TIMEOUT_SECONDS).offset
        assert offset is not None
        return offset


def administer(settings: Settings, topic: str) -> int:
    """An admin describes a topic; how many partitions it has."""
    with monedula.Admin({**settings, **QUICK}) as admin:
        return len(admin.describe_topics(topic)[topic].partitions)


def read(settings: Settings, topic: str) -> int:
    """A bounded read; how many records there are."""
    return sum(batch.num_rows for batch in monedula.read({**settings, **QUICK}, topic))


CLIENTS: dict[str, Callable[[Settings, str], int]] = {
    "producer": produce,
    "consumer": consume,
    "async consumer": consume_async,
    "admin": administer,
    "read": read,
}
"""By the kind of client; the producer first, so that there is something to read."""


def take(consumer: monedula.Consumer, count: int) -> int:
    """Poll until there were so many records; fails if they do not come in time."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    rows = 0
    while rows < count:
        assert time.monotonic() < deadline, f"{rows} of {count} records; {consumer.health()}"
        rows += consumer.poll(0.5).num_rows
    return rows


def poll_until_error(consumer: monedula.Consumer) -> None:
    """Poll until that raises."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        assert time.monotonic() < deadline, f"no error; {consumer.health()}"
        consumer.poll(0.5)


def written(secured: SecuredKafka, topic: str, count: int = 1, partition: int = 0) -> None:
    """Write records, as a super user."""
    secured.helper.produce(topic, [{"value": f"{at}", "partition": partition} for at in range(count)])
