"""What a Python worker of Spark does with a task, without Spark: on a real Kafka."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from monedula import TopicPartition
from monedula._monedula import ReaderCore
from monedula.errors import DataLossError, OffsetOutOfRangeError
from monedula.spark import idle
from monedula.spark.idle import IdleClients
from monedula.spark.options.kafka_settings import ClientSettings
from monedula.spark.source import worker
from monedula.spark.source.cluster import Cluster, Layout
from monedula.spark.source.options import SourceOptions
from monedula.spark.source.planning import OffsetRange
from monedula.spark.source.worker import ReadSettings, ReadTask, read

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
WAIT_SECONDS = 60.0


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has clients of its own, as a new worker process has."""
    fresh = IdleClients(worker._open, ReaderCore.close)
    monkeypatch.setattr(worker, "_clients", fresh)
    yield
    for _, core, _ in fresh._idle:
        core.close()
    fresh._idle.clear()


def _options(kafka: KafkaCluster, topic: str, **more: str) -> SourceOptions:
    return SourceOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, **more})


def _layout(kafka: KafkaCluster, topic: str) -> Layout:
    cluster = Cluster(_options(kafka, topic))
    try:
        return cluster.layout()
    finally:
        cluster.close()


def _settings(kafka: KafkaCluster, columns: tuple[str, ...] = COLUMNS, **more: str) -> ReadSettings:
    settings = {"bootstrap.servers": kafka.bootstrap, **{name.replace("_", "."): value for name, value in more.items()}}
    return ReadSettings(ClientSettings.of(settings), columns)


def _task(layout: Layout, ranges: dict[tuple[str, int], tuple[int, int]], fail: bool = True) -> ReadTask:
    return ReadTask(
        ranges=tuple(OffsetRange(TopicPartition(*each), *bounds) for each, bounds in ranges.items()),
        brokers=tuple((node, *address) for node, address in layout.brokers.items()),
        leaders=tuple((each, *leader) for each, leader in layout.leaders.items()),
        fail_on_data_loss=fail,
    )


def _rows(task: ReadTask, settings: ReadSettings) -> list[dict[str, Any]]:
    return pa.Table.from_batches(list(read(task, settings))).to_pylist()


def _produce(kafka: KafkaCluster, topic: str, count: int, partition: int = 0) -> None:
    kafka.helper.produce(topic, [{"value": b"%d" % n, "partition": partition} for n in range(count)])


def _idle_metrics() -> dict[str, int]:
    ((_, core, _),) = worker._clients._idle
    return dict(core.metrics())


