"""Thousands of partitions."""

import pytest

from tests.groups.behaviour.conftest import GroupFactory, Unique
from tests.groups.behaviour.group import Member
from tests.groups.behaviour.history import of_kind
from tests.groups.behaviour.stage import EmbeddedStage, Stage
from tests.groups.behaviour.writer import truth_of

PARTITIONS = 3000
RECORDS = 20
VALUE_BYTES = 1000
BUDGET_BYTES = 8 << 20
OVERHEAD_BYTES = 48 << 20
"""Memory besides queued records: about a kilobyte for each partition, the current batch, and Python's copies of it."""


@pytest.mark.req("S088")
@pytest.mark.timeout(300)
def test_thousands_of_partitions_are_joined_in_bounded_memory(
    stage: Stage, group_on: GroupFactory, unique: Unique
) -> None:
    if not isinstance(stage, EmbeddedStage):
        pytest.skip("nine thousand replicas are too much for three small JVMs")
    topic = unique("topic")
    stage.create_topic(topic, PARTITIONS)
    values = [f"{number}".ljust(VALUE_BYTES) for number in range(RECORDS)]
    for partition in range(PARTITIONS):
        stage.broker.append(topic, values, partition=partition)
    settings = {"queued.max.bytes": BUDGET_BYTES, "session.timeout.ms": 60_000}
    group = group_on(topic, settings=settings, max_rows=2000)
    first = group.join("a")
    first.wait_for("opened")
    before = first.call("memory")["rss_bytes"]
    first.call("hold")
    group.wait_shared(PARTITIONS)
    first.wait_for("held")
    group.join("b")
    # It works on its batch, so it revokes nothing; fetches meanwhile stay within the budget.
    first.wait_for("RebalanceStarted")
    first.call("release")
    group.wait_shared(PARTITIONS)
    ends = {(topic, partition): RECORDS for partition in range(PARTITIONS)}
    group.wait_finished(ends)
    for member in group.alive:
        grown = member.call("memory")["peak_bytes"] - before
        assert grown < BUDGET_BYTES + OVERHEAD_BYTES, f"{member.name} grew by {grown >> 20} MiB"
    assert [size(member) for member in group.alive] == [PARTITIONS // 2] * 2
    group.leave()
    verdict = group.verify(truth_of(stage.bootstrap, ends))
    assert (verdict.delivered, verdict.repeated) == (PARTITIONS * RECORDS, 0)


def size(member: Member) -> int:
    """How many partitions a member has."""
    assert not list(of_kind(member.events, "lost"))
    return len(member.owned)
