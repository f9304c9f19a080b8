"""Topics that do not exist: names that no topic can have are refused, others are told of and asked for again."""

import logging
from collections.abc import Callable
from typing import Any

import monedula
import pytest
from monedula import events
from monedula.testing import Broker

from tests.groups.conftest import MemberFactory
from tests.groups.ground import TIMING, Ground, take, until

PATTERN = "^ux-.*"
REFUSED = r"'\^ux-\.\*' is no topic's name: .*; did you mean subscribe\(pattern='\^ux-\.\*'\)\?"


def warnings_of(caplog: pytest.LogCaptureFixture, topic: str) -> list[str]:
    return [message for record in caplog.records if topic in (message := record.getMessage())]


@pytest.mark.both_protocols
def test_a_mistyped_topic_is_told_of_once_with_the_one_that_may_be_meant(
    ground: Ground, member: MemberFactory, caplog: pytest.LogCaptureFixture
) -> None:
    there = ground.topic(1, ground.name("deliveries"))
    mistyped, group = there.replace("deliveries", "delivreies"), ground.name("group")
    seen: list[events.GroupEvent] = []
    with caplog.at_level(logging.WARNING, "monedula"):
        consumer = member(group, [mistyped, there], on_event=seen.append, retry_backoff_ms=10)
        until(lambda: bool(warnings_of(caplog, mistyped)), consumer)
        asked = consumer.metrics()["metadata_updates"]
        until(lambda: consumer.metrics()["metadata_updates"] > asked + 2, consumer)
    meant = f"group {group}: topic {mistyped} does not exist (did you mean {there}?); it is read as soon as it does"
    assert warnings_of(caplog, mistyped) == [meant]
    told = [event for event in seen if isinstance(event, events.UnknownTopic)]
    assert [(event.topic, event.nearest) for event in told] == [(mistyped, there)]
    assert consumer.health()["group"]["unknown_topics"] == [mistyped]


@pytest.mark.both_protocols
def test_a_topic_that_is_created_later_is_read_without_waiting_for_metadata_max_age(
    ground: Ground, member: MemberFactory
) -> None:
    topic = ground.name("later")
    seen: list[events.GroupEvent] = []
    consumer = member(ground.name("group"), topic, on_event=seen.append, metadata_max_age_ms=24 * 3600 * 1000)
    until(lambda: consumer.health()["group"]["unknown_topics"] == [topic], consumer)
    ground.topic(1, topic)
    ground.append(topic, range(3))
    assert take(consumer, 3) == [0, 1, 2]
    until(lambda: any(isinstance(event, events.TopicFound) for event in seen), consumer)
    assert consumer.health()["group"]["unknown_topics"] == []


def test_another_subscription_forgets_what_was_unknown(ground: Ground, member: MemberFactory) -> None:
    topic = ground.topic()
    consumer = member(ground.name("group"), ground.name("missing"), retry_backoff_ms=10)
    until(lambda: consumer.health()["group"]["unknown_topics"] != [], consumer)
    consumer.subscribe(topic)
    until(lambda: bool(consumer.assignment()), consumer)
    assert consumer.health()["group"]["unknown_topics"] == []


@pytest.mark.parametrize(
    "use",
    [
        lambda settings: monedula.Consumer(settings, PATTERN),
        lambda settings: monedula.Consumer(settings).subscribe(["orders", PATTERN]),
        lambda settings: monedula.Consumer(settings).assign(PATTERN),
        lambda settings: monedula.Consumer(settings).partitions_of(PATTERN),
        lambda settings: monedula.AsyncConsumer(settings, PATTERN),
        lambda settings: monedula.AsyncConsumer(settings).assign([PATTERN]),
    ],
)
def test_a_pattern_in_place_of_a_name_is_refused_with_how_to_subscribe_to_it(
    broker: Broker, use: Callable[[dict[str, Any]], object]
) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", **TIMING}
    with pytest.raises(monedula.ArgumentError, match=REFUSED):
        use(settings)


def test_read_says_how_to_find_the_topics_of_a_pattern(broker: Broker) -> None:
    found = r"'\^ux-\.\*' is no topic's name: .*; read\(\) takes names, not a pattern: .*list_topics\(\)"
    with pytest.raises(monedula.ArgumentError, match=found):
        monedula.read({"bootstrap.servers": broker.bootstrap_servers}, PATTERN)


def test_a_name_that_no_topic_can_have_is_refused_by_a_producer(broker: Broker) -> None:
    with (
        monedula.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        pytest.raises(monedula.ArgumentError, match="is no name for a topic"),
    ):
        producer.send(PATTERN, "x")


async def test_an_asynchronous_member_is_told_too(ground: Ground) -> None:
    topic = ground.name("later")
    seen: list[events.GroupEvent] = []
    settings = ground.settings(ground.name("group"), retry_backoff_ms=10)
    async with monedula.AsyncConsumer(settings, topic, on_event=seen.append) as consumer:
        while not any(isinstance(event, events.UnknownTopic) for event in seen):
            await consumer.poll(timeout=0.05)
        ground.topic(1, topic)
        ground.append(topic, range(3))
        assert (await consumer.poll(timeout=60.0)).num_rows > 0
