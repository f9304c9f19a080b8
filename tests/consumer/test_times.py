"""Times as text: what is understood, and that every call understands it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

import monedula
import pyarrow
import pytest
from monedula.testing import Broker
from monedula.types.times import time_of


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("90s ago", timedelta(seconds=90)),
        ("1 minute ago", timedelta(minutes=1)),
        ("15m ago", timedelta(minutes=15)),
        ("-15m", timedelta(minutes=15)),
        ("2 hours ago", timedelta(hours=2)),
        ("7d ago", timedelta(days=7)),
        ("1w ago", timedelta(weeks=1)),
    ],
)
def test_times_ago(text: str, ago: timedelta) -> None:
    before = datetime.now(UTC)
    time = time_of(text)
    assert time is not None
    assert before - ago <= time <= datetime.now(UTC) - ago


def test_days_begin_at_local_midnight() -> None:
    # Asked twice, as midnight may pass between the two.
    days = {datetime.now().astimezone().date(), datetime.now().astimezone().date()}
    today, yesterday = time_of("today"), time_of("yesterday")
    assert today is not None
    assert yesterday is not None
    assert today.date() in days
    assert (today.hour, today.minute, yesterday.hour, yesterday.minute) == (0, 0, 0, 0)
    assert (today.date() - yesterday.date()).days in (0, 1)


def test_times_of_the_calendar() -> None:
    assert time_of("2026-11-21T10:00:00Z") == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert time_of("2026-11-21T10:00") == datetime(2026, 11, 21, 10).astimezone()
    assert time_of("2026-11-21") == datetime(2026, 11, 21).astimezone()
    assert time_of("@1500") == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "ago", "15m", "-15", "15x ago", "tomorrow", "9999999999w ago", "@", "@x", "2026"])
def test_other_texts_are_no_times(text: str) -> None:
    assert time_of(text) is None


ZERO = monedula.TopicPartition("orders", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


Reads = Callable[[dict[str, str], str], list[int]]


def by_read(settings: dict[str, str], since: str) -> list[int]:
    with monedula.read(settings, "orders", start=since) as stream:
        return [offset or 0 for offset in pyarrow.table(stream)["offset"].to_pylist()]


def by_lookup(settings: dict[str, str], since: str) -> list[int]:
    with monedula.Consumer(settings) as consumer:
        found = consumer.offsets_for_times({("orders", 0): since})[ZERO]
        return [] if found is None else list(range(found.offset, 3))


def by_position(settings: dict[str, str], since: str) -> list[int]:
    with monedula.Consumer(settings) as consumer:
        consumer.assign({("orders", 0): since})
        return [record.offset or 0 for record in islice(consumer.records(timeout=30), 2)]


def by_admin(settings: dict[str, str], since: str) -> list[int]:
    with monedula.Admin(settings) as admin:
        found = admin.list_offsets("orders", since)[ZERO].offset
        return [] if found is None else list(range(found, 3))


@pytest.mark.parametrize("by", [by_read, by_lookup, by_position, by_admin])
def test_every_call_takes_a_text(broker: Broker, by: Reads) -> None:
    broker.create_topic("orders")
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with monedula.Producer(settings) as producer:
        producer.send("orders", "old", timestamp=datetime.now(UTC) - timedelta(hours=3))
        for _ in range(2):
            producer.send("orders", "new")
    assert by(settings, "1h ago") == [1, 2]


def test_what_is_no_time_is_refused_with_what_is(broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with monedula.Consumer(settings) as consumer:
        for wrong in (
            lambda: consumer.assign({("orders", 0): "soon"}),
            lambda: consumer.offsets_for_times({("orders", 0): "soon"}),
            lambda: monedula.read(settings, "orders", start="soon"),
        ):
            with pytest.raises(monedula.ArgumentError, match=r"soon.*'15m ago'"):
                wrong()
