"""Transactions: listed, described, fenced, their producers in partitions, and those that hang (KIP-664)."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import monedula
import pyarrow as pa
import pytest
from monedula import Admin, AsyncAdmin, TopicPartition
from monedula.admin import HangingTransaction, ProducerState
from monedula.testing import Broker

from tests.admin.conftest import Ground
from tests.admin.protected import ProtectedBroker
from tests.hanging_transactions import hang
from tests.kafka import jars
from tests.kafka.secured import ANNA, BORIS, SecuredKafka

HOUR_MS = 3_600_000


@contextmanager
def left_open(ground: Ground, transactional_id: str, topic: str, **settings: object) -> Iterator[monedula.Producer]:
    """A producer with an open transaction, whose record is in partition 0."""
    own = {"bootstrap.servers": ground.cluster.bootstrap, "transactional.id": transactional_id, **settings}
    producer = monedula.Producer(own)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, "open", partition=0).result()
        yield producer
    finally:
        producer.close(0.0)


def remembered(admin: Admin, topic: str) -> tuple[ProducerState, ...]:
    """The producers that partition 0 remembers."""
    return admin.describe_producers((topic, 0))[TopicPartition(topic, 0)]


def committed_values(ground: Ground, topic: str, count: int) -> list[str]:
    """Read so many records as a read_committed consumer."""
    settings = {"bootstrap.servers": ground.cluster.bootstrap, "isolation.level": "read_committed"}
    found: list[str] = []

    def has_all() -> bool:
        found.extend((record.value or b"").decode() for record in consumer.poll(0.2).records())
        return len(found) >= count

    with monedula.Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([(topic, 0)])
        ground.until(has_all)
    return found


def test_an_open_transaction_is_listed_described_and_fenced(ground: Ground, admin: Admin) -> None:
    topic, mine, other = ground.topic(2), ground.name("txn"), ground.name("txn")
    with (
        left_open(ground, mine, topic, **{"transaction.timeout.ms": 300_000}),
        left_open(ground, other, topic) as ended,
    ):
        ended.commit_transaction()
        listed = admin.list_transactions()
        assert listed[mine].state == "Ongoing"
        assert listed[mine].coordinator in (1, 2, 3)
        assert listed.missing == {}
        ground.until(lambda: admin.list_transactions()[other].state == "CompleteCommit")
        assert set(admin.list_transactions(states="Ongoing")) >= {mine}
        assert other not in admin.list_transactions(states=["Ongoing", "PrepareAbort"])
        assert set(admin.list_transactions(producer_ids=listed[mine].producer_id)) == {mine}
        assert admin.list_transactions(producer_ids=[987_654_321]) == {}

        described = admin.describe_transactions(mine)[mine]
        assert (described.state, described.timeout_ms) == ("Ongoing", 300_000)
        assert described.partitions == (TopicPartition(topic, 0),)
        assert described.producer_id == listed[mine].producer_id
        assert described.coordinator is not None
        assert described.coordinator.id == listed[mine].coordinator
        assert described.start_timestamp == pytest.approx(time.time() * 1000, abs=60_000)
        row = pa.table(admin.describe_transactions([mine]).to_arrow()).to_pylist()[0]
        assert (row["transactional_id"], row["partitions"]) == (mine, [f"{topic}-0"])

        fenced = admin.fence_producers([mine])[mine]
        assert fenced.producer_id == described.producer_id
        assert fenced.producer_epoch > described.producer_epoch
        ground.until(lambda: admin.describe_transactions(mine)[mine].partitions == ())
    assert committed_values(ground, topic, 1) == ["open"], "of the one that was committed"


def test_transactions_are_filtered_by_duration_and_pattern(ground: Ground, admin: Admin) -> None:
    if not (ground.is_embedded or jars.speaks("4.1")):
        pytest.skip("the pattern is KIP-1152, from Kafka 4.1 on")
    topic, mine = ground.topic(), ground.name("txn")
    with left_open(ground, mine, topic):
        assert mine in admin.list_transactions(duration_ms=0, states=["Ongoing"])
        assert mine not in admin.list_transactions(duration_ms=HOUR_MS)
        assert set(admin.list_transactions(transactional_id_pattern=f".*{mine[-6:]}")) == {mine}
        assert admin.list_transactions(transactional_id_pattern=mine[:-1]) == {}, "it must match as a whole"
        with pytest.raises(monedula.errors.BrokerError) as raised:
            admin.list_transactions(transactional_id_pattern="(")
        assert raised.value.code == "INVALID_REGULAR_EXPRESSION"


def test_what_does_not_exist_is_an_error_of_its_kind(ground: Ground, admin: Admin) -> None:
    topic, missing = ground.topic(), ground.name("txn")
    with pytest.raises(monedula.errors.TransactionalIdNotFoundError, match=missing) as unknown:
        admin.describe_transactions(missing)
    assert unknown.value.code == "TRANSACTIONAL_ID_NOT_FOUND"
    assert isinstance(unknown.value, LookupError)
    assert list(admin.describe_transactions([missing], errors="return").errors) == [missing]
    with pytest.raises(monedula.errors.UnknownTopicError, match=f"{topic}-9"):
        admin.describe_producers((topic, 9))
    with pytest.raises(monedula.errors.UnknownTopicError):
        admin.abort_transaction((topic, 9), 1, 0)
    with pytest.raises(monedula.errors.UnknownTopicError):
        admin.find_hanging_transactions(topics=ground.name("missing"))
    with pytest.raises(monedula.ArgumentError, match="is no state of a transaction: expected one of Empty"):
        admin.list_transactions(states="Asleep")  # type: ignore[arg-type]
    for wrong in (None, 1.5, "5"):
        with pytest.raises(monedula.ArgumentError, match=r"producer_ids=.*: expected a whole number"):
            admin.list_transactions(producer_ids=wrong)  # type: ignore[arg-type]
    with pytest.raises(monedula.ArgumentError, match=r"is no transactional id: it has 32768 bytes; .* room for 32767"):
        admin.describe_transactions("é" * 16_384)
    with pytest.raises(monedula.ArgumentError, match="producer_epoch"):
        admin.abort_transaction((topic, 0), 1, 40_000)


def test_the_producers_of_a_partition_are_described_by_its_leader_or_a_replica(ground: Ground, admin: Admin) -> None:
    topic = ground.topic(2)
    with left_open(ground, ground.name("txn"), topic):
        found = admin.describe_producers([(topic, 0), (topic, 1)])
        (producer,) = found[TopicPartition(topic, 0)]
        assert found[TopicPartition(topic, 1)] == ()
        assert (producer.transaction_start_offset, producer.last_sequence) == (0, 0)
        assert producer.coordinator_epoch is None
        assert producer.last_timestamp == pytest.approx(time.time() * 1000, abs=60_000)
        (row,) = pa.table(found.to_arrow()).to_pylist()
        assert (row["topic"], row["partition"], row["producer_id"]) == (topic, 0, producer.producer_id)
        (replica,) = admin.describe_topics(topic)[topic].partitions[0].replicas
        assert admin.describe_producers((topic, 0), broker=replica) == {(topic, 0): (producer,)}
        with pytest.raises(monedula.errors.BrokerError) as raised:
            admin.describe_producers((topic, 0), broker=replica % 3 + 1)
        assert raised.value.code == "NOT_LEADER_OR_FOLLOWER"


def test_an_open_transaction_is_aborted_in_its_partition(ground: Ground, admin: Admin) -> None:
    """As `kafka-transactions.sh abort` does: the producer is left open, and readers go on."""
    topic, mine = ground.topic(), ground.name("txn")
    with left_open(ground, mine, topic):
        ground.append(topic, ["behind"])
        # What else was appended may be of an idempotent producer.
        (producer,) = (each for each in remembered(admin, topic) if each.transaction_start_offset is not None)
        assert admin.abort_transaction((topic, 0), producer.producer_id, producer.producer_epoch) is None
        assert committed_values(ground, topic, 1) == ["behind"]
        (after,) = (each for each in remembered(admin, topic) if each.producer_id == producer.producer_id)
        assert after.transaction_start_offset is None
        assert after.coordinator_epoch == 0


def test_epochs_older_than_those_of_the_partition_are_refused(ground: Ground, admin: Admin) -> None:
    topic, mine = ground.topic(), ground.name("txn")
    for _ in range(2):
        producer_id, epoch = hang(ground.admin, mine, topic)
    assert epoch >= 1
    with pytest.raises(monedula.errors.TransactionError, match="a newer epoch of this producer") as raised:
        admin.abort_transaction((topic, 0), producer_id, epoch - 1)
    assert raised.value.code == "INVALID_PRODUCER_EPOCH"
    assert (raised.value.topic, raised.value.partition) == (topic, 0)
    admin.abort_transaction((topic, 0), producer_id, epoch, 7)
    with pytest.raises(monedula.errors.TransactionError, match="a coordinator epoch above 6") as fenced:
        admin.abort_transaction((topic, 0), producer_id, epoch, 6)
    assert fenced.value.code == "TRANSACTION_COORDINATOR_FENCED"


def test_a_hanging_transaction_is_found_and_aborted(ground: Ground, admin: Admin) -> None:
    topic, mine = ground.topic(2), ground.name("txn")
    producer_id, epoch = hang(ground.admin, mine, topic)
    ground.append(topic, ["behind"])
    (owner,) = admin.describe_topics(topic)[topic].partitions[0].replicas
    found = admin.find_hanging_transactions(topics=topic)
    assert list(found) == [TopicPartition(topic, 0)]
    (hanging,) = found[TopicPartition(topic, 0)]
    assert isinstance(hanging, HangingTransaction)
    assert (hanging.partition, hanging.transactional_id) == (TopicPartition(topic, 0), mine)
    assert (hanging.producer.producer_id, hanging.producer.producer_epoch) == (producer_id, epoch)
    assert hanging.producer.transaction_start_offset == 0
    (row,) = pa.table(found.to_arrow()).to_pylist()
    assert (row["topic"], row["transactional_id"], row["producer_id"]) == (topic, mine, producer_id)
    assert admin.find_hanging_transactions(partitions=[(topic, 0)], broker=owner) == found
    assert admin.find_hanging_transactions(partitions=(topic, 1)) == {}
    assert (topic, 0) in admin.find_hanging_transactions(), "all partitions"
    assert admin.find_hanging_transactions(topics=topic, max_transaction_timeout_ms=2 * HOUR_MS) == {}
    admin.abort_transaction(hanging.partition, producer_id, epoch, hanging.producer.coordinator_epoch)
    assert committed_values(ground, topic, 1) == ["behind"]
    assert admin.find_hanging_transactions(topics=topic) == {}


def test_a_transaction_that_its_coordinator_knows_does_not_hang(ground: Ground, admin: Admin) -> None:
    topic = ground.topic()
    with left_open(ground, ground.name("txn"), topic):
        assert admin.find_hanging_transactions(topics=topic, max_transaction_timeout_ms=0) == {}
        (producer,) = admin.describe_producers((topic, 0))[TopicPartition(topic, 0)]
        assert producer.transaction_start_offset == 0, "it is open all the same"


async def test_a_loop_has_the_same_calls(ground: Ground) -> None:
    topic, mine = ground.topic(), ground.name("txn")
    producer_id, epoch = hang(ground.admin, mine, topic)
    async with AsyncAdmin({"bootstrap.servers": ground.cluster.bootstrap}) as admin:
        assert mine in await admin.list_transactions(states="Empty")
        assert (await admin.describe_transactions(mine))[mine].producer_id == producer_id
        assert (topic, 0) in await admin.find_hanging_transactions(topics=topic)
        await admin.abort_transaction((topic, 0), producer_id, epoch)
        assert await admin.find_hanging_transactions(topics=topic) == {}


def test_a_coordinator_that_is_silent_makes_nothing_hang() -> None:
    """It could know the transaction: an abort would lose what it is about to commit."""
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(3))
        servers = broker.bootstrap_servers
        admin = stack.enter_context(Admin(bootstrap_servers=servers, request_timeout_ms=500))
        broker.create_topic("orders")
        producer = stack.enter_context(monedula.Producer(bootstrap_servers=servers, transactional_id="t"))
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", "x").result()
            coordinator = admin.list_transactions()["t"].coordinator
            held = broker.fault(api="ListTransactions", node=coordinator, hold=True)
            listed = admin.list_transactions(timeout=2.0)
            assert (list(listed), list(listed.missing)) == ([], [coordinator])
            with pytest.raises(monedula.KafkaTimeoutError, match=f"broker {coordinator}"):
                admin.find_hanging_transactions(topics="orders", max_transaction_timeout_ms=0, timeout=2.0)
            held.remove()


def test_errors_that_pass_are_tried_again() -> None:
    with Broker(topics={"orders": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        for api, error in (
            ("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER"),
            ("DescribeTransactions", "NOT_COORDINATOR"),
            ("ListTransactions", "COORDINATOR_LOAD_IN_PROGRESS"),
            ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
        ):
            broker.fault(api=api, error=error, count=2)
        (fenced,) = admin.fence_producers("t").values()
        assert set(admin.list_transactions()) == set(admin.describe_transactions("t")) == {"t"}
        admin.abort_transaction(("orders", 0), fenced.producer_id, fenced.producer_epoch)


def test_who_may_not_is_told(protected: SecuredKafka | ProtectedBroker) -> None:
    topic = f"denied-{time.time_ns()}"
    with Admin({"bootstrap.servers": protected.bootstrap}) as root:
        root.create_topics(topic, partitions=1)
        root.fence_producers("denied-id")
    refused = monedula.errors.AuthorizationError
    with Admin(protected.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-256", BORIS)) as boris:
        assert boris.list_transactions() == {}
        for call, code in (
            (lambda: boris.abort_transaction((topic, 0), 1, 0), "TOPIC_AUTHORIZATION_FAILED"),
            (lambda: boris.describe_producers((topic, 0)), "TOPIC_AUTHORIZATION_FAILED"),
            (lambda: boris.describe_transactions("denied-id"), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
            (lambda: boris.fence_producers("denied-id"), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ):
            with pytest.raises(refused) as raised:
                call()
            assert raised.value.code == code
    with Admin(protected.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-256", ANNA)) as anna:
        assert "denied-id" in anna.list_transactions()
        assert anna.abort_transaction((topic, 0), 1, 0) is None, "who may alter the cluster"
