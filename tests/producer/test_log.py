"""The debug log: what a support engineer asks for first."""

import re

import monedula
import pytest
from monedula.testing import Broker


@pytest.mark.req("S176")
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
        r"orders-0: 1 record from #0, \d+ bytes, to broker 1",
        r"orders-1: 1 record from #0, \d+ bytes, to broker 1",
    ):
        assert re.search(pattern, log), f"{pattern}\n{log}"
