"""Which tests run one after the other in one process, in which order, and with how many JVMs.

A test's fixtures say which JVMs it needs, and the mark `jvms(n)` how many it starts itself. Before a test begins, and
before its own time does, its process has closed the clusters that the test does not need, and holds a permit
(`tests.kafka.permits`) for each JVM of those that it does.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.kafka.permits import MOST, Permits

KEEP_SECONDS = 60.0
"""How long a session continues while others wait: starting its clusters took ten seconds."""

WAIT_TIMEOUT_SECONDS = 3600.0

THREE_NODES = 3
"""JVMs of a cluster. The helper runs in the first node's, and in one of its own while that node is down."""

OF_ONE = ["kafka", "real", "cleaning", "guarded", "secured", "roomy", "spark", "connected", "helper_on", "serdes"]
FIXTURES = dict.fromkeys(OF_ONE, 1) | dict.fromkeys(("kafka3", "real_stage", "pairs", "secured3"), THREE_NODES)
"""Fixtures of a session or of a file, with the JVMs that stay for it."""

PARAMETRIZED = {"cluster": THREE_NODES, "ground": 1}
"""Likewise of those that are a real Kafka or the embedded broker, by the parameter `kind` or `version`."""

ON_KAFKA = {"server": "real", "restartable": "real", "protected": "secured", "stage": "real_stage"}
"""What these fixtures ask for by name when the test runs, if its parameter says that it is on a real Kafka."""

BY_NAME = {"topic", "consumer"}
"""Fixtures that ask for `kafka` by name when the test runs, unless the file has others by these names."""

ELSEWHERE = {"kafka3", "secured", "secured3", "protected", "cleaning", "server", "ground", "stage"}
"""Beside one of these they are told to use it. A permit for a `kafka` that nobody starts is one that others lack."""


class Unit(NamedTuple):
    """The tests that one worker runs in one go; units begin in this order.

    The first two have the five JVMs between them, and are each a unit over many files: a second worker with three nodes
    would only wait. Beside them runs what needs no JVM, and mostly waits; the rest comes when JVMs are left for it.
    """

    turn: int
    name: str

    @classmethod
    def of(cls, item: pytest.Item) -> "Unit":
        """The unit of a test."""
        fixtures = {name for name, jvms in clusters(item).items() if jvms}
        jvms, file = jvms_of(item), item.nodeid.partition("::")[0]
        if jvms > THREE_NODES or {"spark", "kafka"} <= fixtures:
            return cls(0, "spark with a kafka")
        if jvms == THREE_NODES:
            return cls(1, "three nodes")
        if not jvms:
            return cls(2, file)
        if "spark" in fixtures:
            return cls(3, "spark alone")
        return cls(4, " ".join((file, "with", *sorted(fixtures))))


def clusters(item: pytest.Item) -> dict[str, int]:
    """The fixtures of the session or the file that a test asks for, with their JVMs."""
    names = set(getattr(item, "fixturenames", ()))
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    on_kafka = params.get("kind") == "kafka" or str(params.get("staged_on", "")).startswith("kafka")
    if on_kafka:
        names |= {ON_KAFKA[name] for name in names & ON_KAFKA.keys()}
    if on_kafka and "make_topic" in names:
        names = names - {"real_stage"} | {"kafka3"}
    of_all = {name for name in names & BY_NAME if not hasattr(getattr(item, "module", None), name)}
    if of_all and not names & ELSEWHERE:
        names.add("kafka")
    table = FIXTURES | (PARAMETRIZED if on_kafka or "version" in params else {})
    wanted = {name: table[name] for name in names & table.keys()}
    if item.config.getoption("--on", None) == "embedded":
        wanted |= dict.fromkeys(wanted.keys() & {"kafka", "kafka3"}, 0)
    return wanted


def jvms_of(item: pytest.Item) -> int:
    """How many JVMs a test needs: those of its fixtures, and those that it starts and ends itself."""
    marked: int = sum(mark.args[0] for mark in item.iter_markers("jvms"))
    return sum(clusters(item).values()) + marked + ("driver" in getattr(item, "fixturenames", ()))


class Jvms:
    """The plug-in."""

    def __init__(self, permits: Permits | None = None) -> None:
        self.permits = permits or Permits()
        self._made: list[tuple[pytest.FixtureDef[Any], Any]] = []
        self._needed: dict[str, int] = {}
        self._of_file: object = None
        self._since = time.monotonic()
        self._failure: Exception | None = None

    @pytest.hookimpl(trylast=True)  # behind pytest's own order
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Units by their turn, then those with most tests; in each, many JVMs last, and tests of the same clusters."""
        sizes = Counter(Unit.of(item) for item in items)

        def place(item: pytest.Item) -> tuple[Any, ...]:
            unit, needed = Unit.of(item), sorted(clusters(item))
            return unit.turn, -sizes[unit], unit.name, jvms_of(item), not needed, needed

        items.sort(key=place)

    @pytest.hookimpl(tryfirst=True)  # before xdist tells the scheduler
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write down the unit and the JVMs of a worker's tests, for `python -m tests`."""
        path = getattr(session.config, "workerinput", {}).get("monedula_units")
        if path is not None:
            Path(path).write_text(json.dumps([(Unit.of(item).name, jvms_of(item)) for item in session.items]))

    # First, so outermost: waiting is over when pytest-timeout begins to count.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        try:
            self.admit(item)
        except Exception as error:
            self._failure = error
        result = yield
        if nextitem is None:  # pytest has closed everything, but a worker lives until all others are through
            self.permits.hold(0)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def admit(self, item: pytest.Item) -> None:
        """Close what a test does not need, and hold permits for what it does; behind a file, others come first."""
        self._needed = clusters(item)
        wanted = min(MOST, jvms_of(item))
        is_long = item.path != self._of_file and time.monotonic() - self._since >= KEEP_SECONDS
        self._of_file = item.path
        self._close(self._needed.keys())
        if (is_long and self.permits.held and self.permits.are_awaited()) or not self.permits.hold(wanted):
            self._close(set())
            self.permits.hold(0)
            if not self.permits.hold(wanted, WAIT_TIMEOUT_SECONDS):
                raise TimeoutError(
                    f"no {wanted} permits for JVMs in time; `lslocks` names the processes that have them"
                )
            self._since = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
        """Remember a fixture that is made, and refuse a `kafka` that `clusters` has not foreseen."""
        if fixturedef.argname == "kafka" and "kafka" not in self._needed:
            pytest.fail("it starts a `kafka` without a permit: let tests.jvms.clusters know that its fixtures do")
        if fixturedef.argname in self._needed and fixturedef.scope != "function":
            self._close(self._needed.keys() - {fixturedef.argname})  # one of another folder by the same name
            self._made.append((fixturedef, request))

    def _close(self, but: Set[str]) -> None:
        for made in [made for made in self._made if made[0].argname not in but]:
            self._made.remove(made)
            made[0].finish(made[1])  # and, before it, all that was made with it
