"""A Kafka-compatible broker inside of the test's own process.

    from monedula.testing import Broker

    with Broker(topics={"orders": 3}) as broker:
        broker.append("orders", [("a key", "a value")])
        consumer = monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers})

It starts in a few milliseconds, many can run at once, and any Kafka client can connect. With pytest, the fixtures
`monedula_broker` and `monedula_broker_factory` are there by themselves.
"""

from monedula.testing.broker import Broker
from monedula.testing.faults import Fault
from monedula.testing.state import Connection, Group, GroupListing, LogLine, Member

__all__ = ["Broker", "Connection", "Fault", "Group", "GroupListing", "LogLine", "Member"]
