"""Fixtures: the wire program, and both clusters with one node and with three, each started when first asked for."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import give_up, skip_loudly
from tests.differential import clusters
from tests.differential.clusters import Cluster, Embedded, RealKafka
from tests.differential.script import SETTLING, Script
from tests.differential.wire import Wire, WireUnavailable, build
from tests.kafka import KafkaCluster, KafkaUnavailable

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
def pairs(wire: Wire) -> Iterator[Callable[[int], Pair]]:
    """A real cluster and an embedded one of so many nodes, until others are asked for."""
    started: dict[int, Pair] = {}
    with ExitStack() as stack:

        def pair(nodes: int) -> Pair:
            if nodes not in started:
                started.clear()
                stack.close()
                config = {**clusters.SETTINGS, **clusters.KAFKA_SETTINGS}
                try:
                    kafka = stack.enter_context(KafkaCluster(nodes, config=config, heap="512m"))
                except KafkaUnavailable as error:
                    give_up(error)
                started[nodes] = (RealKafka(wire, kafka), Embedded(wire, nodes, clusters.SETTINGS))
                for cluster in started[nodes]:
                    warm_up(cluster)
            return started[nodes]

        yield pair


def warm_up(cluster: Cluster) -> None:
    """Have the coordinators' topics made, so that no scenario is the first to need them."""
    script = Script(cluster, "warm-up")
    for kind in (0, 1):
        found = script.admin.ask("FindCoordinator", 4, {"keyType": kind, "coordinatorKeys": ["warm-up"]})
        assert found["coordinators"][0]["errorCode"] not in SETTLING, f"{cluster.name}: {found}"
    script.close()
