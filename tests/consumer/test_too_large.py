"""Answers that are larger than `receive.message.max.bytes`."""

import time
from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

from tests.consumer.conftest import ConsumerFactory
from tests.consumer.uniform import Uniform, values


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Three brokers, and a topic whose first partition has a batch of 3 MB between two small ones."""
    with Broker(nodes=3) as broker:
        broker.create_topic("orders", partitions=3, config={"max.message.bytes": 8 << 20})
        for value in (b"first", b"x" * 3_000_000, b"last"):
            broker.append("orders", [value])
        yield broker


def test_an_answer_that_is_too_large_is_an_error_that_names_the_setting(
    consumer: ConsumerFactory, broker: Broker
) -> None:
    settings: dict[str, Any] = {
        "receive_message_max_bytes": 1_000_000,
        "fetch_max_bytes": 500_000,
        "fetch_max_wait_ms": 50,
    }
    reader = consumer("orders", bootstrap_servers=broker.bootstrap_servers, **settings)
    assert values(reader.poll(timeout=30).records()) == [b"first"]
    # On every call, as long as the answer is too large.
    for _ in range(3):
        expected = r"Fetch has 3\d{6} bytes.*receive\.message\.max\.bytes \(1000000\)"
        with pytest.raises(monedula.ConfigError, match=expected) as told:
            reader.poll(timeout=30)
        assert told.value.key == "receive.message.max.bytes"
    # The others go on.
    broker.append("orders", [b"elsewhere"], partition=1)
    assert rows_until(reader, b"elsewhere") == [b"elsewhere"]
    # And so does this one past the batch.
    reader.seek(("orders", 0), 2)
    assert rows_until(reader, b"last") == [b"last"]
    assert not reader.poll(timeout=0.2)


def rows_until(reader: Uniform, last: bytes) -> list[bytes | None]:
    """The records that are handed out until `last`, whatever is raised meanwhile."""
    rows: list[bytes | None] = []
    deadline = time.monotonic() + 30
    # Limited by time: calls that raise return at once, so any number of them may come before the next answer.
    while time.monotonic() < deadline:
        try:
            rows += values(reader.poll(timeout=30).records())
        except monedula.ConfigError:
            continue
        if last in rows:
            return rows
    raise AssertionError(f"{last!r} does not come: {rows}")


@pytest.mark.parametrize("fetch_max_bytes", [8 << 20, 1_000_000 - 511])
def test_settings_under_which_answers_would_be_too_large_are_refused(
    consumer: ConsumerFactory, fetch_max_bytes: int
) -> None:
    expected = rf"receive\.message\.max\.bytes \(1000000\) must exceed fetch\.max\.bytes \({fetch_max_bytes}\)"
    with pytest.raises(monedula.ConfigError, match=expected) as told:
        consumer(bootstrap_servers="localhost:1", receive_message_max_bytes=1_000_000, fetch_max_bytes=fetch_max_bytes)
    assert told.value.key == "receive.message.max.bytes"
