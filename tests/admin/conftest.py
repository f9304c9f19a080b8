"""`cluster`: three nodes by `--on`; `admin`: an administrator of it; `ground`: topics, records, members.

`protected`: one node with an authorizer, where users log in; both kinds without `--on`.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import monedula
import pytest
from monedula import Admin

from tests.admin.protected import ProtectedBroker
from tests.conftest import give_up
from tests.kafka import KafkaCluster, KafkaUnavailable
from tests.kafka.embedded import EmbeddedCluster
from tests.kafka.secured import SecuredKafka

PATIENCE_SECONDS = 60.0

_NUMBERS = itertools.count(1)


class Ground:
    """A cluster with topics, records, and members of groups."""

    def __init__(self, cluster: KafkaCluster, admin: Admin, stack: ExitStack) -> None:
        self.cluster = cluster
        self.admin = admin
        self._stack = stack

    @property
    def is_embedded(self) -> bool:
        """Whether it is the embedded broker."""
        return isinstance(self.cluster, EmbeddedCluster)

    def name(self, what: str = "topic") -> str:
        """A unique name."""
        return f"admin-{what}-{os.getpid()}-{next(_NUMBERS)}"

    def topic(self, partitions: int = 1, **options: Any) -> str:
        """Make a topic, and wait until every broker knows it."""
        name = self.name()
        self.admin.create_topics(name, partitions=partitions, **{"replication_factor": 1, **options})
        self.until(lambda: all(p.leader is not None for p in self.admin.describe_topics(name)[name].partitions))
        return name

    def append(self, topic: str, values: Iterable[object], partition: int = 0) -> None:
        """Append records."""
        texts = [str(value) for value in values]
        if isinstance(self.cluster, EmbeddedCluster):
            self.cluster.broker.append(topic, texts, partition=partition)
        else:
            self.cluster.helper.produce(topic, [{"value": text, "partition": partition} for text in texts])

    def member(self, group: str, topic: str, **settings: Any) -> monedula.Consumer:
        """A consumer that has joined, and owns partitions; nothing was read yet."""
        consumer = monedula.Consumer(
            bootstrap_servers=self.cluster.bootstrap, group_id=group, auto_offset_reset="earliest", **settings
        )
        self._stack.callback(consumer.close)
        consumer.subscribe(topic)
        self.until(lambda: bool(consumer.assignment()))
        return consumer

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, f"it did not come true in {PATIENCE_SECONDS} s"
            time.sleep(0.02)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        on = metafunc.config.getoption("--on") or ("both" if "protected" in metafunc.fixturenames else "embedded")
        metafunc.parametrize("kind", ["embedded", "kafka"] if on == "both" else [on], scope="session")


@pytest.fixture(scope="session")
def cluster(kind: str) -> Iterator[KafkaCluster]:
    """Three nodes; a test that stops one starts it again."""
    try:
        # Without the check, a transaction can be left hanging, as by clients before KIP-890.
        config = {"transaction.partition.verification.enable": "false"}
        made = (EmbeddedCluster if kind == "embedded" else KafkaCluster)(3, config=config).__enter__()
    except KafkaUnavailable as error:
        give_up(error)
    yield made
    made.close()


@pytest.fixture(scope="session")
def protected_broker() -> Iterator[ProtectedBroker]:
    """An embedded node with an authorizer, shared by the session."""
    made = ProtectedBroker()
    yield made
    made.close()


# Of each test: kept for the session, it was a Kafka that had been closed for others' JVMs meanwhile.
@pytest.fixture
def protected(kind: str, request: pytest.FixtureRequest) -> SecuredKafka | ProtectedBroker:
    """One node with an authorizer. ANONYMOUS, who uses `bootstrap`, is a super user; a test undoes what it changes."""
    made: SecuredKafka | ProtectedBroker = request.getfixturevalue("secured" if kind == "kafka" else "protected_broker")
    return made


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap}) as made:
        yield made


@pytest.fixture
def ground(cluster: KafkaCluster, admin: Admin) -> Iterator[Ground]:
    with ExitStack() as stack:
        yield Ground(cluster, admin, stack)
