"""Transactions: all or nothing, fenced, taken over, and with a consumer's offsets."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import monedula
import pytest
from monedula import TopicPartition
from monedula.testing import Broker

from tests.groups.ground import TIMING, Ground, until
from tests.producer.conftest import ProducerFactory

PATIENCE_SECONDS = 60


class GoneWrong(Exception):
    """What a test's own code raises."""


def committed(bootstrap: str, topic: str) -> list[str]:
    """The values that readers of committed records see, once no transaction is open."""
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    with monedula.Consumer(settings) as stable, monedula.Consumer({"bootstrap.servers": bootstrap}) as any_:
        partitions = stable.partitions_of(topic)
        # The answer to a commit does not wait for its markers.
        for _ in range(6000):
            if stable.end_offsets(partitions) == any_.end_offsets(partitions):
                break
            threading.Event().wait(0.01)
        else:
            pytest.fail("a transaction is left open")
    read = monedula.read(settings, topic)
    return sorted((record.value or b"").decode() for batch in read for record in batch.records())


def reading(ground: Ground, group: str, topic: str, **settings: Any) -> monedula.Consumer:
    timing = {name.replace(".", "_"): value for name, value in TIMING.items()}
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **timing, **settings}
    return monedula.Consumer(None, topic, bootstrap_servers=ground.bootstrap, group_id=group, **given)


def transform_once(producer: monedula.Producer, consumer: monedula.Consumer, target: str) -> int:
    batch = consumer.poll(timeout=1, max_rows=7)
    if not batch.num_rows:
        return 0
    with producer.transaction(consumer):
        for record in batch.records():
            producer.send(target, record.value)
    return batch.num_rows


def test_the_block_commits_and_an_exception_aborts(ground: Ground, producer: ProducerFactory) -> None:
    topic, sender = ground.topic(), producer(transactional_id=ground.name("id"))

    def send(number: int, *, fails: bool) -> None:
        with sender.transaction():
            for part in "abc":
                sender.send(topic, f"{number}{part}")
            if fails:
                sender.flush()
                raise GoneWrong(number)

    for number in (0, 2, 4):
        send(number, fails=False)
        with pytest.raises(GoneWrong, match=str(number + 1)):
            send(number + 1, fails=True)
    assert committed(ground.bootstrap, topic) == ["0a", "0b", "0c", "2a", "2b", "2c", "4a", "4b", "4c"]


def test_a_record_for_a_missing_topic_takes_the_transaction_with_it(ground: Ground, producer: ProducerFactory) -> None:
    topic, sender = ground.topic(), producer(transactional_id=ground.name("id"))
    lost = []

    def send() -> None:
        with sender.transaction():
            sender.send(topic, "alone")
            lost.append(sender.send(ground.name("missing"), "lost"))

    with pytest.raises(monedula.errors.TransactionAbortedError, match="does not exist"):
        send()
    assert isinstance(lost[0].exception(), monedula.UnknownTopicError)
    with sender.transaction():
        sender.send(topic, "after")
    assert committed(ground.bootstrap, topic) == ["after"]


def test_the_verbs_one_by_one(ground: Ground, producer: ProducerFactory) -> None:
    topic, sender = ground.topic(), producer(transactional_id=ground.name("id"))
    with pytest.raises(monedula.errors.TransactionError, match="init_transactions"):
        sender.begin_transaction()
    sender.init_transactions(30)
    with pytest.raises(monedula.errors.TransactionError, match="begin_transaction"):
        sender.send(topic, "nowhere")
    sender.begin_transaction()
    with pytest.raises(monedula.errors.TransactionError, match="open already"):
        sender.begin_transaction()
    sender.send(topic, "a")
    sender.commit_transaction(30)
    sender.begin_transaction()
    sender.send(topic, "b")
    sender.abort_transaction(30)
    with pytest.raises(monedula.errors.TransactionError, match="no transaction is open"):
        sender.commit_transaction()
    assert committed(ground.bootstrap, topic) == ["a"]


def test_without_a_transactional_id(broker: Broker, producer: ProducerFactory) -> None:
    sender = producer(bootstrap_servers=broker.bootstrap_servers)
    with pytest.raises(monedula.errors.TransactionError, match=r"transactional\.id"), sender.transaction():
        pass


