"""Locks: their deadline, renewals, and what becomes of decisions after them."""

import time
from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

from tests.groups.ground import Ground
from tests.share.conftest import LOCK_SECONDS, SETTINGS, Member
from tests.share.reading import PATIENCE_SECONDS, one, take, values


def test_a_batch_says_when_its_locks_end(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    consumer = member([topic])
    batch = one(consumer)
    assert batch.deadline is not None
    assert 0.0 < batch.deadline - time.monotonic() <= LOCK_SECONDS
    assert consumer.poll(timeout=0.0).deadline is None, "it has no rows"
    assert batch.deadline is None, "all is accepted"


def test_the_core_renews_locks_of_rows_in_hand(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    consumer = member([topic])
    batch = one(consumer)
    first = batch.deadline
    assert first is not None
    until = time.monotonic() + PATIENCE_SECONDS
    while (batch.deadline or 0.0) < first + LOCK_SECONDS:
        assert time.monotonic() < until
        time.sleep(0.05)
    consumer.release(batch, [1])
    assert consumer.commit(batch) == {(topic, 0): 3}
    assert values(one(consumer)) == [1]


def test_rows_whose_lock_is_over_go_to_others_and_their_decisions_fail(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    slow = member([topic], share_renew_max_ms=0, acknowledge="explicit")
    batch = one(slow)
    other = member([topic], columns=["value", "deliveryCount"])
    assert [record.delivery_count for record in one(other).records()] == [2, 2, 2]
    with pytest.raises(monedula.errors.AcknowledgeError, match=r"2 rows of .* were not renewed: the lock was over"):
        slow.renew(batch, [0, 2])
    slow.accept(batch)
    with pytest.raises(monedula.errors.AcknowledgeError, match=r"3 rows of .* were not acknowledged") as raised:
        slow.commit()
    assert raised.value.code == "INVALID_RECORD_STATE"
    result = raised.value.results[monedula.TopicPartition(topic, 0)]
    assert (result.rows, result.failed) == (0, 3)
    assert slow.health()["unacknowledged_records"] == 3
    assert other.commit() == {(topic, 0): 3}


def test_records_whose_lock_ended_while_they_waited_are_left_out(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    slow = member([topic], share_renew_max_ms=0)
    records = slow.records()
    assert next(records).value == b"0"
    other = member([topic])
    assert values(one(other)) == [0, 1, 2], "the locks are over"
    slow.wakeup()
    assert list(records) == []
    assert other.commit() == {(topic, 0): 3}


def test_records_that_close_released_are_left_out(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    consumer = member([topic])
    records = consumer.records()
    assert next(records).value == b"0"
    consumer.close()
    with pytest.raises(monedula.errors.ClosedError):
        next(records)


def test_a_renewal_that_the_group_does_not_allow_is_no_lost_lock(ground: Ground, member: Member, group: str) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    with monedula.Admin(bootstrap_servers=ground.bootstrap) as admin:
        admin.alter_configs({("group", group): {"share.renew.acknowledge.enable": "false"}})
    consumer = member([topic])
    batch = one(consumer)
    with pytest.raises(monedula.errors.AcknowledgeError, match=r"not renewed: .*share\.renew\.acknowledge\.enable"):
        consumer.renew(batch)
    assert consumer.commit(batch) == {(topic, 0): 3}


def test_the_user_may_renew(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    consumer = member([topic], share_renew_max_ms=0)
    batch = one(consumer)
    before = batch.deadline
    assert before is not None
    after = consumer.renew(batch, [1])
    assert after is not None
    assert after > before
    assert batch.deadline == pytest.approx(after, abs=0.05)
    assert consumer.commit(batch) == {(topic, 0): 3}
    with pytest.raises(monedula.ArgumentError, match="decided and told"):
        consumer.renew(batch)


def test_rows_that_nobody_asks_for_are_given_back(ground: Ground, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(10))
    idle = member([topic], max_poll_records=10)
    assert len(one(idle, max_rows=1)) == 1
    other = member([topic])
    seen = values(one(other))
    while len(seen) < 9:
        seen += values(one(other))
    assert sorted(seen) == list(range(1, 10))


@pytest.fixture
def jobs() -> Iterator[tuple[Broker, dict[str, Any]]]:
    """A broker of its own, whose topic `jobs` has ten records, and the settings of members that read all of them."""
    with Broker(settings=SETTINGS, topics=["jobs"]) as broker:
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_configs({("group", "workers"): {"share.auto.offset.reset": "earliest"}})
        broker.append("jobs", [str(number) for number in range(10)])
        yield broker, {"bootstrap.servers": broker.bootstrap_servers, "group.id": "workers", "fetch.max.wait.ms": 100}


def test_what_waits_is_not_handed_out_once_its_connection_ended(jobs: tuple[Broker, dict[str, Any]]) -> None:
    broker, common = jobs
    with (
        monedula.ShareConsumer(common, ["jobs"], acknowledge="explicit", client_id="first") as consumer,
        monedula.ShareConsumer(common, ["jobs"]) as other,
    ):
        first = one(consumer, max_rows=1)
        broker.stop_node(1)
        broker.start_node(1)
        # The next request goes out on a new connection, and nobody answers that what it is about is over.
        held = broker.fault(api="ShareAcknowledge", client_id="first", on="answer", hold=True)
        consumer.accept(first)
        outcome = consumer.commit_async()
        assert take(other, 10) == list(range(10))
        assert not consumer.poll(timeout=0.0)
        held.remove()
        with pytest.raises(monedula.errors.AcknowledgeError):
            outcome.result()


def test_a_loop_over_records_does_not_go_on_once_their_connection_ended(jobs: tuple[Broker, dict[str, Any]]) -> None:
    broker, common = jobs
    with monedula.ShareConsumer(common, ["jobs"]) as consumer, monedula.ShareConsumer(common, ["jobs"]) as other:
        records = consumer.records()
        assert next(records).value == b"0"
        broker.stop_node(1)
        broker.start_node(1)
        assert take(other, 10) == list(range(10))
        consumer.wakeup()
        assert list(records) == []
