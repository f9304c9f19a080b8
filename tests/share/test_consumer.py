"""The consumer as such: settings, subscriptions, waits, ends."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import Any

import monedula
import pytest
from monedula.admin import AclFilter
from monedula.testing import Broker

from tests.groups.ground import EmbeddedGround, Ground
from tests.share.conftest import SETTINGS, Member
from tests.share.reading import PATIENCE_SECONDS, one, take, values
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


@pytest.mark.parametrize("topics", [None, 5, [5], b"jobs"])
def test_what_is_no_name_is_not_subscribed_to(topics: Any) -> None:
    with monedula.ShareConsumer(SERVER, group_id="g") as consumer:
        with pytest.raises(monedula.ArgumentError, match="is no topic's name; share groups subscribe to names"):
            consumer.subscribe(topics)
        with pytest.raises(monedula.ArgumentError, match=r"share\.auto\.offset\.reset of the group"):
            consumer.subscribe({"jobs": 0})


@pytest.mark.parametrize("client", [monedula.ShareConsumer, monedula.AsyncShareConsumer])
async def test_offsets_and_records_are_not_committed(client: Any) -> None:
    consumer = client(SERVER, group_id="g")
    for what in ({("jobs", 0): 1}, "jobs", 5):
        for commit in (consumer.commit, consumer.commit_async):
            with pytest.raises(monedula.ArgumentError, match=r"expected a batch, or nothing.*accept\(record\)"):
                commit(what)


def test_settings_of_the_group_are_refused_with_where_they_belong() -> None:
    with pytest.raises(monedula.ConfigError, match=r"of the share group, not of its members: .*alter_configs"):
        monedula.ShareConsumer(SERVER, group_id="g", share_auto_offset_reset="earliest")


def test_without_a_subscription_there_is_nothing_to_wait_for() -> None:
    with monedula.ShareConsumer(SERVER, group_id="g") as consumer:
        with pytest.raises(monedula.ArgumentError, match="not subscribed"):
            consumer.poll()
        with pytest.raises(monedula.ArgumentError, match="not subscribed"):
            next(consumer.records())


def test_a_broker_that_does_not_answer_keeps_no_member_from_leaving(group: str, member: Member, ground: Ground) -> None:
    if not isinstance(ground, EmbeddedGround):
        pytest.skip("faults are for the embedded broker")
    consumer = member([ground.topic()])
    fault = ground.broker.fault(api="ShareFetch", group=group, hold=True)
    until(lambda: not consumer.poll(timeout=0.1) and fault.hits > 0)
    consumer.close(timeout=2.0)
    assert ground.broker.group(group).members == ()
    fault.remove()


def test_delivery_counts_are_a_column_on_demand() -> None:
    plain = monedula.ShareConsumer(SERVER, group_id="g")
    assert plain.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    counted = monedula.ShareConsumer(SERVER, group_id="g", columns=["deliveryCount", "value"])
    assert counted.schema.names == ["value", "deliveryCount"]
    with monedula.ShareConsumer(SERVER, group_id="g", columns=["deliveryCount"]) as alone:
        assert alone.schema.names == ["deliveryCount"]
    with pytest.raises(monedula.ArgumentError, match=r"unknown column .*deliveryCount, of a share group"):
        monedula.ShareConsumer(SERVER, group_id="g", columns=["deliverycount"])
    with pytest.raises(monedula.ArgumentError, match="name at least one column"):
        monedula.ShareConsumer(SERVER, group_id="g", columns=[])
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


@pytest.mark.parametrize("protocol", ["auto", "classic", "consumer"])
def test_a_consumer_is_told_that_the_group_may_be_a_share_group(
    ground: Ground, member: Member, group: str, protocol: str
) -> None:
    topic = ground.topic()
    ground.append(topic, range(1))
    one(member([topic]))
    settings = {"bootstrap.servers": ground.bootstrap, "group.id": group, "group.protocol": protocol}
    says = "(s a|it is a) share group.*use ShareConsumer or another group.id. If not, "
    with monedula.Consumer(settings, [topic]) as consumer, pytest.raises(monedula.errors.GroupError, match=says):
        consumer.poll(timeout=PATIENCE_SECONDS)


def test_offsets_are_not_committed_to_a_share_group(ground: Ground, member: Member, group: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(1))
    one(member([topic]))
    with monedula.Consumer({"bootstrap.servers": ground.bootstrap, "group.id": group}) as consumer:
        consumer.assign([(topic, 0)])
        with pytest.raises(monedula.errors.GroupNotFoundError, match=f"{group} is no consumer group; .*ShareConsumer"):
            consumer.commit({(topic, 0): 1})


def test_lines_of_the_log_name_the_group(
    ground: Ground, member: Member, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "monedula.groups")
    topic = ground.topic()
    ground.append(topic, range(2))
    consumer = member([topic], share_renew_max_ms=0)
    one(consumer)
    lost = member([topic])
    one(lost)  # once the locks are over
    with pytest.raises(monedula.errors.AcknowledgeError):
        consumer.commit()
    consumer.close()
    assert f"group {group}: {topic}-0: 2 records not acknowledged: the lock was over" in caplog.text
    assert f"group {group}: left: " in caplog.text


def test_topics_that_are_created_later_are_read(ground: Ground, member: Member) -> None:
    early, late = ground.topic(), ground.name("late")
    consumer = member([early, late])
    ground.append(early, [1])
    assert take(consumer, 1) == [1]
    ground.topic(name=late)
    ground.append(late, [2])
    assert take(consumer, 1) == [2]


def test_a_topic_that_does_not_exist_is_told_of(
    ground: Ground, member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    topic = ground.topic()
    typo = f"{topic}x"
    consumer = member([typo], topic_metadata_propagation_max_ms=1)

    def unknown_topics() -> list[str]:
        return list((consumer.health()["group"] or {}).get("unknown_topics", ()))

    with caplog.at_level("INFO", "monedula"):
        until(lambda: not consumer.poll(timeout=0.1) and unknown_topics() == [typo])
        assert f"topic {typo} does not exist (did you mean {topic}?)" in caplog.text
        consumer.subscribe([topic])
        until(lambda: not consumer.poll(timeout=0.1) and unknown_topics() == [])


@pytest.mark.parametrize("mode", ["batch_optimized", "record_limit"])
def test_a_strict_limit_that_brokers_do_not_know_is_refused(mode: str) -> None:
    with Broker(topics={"jobs": 1}, max_versions={"ShareFetch": 1}) as broker:
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_configs({("group", "g"): {"share.auto.offset.reset": "earliest"}})
        broker.append("jobs", [str(number) for number in range(20)])
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "share.acquire.mode": mode}
        with monedula.ShareConsumer(settings, "jobs", max_poll_records=5) as consumer:
            if mode == "batch_optimized":
                assert one(consumer)
            else:
                with pytest.raises(
                    monedula.errors.UnsupportedVersionError, match=r"share\.acquire\.mode=record_limit.* 4\.2"
                ):
                    consumer.poll(timeout=PATIENCE_SECONDS)


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
    theirs: Queue[monedula.Batch] = Queue()
    over = threading.Event()

    def hold() -> None:
        theirs.put(one(consumer, max_rows=5))
        over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert sorted(values(mine) + values(theirs.get(timeout=PATIENCE_SECONDS))) == list(range(10))
        consumer.release(mine, [0])
        assert consumer.commit(mine) == {(topic, 0): 5}
        assert consumer.health()["rows_in_hand"] == 5, "the other's"
    finally:
        over.set()
        thread.join()


def test_what_a_thread_that_ends_leaves_undecided_is_released(
    ground: Ground, member: Member, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = ground.topic()
    ground.append(topic, range(4))
    consumer = member([topic], columns=["value", "deliveryCount"])
    thread = threading.Thread(target=lambda: consumer.accept(one(consumer), [0]))
    thread.start()
    thread.join()
    again = one(consumer)
    assert values(again) == [1, 2, 3]
    assert {record.delivery_count for record in again.records()} == {2}
    assert f"group {group}: a thread or task ended with 3 rows of which nothing was decided" in caplog.text


async def test_what_a_task_that_ends_leaves_undecided_is_released(ground: Ground, group: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(4))
    settings = {"bootstrap.servers": ground.bootstrap, "group.id": group}
    async with monedula.AsyncShareConsumer(settings, [topic], fetch_max_wait_ms=100) as consumer:

        async def fail(batch: Awaitable[monedula.Batch]) -> None:
            consumer.accept(await batch, [0])
            raise ZeroDivisionError

        async def poll() -> None:
            await fail(consumer.poll(timeout=PATIENCE_SECONDS))

        async def iterate() -> None:
            await fail(anext(consumer.batches()))

        with pytest.raises(ZeroDivisionError):
            await asyncio.create_task(poll())
        with pytest.raises(ZeroDivisionError):
            await asyncio.create_task(iterate())
        assert values(await consumer.poll(timeout=PATIENCE_SECONDS)) == [2, 3]


async def test_explicit_rows_outlive_the_task_and_the_thread_that_took_them(
    ground: Ground, member: Member, group: str
) -> None:
    topic = ground.topic()
    ground.append(topic, [0])
    taken: list[monedula.Batch] = []
    consumer = member([topic], acknowledge="explicit")
    thread = threading.Thread(target=lambda: taken.append(one(consumer)))
    thread.start()
    thread.join()
    await until_gone(thread)
    consumer.accept(taken[0])
    assert consumer.commit() == {(topic, 0): 1}
    ground.append(topic, [1])
    consumer.close()
    settings = {"bootstrap.servers": ground.bootstrap, "group.id": group}
    async with monedula.AsyncShareConsumer(settings, [topic], acknowledge="explicit") as waits:

        async def take_one() -> monedula.Batch:
            return await waits.poll(timeout=PATIENCE_SECONDS)

        batch = await asyncio.create_task(take_one())
        waits.accept(batch)
        assert await waits.commit() == {(topic, 0): 1}


async def until_gone(thread: threading.Thread) -> None:
    """Wait for the end of the system's thread, which comes behind that of Python's."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while Path(f"/proc/self/task/{thread.native_id}").exists():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("settings", [{}, {"max_poll_records": 100}, {"share_acquire_mode": "record_limit"}], ids=str)
