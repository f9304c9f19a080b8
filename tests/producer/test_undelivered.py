"""Records that were not delivered, and whose outcome nobody asked for: leaving the producer's block says so."""

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

from tests.producer.conftest import stored

QUICK = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 5, "topic.metadata.propagation.max.ms": 500}


def settings(broker: Broker, **others: object) -> dict[str, object]:
    return {"bootstrap.servers": broker.bootstrap_servers, **QUICK, **others}


def in_a_block(act: Callable[[monedula.Producer], object], settings: dict[str, object], **arguments: Any) -> None:
    with monedula.Producer(settings, **arguments) as producer:
        act(producer)


def test_leaving_the_block_raises_what_nobody_asked_for(broker: Broker) -> None:
    def send(producer: monedula.Producer) -> None:
        for _ in range(3):
            producer.send("ordres", "x")
        producer.send("orders", "x")

    broker.create_topic("orders")
    with pytest.raises(
        monedula.errors.UndeliveredRecordsError, match=r"3 records were not delivered.*ordres"
    ) as raised:
        in_a_block(send, settings(broker))
    assert raised.value.count == 3
    assert isinstance(raised.value.first, monedula.UnknownTopicError)
    assert len(stored(broker.bootstrap_servers, "orders")) == 1


async def test_leaving_the_block_of_an_async_producer_raises_too(broker: Broker) -> None:
    with pytest.raises(monedula.errors.UndeliveredRecordsError) as raised:
        async with monedula.AsyncProducer(settings(broker)) as producer:
            producer.send("ordres", "x")
    assert raised.value.count == 1


@pytest.mark.parametrize("how", ["result", "exception", "callback", "in a callback that comes late"])
def test_what_somebody_asked_for_is_not_raised_again(broker: Broker, how: str) -> None:
    with monedula.Producer(settings(broker)) as producer:
        if how == "callback":
            producer.send("ordres", "x", on_delivery=lambda _: None)
            return
        future = producer.send("ordres", "x")
        if how == "exception":
            assert isinstance(future.exception(), monedula.UnknownTopicError)
            assert isinstance(future.exception(), monedula.UnknownTopicError)
        elif how == "result":
            with pytest.raises(monedula.UnknownTopicError):
                future.result()
        else:
            producer.flush()
            future.add_done_callback(lambda _: None)


async def test_what_was_awaited_is_not_raised_again(broker: Broker) -> None:
    async with monedula.AsyncProducer(settings(broker)) as producer:
        with pytest.raises(monedula.UnknownTopicError):
            await producer.send("ordres", "x")


def test_one_that_was_seen_leaves_the_others(broker: Broker) -> None:
    def look_at_one(producer: monedula.Producer) -> None:
        futures = [producer.send("ordres", "x") for _ in range(3)]
        futures[1].exception()
        futures[1].exception()

    with pytest.raises(monedula.errors.UndeliveredRecordsError) as raised:
        in_a_block(look_at_one, settings(broker))
    assert raised.value.count == 2


def test_the_first_error_is_of_those_that_nobody_has_seen(broker: Broker) -> None:
    """It was the first of all, also where that had been caught."""

    def look_at_the_first(producer: monedula.Producer) -> None:
        producer.send("ordres", "x").exception()
        producer.send("misspelt", "x")

    broker.create_topic("orders")
    with pytest.raises(monedula.errors.UndeliveredRecordsError, match="misspelt") as raised:
        in_a_block(look_at_the_first, settings(broker))
    assert raised.value.count == 1


def test_rows_of_a_table_count(broker: Broker) -> None:
    import pyarrow

    broker.create_topic("orders")
    table = pyarrow.table({"topic": ["orders", "ordres", "no topic!", "orders"], "value": list("abcd")})
    with pytest.raises(monedula.errors.UndeliveredRecordsError) as raised:
        in_a_block(lambda producer: producer.send_batch(table), settings(broker))
    assert raised.value.count == 2
    with monedula.Producer(settings(broker)) as producer:
        assert producer.send_batch(table).report().failed == 2


def test_a_record_whose_partitioner_raises_counts(broker: Broker) -> None:
    broker.create_topic("orders")

    def fails(*_: object) -> int:
        raise LookupError("no such customer")

    with pytest.raises(monedula.errors.UndeliveredRecordsError, match="no such customer") as raised:
        in_a_block(lambda producer: producer.send("orders", "x"), settings(broker), partitioner=fails)
    assert (raised.value.count, type(raised.value.first)) == (1, LookupError)


def test_an_exception_of_the_block_stays_and_gets_a_note(broker: Broker) -> None:
    def send_and_raise(producer: monedula.Producer) -> None:
        producer.send("ordres", "x")
        producer.flush()
        raise KeyError("mine")

    with pytest.raises(KeyError) as raised:
        in_a_block(send_and_raise, settings(broker))
    assert "a record was not delivered" in raised.value.__notes__[0]


def test_an_aborted_transaction_is_no_news(broker: Broker) -> None:
    def abort(producer: monedula.Producer) -> None:
        with suppress(KeyError), producer.transaction():
            producer.send("orders", "x")
            raise KeyError("mine")

    broker.create_topic("orders")
    in_a_block(abort, settings(broker, **{"transactional.id": "t"}))


