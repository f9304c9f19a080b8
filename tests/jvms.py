"""Admits a test when there are permits for the JVMs that it needs, and closes those that others wait for.

A test's fixtures (`FIXTURES`) say what it needs, and the mark `jvms(n)` for those that it starts itself.
Fixtures of the session stay from test to test as long as nobody else waits; then they are closed, and made again by the
next test that asks. All of it comes before the test's own time begins.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import pytest

from tests.kafka.permits import MOST, Permits

KEEP_SECONDS = 60.0
"""How long a session continues while others wait: starting its clusters took ten seconds."""

GIVEN_BACK_SECONDS = 0.2
"""Waiting sessions have taken the permits that were released by then."""

ONE_NODE, THREE_NODES = 1, 3
"""JVMs of a cluster. The helper runs in the first node's, and in one of its own while that node is down."""

FIXTURES = {
    "kafka": ONE_NODE,
    "kafka3": THREE_NODES,
    "real": ONE_NODE,
    "real_stage": THREE_NODES,
    "pairs": THREE_NODES,
    "cleaning": ONE_NODE,
    "guarded": ONE_NODE,
    "secured": ONE_NODE,
    "secured3": THREE_NODES,
    "roomy": ONE_NODE,
    "spark": 1,
    "connected": 1,
    "helper_on": 1,
    "serdes": 1,
}
"""Fixtures of a session or of a file, with the JVMs that stay for it."""

PARAMETRIZED = {"cluster": THREE_NODES, "ground": ONE_NODE}
"""Likewise of those that are a real Kafka or the embedded broker, by the parameter `kind` or `version`."""

OF_A_TEST = {"driver": 1}
"""Fixtures of a single test."""

BY_NAME = {"topic", "consumer"}
"""Fixtures that ask for `kafka` only when the test runs."""

ELSEWHERE = {"kafka3", "secured", "secured3", "protected", "cleaning", "server", "ground", "stage"}
"""Beside one of these they are told to use it. A permit for a `kafka` that nobody starts was given back after each
test, and the next waited for it: every test then closed and started its secured Kafka, eighty times in a run."""


def shared(item: pytest.Item) -> dict[str, int]:
    """The fixtures of the session or the file that a test asks for, with their JVMs."""
    names = set(getattr(item, "fixturenames", ()))
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    on_kafka = params.get("kind") == "kafka" or str(params.get("staged_on", "")).startswith("kafka")
    # Asked for by name only when the test runs.
    if names & {"server", "restartable"} and on_kafka:
        names.add("real")
    if "protected" in names and on_kafka:
        names.add("secured")
    if "stage" in names and on_kafka:
        names.add("kafka3" if "make_topic" in names else "real_stage")
    of_all = {name for name in names & BY_NAME if not _is_of_its_file(item, name)}
    if of_all and not names & ELSEWHERE:
        names.add("kafka")
    wanted = {name: FIXTURES[name] for name in names & set(FIXTURES)}
    if on_kafka or "version" in params:
        wanted |= {name: PARAMETRIZED[name] for name in names & set(PARAMETRIZED)}
    if item.config.getoption("--on", None) == "embedded":
        wanted |= dict.fromkeys(wanted.keys() & {"kafka", "kafka3"}, 0)
    return wanted


def _clusters(item: pytest.Item) -> tuple[bool, list[tuple[str, int]]]:
    """Tests that need none come last: some check what the other tests of their file recorded."""
    clusters = sorted(shared(item).items())
    return not clusters, clusters


def _is_of_its_file(item: pytest.Item, name: str) -> bool:
    """Whether a file has another fixture by the name of one that all share."""
    definitions = item._fixtureinfo.name2fixturedefs.get(name, ())  # type: ignore[attr-defined]
    return bool(definitions) and definitions[-1].baseid.endswith(".py")


