"""Fixtures over a real Apache Kafka: `kafka` (one node), `kafka3` (three), `topic` (a factory of unique names).

`secured` and `secured3` are likewise one and three nodes that ask who a client is; `kerberos` is the KDC of the one.
"""

import gc
import os
import re
import signal
import warnings
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import pytest

from tests.jvms import Jvms
from tests.kafka import HelperError, KafkaCluster, KafkaUnavailable

if TYPE_CHECKING:
    from tests.kafka.secured import Kdc, SecuredKafka


WITHOUT_KDC_VARIABLE = "MONEDULA_TESTS_WITHOUT_KDC"
"""Environment variable by which `.ci/run` says that this machine cannot have a KDC."""


class TopicFactory(Protocol):
    """Creates a topic with a name that no other test uses, and returns the name."""

    def __call__(self, partitions: int = 1, *, cluster: KafkaCluster | None = None, **options: Any) -> str:
        """Create one.

        Args:
            partitions: how many.
            cluster: where; the `kafka` fixture by default.
            options: what `KafkaHelper.create_topic` takes besides.
        """


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--on`: what tests run on that can do with either; `--protocol`: of which groups, for tests/groups/behaviour."""
    parser.addoption(
        "--on",
        choices=("embedded", "kafka", "both"),
        help="the embedded broker, a real Kafka, or (tests/interop, groups, admin and producer only) one after the "
        "other; by default these run on the embedded broker, and everything else on a real Kafka",
    )
    parser.addoption(
        "--protocol",
        choices=("classic", "consumer", "share", "both"),
        help="tests/groups/behaviour only: group.protocol of its groups; by default classic, a slice of consumer, and "
        "share groups, which have tests of their own",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Order tests by their JVMs; Ctrl-C interrupts in a shell's background job too, which ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Jvms(), "monedula-jvms")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the garbage collector what lives as long as the session: it took a third of the time of collecting."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One node, shared by the session: a test that stops it must start it again."""
    yield from _cluster(1, request)


@pytest.fixture(scope="session")
def kafka3(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three nodes, shared by the session, started by the first test that asks."""
    yield from _cluster(3, request)


@pytest.fixture(scope="session")
def secured() -> Iterator["SecuredKafka"]:
    """One node with TLS, SASL and ACLs, shared by the session: a test undoes what it changes."""
    yield from _secured(1)


@pytest.fixture(scope="session")
def secured3() -> Iterator["SecuredKafka"]:
    """Likewise three nodes, started by the first test that asks."""
    yield from _secured(3)


@pytest.fixture
def kerberos(secured: "SecuredKafka") -> "Kdc":
    """The KDC of `secured`. Where none is installed, the test is skipped, and fails in CI unless that says so too."""
    from tests.kafka.secured import KdcUnavailable

    try:
        return secured.kdc
    except KdcUnavailable as error:
        if os.environ.get(WITHOUT_KDC_VARIABLE):
            pytest.skip(str(error))
        skip_loudly("TESTS OF KERBEROS ARE SKIPPED", str(error))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> TopicFactory:
    """A factory of topics named after the test."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-")[:80]

    def create(partitions: int = 1, *, cluster: KafkaCluster | None = None, **options: Any) -> str:
        # Asked for here, not as an argument: a test on three nodes must not start the single one as well.
        kafka = cluster or request.getfixturevalue("kafka")
        name = f"{stem}-{os.getpid()}-{next(_TOPIC_NUMBERS)}"
        try:
            kafka.helper.create_topic(name, partitions=partitions, **options)
        except HelperError as error:
            if error.error != "InvalidReplicationFactorException":
                raise
            # A node whose heartbeats come late on a busy machine is fenced until the next one.
            kafka.wait_ready()
            kafka.helper.create_topic(name, partitions=partitions, **options)
        return name

    return create


_TOPIC_NUMBERS = count(1)


def give_up(error: KafkaUnavailable) -> NoReturn:
    """Skip what needs a real Kafka."""
    skip_loudly("TESTS AGAINST A REAL KAFKA ARE SKIPPED", f"no real Kafka: {error}")


def skip_loudly(what: str, reason: str) -> NoReturn:
    """Skip loudly; fail where the tests are the gate, because there a skipped layer is a failed one."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)
    warnings.warn(f"{what}: {reason}", stacklevel=2)
    pytest.skip(reason)


def _secured(nodes: int) -> Iterator["SecuredKafka"]:
    from tests.kafka.secured import SecuredKafka  # whose certificates take `cryptography`, which others need not load

    try:
        cluster = SecuredKafka(nodes).__enter__()
    except KafkaUnavailable as error:
        give_up(error)
    try:
        yield cluster
    finally:
        cluster.close()


def _kind(request: pytest.FixtureRequest) -> type[KafkaCluster]:
    if request.config.getoption("--on") != "embedded":
        return KafkaCluster
    from tests.kafka.embedded import EmbeddedCluster  # loads monedula, which most folders do themselves

    return EmbeddedCluster


def _cluster(nodes: int, request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    try:
        cluster = _kind(request)(nodes).__enter__()
    except KafkaUnavailable as error:
        give_up(error)
    try:
        yield cluster
    finally:
        cluster.close()