def test_a_producer_that_reaches_no_broker_fails_after_the_time_for_the_first_contact() -> None:
    nobody = {"bootstrap.servers": "127.0.0.1:1", "bootstrap.timeout.ms": 300, "delivery.timeout.ms": 120_000}
    with pytest.raises(monedula.errors.UndeliveredRecordsError, match=r"127\.0\.0\.1:1") as raised:
        in_a_block(lambda producer: producer.send("orders", "x"), nobody)
    assert isinstance(raised.value.first, monedula.errors.BrokerConnectionError)


HELD_BACK = [
    (
        {"api": "Metadata", "topic": "orders", "error": "UNKNOWN_TOPIC_OR_PARTITION"},
        "the topic orders is not known to the brokers (UNKNOWN_TOPIC_OR_PARTITION)",
    ),
    (
        {"api": "Metadata", "topic": "orders", "error": "LEADER_NOT_AVAILABLE"},
        "the topic orders: the partition has no leader at the moment (LEADER_NOT_AVAILABLE)",
    ),
    ({"api": "Produce", "error": "NOT_ENOUGH_REPLICAS"}, "NOT_ENOUGH_REPLICAS"),
    ({"api": "InitProducerId", "error": "COORDINATOR_LOAD_IN_PROGRESS"}, "COORDINATOR_LOAD_IN_PROGRESS"),
    ({"api": "InitProducerId", "close": True}, "no producer id was assigned yet; InitProducerId: "),
    ({"api": "Metadata", "hold": True}, ": no answer to Metadata for "),
    ({"api": "Produce", "hold": True}, ": no answer to Produce for "),
]


@pytest.mark.parametrize(("fault", "reason"), HELD_BACK)
def test_the_end_tells_what_held_records_back(
    broker: Broker, caplog: pytest.LogCaptureFixture, fault: dict[str, Any], reason: str
) -> None:
    broker.create_topic("orders")
    obstacle = broker.fault(**fault)
    producer = monedula.Producer(settings(broker, **{"topic.metadata.propagation.max.ms": 60_000}))
    future = producer.send("orders", "x")
    # The second request is sent once the first one's answer is known.
    obstacle.wait(1 if "hold" in fault else 2)
    producer.close(0)
    (told,) = [record.getMessage() for record in caplog.records if record.name == "monedula.producer.end"]
    assert told.startswith("a record was not delivered before the producer ended; the last error: ")
    assert reason in told
    with pytest.raises(monedula.errors.ClosedError, match=re.escape(reason)):
        future.result(0)


def test_the_end_tells_of_some_topics_and_counts_the_others(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    unknown = broker.fault(api="Metadata", topic="topic-4", error="UNKNOWN_TOPIC_OR_PARTITION")
    producer = monedula.Producer(settings(broker, **{"topic.metadata.propagation.max.ms": 60_000}))
    for number in range(5):
        producer.send(f"topic-{number}", "x")
    unknown.wait(2)
    producer.close(0)
    (told,) = [record.getMessage() for record in caplog.records if record.name == "monedula.producer.end"]
    assert told.startswith("5 records were not delivered before the producer ended; the last error: the topic topic-0 ")
    # An answer that is on its way just then is told as well.
    assert re.search(r"the topic topic-2 is not known to the brokers \(UNKNOWN_TOPIC_OR_PARTITION\).*; 2 more$", told)


def test_waits_that_are_over_tell_of_a_topic_that_is_not_known(broker: Broker) -> None:
    unknown = broker.fault(api="Metadata", topic="ordres", error="UNKNOWN_TOPIC_OR_PARTITION")
    producer = monedula.Producer(settings(broker, **{"topic.metadata.propagation.max.ms": 60_000}))
    future = producer.send("ordres", "x")
    unknown.wait(2)
    for wait in (producer.flush, future.result):
        with pytest.raises(monedula.KafkaTimeoutError, match="the topic ordres is not known to the brokers"):
            wait(0.01)
    producer.close(0)


CALLBACK_THAT_RAISES = """
import sys, monedula
with monedula.Producer({"bootstrap.servers": sys.argv[1]}) as producer:
    producer.send("orders", "x", on_delivery=lambda future: 1 / 0)
"""


@pytest.mark.parametrize("configured", [False, True])
def test_a_callback_that_raises_is_heard_of_without_configured_logging(
    broker: Broker, tmp_path: Path, configured: bool
) -> None:
    broker.create_topic("orders")
    program = tmp_path / "program.py"
    logging = "import logging; logging.basicConfig(filename='log.txt')\n" if configured else ""
    program.write_text(logging + CALLBACK_THAT_RAISES)
    ran = subprocess.run(
        [sys.executable, program, broker.bootstrap_servers], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert ran.returncode == 0
    heard = (tmp_path / "log.txt").read_text() if configured else ran.stderr
    assert "a callback raised" in heard
    assert "ZeroDivisionError" in heard
    assert heard.count("a callback raised") == 1
    assert configured is (ran.stderr == "")
