"""A Python worker of Spark reads one batch ahead of what Spark has taken."""

import queue
import threading
from collections.abc import Generator

import pyarrow as pa
import pytest
from monedula import TopicPartition
from monedula._monedula import ReaderCore
from monedula.spark.idle import IdleClients
from monedula.spark.options.kafka_settings import ClientSettings
from monedula.spark.source import worker
from monedula.spark.source.cluster import Cluster
from monedula.spark.source.options import SourceOptions
from monedula.spark.source.planning import OffsetRange
from monedula.spark.source.worker import ReadSettings, ReadTask, _one_ahead, read
from monedula.testing import Broker

WAIT_SECONDS = 60.0


def test_the_next_batch_is_read_while_one_is_taken_and_no_further() -> None:
    begun: queue.SimpleQueue[int] = queue.SimpleQueue()

    def numbers() -> Generator[int, None, None]:
        for number in range(5):
            begun.put(number)
            yield number

    taken = _one_ahead(numbers(), lambda: None)
    assert [next(taken), next(taken)] == [0, 1]
    assert [begun.get(timeout=WAIT_SECONDS) for _ in range(3)] == [0, 1, 2]
    assert next(taken) == 2
    assert begun.get(timeout=WAIT_SECONDS) == 3
    assert begun.empty()
    assert list(taken) == [3, 4]


def test_an_error_comes_after_the_batches_before_it() -> None:
    def numbers() -> Generator[int, None, None]:
        yield from range(3)
        raise ValueError("the fourth")

    taken = _one_ahead(numbers(), lambda: None)
    assert [next(taken) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="the fourth"):
        next(taken)
    assert list(taken) == []


def test_spark_that_needs_no_more_waits_for_nothing() -> None:
    waits, ended = threading.Event(), threading.Event()
    states: list[str] = []

    def numbers() -> Generator[int, None, None]:
        try:
            yield from range(2)
            waits.set()
            assert ended.wait(WAIT_SECONDS)
        finally:
            states.append("closed")

    taken = _one_ahead(numbers(), ended.set)
    assert [next(taken), next(taken)] == [0, 1]
    assert waits.wait(WAIT_SECONDS)
    taken.close()
    assert states == ["closed"]
    assert not any(_reads_ahead(thread) for thread in threading.enumerate())


def _reads_ahead(thread: threading.Thread) -> bool:
    return thread.name.startswith("monedula-read-ahead")


def test_without_a_thread_batches_are_read_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert list(_one_ahead(iter_of(range(4)), lambda: None)) == [0, 1, 2, 3]


def iter_of(numbers: range) -> Generator[int, None, None]:
    yield from numbers


@pytest.mark.parametrize("is_limited", [False, True])
@pytest.mark.parametrize("taken", [1, 2, 3, 100])
def test_a_task_of_many_batches_has_all_rows_and_gives_its_client_back(
    monkeypatch: pytest.MonkeyPatch, taken: int, is_limited: bool
) -> None:
    """Also one of which Spark takes only the first batches. With a limit of mapped memory nothing is read ahead."""
    monkeypatch.setattr(worker, "has_address_limit", lambda: is_limited)
    clients = IdleClients(worker._open, ReaderCore.close)
    monkeypatch.setattr(worker, "_clients", clients)
    count = 4 * worker.MAX_ROWS + 5
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", [b"%d" % number for number in range(count)])
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders"}
        cluster = Cluster(SourceOptions.parse(options))
        layout = cluster.layout()
        cluster.close()
        settings = ReadSettings(ClientSettings.of({"bootstrap.servers": broker.bootstrap_servers}), ("value", "offset"))
        task = ReadTask(
            ranges=(OffsetRange(TopicPartition("orders", 0), 0, count),),
            brokers=tuple((node, *address) for node, address in layout.brokers.items()),
            leaders=tuple((each, *leader) for each, leader in layout.leaders.items()),
            fail_on_data_loss=True,
        )
        batches = read(task, settings)
        rows = [batch for batch, _ in zip(batches, range(taken), strict=False)]
        if taken == 3:
            assert any(_reads_ahead(thread) for thread in threading.enumerate()) is not is_limited
        batches.close()  # type: ignore[attr-defined]
        values = pa.Table.from_batches(rows)["value"].to_pylist()
        ((_, core, _),) = clients._idle
        core.close()
    assert values == [b"%d" % number for number in range(len(values))]
    assert len(values) == count or len(rows) == taken
