"""Ways in which a broker is not there."""

from typing import Any

from monedula.testing import Broker

from tests.consumer.conftest import ConsumerFactory
from tests.consumer.uniform import Uniform


def stop(broker: Broker) -> None:
    for node in broker.addresses:
        broker.stop_node(node)


def pause(broker: Broker) -> None:
    broker.fault(hold=True, on="request")


def swallow(broker: Broker) -> None:
    broker.fault(black_hole="both")


def reading(consumer: ConsumerFactory, broker: Broker, **settings: Any) -> Uniform:
    """A consumer that has read from each node."""
    for partition in range(len(broker.addresses)):
        broker.append("orders", ["a"], partition=partition)
    made = consumer("orders", bootstrap_servers=broker.bootstrap_servers, **settings)
    made.take(len(broker.addresses))
    return made
