"""The consumer as such: settings, subscriptions, waits, ends."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import monedula
import pytest

from tests.groups.ground import Ground
from tests.share.conftest import Member
from tests.share.reading import one, take, values
from tests.share.running import undone, until

SERVER = {"bootstrap.servers": "localhost:1"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("auto_offset_reset", "share.auto.offset.reset"),
        ("isolation_level", "share.isolation.level"),
        ("enable_auto_commit", "acknowledged one by one"),
        ("group_protocol", "one protocol"),
        ("session_timeout_ms", "share.session.timeout.ms"),
    ],
)
def test_settings_of_consumer_groups_are_refused_with_what_to_use(setting: str, message: str) -> None:
    value = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "group_protocol": "classic"}
    given: dict[str, Any] = {setting: value.get(setting, 6000 if setting.endswith("ms") else "true")}
    with pytest.raises(monedula.ConfigError, match=message):
        monedula.ShareConsumer(SERVER, group_id="g", **given)


def test_a_group_is_needed() -> None:
    with pytest.raises(monedula.ConfigError, match=r"group\.id is missing"):
        monedula.ShareConsumer(SERVER)


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(monedula.ArgumentError, match="expected 'implicit' or 'explicit'"):
        monedula.ShareConsumer(SERVER, group_id="g", acknowledge="later")  # type: ignore[arg-type]
    with pytest.raises(monedula.ConfigError, match="say the same"):
        monedula.ShareConsumer(SERVER, group_id="g", acknowledge="explicit", share_acknowledgement_mode="implicit")
    with pytest.raises(monedula.ArgumentError, match="dead letters of its own"):
        monedula.ShareConsumer(SERVER, group_id="g", value=monedula.Json("a bigint", dead_letter="bad"))
    with pytest.raises(monedula.ArgumentError, match="share groups subscribe to names"):
        monedula.ShareConsumer(SERVER, ["jobs/*"], group_id="g")


def test_delivery_counts_are_a_column_on_demand() -> None:
    plain = monedula.ShareConsumer(SERVER, group_id="g")
    assert plain.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    counted = monedula.ShareConsumer(SERVER, group_id="g", columns=["deliveryCount", "value"])
    assert counted.schema.names == ["value", "deliveryCount"]
    plain.close()
    counted.close()


def test_repr_and_health_say_what_it_is(ground: Ground, member: Member, group: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    consumer = member([topic])
    one(consumer)
    assert repr(consumer) == (
        f"<monedula.ShareConsumer of {ground.bootstrap}: share group {group}, topics {topic}, 3 records delivered>"
    )
    health = consumer.health()
    assert (health["ok"], health["rows_in_hand"]) == (True, 3)
    assert (health["group"]["state"], health["group"]["assigned"]) == ("Stable", [(topic, 0)])
    assert consumer.subscription() == {topic}
    consumer.close()
    assert "closed" in repr(consumer)
    with pytest.raises(monedula.errors.ClosedError):
        consumer.poll()
    consumer.close()


def test_topics_that_are_created_later_are_read(ground: Ground, member: Member) -> None:
    early, late = ground.topic(), ground.name("late")
    consumer = member([early, late])
    ground.append(early, [1])
    assert take(consumer, 1) == [1]
    ground.topic(name=late)
    ground.append(late, [2])
    assert take(consumer, 1) == [2]


def test_another_subscription_replaces_the_one_before(ground: Ground, member: Member) -> None:
    first, second = ground.topic(), ground.topic()
    ground.append(first, [1])
    ground.append(second, [2])
    consumer = member([first])
    assert take(consumer, 1) == [1]
    consumer.subscribe(second)
    assert take(consumer, 1) == [2]


def test_a_loop_ends_after_its_timeout_and_by_wakeup(ground: Ground, member: Member) -> None:
    topic = ground.topic(partitions=3)
    for partition in range(3):
        ground.append(topic, [partition], partition)
    consumer = member([topic])
    seen = [value for batch in consumer.batches(timeout=3.0) for value in values(batch)]
    assert sorted(seen) == [0, 1, 2]
    consumer.wakeup()
    assert list(consumer.batches()) == []
    consumer.wakeup()
    with pytest.raises(monedula.errors.WakeupError):
        consumer.poll()


def test_threads_hold_batches_of_their_own(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(10))
    consumer = member([topic], max_poll_records=10)
    mine = one(consumer, max_rows=5)
    theirs: list[monedula.Batch] = []
    thread = threading.Thread(target=lambda: theirs.append(one(consumer, max_rows=5)))
    thread.start()
    thread.join()
    assert sorted(values(mine) + values(theirs[0])) == list(range(10))
    consumer.release(mine, [0])
    assert consumer.commit(mine) == {(topic, 0): 5}
    assert consumer.health()["rows_in_hand"] == 5, "the other's"


def test_events_and_callbacks_of_commits_come_inside_of_calls_that_wait(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    events: list[str] = []
    consumer = member([topic], on_event=lambda event: events.append(type(event).__name__))
    batch = one(consumer)
    done: list[dict[monedula.TopicPartition, int]] = []
    future = consumer.commit_async(batch)
    assert future.result() == {(topic, 0): 3}
    later = consumer.commit_async()
    later.add_done_callback(lambda future: done.append(future.result()))
    while not done:
        consumer.poll(timeout=0.1)
    assert done == [{}]
    assert {"CoordinatorFound", "Joined"} <= set(events)


def test_the_asynchronous_consumer_does_the_same(ground: Ground, group: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(6))

    async def work() -> list[int]:
        settings = {"bootstrap.servers": ground.bootstrap, "group.id": group}
        async with monedula.AsyncShareConsumer(settings, [topic], fetch_max_wait_ms=100) as consumer:
            batches = consumer.batches()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(batches), 0.0)
            batch = await anext(batches)
            assert await consumer.renew(batch) is not None
            consumer.release(batch, [1, 4])
            assert await consumer.commit() == {(topic, 0): 6}
            seen = [int(record.value or b"") async for record in consumer.records(timeout=3.0)]
            assert (await consumer.poll(timeout=0.1)).deadline is None
            return seen

    assert asyncio.run(work()) == [1, 4]


def test_waits_and_commits_cancelled_at_any_moment_lose_nothing_and_repeat_nothing(ground: Ground, group: str) -> None:
    topic = ground.topic(partitions=2)
    for first in range(0, 600, 20):
        ground.append(topic, range(first, first + 20), first // 20 % 2)
    chance, cancelled = random.Random(7), Counter[str]()

    async def work() -> list[tuple[int, int | None]]:
        settings = {"bootstrap.servers": ground.bootstrap, "group.id": group, "max.poll.records": 50}
        columns = ["value", "deliveryCount"]
        async with monedula.AsyncShareConsumer(settings, [topic], columns=columns, fetch_max_wait_ms=100) as consumer:
            batches, seen = consumer.batches(max_rows=7), list[tuple[int, int | None]]()

            async def amid(what: str, step: Awaitable[Any]) -> Any:
                """What a step returns unless it is cancelled before it ends, after a few turns of the loop or none."""
                doing = asyncio.ensure_future(step)
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(chance.random() / 2000)
                doing.cancel()
                try:
                    return await doing
                except asyncio.CancelledError:
                    cancelled[what] += 1

            while len(seen) < 600:
                batch = await amid("poll", anext(batches))
                if batch is None:
                    batch = await consumer.poll(timeout=0.1, max_rows=7)
                seen += [(int(record.value or b""), record.delivery_count) for record in batch.records()]
                if batch:
                    await amid("commit", consumer.commit(batch))
            assert not consumer.health()["unacknowledged_records"]
            return seen

    seen = asyncio.run(work())
    assert sorted(seen) == [(number, 1) for number in range(600)]
    assert min(cancelled["poll"], cancelled["commit"]) > 0, cancelled
    until(lambda: undone(ground.bootstrap, group) == 0)
