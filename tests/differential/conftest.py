"""Fixtures: the wire program, and both clusters with one node and with three, each started when first asked for."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import give_up, skip_loudly
from tests.differential import clusters
from tests.differential.clusters import Cluster, Embedded, RealKafka, SecuredRealKafka
from tests.differential.registry import Scenario
from tests.differential.script import SETTLING, Script
from tests.differential.wire import Wire, WireUnavailable, build
from tests.kafka import KafkaCluster, KafkaUnavailable
from tests.kafka.secured import SecuredKafka

Pair = tuple[Cluster, Cluster]


@pytest.fixture(scope="session")
def wire() -> Iterator[Wire]:
    try:
        program = build()
    except WireUnavailable as error:
        skip_loudly("NOTHING IS COMPARED WITH A REAL KAFKA", str(error))
    with Wire(program) as running:
        yield running


@pytest.fixture(scope="session")
def pairs(wire: Wire) -> Iterator[Callable[[Scenario], Pair]]:
    """A real cluster and an embedded one as a scenario needs them; kept until a test needs others."""
    started: dict[tuple[int, bool], Pair] = {}
    with ExitStack() as stack:

        def pair(scenario: Scenario) -> Pair:
            nodes, secured = scenario.nodes, scenario.secured
            if scenario.fresh or (nodes, secured) not in started:
                started.clear()
                stack.close()
                try:
                    started[nodes, secured] = start(wire, stack, nodes, secured)
                except KafkaUnavailable as error:
                    give_up(error)
                if scenario.fresh:
                    return started.pop((nodes, secured))
                for cluster in started[nodes, secured]:
                    warm_up(cluster, secured)
            return started[nodes, secured]

        yield pair


def start(wire: Wire, stack: ExitStack, nodes: int, secured: bool) -> Pair:
    """Start a cluster of each kind; the real one ends with the stack."""
    config = {**clusters.SETTINGS, **clusters.KAFKA_SETTINGS}
    if not secured:
        kafka = stack.enter_context(KafkaCluster(nodes, config=config, heap="512m"))
        return RealKafka(wire, kafka), Embedded(wire, nodes, clusters.SETTINGS)
    real = stack.enter_context(SecuredKafka(nodes, kerberos=False, config=config, heap="512m"))
    ours = Embedded(wire, nodes, {**clusters.SETTINGS, **clusters.SECURED_SETTINGS}, clusters.USERS)
    return SecuredRealKafka(wire, real), ours


def warm_up(cluster: Cluster, secured: bool = False) -> None:
    """Have the coordinators' topics made, so that no scenario is the first to need them."""
    script = Script(cluster, "warm-up", secured)
    for kind in (0, 1):
        found = script.admin.ask("FindCoordinator", 4, {"keyType": kind, "coordinatorKeys": ["warm-up"]})
        assert found["coordinators"][0]["errorCode"] not in SETTLING, f"{cluster.name}: {found}"
    script.close()
