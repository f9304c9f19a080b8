"""A chain: topic, group, topic, group, topic, group, with members that come and go, while connections are cut."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaException

from tests.groups.behaviour.conftest import GroupFactory, Unique
from tests.groups.behaviour.group import Group
from tests.groups.behaviour.stage import EmbeddedStage, KafkaStage, Stage
from tests.groups.behaviour.writer import numbered, truth_of, write
from tests.interop.process import eventually

PARTITIONS = 6
RECORDS = 150
"""In each partition of the first topic."""


@contextmanager
def connections_are_cut(stage: Stage, seed: int) -> Iterator[None]:
    """Cut connections at random until the end of the block."""
    if isinstance(stage, EmbeddedStage):
        requests = stage.broker.fault(reset=True, probability=0.01)
        answers = stage.broker.fault(close=True, on="answer", probability=0.01)
        yield
        assert requests.remove() > 0
        assert answers.remove() > 0
        return
    assert isinstance(stage, KafkaStage)
    over = threading.Event()
    draw = random.Random(seed)
    nodes = list(stage.cluster.nodes.values())
    cuts = 0

    def cut() -> None:
        nonlocal cuts
        while not over.wait(draw.uniform(0.05, 0.5)):
            cuts += stage.cut_connections(draw.choice(nodes), draw)

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert cuts > 0


def come_and_go(group: Group, draw: random.Random) -> None:
    """One of three members leaves, another is killed, and two new ones come, in any order."""
    steps: list[str] = ["leave", "join", "kill", "join"]
    draw.shuffle(steps)
    for number, step in enumerate(steps):
        if step == "join":
            group.join(f"late{number}").wait_for("assigned")
        else:
            getattr(draw.choice(group.alive), step)()


def once(values: list[bytes]) -> list[bytes]:
    """The first place of each value."""
    return list(dict.fromkeys(values))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("strategy", ["cooperative-sticky", pytest.param("range", marks=pytest.mark.slow)])
def test_three_groups_in_a_chain(stage: Stage, group_on: GroupFactory, unique: Unique, strategy: str) -> None:
    seed = 20
    topics = [unique(f"topic{number}") for number in range(3)]
    for topic in topics:
        stage.create_topic(topic, PARTITIONS)
    settings: dict[str, Any] = {"partition.assignment.strategy": strategy}
    session = stage.short_session * 4
    chain = list(zip(topics, [*topics[1:], None], strict=True))
    groups = [
        group_on(topic, session_seconds=session, settings=settings, sink=sink, max_rows=25, slow_seconds=0.02)
        for topic, sink in chain
    ]
    with connections_are_cut(stage, seed):
        for group in groups:
            for name in "abc":
                group.join(name)
        ends = write(stage.bootstrap, topics[0], numbered(topics[0], PARTITIONS, RECORDS))
        with ThreadPoolExecutor(len(groups)) as pool:
            changes = [pool.submit(come_and_go, group, random.Random(seed + n)) for n, group in enumerate(groups)]
        for change in changes:
            change.result()
        # Repeated records may stand before the last ones, so the last group is done when nothing is left before any.
        eventually("all records to come through", lambda: _all_through(stage, groups, topics), 200)
    written = truth_of(stage.bootstrap, ends)
    for number, group in enumerate(groups):
        ends = stage.ends(topics[number])
        group.wait_finished(ends)
        group.wait_shared(PARTITIONS)
        group.leave()
        truth = truth_of(stage.bootstrap, ends)
        verdict = group.verify(truth)
        for partition in range(PARTITIONS):
            source = list(written[topics[0], partition])
            arrived = list(truth[topics[number], partition])
            assert once(arrived) == source, f"{topics[number]}-{partition}: not every record once, in order"
        if number + 1 < len(groups):
            following = sum(stage.ends(topics[number + 1]).values())
            # Records that were written again had been handed out again, and the checker has found a reason for each.
            assert following <= sum(ends.values()) + verdict.repeated


def _all_through(stage: Stage, groups: list[Group], topics: list[str]) -> bool:
    """Whether each group has finished all records of its topic, and the first topic has all records."""
    for group, topic in zip(groups, topics, strict=True):
        reached = group.reached()
        try:
            ends = stage.ends(topic)
        except KafkaException:  # its connection was cut
            return False
        if any(reached.get(partition, 0) < max(end, RECORDS) for partition, end in ends.items()):
            return False
    return True
