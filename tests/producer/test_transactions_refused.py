"""What never got into a batch: rows that were refused, threads that wait for room, producers that were fenced."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import monedula
import pyarrow
import pytest
from monedula.testing import Broker

from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory
from tests.producer.test_transactions import committed

PATIENCE_SECONDS = 60
SMALL: dict[str, Any] = {"buffer_memory": 100_000, "batch_size": 4_000, "max_request_size": 20_000}
PAIRS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


@pytest.fixture
def orders() -> Iterator[Broker]:
    with Broker(topics=["orders:2"], settings={"auto.create.topics.enable": False}) as broker:
        yield broker


def wrong_rows(**columns: Any) -> pyarrow.Table:
    """Three rows of which the second is none that could be sent."""
    return pyarrow.table({"value": ["a", "b", "c"], **columns})


WRONG = {
    "too large": (wrong_rows(key=["", "x" * 30_000, ""]), "max.request.size"),
    "partition": (wrong_rows(partition=pyarrow.array([0, 2**32, 1], pyarrow.int64())), "partition=4294967296"),
    "missing partition": (wrong_rows(partition=[0, 17, 1]), "17"),
    "header": (wrong_rows(headers=pyarrow.array([None, [{"value": b"1"}], None], PAIRS)), "has no key"),
    "no topic": (wrong_rows(topic=["orders", None, "orders"]), "no topic"),
    "missing topic": (wrong_rows(topic=["orders", "missing", "orders"]), "missing"),
}


@pytest.mark.parametrize(("table", "told"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("waits", [True, False], ids=["report", "commit"])
def test_a_refused_row_spoils_the_transaction_and_no_other_row(
    orders: Broker, producer: ProducerFactory, table: pyarrow.Table, told: str, waits: bool
) -> None:
    topic = None if "topic" in table.column_names else "orders"
    sender = producer(bootstrap_servers=orders.bootstrap_servers, transactional_id="id", retry_backoff_ms=10, **SMALL)

    def send() -> None:
        with sender.transaction():
            future = sender.send_batch(table, topic)
            if waits:
                report = future.report(PATIENCE_SECONDS)
                assert (report.acknowledged, [error.row for error in report.errors]) == (2, [1])

    for _ in range(2):
        with pytest.raises(monedula.errors.TransactionAbortedError, match=told):
            send()
        with sender.transaction():
            sender.send("orders", "kept")
    assert committed(orders.bootstrap_servers, "orders") == ["kept", "kept"]


async def test_asyncio_hears_of_refused_rows_as_well(orders: Broker) -> None:
    table, told = WRONG["too large"]

    async def send(sender: monedula.AsyncProducer) -> None:
        async with sender.transaction():
            with pytest.raises(monedula.errors.BatchSendError, match=told):
                await sender.send_batch(table, "orders")

    async with monedula.AsyncProducer(
        bootstrap_servers=orders.bootstrap_servers, transactional_id="id", **SMALL
    ) as sender:
        with pytest.raises(monedula.errors.TransactionAbortedError, match=told):
            await send(sender)
        async with sender.transaction():
            await sender.send("orders", "kept")
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["kept"]


def blocked(sender: monedula.Producer, singles: int) -> list[tuple[threading.Thread, list[object]]]:
    """Threads that wait for room: one that sends a table, for which there is none, and as many that send one record."""
    outcomes: list[tuple[threading.Thread, list[object]]] = []

    def start(call: Callable[[], object]) -> None:
        outcome: list[object] = []

        def work() -> None:
            try:
                call()
            except BaseException as error:
                outcome.append(error)

        outcomes.append((threading.Thread(target=work), outcome))
        outcomes[-1][0].start()

    def wait_for(waiting: int) -> None:
        for _ in range(6000):
            if sender.health()["waiting_for_room"] >= waiting:
                return
            threading.Event().wait(0.01)
        pytest.fail(f"{sender.health()} instead of {waiting} that wait")

    start(lambda: sender.send_batch(pyarrow.table({"value": [b"row" * 1000] * 100}), "orders"))
    wait_for(1)
    for _ in range(singles):
        start(lambda: sender.send("orders", b"waits" * 3500))
    wait_for(1 + singles)
    return outcomes


@pytest.mark.parametrize("threads", [0, 1, 6])
def test_threads_that_wait_for_room_send_into_no_later_transaction(
    orders: Broker, producer: ProducerFactory, threads: int
) -> None:
    sender = producer(bootstrap_servers=orders.bootstrap_servers, transactional_id="id", **SMALL)
    sender.init_transactions()
    for block in range(3):
        sender.begin_transaction()
        held = orders.fault(api="Produce", hold=True)
        waiting = blocked(sender, threads)
        releaser = threading.Timer(0.2, held.remove)
        releaser.start()
        sender.abort_transaction()
        releaser.join()
        with sender.transaction():
            sender.send("orders", f"kept {block}")
            for thread, outcome in waiting:
                thread.join(PATIENCE_SECONDS)
                assert [type(error) for error in outcome] == [monedula.errors.TransactionAbortedError]
    assert committed(orders.bootstrap_servers, "orders") == [f"kept {block}" for block in range(3)]


@pytest.mark.parametrize("threads", [0, 1, 6])
def test_a_commit_takes_in_what_waits_for_room(orders: Broker, producer: ProducerFactory, threads: int) -> None:
    sender = producer(bootstrap_servers=orders.bootstrap_servers, transactional_id="id", **SMALL)
    with sender.transaction():
        held = orders.fault(api="Produce", hold=True)
        waiting = blocked(sender, threads)
        releaser = threading.Timer(0.2, held.remove)
        releaser.start()
    for thread, outcome in waiting:
        thread.join(PATIENCE_SECONDS)
        assert outcome == []
    with sender.transaction():
        sender.send("orders", "after")
    assert len(committed(orders.bootstrap_servers, "orders")) == threads + 100 + 1


def test_who_was_fenced_hears_so_from_every_verb(ground: Ground, producer: ProducerFactory) -> None:
    topic, name = ground.topic(), ground.name("id")
    first, second = producer(transactional_id=name), producer(transactional_id=name)
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, "lost").result(PATIENCE_SECONDS)
    second.init_transactions()
    verbs: list[Callable[[], object]] = [
        first.commit_transaction,
        first.flush,
        lambda: first.send(topic, "x"),
        lambda: first.send_batch(pyarrow.table({"value": ["x"]}), topic),
        first.commit_transaction,
        first.begin_transaction,
        first.init_transactions,
        first.abort_transaction,
        first.transaction().__enter__,
        first.flush,
    ]
    for verb in verbs:
        with pytest.raises(monedula.errors.ProducerFencedError):
            verb()


async def test_asyncio_hears_of_being_fenced_from_every_verb(ground: Ground) -> None:
    topic, name = ground.topic(), ground.name("id")
    async with (
        monedula.AsyncProducer(bootstrap_servers=ground.bootstrap, transactional_id=name) as first,
        monedula.AsyncProducer(bootstrap_servers=ground.bootstrap, transactional_id=name) as second,
    ):
        await first.init_transactions()
        await first.begin_transaction()
        await first.send(topic, "lost")
        await second.init_transactions()
        for verb in (
            first.commit_transaction,
            first.flush,
            lambda: first.send_batch(pyarrow.table({"value": ["x"]}), topic),
            first.begin_transaction,
            first.abort_transaction,
            first.init_transactions,
        ):
            with pytest.raises(monedula.errors.ProducerFencedError):
                await verb()
        with pytest.raises(monedula.errors.ProducerFencedError):
            first.send(topic, "x")


def test_a_partitioner_of_a_fenced_producer_is_not_asked(orders: Broker, producer: ProducerFactory) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": orders.bootstrap_servers, "transactional_id": "id"}
    asked: list[object] = []

    def choose(*record: object) -> int:
        asked.append(record)
        return 0

    first, second = producer(partitioner=choose, **settings), producer(**settings)
    first.init_transactions()
    first.begin_transaction()
    first.send("orders", "lost").result(PATIENCE_SECONDS)
    second.init_transactions()
    with pytest.raises(monedula.errors.ProducerFencedError):
        first.commit_transaction()
    for topic in ("orders", "another"):
        with pytest.raises(monedula.errors.ProducerFencedError):
            first.send(topic, "x")
    assert len(asked) == 1


def test_an_error_that_this_client_does_not_know_keeps_its_number(broker: Broker, producer: ProducerFactory) -> None:
    # Behind correlation id, tags and throttle time: the lower byte of the error code, whose bits are flipped.
    broker.fault(api="InitProducerId", corrupt_offset=10)
    sender = producer(transactional_id="id")
    with pytest.raises(monedula.errors.TransactionError, match=r"the broker answered UNKNOWN_CODE_255 \(") as raised:
        sender.init_transactions()
    assert raised.value.code == "UNKNOWN_CODE_255"