def test_a_second_producer_fences_the_first(ground: Ground, producer: ProducerFactory) -> None:
    topic, name = ground.topic(), ground.name("id")
    first, second = producer(transactional_id=name), producer(transactional_id=name)

    def overtaken() -> None:
        with first.transaction():
            first.send(topic, "first").result(PATIENCE_SECONDS)
            with second.transaction():
                second.send(topic, "second")

    with pytest.raises(monedula.errors.ProducerFencedError, match=name):
        overtaken()
    with pytest.raises(monedula.errors.ProducerFencedError):
        first.begin_transaction()
    assert committed(ground.bootstrap, topic) == ["second"]


def test_what_a_killed_process_left_open_is_ended(ground: Ground, producer: ProducerFactory) -> None:
    topic, name = ground.topic(), ground.name("id")
    program = (
        "import sys, monedula\n"
        "servers, topic, name = sys.argv[1:]\n"
        "producer = monedula.Producer(bootstrap_servers=servers, transactional_id=name)\n"
        "producer.init_transactions(); producer.begin_transaction()\n"
        "producer.send(topic, 'left').result(); print('sent', flush=True)\n"
        "sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", program, ground.bootstrap, topic, name]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sent\n"
        process.kill()
    successor = producer(transactional_id=name)
    with successor.transaction():
        successor.send(topic, "kept")
    assert committed(ground.bootstrap, topic) == ["kept"]


def test_offsets_stand_and_fall_with_the_transaction(ground: Ground, producer: ProducerFactory) -> None:
    source, target, sender = ground.topic(), ground.topic(), producer(transactional_id=ground.name("id"))
    ground.append(source, range(20))
    place = TopicPartition(source, 0)

    def fail(consumer: monedula.Consumer) -> None:
        with sender.transaction(consumer):
            batch = consumer.poll(timeout=PATIENCE_SECONDS, max_rows=5)
            sender.send(target, "never")
            assert batch.num_rows
            raise GoneWrong

    with reading(ground, ground.name("group"), source) as consumer:
        while not transform_once(sender, consumer, target):
            pass
        # The answer to a commit does not wait for its markers.
        until(lambda: consumer.committed([place])[place] is not None)
        before = consumer.committed([place])[place]
        assert consumer.group_metadata().generation >= 0
        with pytest.raises(GoneWrong):
            fail(consumer)
        assert consumer.committed([place])[place] == before
        while (at := consumer.committed([place])[place]) is None or at.offset < 20:
            transform_once(sender, consumer, target)
    assert committed(ground.bootstrap, target) == sorted(map(str, range(20)))


