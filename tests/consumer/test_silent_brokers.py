"""One broker of several that is silent: what the others lead is read, by assignment and in groups of both protocols."""

from typing import Any

import monedula
import pytest
from monedula.testing import Broker

NODES = 3
NEVER_MS = 3_600_000
"""Longer than any test."""


def cluster() -> Broker:
    """Three brokers, each of which leads the partition of its number less one, with two records in each."""
    broker = Broker(nodes=NODES, topics={"orders": NODES})
    for partition in range(NODES):
        broker.move_leader("orders", partition, partition + 1)
        broker.append("orders", ["a", "b"], partition=partition)
    return broker


def rows_of(consumer: monedula.Consumer, partitions: set[int]) -> None:
    """Reads until a row of each of these has come."""
    read: set[int] = set()
    while not partitions <= read:
        read |= {span.partition for span in consumer.poll(timeout=1.0).spans}


@pytest.mark.parametrize("how", ["assign", "classic", "consumer"])
@pytest.mark.parametrize("api", ["ListOffsets", "Fetch", "Metadata", "FindCoordinator", "ApiVersions"])
@pytest.mark.parametrize("silent", [1, NODES])
def test_partitions_of_the_others_are_read(how: str, api: str, silent: int) -> None:
    with cluster() as broker:
        other = silent % NODES + 1
        broker.move_coordinator(group="etl", node=other)
        broker.fault(api=api, node=silent, hold=True)
        settings: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "auto.offset.reset": "earliest",
            "request.timeout.ms": NEVER_MS,
        }
        if how != "assign":
            settings |= {"group.id": "etl", "group.protocol": how}
        with monedula.Consumer(settings) as consumer:
            if how == "assign":
                consumer.assign({("orders", partition): "earliest" for partition in range(NODES)})
            else:
                consumer.subscribe("orders")
            rows_of(consumer, set(range(NODES)) - {silent - 1})
            broker.remove_faults()
