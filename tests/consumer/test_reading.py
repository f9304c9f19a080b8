"""Bounded reads on the embedded broker: errors are worded for callers of `read`, who have no consumer."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import monedula
import pyarrow
import pytest
from monedula.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def settings(broker: Broker) -> dict[str, Any]:
    broker.create_topic("orders")
    broker.append("orders", [str(number) for number in range(20)])
    return {"bootstrap.servers": broker.bootstrap_servers, "default.api.timeout.ms": 1000}


@pytest.mark.parametrize("bounds", [{"start": 21}, {"end": 21}, {"start": 30, "end": 31}])
def test_a_range_outside_of_the_log_advises_what_a_read_can_do(
    settings: dict[str, Any], bounds: dict[str, int]
) -> None:
    told = r"out of range: the log holds 0\.\.20\. Give the read a start and an end in it$"
    with pytest.raises(monedula.errors.OffsetOutOfRangeError, match=told) as raised:
        monedula.read(settings, ("orders", 0), **bounds)  # type: ignore[arg-type]
    error = raised.value
    assert (error.topic, error.partition, error.code) == ("orders", 0, "OFFSET_OUT_OF_RANGE")
    assert (error.log_start_offset, error.log_end_offset) == (0, 20)


def test_records_that_are_gone_while_a_read_goes_on(broker: Broker, settings: dict[str, Any]) -> None:
    # Nothing is fetched before the records are gone: a quick first fetch would have them all.
    held = broker.fault(api="Fetch", hold=True, on="request")
    stream = monedula.read(settings, "orders")
    broker.delete_records("orders", 0, 10)
    held.remove()
    with pytest.raises(monedula.errors.OffsetOutOfRangeError, match="Give the read a start") as raised:
        list(stream)
    assert raised.value.offset == 0


def test_a_damaged_batch_names_where_to_read_on(broker: Broker, settings: dict[str, Any]) -> None:
    broker.fault(api="Fetch", corrupt=True)
    with pytest.raises(
        monedula.errors.CorruptRecordError, match="A read that starts at 20 goes on behind it"
    ) as raised:
        list(monedula.read(settings, "orders"))
    assert (raised.value.offset, raised.value.next_offset) == (0, 20)


@pytest.mark.parametrize("again", [lambda given: pickle.loads(pickle.dumps(given)), copy.copy, copy.deepcopy])
def test_records_and_spans_can_be_pickled_and_copied(
    broker: Broker, settings: dict[str, Any], again: Callable[[Any], Any]
) -> None:
    """As for the processes of a pool."""
    broker.append("orders", [("key", "value")], headers={"a": "1"})
    (batch,) = monedula.read(settings, "orders", headers=True)
    (few,) = monedula.read(settings, ("orders", 0), start=19, columns=["offset"])
    for given in [*batch.records(), *batch.spans, *few.records()]:
        made = again(given)
        assert (type(made), repr(made)) == (type(given), repr(given))
        names = [name for name in dir(given) if not name.startswith("_")]
        assert len(names) >= 6
        assert [getattr(made, name) for name in names] == [getattr(given, name) for name in names]


@pytest.mark.parametrize("ask", [next, pyarrow.table], ids=["next", "table"])
def test_a_closed_stream_says_that_it_is_the_stream(
    settings: dict[str, Any], ask: Callable[[monedula.RecordStream], object]
) -> None:
    stream = monedula.read(settings, "orders", max_rows=5)
    assert next(stream).num_rows == 5
    stream.close()
    with pytest.raises(Exception, match="the stream is closed; start another read") as raised:
        ask(stream)
    assert ask is not next or isinstance(raised.value, monedula.errors.ClosedError)
