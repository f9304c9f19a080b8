"""Offsets of the user's own choice are committed with the leader epoch of the record before them, if it was read."""

from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

PARTITION = monedula.TopicPartition("orders", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(nodes=2, topics={"orders": 1}) as broker:
        yield broker


def consumer(broker: Broker, **more: Any) -> monedula.Consumer:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}
    return monedula.Consumer({**settings, "enable.auto.commit": False, **more})


def fill(broker: Broker) -> list[int]:
    """Three records under one leader and three under the next; the leader epoch of each."""
    epochs = []
    for node in (2, 1):
        epochs += [broker.move_leader("orders", 0, node)] * 3
        broker.append("orders", ["a", "b", "c"])
    return epochs


def committed_epoch(consumer: monedula.Consumer) -> int:
    at = consumer.committed([PARTITION])[PARTITION]
    assert at is not None
    return at.leader_epoch


@pytest.mark.parametrize("protocol", ["classic", "consumer", None])
def test_each_offset_has_the_epoch_of_the_record_before_it(broker: Broker, protocol: str | None) -> None:
    epochs = fill(broker)
    with consumer(broker, **({} if protocol is None else {"group.protocol": protocol})) as reader:
        if protocol is None:
            reader.assign({PARTITION: "earliest"})
        else:
            reader.subscribe("orders")
        rows = 0
        while rows < 6:
            rows += len(reader.poll(timeout=20))
        for offset in range(1, 7):
            reader.commit({PARTITION: offset})
            assert committed_epoch(reader) == epochs[offset - 1], offset


def test_what_was_not_read_is_committed_without_an_epoch(broker: Broker) -> None:
    fill(broker)
    with consumer(broker) as reader:
        reader.assign({PARTITION: 4})
        rows = 0
        while rows < 2:
            rows += len(reader.poll(timeout=20))
        for offset in (2, 7):
            reader.commit({PARTITION: offset})
            assert committed_epoch(reader) == -1


def test_an_epoch_that_the_user_gives_is_kept(broker: Broker) -> None:
    fill(broker)
    with consumer(broker) as reader:
        reader.assign({PARTITION: "earliest"})
        rows = 0
        while rows < 6:
            rows += len(reader.poll(timeout=20))
        reader.commit({PARTITION: monedula.OffsetAndMetadata(3, "", 0)})
        assert committed_epoch(reader) == 0


def test_a_row_in_the_middle_of_a_batch_is_committed_with_its_epoch(broker: Broker) -> None:
    epochs = fill(broker)
    with consumer(broker) as reader:
        reader.assign({PARTITION: "earliest"})
        records = reader.records()
        for _ in range(3):
            next(records)
        # Asking for the third has finished the two before it.
        reader.commit()
        at = reader.committed([PARTITION])[PARTITION]
        assert at is not None
        assert at.leader_epoch == epochs[at.offset - 1]
