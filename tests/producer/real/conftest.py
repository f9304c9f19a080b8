"""`stage`: the cluster of a test, by `--on`: three nodes of the embedded broker, or of a real Kafka.

By default everything runs on the embedded broker, what is marked `also_on_kafka` on a real three-node Kafka as well.
"""

import os
import re
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from monedula.testing import Broker

from tests.groups.behaviour.stage import EmbeddedStage, KafkaStage, Stage
from tests.kafka import KafkaCluster

_NUMBERS = count(1)

MakeTopic = Callable[..., str]
"""Creates a topic with this many partitions, three replicas each, on the stage."""


class SharedKafka(KafkaStage):
    """The real three-node Kafka that the session shares."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.edge = None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "staged_on" not in metafunc.fixturenames:
        return
    on = metafunc.config.getoption("--on")
    if on is None:
        short = metafunc.definition.get_closest_marker("also_on_kafka") is not None
        kinds = ["embedded", "kafka"] if short else ["embedded"]
    else:
        kinds = ["embedded", "kafka"] if on == "both" else [on]
    is_thorough = metafunc.definition.get_closest_marker("thorough_on_kafka") is not None
    thorough = {"kafka"} if is_thorough else set()
    marked = [pytest.param(kind, marks=pytest.mark.thorough) if kind in thorough else kind for kind in kinds]
    metafunc.parametrize("staged_on", marked, scope="session")


@pytest.fixture
def stage(staged_on: str, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Three nodes. The embedded ones are started for each test, which takes no time."""
    made: Stage
    if staged_on == "kafka":
        made = SharedKafka(request.getfixturevalue("kafka3"))
        yield made
        made.mend()
        return
    made = EmbeddedStage()
    yield made
    made.close()


@pytest.fixture
def broker(stage: Stage) -> Broker:
    """The embedded broker of the stage, for faults that only it has."""
    if not isinstance(stage, EmbeddedStage):
        pytest.skip("a real Kafka makes no such faults")
    return stage.broker


@pytest.fixture
def make_topic(stage: Stage, request: pytest.FixtureRequest) -> MakeTopic:
    """A factory of topics named after the test."""
    stem = re.sub(r"[^A-Za-z0-9-]+", "-", request.node.originalname).strip("-")[:60]

    def make(partitions: int = 1) -> str:
        name = f"{stem}-{os.getpid()}-{next(_NUMBERS)}"
        stage.create_topic(name, partitions)
        return name

    return make
