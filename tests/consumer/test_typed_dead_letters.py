"""Records that cannot be decoded and are written to a topic of dead letters."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import monedula
import pytest
from monedula import Json, TopicPartition
from monedula.testing import Broker

from tests.consumer.conftest import Opens
from tests.consumer.typed import SCHEMA, bad, document, value_of

FULL_BUFFER = {"buffer.memory": 65_536, "max.request.size": 60_000}
"""Settings with which two dead letters of 40,000 bytes do not fit into the producer's buffer at once."""


@pytest.fixture
def topic(empty_topic: str) -> str:
    return empty_topic


def test_a_dead_letter_is_the_record_with_its_cause(broker: Broker, topic: str, opens: Opens) -> None:
    letters = f"{topic}-letters"
    broker.create_topic(letters, 1)
    with monedula.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, document(0))
        producer.send(topic, bad(1), key=b"\xfd", headers=[("trace", b"\xff")], timestamp=1_700_000_000_123)
        producer.send(topic, document(2))
    reader = opens(topic, value=Json(SCHEMA, dead_letter=letters), settings={"group.id": f"{topic}-group"})
    values = [value_of(record)["id"] for record in reader.take(2)]
    assert values == [0, 2]
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, letters, headers=True) as stream:
        (letter,) = [record for batch in stream for record in batch.records()]
    assert (letter.key, letter.value, letter.timestamp) == (b"\xfd", bad(1).encode(), 1_700_000_000_123)
    headers = dict(letter.headers or [])
    assert headers["trace"] == b"\xff"
    assert headers["__dlq.errors.topic"] == topic.encode()
    assert (headers["__dlq.errors.partition"], headers["__dlq.errors.offset"]) == (b"0", b"1")
    assert headers["__dlq.errors.group"] == f"{topic}-group".encode()
    assert headers["__dlq.errors.exception"] == b"monedula.errors.DecodeError"
    assert b"the value cannot be decoded: tags[1]: " in (headers["__dlq.errors.message"] or b"")


def test_a_dead_letter_whose_failure_was_raised_is_not_told_again_at_exit(broker: Broker) -> None:
    program = """
import sys, monedula
with monedula.Consumer({"bootstrap.servers": sys.argv[1], "auto.offset.reset": "earliest"},
                       value=monedula.Json("id int", dead_letter="no-such-topic")) as consumer:
    consumer.assign(["raised"])
    try:
        consumer.poll(timeout=60)
    except monedula.UnknownTopicError:
        print("raised")
"""
    broker.create_topic("raised", 1)
    broker.append("raised", ["no json"])
    command = [sys.executable, "-c", program, broker.bootstrap_servers]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout, ended.stderr) == ("raised\n", "")


def test_an_offset_waits_for_its_dead_letter() -> None:
    with Broker(topics={"orders": 1, "failed": 1}) as broker:
        broker.append("orders", [document(0), bad(1)])
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        held = broker.fault(api="Produce", topic="failed", hold=True)
        with monedula.Consumer(settings, ["orders"], value=Json(SCHEMA, dead_letter="failed")) as consumer:
            got: list[Any] = []
            thread = threading.Thread(target=lambda: got.append(consumer.poll(timeout=60)))
            thread.start()
            held.wait()
            assert consumer.position(("orders", 0)) == 2
            assert consumer.committed([("orders", 0)]) == {("orders", 0): None}
            held.remove()
            thread.join()
            assert [record.value["id"] for record in got[0].records()] == [0]
            assert consumer.commit(got[0]) == {TopicPartition("orders", 0): 2}


def test_a_record_of_the_topic_of_dead_letters_is_not_written_there_again(
    broker: Broker, topic: str, opens: Opens
) -> None:
    broker.append(topic, [document(0), bad(1), document(2)])
    reader = opens(topic, value=Json(SCHEMA, dead_letter=topic))
    assert [record.offset for record in reader.poll(timeout=30).records()] == [0]
    for _ in range(2):
        with pytest.raises(monedula.DecodeError, match="at offset 1: the value cannot be decoded") as raised:
            reader.poll(timeout=30)
        (note,) = raised.value.__notes__
        assert note == (
            f"{topic} is the topic of dead letters, so the record is not written there again; to go on without it, "
            "seek() that partition to 2"
        )
        assert raised.value.next_offset == 2
    reader.seek((topic, 0), 2)
    assert [record.offset for record in reader.take(1)] == [2]


def test_a_dead_letter_that_is_too_large_is_passed_by_a_seek(broker: Broker, topic: str, opens: Opens) -> None:
    broker.create_topic(f"{topic}-failed", 1)
    broker.append(topic, ["x" * 900_000, document(1)])
    value = Json(SCHEMA, dead_letter=f"{topic}-failed")
    reader = opens(topic, value=value, settings={"max.request.size": 500_000})
    for _ in range(2):
        with pytest.raises(monedula.errors.RecordTooLargeError) as raised:
            reader.poll(timeout=30)
        assert "to go on without it, seek() that partition to 1" in raised.value.__notes__[0]
    reader.seek((topic, 0), 1)
    assert [record.offset for record in reader.take(1)] == [1]
    raised_limit = opens(topic, value=value)
    assert [record.offset for record in raised_limit.take(1)] == [1]


