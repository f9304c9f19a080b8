"""The debug log: what a support engineer asks for first."""

import logging
import re
import threading
import time

import monedula
import pytest
from monedula.testing import Broker


@pytest.mark.seed("S176")
def test_the_debug_log_has_connections_requests_answers_and_where_batches_went(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("orders", 2)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with caplog.at_level("DEBUG", "monedula"):
        with monedula.Producer(settings) as producer:
            futures = [producer.send("orders", "x", partition=partition) for partition in (0, 1)]
            for future in futures:
                future.result()
        with monedula.Consumer(settings, auto_offset_reset="earliest") as consumer:
            consumer.assign("orders")
            consumer.poll(timeout=30)
    log = "\n".join(record.getMessage() for record in caplog.records)
    for pattern in (
        rf"connecting to {re.escape(broker.bootstrap_servers)}",
        r"sent ApiVersions v\d+ \(key 18\), #\d+, \d+ bytes",
        r"sent Produce v\d+ \(key 0\), #\d+, \d+ bytes",
        r"answer to Produce, #\d+, \d+ bytes",
        r"sent Fetch v\d+ \(key 1\), #\d+, \d+ bytes",
        r"answer to Fetch, #\d+, \d+ bytes",
        r"orders-0: 1 records from #0, \d+ bytes, to broker 1",
        r"orders-1: 1 records from #0, \d+ bytes, to broker 1",
    ):
        assert re.search(pattern, log), f"{pattern}\n{log}"


def test_an_event_has_the_time_at_which_it_happened(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """The next call logs it, whenever that is."""
    broker.create_topic("orders")
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with caplog.at_level("DEBUG", "monedula"), monedula.Producer(settings) as producer:
        future = producer.send("orders", "x")
        for _ in range(6000):
            if future.done():
                break
            threading.Event().wait(0.01)
        acknowledged = time.time()
        caplog.clear()
        producer.health()
        events = [record for record in caplog.records if "answer to Produce" in record.getMessage()]
    assert events
    for record in events:
        assert record.created <= acknowledged
        assert record.msecs == int(record.created % 1 * 1000)
        started, now = record.created - record.relativeCreated / 1000, logging.makeLogRecord({})
        assert started == pytest.approx(now.created - now.relativeCreated / 1000, abs=1e-3)
