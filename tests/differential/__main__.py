"""`python -m tests.differential [--embedded] NAME...`: what a broker answers to scenarios, without comparing.

A name may be a part of a scenario's name, or a pattern with `*`.
"""

import argparse
import json
from contextlib import ExitStack

from tests.differential import clusters
from tests.differential.clusters import Cluster, Embedded, RealKafka, SecuredRealKafka
from tests.differential.compare import matches
from tests.differential.conftest import warm_up
from tests.differential.normal import Normaliser
from tests.differential.registry import SCENARIOS, Scenario
from tests.differential.test_differential import run
from tests.differential.wire import Wire, build
from tests.kafka import KafkaCluster
from tests.kafka.secured import SecuredKafka


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--embedded", action="store_true", help="ask the embedded broker, not Kafka")
    arguments = parser.parse_args()
    chosen = [s for n, s in SCENARIOS.items() if any(matches(f"*{name}*", n) for name in arguments.names)]
    started: dict[tuple[int, bool], Cluster] = {}
    with ExitStack() as stack:
        wire = stack.enter_context(Wire(build()))

        def cluster(scenario: Scenario) -> Cluster:
            nodes, secured = scenario.nodes, scenario.secured
            if scenario.fresh or (nodes, secured) not in started:
                settings = {**clusters.SETTINGS, **(clusters.SECURED_SETTINGS if secured else {})}
                config = {**clusters.SETTINGS, **clusters.KAFKA_SETTINGS}
                made: Cluster
                if arguments.embedded:
                    made = Embedded(wire, nodes, settings, clusters.USERS if secured else None)
                elif secured:
                    real = SecuredKafka(nodes, kerberos=False, config=config, heap="512m")
                    made = SecuredRealKafka(wire, stack.enter_context(real))
                else:
                    made = RealKafka(wire, stack.enter_context(KafkaCluster(nodes, config=config, heap="512m")))
                if scenario.fresh:
                    return made
                warm_up(made, secured)
                started[nodes, secured] = made
            return started[nodes, secured]

        for scenario in chosen:
            script, trouble = run(scenario, cluster(scenario))
            print(f"== {scenario.name}")
            normaliser = Normaliser()
            for number, step in enumerate(script.steps, 1):
                answer = json.dumps(normaliser.normal(step.answer))
                print(f"{number:3} {step.label or '-'} | {step.api} v{step.version} | {answer}", flush=True)
            if trouble is not None:
                print(f"!!! {type(trouble).__name__}: {trouble}", flush=True)


if __name__ == "__main__":
    main()
