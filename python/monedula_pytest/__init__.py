"""The pytest plugin: an embedded broker as a fixture, and its state in the report of a test that fails.

The entry point `pytest11` names this package, so every pytest of the environment loads it. Therefore it is outside of
the package `monedula`, and imports that only when a test uses a fixture.
"""

import secrets
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from monedula.testing import Broker


_STARTED = pytest.StashKey["list[Broker]"]()


class BrokerFactory(Protocol):
    """Starts brokers that stop at the end of the test."""

    def __call__(self, nodes: int = 1, topics: Any = (), **options: Any) -> "Broker":
        """Start a broker, with the arguments of `monedula.testing.Broker`."""


@pytest.fixture
def monedula_broker_factory(request: pytest.FixtureRequest) -> "Iterator[BrokerFactory]":
    """Starts embedded brokers: it takes what `monedula.testing.Broker` takes. All of them stop with the test."""
    from monedula.testing import Broker

    started: list[Broker] = []
    request.node.stash[_STARTED] = started

    def start(nodes: int = 1, topics: Any = (), **options: Any) -> "Broker":
        broker = Broker(nodes, topics, **options)
        started.append(broker)
        return broker

    yield start
    for broker in reversed(started):
        broker.stop()


@pytest.fixture
def monedula_broker(monedula_broker_factory: "BrokerFactory") -> "Broker":
    """An embedded broker of one node, without topics, that stops with the test."""
    return monedula_broker_factory()


@pytest.fixture
def monedula_registry_broker(monedula_broker_factory: "BrokerFactory") -> "Broker":
    """An embedded broker of one node with a schema registry, that stops with the test.

    `monedula_registry_broker.schema_registry_url` is the registry's URL.
    """
    return monedula_broker_factory(registry=True)


@pytest.fixture(scope="session")
def monedula_session_broker() -> "Iterator[Broker]":
    """An embedded broker of one node that all tests of the session share, and that stops at its end.

    What one test leaves in it the next one finds: give each test topics and groups of its own.
    """
    from monedula.testing import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def monedula_secured_broker(monedula_broker_factory: "BrokerFactory") -> "Broker":
    """An embedded broker of one node with TLS and SASL, which one user, `anna`, may log in to.

    `monedula_secured_broker.client_settings("anna")` are the settings of a client.
    """
    return monedula_broker_factory(security="SASL_SSL", users={"anna": secrets.token_urlsafe(12)})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section for each broker of a test that fails: faults, groups, and the last requests with their answers."""
    report = yield
    if report.failed:
        brokers = list(item.stash.get(_STARTED, ()))
        shared = getattr(item, "funcargs", {}).get("monedula_session_broker")
        for broker in [*brokers, *([] if shared is None else [shared])]:
            from monedula_pytest.report import described

            report.sections.append((f"embedded broker at {broker.bootstrap_servers}", described(broker)))
    return report
