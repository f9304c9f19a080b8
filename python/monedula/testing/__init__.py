"""An embedded, Kafka-compatible broker for tests: it runs inside the test's own process.

    from monedula.testing import Broker

    with Broker(topics={"orders": 3}) as broker:
        broker.append("orders", [("a key", "a value")])
        consumer = monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers})

A broker starts in a few milliseconds, many can run at once, and any Kafka client can connect. With pytest, the fixtures
`monedula_broker`, `monedula_registry_broker`, `monedula_session_broker`, `monedula_secured_broker` and
`monedula_broker_factory` are available without an import.
"""

from typing import TYPE_CHECKING, Any

from monedula.testing.broker import Broker
from monedula.testing.faults import Fault
from monedula.testing.security import Acl, ClientCertificate
from monedula.testing.state import Connection, Exchange, Group, GroupListing, LogLine, Member, PushedMetrics

if TYPE_CHECKING:
    from monedula.testing.registry import Registry, RegistryRequest

__all__ = [
    "Acl",
    "Broker",
    "ClientCertificate",
    "Connection",
    "Exchange",
    "Fault",
    "Group",
    "GroupListing",
    "LogLine",
    "Member",
    "PushedMetrics",
    "Registry",
    "RegistryRequest",
]


def __getattr__(name: str) -> Any:
    # An HTTP server takes a third of the time to import all of this, and most tests need none.
    if name in ("Registry", "RegistryRequest"):
        from monedula.testing import registry

        return getattr(registry, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
