"""`auto.offset.reset=by_duration:PT1H` (KIP-1106): members, assigned consumers, and positions beyond the end."""

from datetime import UTC, datetime, timedelta

import monedula
import pytest

from tests.groups.conftest import MemberFactory
from tests.groups.ground import Ground, take, until

HOUR = "by_duration:PT1H"


@pytest.fixture
def topic(ground: Ground) -> str:
    """A topic whose records are older than an hour, and younger: 1 and 2, 3 and 4."""
    name = ground.topic()
    with monedula.Producer({"bootstrap.servers": ground.bootstrap}) as producer:
        for value, minutes in enumerate((180, 61, 59, 1), start=1):
            producer.send(name, str(value), timestamp=datetime.now(UTC) - timedelta(minutes=minutes)).result()
    return name


@pytest.mark.both_protocols
def test_a_group_without_offsets_starts_at_the_first_record_that_is_young_enough(
    ground: Ground, topic: str, member: MemberFactory
) -> None:
    group = ground.name("group")
    consumer = member(group, topic, auto_offset_reset=HOUR)
    assert take(consumer, 2) == [3, 4]
    consumer.commit()
    consumer.close()
    ground.append(topic, [5])
    assert take(member(group, topic, auto_offset_reset="by_duration:P1D"), 1) == [5], "what is committed goes before"


@pytest.mark.both_protocols
def test_where_no_record_is_young_enough_it_starts_at_the_end(
    ground: Ground, topic: str, member: MemberFactory
) -> None:
    consumer = member(ground.name("group"), topic, auto_offset_reset="by_duration:PT30S")
    until(lambda: consumer.position((topic, 0)) == 4 if consumer.assignment() else False, consumer)
    ground.append(topic, [5])
    assert take(consumer, 1) == [5]


def test_a_duration_of_more_than_all_records_starts_at_the_beginning(
    ground: Ground, topic: str, member: MemberFactory
) -> None:
    assert take(member(ground.name("group"), topic, auto_offset_reset="by_duration:P100000000D"), 4) == [1, 2, 3, 4]


def test_an_assigned_consumer_starts_there_too(topic: str, member: MemberFactory) -> None:
    consumer = member(None, auto_offset_reset=HOUR)
    consumer.assign([(topic, 0)])
    assert take(consumer, 2) == [3, 4]


def test_a_position_beyond_the_end_goes_back_by_the_duration(topic: str, member: MemberFactory) -> None:
    consumer = member(None, auto_offset_reset=HOUR)
    consumer.assign({(topic, 0): 5000})
    assert take(consumer, 2) == [3, 4]
    assert consumer.metrics()["positions_lost"] == 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("by_duration", "such as by_duration:P7D"),
        ("by_duration:7 days", "such as by_duration:P7D"),
        ("by_duration:-PT1H", "a negative one would be in the future"),
    ],
)
def test_what_is_no_duration_is_a_config_error(value: str, why: str) -> None:
    with pytest.raises(monedula.ConfigError, match=why) as raised:
        monedula.Consumer(bootstrap_servers="localhost:1", auto_offset_reset=value)
    assert raised.value.key == "auto_offset_reset"