def test_a_task_asks_for_no_metadata(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(2)
    _produce(kafka, name, 5, 0)
    _produce(kafka, name, 7, 1)
    task = _task(_layout(kafka, name), {(name, 0): (0, 5), (name, 1): (2, 7)})
    rows = _rows(task, _settings(kafka))
    assert sorted((row["partition"], row["offset"]) for row in rows) == [(0, n) for n in range(5)] + [
        (1, n) for n in range(2, 7)
    ]
    metrics = _idle_metrics()
    assert metrics["metadata_updates"] == 0
    assert metrics["connections_opened"] == 1


def test_the_next_task_of_the_process_finds_the_connection_open(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 10)
    layout, settings = _layout(kafka, name), _settings(kafka)
    for start in range(0, 10, 2):
        assert [row["offset"] for row in _rows(_task(layout, {(name, 0): (start, start + 2)}), settings)] == [
            start,
            start + 1,
        ]
    metrics = _idle_metrics()
    assert metrics["connections_opened"] == 1
    assert metrics["records_delivered"] == 10


def test_other_settings_have_a_client_of_their_own(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 3)
    task = _task(_layout(kafka, name), {(name, 0): (0, 3)})
    assert set(_rows(task, _settings(kafka, ("value",)))[0]) == {"value"}
    assert list(_rows(task, _settings(kafka, ("offset", "value")))[0]) == ["offset", "value"]
    _rows(task, _settings(kafka, ("value",)))
    assert len(worker._clients._idle) == 2


def test_a_client_that_no_task_wants_is_closed(
    kafka: KafkaCluster, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "IDLE_SECONDS", 0.0)
    closed: queue.Queue[ReaderCore] = queue.Queue()

    def close(core: ReaderCore) -> None:
        core.close()
        closed.put(core)

    monkeypatch.setattr(worker._clients, "_close", close)
    name = topic()
    _produce(kafka, name, 3)
    _rows(_task(_layout(kafka, name), {(name, 0): (0, 3)}), _settings(kafka))
    closed.get(timeout=WAIT_SECONDS)
    assert worker._clients._idle == []


def test_a_worker_without_room_for_a_thread_closes_its_client(
    kafka: KafkaCluster, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    closed: list[ReaderCore] = []
    monkeypatch.setattr(worker._clients, "_close", closed.append)
    name = topic()
    _produce(kafka, name, 3)
    assert len(_rows(_task(_layout(kafka, name), {(name, 0): (0, 3)}), _settings(kafka))) == 3
    assert len(closed) == 1
    assert worker._clients._idle == []


def test_a_read_that_is_given_up_leaves_its_client_for_the_next(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 200)
    layout, settings = _layout(kafka, name), _settings(kafka)
    begun = read(_task(layout, {(name, 0): (0, 200)}), settings)
    next(begun)
    begun.close()  # type: ignore[attr-defined]
    ((_, kept, _),) = worker._clients._idle
    rows = _rows(_task(layout, {(name, 0): (50, 60)}), settings)
    assert [row["offset"] for row in rows] == list(range(50, 60))
    ((_, again, _),) = worker._clients._idle
    assert again is kept


def test_a_leader_that_moved_since_the_plan_is_found(kafka3: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(cluster=kafka3, replication=3)
    _produce(kafka3, name, 20)
    layout = _layout(kafka3, name)
    leader = layout.leaders[TopicPartition(name, 0)]
    other = next(node for node in layout.brokers if node != leader.node_id)
    kafka3.helper.move_leader(name, 0, other)
    kafka3.wait_leader(name, 0, other)
    rows = _rows(_task(layout, {(name, 0): (0, 20)}), _settings(kafka3))
    assert [row["offset"] for row in rows] == list(range(20))


def test_an_address_that_is_no_longer_right_is_asked_for_again(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 4)
    layout = _layout(kafka, name)
    moved = Layout(dict.fromkeys(layout.brokers, ("127.0.0.1", 1)), layout.leaders)
    rows = _rows(_task(moved, {(name, 0): (0, 4)}), _settings(kafka))
    assert len(rows) == 4


def test_records_that_retention_took_fail_the_task(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 10)
    task = _task(_layout(kafka, name), {(name, 0): (0, 10)})
    kafka.helper.delete_records(name, {0: 4})
    with pytest.raises(DataLossError, match=rf"records in offset \[0, 4\) for topic partition {name}-0") as raised:
        _rows(task, _settings(kafka))
    assert "failOnDataLoss to false" in str(raised.value)
    assert worker._clients._idle == []


def test_records_that_retention_took_are_skipped_if_asked(
    kafka: KafkaCluster, topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic(2)
    _produce(kafka, name, 10, 0)
    _produce(kafka, name, 3, 1)
    task = _task(_layout(kafka, name), {(name, 0): (0, 10), (name, 1): (0, 3)}, fail=False)
    kafka.helper.delete_records(name, {0: 4})
    rows = _rows(task, _settings(kafka))
    assert sorted((row["partition"], row["offset"]) for row in rows) == [(0, n) for n in range(4, 10)] + [
        (1, n) for n in range(3)
    ]
    assert f"records in offset [0, 4) for topic partition {name}-0" in caplog.text


@pytest.mark.parametrize(
    ("held", "left", "lost"),
    [
        ((5, 40), [(5, 30)], "[2, 5)"),
        ((5, 10), [(5, 10)], "[2, 5) and [10, 30)"),
        ((0, 10), [(2, 10)], "[10, 30)"),
        ((0, 2), [], "[2, 30)"),
        ((0, 1), [], "[2, 30)"),
        ((50, 60), [], "[2, 30)"),
        ((30, 60), [], "[2, 30)"),
    ],
)
def test_what_is_lost_and_what_is_left_of_a_range(
    held: tuple[int, int], left: list[tuple[int, int]], lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    here, other = TopicPartition("t", 0), TopicPartition("t", 1)
    loss = OffsetOutOfRangeError("?", topic="t", partition=0, log_start_offset=held[0], log_end_offset=held[1])
    ranges = [OffsetRange(here, 2, 30), OffsetRange(other, 4, 8)]
    after = worker._after_loss(ranges, loss, fail=False)
    assert after == [*(OffsetRange(here, *each) for each in left), OffsetRange(other, 4, 8)]
    assert f"records in offset {lost} for topic partition t-0" in caplog.text


def test_a_topic_that_was_created_again_is_not_taken_for_the_old_one(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 10)
    task = _task(_layout(kafka, name), {(name, 0): (0, 10)})
    kafka.helper.delete_topic(name)
    kafka.helper.create_topic(name)
    _produce(kafka, name, 10)
    with pytest.raises(DataLossError, match="deleted and created again"):
        _rows(task, _settings(kafka))
    skipping = ReadTask(task.ranges, task.brokers, task.leaders, fail_on_data_loss=False)
    assert list(read(skipping, _settings(kafka))) == []


def test_a_log_that_is_shorter_than_its_range_fails_the_task_soon(
    kafka: KafkaCluster, topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic()
    _produce(kafka, name, 10)
    layout, settings = _layout(kafka, name), _settings(kafka, default_api_timeout_ms="2000")
    with pytest.raises(DataLossError, match=r"log holds 0\.\.10"):
        _rows(_task(layout, {(name, 0): (0, 30)}), settings)
    rows = _rows(_task(layout, {(name, 0): (0, 30)}, fail=False), settings)
    assert [row["offset"] for row in rows] == list(range(10))
    assert "records in offset [10, 30)" in caplog.text


def test_gaps_and_markers_neither_hang_nor_fail(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 2)
    kafka.helper.produce(name, [{"value": b"aborted", "partition": 0}] * 3, transaction="abort")
    kafka.helper.produce(name, [{"value": b"committed", "partition": 0}] * 2, transaction="commit")
    end = kafka.helper.offsets(name)[0][1]
    settings = _settings(kafka, isolation_level="read_committed")
    rows = _rows(_task(_layout(kafka, name), {(name, 0): (0, end)}), settings)
    assert [row["value"] for row in rows] == [b"0", b"1", b"committed", b"committed"]
    # The range has only control batches and aborted records.
    assert list(read(_task(_layout(kafka, name), {(name, 0): (2, 6)}), settings)) == []
