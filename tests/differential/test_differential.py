"""Every scenario on Apache Kafka and on the embedded broker: the same answers, except as `allowed.py` says."""

from collections.abc import Callable

import pytest

from tests.differential.allowed import ALLOWED, Allowed
from tests.differential.clusters import Cluster
from tests.differential.compare import differences, matches
from tests.differential.registry import SCENARIOS, Scenario
from tests.differential.scenarios import ALL
from tests.differential.script import Script

# The first test builds the program and starts a Kafka or two.
pytestmark = pytest.mark.timeout(900)

SHOWN = 20
ran: set[str] = set()
occurred: set[Allowed] = set()


def parameters() -> list[object]:
    assert ALL, "scenarios register themselves when they are imported"
    return [
        pytest.param(scenario, id=scenario.name, marks=[pytest.mark.req(*scenario.reqs)] if scenario.reqs else [])
        # Those of as many nodes one after the other: one pair of clusters is alive at a time.
        for scenario in sorted(SCENARIOS.values(), key=lambda each: (each.secured, each.nodes, each.fresh))
    ]


@pytest.mark.parametrize("scenario", parameters())
def test_the_answers_agree(scenario: Scenario, pairs: Callable[[Scenario], tuple[Cluster, Cluster]]) -> None:
    kafka, embedded = pairs(scenario)
    theirs, trouble = run(scenario, kafka)
    if trouble is not None:
        raise AssertionError(f"{scenario.name} on Kafka, step {len(theirs.steps) + 1}") from trouble
    ours, trouble = run(scenario, embedded)
    found = differences(scenario.name, theirs.steps, ours.steps)
    unexplained = []
    for difference in found:
        explained = [allowed for allowed in ALLOWED if allowed.covers(difference)]
        occurred.update(explained)
        if not explained:
            unexplained.append(difference)
    ran.add(scenario.name)
    lines = "\n  ".join(str(difference) for difference in unexplained[:SHOWN])
    told = f"{scenario.name}: {len(unexplained)} differences:\n  {lines}"
    if trouble is not None:
        raise AssertionError(f"{told}\n{scenario.name} on the embedded broker: {trouble!r}") from trouble
    assert not unexplained, told


def run(scenario: Scenario, cluster: Cluster) -> tuple[Script, Exception | None]:
    script = Script(cluster, scenario.name, scenario.secured)
    try:
        scenario.run(script)
    except Exception as error:  # it is reported together with the differences before it
        return script, error
    finally:
        script.close()
    return script, None


# With `pairs`, so that `python -m tests` runs it in the worker in which the differences occurred.
@pytest.mark.usefixtures("pairs")
def test_every_allowed_difference_occurs() -> None:
    """A difference that does not occur any more was fixed, and has to leave the table."""
    judged = [
        allowed for allowed in ALLOWED if all(name in ran for name in SCENARIOS if matches(allowed.scenario, name))
    ]
    assert [allowed for allowed in judged if allowed not in occurred] == []


def test_every_allowed_difference_has_a_scenario() -> None:
    stray = [allowed for allowed in ALLOWED if not any(matches(allowed.scenario, name) for name in SCENARIOS)]
    assert stray == []