def test_exactly_once_while_members_come_and_go(ground: Ground, producer: ProducerFactory) -> None:
    source, target, group, count = ground.topic(4), ground.topic(), ground.name("group"), 400
    for partition in range(4):
        ground.append(source, range(partition, count, 4), partition)
    failures: list[BaseException] = []
    done = threading.Event()

    def work(number: int) -> None:
        sender = producer(transactional_id=f"{group}-{number}")
        try:
            while not done.is_set():
                with reading(ground, group, source) as consumer:
                    # Leaves now and then, in the middle of things.
                    for _ in range(5 + 7 * number):
                        try:
                            transform_once(sender, consumer, target)
                        except monedula.errors.TransactionAbortedError:
                            continue
                        if done.is_set():
                            break
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        with monedula.Consumer({"bootstrap.servers": ground.bootstrap, "group.id": group}) as watcher:
            places = [(source, partition) for partition in range(4)]
            for _ in range(600):
                found = watcher.committed(places)
                if failures or all(at is not None and at.offset >= count // 4 for at in found.values()):
                    break
                done.wait(0.1)
    finally:
        done.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert not failures
    assert committed(ground.bootstrap, target) == sorted(map(str, range(count)))


def test_offsets_of_a_member_that_was_put_out_are_refused(ground: Ground, producer: ProducerFactory) -> None:
    source, target, group = ground.topic(), ground.topic(), ground.name("group")
    ground.append(source, range(5))
    sender = producer(transactional_id=ground.name("id"))
    with reading(ground, group, source, group_instance_id="one") as first:
        while not first.poll(timeout=1).num_rows:
            pass
        # The same static member once more: the first is fenced by it.
        with reading(ground, group, source, group_instance_id="one") as second:
            while not second.assignment():
                second.poll(timeout=0.05)

            def outdated() -> None:
                with sender.transaction(first):
                    sender.send(target, "twice")

            with pytest.raises(monedula.errors.TransactionAbortedError):
                outdated()
            with sender.transaction():
                sender.send(target, "once")
    assert committed(ground.bootstrap, target) == ["once"]


def test_a_consumer_that_commits_by_itself_is_refused(ground: Ground, producer: ProducerFactory) -> None:
    topic, sender = ground.topic(), producer(transactional_id=ground.name("id"))
    group = ground.name("group")
    with reading(ground, group, topic, enable_auto_commit=True) as consumer:
        with pytest.raises(monedula.ArgumentError, match=r"enable\.auto\.commit"), sender.transaction(consumer):
            pass
        with pytest.raises(monedula.ArgumentError, match="no consumer"), sender.transaction() as transaction:
            transaction.send_offsets(topic)  # type: ignore[arg-type]


@pytest.mark.parametrize("newest", [4, 5], ids=["version 1", "version 2"])
def test_coordinators_that_move(newest: int) -> None:
    with Broker(3, topics=["t", "in"], max_versions={"EndTxn": newest}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        with monedula.Producer({**settings, "transactional.id": "id"}) as sender:
            for number in range(9):
                broker.move_coordinator(number % 3 + 1, transactional_id="id")
                broker.move_coordinator((number + 1) % 3 + 1, group="g")
                with (
                    sender.transaction() as transaction,
                    monedula.Consumer({**settings, "group.id": "g", "enable.auto.commit": False}) as consumer,
                ):
                    sender.send("t", str(number))
                    transaction.send_offsets(consumer, {("in", 0): number})
            with monedula.Consumer({**settings, "group.id": "g"}) as consumer:
                found = consumer.committed([("in", 0)])[TopicPartition("in", 0)]
        assert found is not None
        assert found.offset == 8
        assert committed(broker.bootstrap_servers, "t") == sorted(map(str, range(9)))


def test_a_commit_that_is_not_heard_of_may_be_called_again() -> None:
    with Broker(topics=["t"]) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "id"}
        with monedula.Producer(settings) as sender:
            sender.init_transactions()
            sender.begin_transaction()
            sender.send("t", "v").result(PATIENCE_SECONDS)
            with broker.fault(api="EndTxn", error="COORDINATOR_LOAD_IN_PROGRESS"):
                with pytest.raises(monedula.KafkaTimeoutError, match="call it again"):
                    sender.commit_transaction(0.3)
                with pytest.raises(monedula.errors.TransactionError, match="commit_transaction"):
                    sender.abort_transaction()
            sender.commit_transaction()
        assert committed(broker.bootstrap_servers, "t") == ["v"]


async def test_the_asyncio_producer(ground: Ground) -> None:
    source, target, group = ground.topic(), ground.topic(), ground.name("group")
    ground.append(source, range(10))
    settings = {"bootstrap.servers": ground.bootstrap}
    timing = {**settings, **TIMING, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}

    async def fail(sender: monedula.AsyncProducer, consumer: monedula.AsyncConsumer) -> None:
        async with sender.transaction() as transaction:
            await sender.send(target, "never")
            await transaction.send_offsets(consumer, {(source, 0): 3})
            raise GoneWrong

    async with (
        monedula.AsyncProducer({**settings, "transactional.id": group}) as sender,
        monedula.AsyncConsumer(timing, source) as consumer,
    ):
        done = 0
        async with asyncio.timeout(PATIENCE_SECONDS):
            while done < 10:
                batch = await consumer.poll(timeout=1, max_rows=4)
                async with sender.transaction(consumer):
                    for record in batch.records():
                        sender.send(target, record.value)
                done += batch.num_rows
        with pytest.raises(GoneWrong):
            await fail(sender, consumer)
        found = (await consumer.committed([(source, 0)]))[TopicPartition(source, 0)]
    assert found is not None
    assert found.offset == 10
    assert committed(ground.bootstrap, target) == sorted(map(str, range(10)))
