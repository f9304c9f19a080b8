"""`ground`: a server by `--on`, for all tests; `broker`: an embedded one for one test; `member`: makes consumers.

Tests with the mark `both_protocols` run under each `group.protocol`; the others under `classic`.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import monedula
import pytest
from monedula.testing import Broker

from tests.groups.ground import SETTINGS, TIMING, Ground, opened
from tests.kafka import jars


class MemberFactory(Protocol):
    """Makes a consumer of a group, by default on `ground`."""

    def __call__(self, group: str | None, topics: Any = None, **settings: Any) -> monedula.Consumer:
        """Make one.

        Args:
            group: its group, `None` for none.
            topics: the topics to subscribe to.
            settings: with underscores; arguments of `Consumer` too.
        """


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    on = metafunc.config.getoption("--on") or "embedded"
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", ["embedded", "kafka"] if on == "both" else [on], scope="session")
    if metafunc.definition.get_closest_marker("both_protocols"):
        # KIP-848 is there from Kafka 4.0 on.
        has_both = on != "kafka" or jars.speaks("4.0")
        metafunc.parametrize("protocol", ["classic", "consumer"] if has_both else ["classic"])


@pytest.fixture(scope="session")
def ground(kind: str) -> Iterator[Ground]:
    """The cluster of a test, which uses unique names."""
    yield from opened(kind, SETTINGS)


@pytest.fixture
def protocol() -> str:
    """`group.protocol` of the members that `member` makes."""
    return "classic"


@pytest.fixture
def broker() -> Iterator[Broker]:
    """An embedded broker of the test's own."""
    with Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def member(request: pytest.FixtureRequest, protocol: str) -> Iterator[MemberFactory]:
    arguments = ("columns", "headers", "assignors", "on_event")
    with ExitStack() as stack:

        def make(group: str | None, topics: Any = None, **settings: Any) -> monedula.Consumer:
            given = {name: settings.pop(name) for name in arguments if name in settings}
            if "bootstrap_servers" not in settings:
                server = "broker" if "broker" in request.fixturenames else "ground"
                found = request.getfixturevalue(server)
                settings["bootstrap_servers"] = found.bootstrap_servers if server == "broker" else found.bootstrap
            group_id = {} if group is None else {"group_id": group}
            timing = {name.replace(".", "_"): value for name, value in TIMING.items()}
            settings = {"auto_offset_reset": "earliest", "group_protocol": protocol, **timing, **group_id, **settings}
            if settings["group_protocol"] == "consumer":
                settings.pop("heartbeat_interval_ms")  # the broker's business, and warned of
            made = monedula.Consumer(None, topics, **given, **settings)
            stack.callback(made.close)
            return made

        yield make
