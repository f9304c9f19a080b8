"""`consumer`: a factory of consumers of either kind, closed when the test ends; `opens`: likewise, on `broker`.

`broker` is an embedded broker of the file, `topic` a topic of the test in it, `registry` a schema registry of the test.
`serdes` are Apicurio's and AWS Glue's serializers and deserializers.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import monedula
import pytest
from monedula.testing import Broker

from tests.conftest import give_up
from tests.consumer.schema_registry import Registry, serving
from tests.consumer.uniform import Uniform
from tests.kafka import KafkaCluster, KafkaUnavailable
from tests.kafka.serdes import Serdes

Opens = Callable[..., Uniform]
"""Opens a consumer of either kind, at the start of a topic."""


class ConsumerFactory(Protocol):
    """Opens a consumer, by default on the `kafka` fixture and from the start of the log."""

    def __call__(
        self, *topics: str, columns: list[str] | None = None, headers: bool = False, **settings: Any
    ) -> Uniform:
        """Open one.

        Args:
            topics: what to assign, if anything.
            columns: as for `Consumer`.
            headers: as for `Consumer`.
            settings: with underscores; these go before the factory's own.
        """


@pytest.fixture(params=["sync", "async"])
def consumer(request: pytest.FixtureRequest) -> Iterator[ConsumerFactory]:
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner()) if request.param == "async" else None

        def make(*topics: str, columns: list[str] | None = None, headers: bool = False, **settings: Any) -> Uniform:
            if "bootstrap_servers" not in settings:
                kafka: KafkaCluster = request.getfixturevalue("kafka")
                settings["bootstrap_servers"] = kafka.bootstrap
            settings = {"auto_offset_reset": "earliest", **settings}
            kind = monedula.Consumer if runner is None else monedula.AsyncConsumer
            made = Uniform(kind(columns=columns, headers=headers, **settings), runner)
            stack.callback(made.close)
            if topics:
                made.assign(list(topics))
            return made

        yield make


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def empty_topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of one partition on `broker`; the fixture `topic` of other tests makes topics of a real Kafka."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    broker.create_topic(name, 1)
    return name


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as registry:
        yield registry


@pytest.fixture(scope="module")
def serdes() -> Iterator[Serdes]:
    try:
        serdes = Serdes()
    except KafkaUnavailable as error:
        give_up(error)
    try:
        yield serdes
    finally:
        serdes.close()


@pytest.fixture(params=["sync", "async"])
def opens(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Opens]:
    runner = asyncio.Runner() if request.param == "async" else None
    made: list[Uniform] = []

    def make(topic: str, **arguments: Any) -> Uniform:
        kind = monedula.Consumer if runner is None else monedula.AsyncConsumer
        settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        reader = Uniform(kind({**settings, **arguments.pop("settings", {})}, **arguments), runner)
        made.append(reader)
        reader.assign([topic])
        return reader

    yield make
    for reader in made:
        reader.close()
    if runner is not None:
        runner.close()