def test_a_program_that_keeps_pace_is_given_more_unless_a_limit_is_set(
    ground: Ground, member: Member, settings: dict[str, Any]
) -> None:
    topic = ground.topic()
    for first in range(0, 6000, 50):
        ground.append(topic, range(first, first + 50))
    consumer, rows, seen = member([topic], **settings), list[int](), list[int]()
    while len(seen) < 6000:
        batch = one(consumer)
        rows.append(batch.num_rows)
        seen += values(batch)
    assert seen == list(range(6000))
    assert rows[0] <= (settings.get("max_poll_records") or 500)
    if settings:
        assert max(rows) == rows[0], "whole record batches fit"
    else:
        assert max(rows) > 500


def test_what_a_call_accepts_goes_with_the_fetch_that_its_wait_needs(
    ground: Ground, group: str, member: Member
) -> None:
    topic, batches = ground.topic(), 40
    locks = {"share.partition.max.record.locks": "100", "share.record.lock.duration.ms": "60000"}
    with monedula.Admin(bootstrap_servers=ground.bootstrap) as admin:
        admin.alter_configs({("group", group): locks})
    for first in range(0, batches * 100, 100):
        ground.append(topic, range(first, first + 100))
    # A fetch without them gives nothing, for all locks are in hand, and waits for 18 s.
    consumer = member([topic], fetch_max_wait_ms=18_000)
    seen = values(one(consumer))
    while len(seen) < batches * 100:
        batch = consumer.poll(timeout=15.0)
        assert batch, f"no records after {len(seen)}"
        seen += values(batch)
    assert seen == list(range(batches * 100))


