"""`consumer`: a factory of consumers of either kind, closed when the test ends."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import monedula
import pytest

from tests.consumer.uniform import Uniform
from tests.kafka import KafkaCluster


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