def test_wakeup_and_a_timeout_end_a_poll_whose_dead_letter_waits(broker: Broker, topic: str, opens: Opens) -> None:
    broker.create_topic(f"{topic}-failed", 1)
    broker.append(topic, [bad(0), document(1)])
    reader = opens(topic, value=Json(SCHEMA, dead_letter=f"{topic}-failed"))
    held = broker.fault(api="Produce", topic=f"{topic}-failed", hold=True)

    def wake() -> None:
        held.wait()
        reader.consumer.wakeup()

    thread = threading.Thread(target=wake)
    thread.start()
    with pytest.raises(monedula.errors.WakeupError):
        reader.poll(timeout=60)
    thread.join()
    assert len(reader.poll(timeout=0.1)) == 0
    held.remove()
    assert [record.offset for record in reader.take(1)] == [1]


def test_wakeup_and_a_timeout_end_a_poll_whose_dead_letters_find_no_room(
    broker: Broker, topic: str, opens: Opens
) -> None:
    broker.create_topic(f"{topic}-failed", 1)
    broker.append(topic, [*("x" * 40_000 for _ in range(5)), document(5)])
    reader = opens(topic, value=Json(SCHEMA, dead_letter=f"{topic}-failed"), settings=FULL_BUFFER)
    held = broker.fault(api="Produce", topic=f"{topic}-failed", hold=True)

    def wake() -> None:
        held.wait()
        reader.consumer.wakeup()

    thread = threading.Thread(target=wake)
    thread.start()
    with pytest.raises(monedula.errors.WakeupError):
        reader.poll(timeout=60)
    thread.join()
    assert len(reader.poll(timeout=0.1)) == 0
    held.remove()
    assert [record.offset for record in reader.take(1)] == [5]
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, f"{topic}-failed") as stream:
        assert len(stream.to_pyarrow()) == 5


def test_threads_whose_dead_letters_share_a_full_buffer_get_all_their_rows(broker: Broker, topic: str) -> None:
    broker.create_topic(f"{topic}-failed", 1)
    for number in range(0, 40, 2):
        broker.append(topic, ["x" * 40_000, document(number + 1)])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", **FULL_BUFFER}
    value = Json(SCHEMA, dead_letter=f"{topic}-failed")
    with monedula.Consumer(settings, value=value) as consumer:
        consumer.assign([topic])
        got: list[int | None] = []

        def poll() -> None:
            while len(got) < 20:
                got.extend(record.offset for record in consumer.poll(timeout=0.2, max_rows=4).records())

        threads = [threading.Thread(target=poll) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(offset for offset in got if offset is not None) == list(range(1, 40, 2))
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, f"{topic}-failed") as stream:
        assert len(stream.to_pyarrow()) == 20


def test_a_loop_to_the_latest_waits_for_its_dead_letters(broker: Broker, topic: str, opens: Opens) -> None:
    broker.create_topic(f"{topic}-failed", 1)
    broker.append(topic, [bad(0), document(1)])
    reader = opens(topic, value=Json(SCHEMA, dead_letter=f"{topic}-failed"))
    # Longer than the slices in which the loop looks whether it is at its end.
    with broker.fault(api="Produce", topic=f"{topic}-failed", delay_ms=500):
        batches = list(reader.batches(until="latest"))
    assert [record.offset for batch in batches for record in batch.records()] == [1]


def test_a_loop_whose_timeout_ends_while_dead_letters_wait_raises(broker: Broker, topic: str, opens: Opens) -> None:
    broker.create_topic(f"{topic}-failed", 1)
    broker.append(topic, [bad(0), document(1)])
    reader = opens(topic, value=Json(SCHEMA, dead_letter=f"{topic}-failed"))
    with broker.fault(api="Produce", topic=f"{topic}-failed", hold=True):
        for until in (None, "latest"):
            with pytest.raises(monedula.KafkaTimeoutError, match="dead letters wait for their brokers"):
                list(reader.batches(timeout=2.0, until=until))
    assert [record.offset for record in reader.take(1)] == [1]


def test_a_poll_ends_in_time_while_nothing_but_bad_records_comes(broker: Broker, topic: str, opens: Opens) -> None:
    broker.create_topic(f"{topic}-failed", 1)
    reader = opens(topic, value=Json(SCHEMA, dead_letter=f"{topic}-failed"))
    is_over = threading.Event()

    def feed() -> None:
        while not is_over.wait(0.02):
            broker.append(topic, [bad(0)])

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        assert len(reader.poll(timeout=0.5)) == 0
    finally:
        is_over.set()
        thread.join()


def test_closing_while_a_dead_letter_waits_ends_the_poll(broker: Broker, topic: str) -> None:
    broker.create_topic(f"{topic}-failed", 1)
    broker.append(topic, [bad(0)])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}

    async def main() -> None:
        consumer = monedula.AsyncConsumer(settings, value=Json(SCHEMA, dead_letter=f"{topic}-failed"))
        consumer.assign([topic])
        with broker.fault(api="Produce", topic=f"{topic}-failed", hold=True) as held:
            polling = asyncio.create_task(consumer.poll(timeout=60))
            await asyncio.to_thread(held.wait)
            await consumer.close(timeout=0.1)
            with pytest.raises(monedula.errors.ClosedError):
                await polling

    asyncio.run(main())
