"""Which tests run one after the other in one process, and which clusters are alive while a test runs.

Two workers of pytest-xdist, each with a three-node Kafka, a single one and Spark, were a dozen JVMs on two cores, and
tests ran out of time. So each kind of JVMs has one worker that runs all its tests; the others run what needs none.
A test's fixtures say which kind it needs, and the mark `jvm` that it starts one itself.
"""

import json
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple

import pytest

OF_THREE = {"kafka3", "real_stage", "pairs", "secured3"}
OF_ONE = {"kafka", "real", "cleaning", "guarded", "secured", "roomy", "spark", "connected", "helper_on", "serdes"}
"""Fixtures of a session or of a file with JVMs: Kafkas of three nodes, and what is one JVM."""

PARAMETRIZED = {"cluster", "ground"}
"""Likewise of those that are a real Kafka, of three nodes or of one, or the embedded broker, by a parameter."""

ON_KAFKA = {"server": "real", "restartable": "real", "protected": "secured", "stage": "real_stage"}
"""What these fixtures ask for by name when the test runs, if its parameter says that it is on a real Kafka."""

BY_NAME = {"topic", "consumer"}
"""Fixtures that ask for `kafka` by name when the test runs, unless the file has others by these names."""

ELSEWHERE = {"kafka3", "secured", "secured3", "protected", "cleaning", "server", "ground", "stage"}
"""Beside one of these they are told to use it."""


class Unit(NamedTuple):
    """The tests that one worker runs in one go; units begin in this order: those with JVMs, then files."""

    turn: int
    name: str

    @classmethod
    def of(cls, item: pytest.Item) -> "Unit":
        """The unit of a test."""
        needed = clusters(item)
        if {"spark", "kafka"} <= needed:
            return cls(0, "Spark with a Kafka")
        if needed & (OF_THREE | {"cluster"}):
            return cls(1, "a Kafka of three nodes")
        is_marked = any(item.iter_markers("jvm"))
        if "kafka" in needed and not is_marked:
            return cls(2, "a Kafka")
        if needed or is_marked or "driver" in getattr(item, "fixturenames", ()):
            return cls(3, "another Kafka, or Spark")
        return cls(4, item.nodeid.partition("::")[0])


def clusters(item: pytest.Item) -> set[str]:
    """The fixtures of the session or the file that a test asks for, if they have JVMs."""
    if item.config.getoption("--on", None) == "embedded":
        return _fixtures(item) - {"kafka", "kafka3"}
    return _fixtures(item)


def _fixtures(item: pytest.Item) -> set[str]:
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
    return names & (OF_THREE | OF_ONE | (PARAMETRIZED if on_kafka or "version" in params else set()))


class Jvms:
    """The plug-in."""

    def __init__(self) -> None:
        self._made: list[tuple[pytest.FixtureDef[Any], Any]] = []
        self._needed: Set[str] = frozenset()

    @pytest.hookimpl(trylast=True)  # behind pytest's own order
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Units by their turn, then those with most tests; in each, tests of the same clusters."""
        sizes = Counter(Unit.of(item) for item in items)

        def place(item: pytest.Item) -> tuple[Any, ...]:
            unit = Unit.of(item)
            return unit.turn, -sizes[unit], unit.name, sorted(clusters(item))

        items.sort(key=place)

    @pytest.hookimpl(tryfirst=True)  # before xdist tells the scheduler
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write down the unit of each of a worker's tests, for `python -m tests`."""
        path = getattr(session.config, "workerinput", {}).get("monedula_units")
        if path is not None:
            Path(path).write_text(json.dumps({item.nodeid: Unit.of(item).name for item in session.items}))

    # First, so outermost: pytest-timeout does not count the time in which clusters are closed.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Close what a test does not need."""
        self._needed = clusters(item)
        self._close(self._needed)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
        """Remember a fixture that is made, and refuse a `kafka` that `clusters` has not foreseen."""
        name = fixturedef.argname
        if name == "kafka" and name not in self._needed and request.config.getoption("--on", None) != "embedded":
            pytest.fail("it starts a `kafka` among tests that need none: let tests.jvms know that its fixtures do")
        if name in self._needed and fixturedef.scope != "function":
            self._close(self._needed - {name})  # one of another folder by the same name
            self._made.append((fixturedef, request))

    def _close(self, but: Set[str]) -> None:
        for made in [made for made in self._made if made[0].argname not in but]:
            self._made.remove(made)
            made[0].finish(made[1])  # and, before it, all that was made with it
