"""`stage`: the cluster of a scenario, by `--on`; `group_on`: a group there, whose history is kept if a test fails.

By default everything runs on the embedded broker under the classic protocol, what is marked `also_on_kafka` on a real
three-node Kafka as well, and on both under the consumer protocol (KIP-848). Share groups (KIP-932) have tests of their
own, which are `only("share")`.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.conftest import give_up, skip_loudly
from tests.groups.behaviour.group import Group
from tests.groups.behaviour.network import EdgeUnavailable
from tests.groups.behaviour.scene import Scene
from tests.groups.behaviour.share_group import ShareGroup
from tests.groups.behaviour.stage import EmbeddedStage, KafkaStage, Stage
from tests.groups.behaviour.writer import Writer
from tests.kafka import KafkaUnavailable

_NUMBERS = count(1)

Unique = Callable[[str], str]


class GroupFactory(Protocol):
    """Makes a group on the stage; its processes end with the test."""

    def __call__(self, *topics: str, session_seconds: float | None = None, **options: Any) -> Group:
        """Make one.

        Args:
            topics: the topics that members subscribe to.
            session_seconds: the stage's long one by default.
            options: of `Group`.
        """


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "staged_on" not in metafunc.fixturenames:
        return
    in_slice = metafunc.definition.get_closest_marker("also_on_kafka") is not None
    only = metafunc.definition.get_closest_marker("only")

    def chosen(option: str, all_values: tuple[str, str]) -> list[str]:
        given = metafunc.config.getoption(option)
        if given is None:
            return list(all_values if in_slice else all_values[:1])
        return list(all_values) if given == "both" else [given]

    # On Kafka first all of one protocol, then all of the other: not a test twice on what the first run left.
    protocols = chosen("--protocol", ("classic", "consumer"))
    asked = metafunc.config.getoption("--protocol")
    if only is not None:
        protocols = [only.args[0]] if asked in (None, "both", only.args[0]) else []
    elif asked == "share":
        protocols = []  # no member owns a partition there
    kinds = chosen("--on", ("embedded", "kafka"))
    values = [kind if protocol == "classic" else f"{kind}/{protocol}" for kind in kinds for protocol in protocols]
    # Each broker and each protocol once in `make test`; the other pairs of them in `make test-all`.
    thorough = {"embedded/consumer", "kafka"} if len(values) == 4 else set()
    if metafunc.definition.get_closest_marker("thorough_on_kafka") is not None:
        thorough |= {value for value in values if value.startswith("kafka")}
    marked = [pytest.param(value, marks=pytest.mark.thorough) if value in thorough else value for value in values]
    metafunc.parametrize("staged_on", marked, scope="session")


@pytest.fixture(scope="session")
def real_stage() -> Iterator[KafkaStage]:
    """Started by the first scenario that asks."""
    try:
        stage = KafkaStage()
    except KafkaUnavailable as error:
        give_up(error)
    yield stage
    stage.close()


@pytest.fixture
def stage(staged_on: str, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Three nodes. The embedded ones are started for each test, which takes no time."""
    if staged_on.startswith("kafka"):
        real: KafkaStage = request.getfixturevalue("real_stage")
        yield real
        real.mend()
        return
    embedded = EmbeddedStage()
    yield embedded
    embedded.close()


@pytest.fixture
def edge_prefix(stage: Stage) -> list[str]:
    """The beginning of a member's command line if its network can be cut."""
    try:
        return stage.prefix()
    except EdgeUnavailable as error:
        skip_loudly("PACKETS ARE NOT BLACK-HOLED", str(error))


@pytest.fixture
def protocol(staged_on: str) -> str:
    """`group.protocol` of the test's groups."""
    return staged_on.partition("/")[2] or "classic"


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Unique:
    """Makes names for topics and groups."""
    stem = re.sub(r"[^A-Za-z0-9-]+", "-", request.node.originalname).strip("-")[:60]
    return lambda what: f"{stem}-{what}-{os.getpid()}-{next(_NUMBERS)}"


@pytest.fixture
def group_on(stage: Stage, protocol: str, unique: Unique, tmp_path: Path) -> Iterator[GroupFactory]:
    """A factory of groups."""
    with ExitStack() as stack:

        def make(*topics: str, session_seconds: float | None = None, **options: Any) -> Group:
            session = session_seconds or stage.long_session
            options.setdefault("protocol", protocol)
            group = (ShareGroup if options["protocol"] == "share" else Group)(
                stage.bootstrap, unique("group"), list(topics), session_seconds=session, directory=tmp_path, **options
            )
            if group.protocol != "classic":
                # Under KIP-848, session timeout and heartbeat interval are settings of the group on the brokers.
                stage.set_group(group.group, group.protocol, session, group.heartbeat_seconds)
            return stack.enter_context(group)

        yield make


class SceneFactory(Protocol):
    """Makes a topic under load and a group that reads it."""

    def __call__(
        self,
        *names: str,
        partitions: int = 6,
        records_per_second: float = 300.0,
        session_seconds: float | None = None,
        prefixes: Sequence[str] = ("",),
        **options: Any,
    ) -> Scene:
        """Make one; returns when the members share the partitions, and records flow in each.

        Args:
            names: of the members.
            partitions: of the topic.
            records_per_second: written in all.
            session_seconds: the stage's long one by default.
            prefixes: what values begin with, in turn.
            options: of `Group`.
        """


@pytest.fixture
def scene(stage: Stage, group_on: GroupFactory, unique: Unique) -> Iterator[SceneFactory]:
    """A factory of scenes."""
    with ExitStack() as stack:

        def make(
            *names: str,
            partitions: int = 6,
            records_per_second: float = 300.0,
            session_seconds: float | None = None,
            prefixes: Sequence[str] = ("",),
            **options: Any,
        ) -> Scene:
            topic = unique("topic")
            stage.create_topic(topic, partitions)
            writer = stack.enter_context(Writer(stage.bootstrap, topic, partitions, records_per_second, prefixes))
            group = group_on(topic, session_seconds=session_seconds, **options)
            made = Scene(stage, group, topic, partitions, writer)
            if names:
                made.join(*names)
                made.flows()
            return made

        yield make
