"""Assignors written in Python."""

import logging
import threading
from collections.abc import Mapping
from typing import Any

import monedula
import pytest
from monedula.assignors import Assignment, Member
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import Ground, shared, take, until


class ByWeight:
    """Gives all partitions to the heaviest member: its user data decides, and each member gets the winner's name."""

    name = "by-weight"

    def __init__(self, weight: int, cooperative: bool = False) -> None:
        self.weight = weight
        self.cooperative = cooperative
        self.members: list[Member] = []
        self.told: list[bytes | None] = []
        self.threads: set[str] = set()

    def subscription(self, topics: set[str], owned: set[monedula.TopicPartition], generation: int) -> bytes:
        self.threads.add(threading.current_thread().name)
        assert len(topics) == 1
        assert bool(owned) <= (generation >= 0)
        return str(self.weight).encode()

    def assigned(self, partitions: set[monedula.TopicPartition], user_data: bytes | None) -> None:
        assert all(isinstance(partition, monedula.TopicPartition) for partition in partitions)
        self.told.append(user_data)

    def assign(self, topics: dict[str, int], members: list[Member]) -> dict[str, Assignment]:
        self.members = members
        heaviest = max(members, key=lambda member: int(member.user_data or b"0"))
        free = {(topic, index) for topic, count in topics.items() for index in range(count)}
        if self.cooperative:
            free -= {pair for member in members if member is not heaviest for pair in member.owned}
        return {
            member.member_id: Assignment(sorted(free) if member is heaviest else [], b"won by " + heaviest.user_data)
            for member in members
            if heaviest.user_data is not None
        }


@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.req("S125")
def test_an_assignor_of_the_users_own_and_its_user_data(
    ground: Ground, member: MemberFactory, cooperative: bool
) -> None:
    topic, group = ground.topic(3), ground.name("group")
    light, heavy = ByWeight(1, cooperative), ByWeight(2, cooperative)
    first = member(group, topic, assignors=[light, "cooperative-sticky" if cooperative else "range"])
    until(shared(3, first), first)
    assert first.health()["group"]["assignor"] == "by-weight"
    second = member(group, topic, assignors=[heavy])
    until(lambda: len(second.assignment()) == 3, first, second)
    assert first.assignment() == set()
    leader = light if light.members else heavy
    assert {each.user_data for each in leader.members} == {b"1", b"2"}
    assert {each.topics for each in leader.members} == {(topic,)}
    # The user data from the leader's assignor is in each member's next join.
    heavy.told.clear()
    second.enforce_rebalance("weights are told again")
    until(lambda: heavy.told == [b"won by 2"], first, second)
    assert light.threads | heavy.threads == {"monedula-assignor"}


def test_an_assignor_may_be_a_class_and_give_plain_lists(ground: Ground, member: MemberFactory) -> None:
    class Everything:
        name = "everything-to-one"

        def assign(self, topics: dict[str, int], members: list[Member]) -> Mapping[str, list[tuple[str, int]]]:
            return {members[0].member_id: [(topic, index) for topic in topics for index in range(topics[topic])]}

    topic = ground.topic(2)
    ground.append(topic, [1, 2])
    consumer = member(ground.name("group"), topic, assignors=[Everything])
    assert take(consumer, 2) == [1, 2]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (KeyError("the user's own"), "KeyError: \"the user's own\"|KeyError: 'the user"),
        (SystemExit("leaves"), "SystemExit: leaves"),
        (KeyboardInterrupt("stops"), "KeyboardInterrupt: stops"),
        (None, "not a dict"),
        ({"nobody": [("t", 0)]}, "nobody"),
        ({"ME": ["t"]}, "partition"),
        ({"ME": 5}, "not partitions"),
    ],
)
def test_an_assignor_that_fails_is_told_to_the_user(
    broker: Broker, member: MemberFactory, caplog: pytest.LogCaptureFixture, result: Any, reason: str
) -> None:
    class Bad:
        name = "bad"

        def assign(self, topics: dict[str, int], members: list[Member]) -> Any:  # noqa: ARG002
            if isinstance(result, BaseException):
                raise result
            if isinstance(result, dict):
                return {members[0].member_id if key == "ME" else key: value for key, value in result.items()}
            return result

    broker.create_topic("t")
    consumer = member("etl", "t", assignors=[Bad()])
    for _ in range(2):
        with caplog.at_level(logging.ERROR), pytest.raises(monedula.errors.AssignorError, match=reason) as caught:
            until(lambda: False, consumer)
        assert (caught.value.assignor, caught.value.group) == ("bad", "etl")
        consumer.subscribe("t")


@pytest.mark.parametrize(
    ("assignors", "message"),
    [
        ([], "empty"),
        ("range", "list"),
        ([object()], "no assignor"),
        ([ByWeight(1), ByWeight(2)], "same name"),
        (["nonsense"], "nonsense"),
    ],
)
def test_what_is_no_assignor(ground: Ground, member: MemberFactory, assignors: Any, message: str) -> None:
    with pytest.raises((monedula.ArgumentError, monedula.ConfigError), match=message):
        member(ground.name("group"), assignors=assignors)


@pytest.mark.req("S148")
def test_an_unknown_strategy_is_refused_at_start(ground: Ground, member: MemberFactory) -> None:
    with pytest.raises(monedula.ConfigError, match=r"there is no assignor .*cooperative-stiky") as caught:
        member(ground.name("group"), partition_assignment_strategy="cooperative-stiky")
    assert caught.value.key == "partition.assignment.strategy"
    with pytest.raises(monedula.ConfigError, match="one of them"):
        member(ground.name("group"), assignors=["range"], partition_assignment_strategy="range")


@pytest.mark.parametrize(
    "strategy",
    [
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "CooperativeStickyAssignor",
        "cooperative-sticky",
        "range,roundrobin",
        ["range", "sticky"],
    ],
)
def test_strategies_are_named_as_elsewhere(ground: Ground, member: MemberFactory, strategy: Any) -> None:
    topic = ground.topic(2)
    consumer = member(ground.name("group"), topic, partition_assignment_strategy=strategy)
    until(shared(2, consumer), consumer)
    chosen = consumer.health()["group"]["assignor"]
    assert chosen == ("cooperative-sticky" if "ooperative" in strategy else "range")


@pytest.mark.req("S045")
def test_a_rebalance_can_be_asked_for_now_and_later(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    consumer = member(ground.name("group"), topic)
    until(shared(1, consumer), consumer)
    for after in (0.0, 0.3):
        generation = consumer.health()["group"]["generation"]
        consumer.enforce_rebalance("the weights changed", after)

        def is_over(generation: int = generation) -> bool:
            # JoinGroup tells the generation, SyncGroup ends the rebalance.
            group = consumer.health()["group"]
            return bool(group["generation"] > generation and group["state"] == "Stable")

        until(is_over, consumer)
        assert "the weights changed" in consumer.health()["group"]["last_rebalance_reason"]
    with pytest.raises(monedula.ArgumentError, match="subscribe"):
        member(ground.name("group")).enforce_rebalance("for nothing")