def own(item: pytest.Item) -> int:
    """How many JVMs a test starts and ends itself."""
    marked: int = sum(mark.args[0] for mark in item.iter_markers("jvms"))
    return marked + sum(OF_A_TEST[name] for name in set(getattr(item, "fixturenames", ())) & set(OF_A_TEST))


class Jvms:
    """The plugin."""

    def __init__(self, permits: Permits | None = None) -> None:
        self._permits = permits or Permits()
        self._running: dict[str, int] = {}
        self._made: dict[str, list[pytest.FixtureDef[Any]]] = {}
        self._since = time.monotonic()
        self._failure: Exception | None = None

    @pytest.hookimpl(trylast=True)  # behind pytest's own order
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """In each file, tests of the same clusters one after the other: no two of them need to be alive at a time."""
        for _, of_file in groupby(list(items), lambda item: item.path):
            tests = list(of_file)
            first = items.index(tests[0])
            items[first : first + len(tests)] = sorted(tests, key=_clusters)

    # First, so outermost: waiting is over when pytest-timeout begins to count.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        try:
            self.admit(item)
        except Exception as error:
            self._failure = error
        result = yield
        self.leave(item, nextitem)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def admit(self, item: pytest.Item) -> None:
        """Hold permits for running clusters and the test's JVMs; close clusters rather than wait with them."""
        self._forget_closed()
        wanted = shared(item)
        alone = min(MOST, sum(wanted.values()) + own(item))
        together = sum({**self._running, **wanted}.values()) + own(item)
        if together > MOST or not self._permits.try_hold(together):
            self._close(item, set(self._running) - set(wanted))
            if not self._permits.try_hold(alone):
                self._close(item, set(self._running))
                self._permits.try_hold(0)
                self._permits.hold(alone)
                self._since = time.monotonic()
        self._running |= wanted

    def leave(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Release the permits of the test; behind a file's last one on its clusters also those that are awaited."""
        self._forget_closed()
        # Behind the last test of all, pytest has closed everything itself. Of a test that has run, no request is left.
        at_end = nextitem is not None and (nextitem.path, shared(nextitem)) != (item.path, shared(item))
        # Also a permit that no cluster was started with: the next test would wait for it, as each of a file once did.
        self._keep_permits({} if at_end or nextitem is None else shared(nextitem))
        if not (at_end and self._running and self._permits.is_awaited()):
            return
        assert nextitem is not None
        self._close(nextitem, set(self._running) - set(shared(nextitem)))
        self._keep_permits()
        was_long = time.monotonic() - self._since >= KEEP_SECONDS
        if was_long and self._permits.is_awaited(still_after_seconds=GIVEN_BACK_SECONDS):
            self._close(nextitem, set(self._running))
            self._keep_permits()

    def _keep_permits(self, coming: Mapping[str, int] | None = None) -> None:
        kept = sum({**self._running, **(coming or {})}.values())
        self._permits.try_hold(min(self._permits.held, kept))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Remember a fixture that was created, and refuse a `kafka` that `shared` has not foreseen."""
        if fixturedef.argname == "kafka" and "kafka" not in self._running:
            pytest.fail("it starts a `kafka` without a permit: let tests.jvms.shared know that its fixtures do")
        result = yield
        if fixturedef.argname in {*FIXTURES, *PARAMETRIZED} and fixturedef.scope != "function":
            self._made.setdefault(fixturedef.argname, []).append(fixturedef)
        return result

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Forget a fixture that was closed."""
        made = self._made.get(fixturedef.argname, [])
        if fixturedef in made:
            made.remove(fixturedef)

    def _forget_closed(self) -> None:
        self._running = {name: jvms for name, jvms in self._running.items() if self._made.get(name)}

    def _close(self, item: pytest.Item | None, names: set[str]) -> None:
        for name in names:
            for definition in list(self._made.get(name, ())):
                # And, before it, all that was made with it.
                definition.finish(item._request)  # type: ignore[union-attr]
            self._running.pop(name, None)