def test_a_strict_limit_does_not_wait_at_empty_brokers_while_another_has_records() -> None:
    with Broker(nodes=3, topics={"jobs": 3}, settings=SETTINGS) as broker:
        for partition in range(3):
            broker.move_leader("jobs", partition, partition + 1)
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "60000"}
            admin.alter_configs({("group", "workers"): settings})
        for number in range(4):
            broker.append("jobs", [str(number)], partition=2)
        limits: dict[str, Any] = {"share.acquire.mode": "record_limit", "max.poll.records": 1}
        member = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "workers", **limits}
        with monedula.ShareConsumer(member, ["jobs"], fetch_max_wait_ms=25_000) as consumer:
            # A fetch that waits does so for 18 s, 30 % of a lock.
            assert [values(consumer.poll(timeout=15.0)) for _ in range(4)] == [[0], [1], [2], [3]]


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
    # A call tells at its beginning what came before it.
    while not done or not events:
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


def test_a_topic_that_is_not_allowed_any_more_is_told_at_each_call_and_readable_again_at_once() -> None:
    users = {"admin": "secret", "anna": "secret"}
    with Broker(security="SASL_PLAINTEXT", users=users, super_users=["admin"], topics=["jobs:1"]) as broker:
        broker.allow("anna", "READ", group="workers")
        broker.allow("anna", "READ", topic="jobs")
        with monedula.Admin(broker.client_settings("admin")) as admin:
            admin.alter_configs({("group", "workers"): {"share.auto.offset.reset": "earliest"}})
        settings = {**broker.client_settings("anna"), "group.id": "workers", "fetch.max.wait.ms": 100}
        with monedula.ShareConsumer(settings, ["jobs"]) as consumer:
            broker.append("jobs", ["0"])
            assert values(one(consumer)) == [0]
            broker.deny("anna", "READ", topic="jobs")
            for _ in range(3):
                with pytest.raises(monedula.errors.AuthorizationError, match="TOPIC_AUTHORIZATION_FAILED"):
                    consumer.poll(timeout=PATIENCE_SECONDS if consumer.health()["ok"] else 0.1)
            assert "TOPIC_AUTHORIZATION_FAILED" in consumer.health()["last_error"]
            with pytest.raises(monedula.errors.AuthorizationError):
                consumer.run(print, timeout=0.1)
            with monedula.Admin(broker.client_settings("admin")) as admin:
                admin.delete_acls(AclFilter(permission_type="deny"))
            until(lambda: suppressed(consumer) and consumer.health()["ok"])
            broker.append("jobs", ["1"])
            assert values(one(consumer)) == [1]


def suppressed(consumer: monedula.ShareConsumer) -> bool:
    """Ask for records, which may still be denied."""
    with suppress(monedula.errors.AuthorizationError):
        consumer.poll(timeout=0.05)
    return True


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
