"""The producer at its limits: a dead broker, a full buffer, a million records without an answer."""

import threading
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

from tests.producer.real.load import DEADLINE_SECONDS, log_of

TOPIC = "limits"
VALUE = b"v" * 1000
MANY = 1_000_000


def test_memory_is_bounded_while_the_broker_is_dead() -> None:
    """The buffer takes no more than its limit; the next send raises, and all is delivered once the broker answers."""
    buffer = 4_000_000
    with Broker(topics={TOPIC: 4}) as broker:
        settings = {"buffer.memory": buffer, "max.block.ms": 100, "batch.size": 16_384}
        with monedula.Producer({"bootstrap.servers": broker.bootstrap_servers, **settings}) as producer:
            producer.partitions_for(TOPIC)
            held = broker.fault(api="Produce", hold=True)
            futures: list[Any] = []
            with pytest.raises(monedula.errors.BufferFullError) as raised:
                futures.extend(producer.send(TOPIC, VALUE) for _ in range(2 * buffer // len(VALUE)))
            assert "buffer.memory" in str(raised.value)
            assert buffer / 2 < len(futures) * len(VALUE) <= buffer
            assert not any(future.done() for future in futures)
            held.remove()
            producer.flush(DEADLINE_SECONDS)
            assert all(future.result(0).offset is not None for future in futures)
            producer.send(TOPIC, VALUE).result(DEADLINE_SECONDS)
        assert sum(map(len, log_of(broker.bootstrap_servers, TOPIC).values())) == len(futures) + 1


def test_a_full_buffer_waits_for_room_and_goes_on() -> None:
    """An answer ends the wait of a sender, not its deadline."""
    with Broker(topics={TOPIC: 1}) as broker:
        settings = {"buffer.memory": 200_000, "max.request.size": 100_000, "max.block.ms": 60_000, "batch.size": 16_384}
        with monedula.Producer({"bootstrap.servers": broker.bootstrap_servers, **settings}) as producer:
            producer.partitions_for(TOPIC)
            held = broker.fault(api="Produce", hold=True)
            held_back = threading.Timer(0.2, held.remove)
            held_back.start()
            futures = [producer.send(TOPIC, VALUE, partition=0) for _ in range(1000)]
            held_back.join()
            assert [future.result(DEADLINE_SECONDS).offset for future in futures] == list(range(1000))


def test_a_million_records_without_an_answer() -> None:
    with Broker(topics={TOPIC: 4}) as broker:
        settings = {"buffer.memory": 512_000_000, "batch.size": 1_000_000}
        with monedula.Producer({"bootstrap.servers": broker.bootstrap_servers, **settings}) as producer:
            producer.partitions_for(TOPIC)
            held = broker.fault(api="Produce", hold=True)
            futures = [producer.send(TOPIC, b"%d" % n) for n in range(MANY)]
            held.wait(1)
            assert not any(future.done() for future in futures)
            held.remove()
            producer.flush(DEADLINE_SECONDS)
            ends: dict[int, int] = {}
            for future in futures:
                at = future.result(0)
                assert at.offset is not None
                ends[at.partition] = max(at.offset + 1, ends.get(at.partition, 0))
        assert sum(ends.values()) == MANY, "every offset is someone's"
