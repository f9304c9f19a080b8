"""`broker`: an embedded one for one test; `terminal`: commands on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from monedula.testing import Broker

from tests.cli.processes import Terminal


@pytest.fixture
def broker() -> Iterator[Broker]:
    """An embedded broker of the test's own, where groups begin at once."""
    with Broker(settings={"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Starts commands on terminals; they end with the test."""
    with ExitStack() as stack:

        def start(*arguments: str, **options: Any) -> Terminal:
            started = Terminal(*arguments, **options)
            stack.callback(started.close)
            return started

        yield start
