"""`LagListener`: what it makes of progress events, and what it commits."""

import gc
import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import monedula
import monedula.spark
import pytest
from monedula import TopicPartition
from monedula.spark import commits
from monedula.spark.listener import LagListener, LagReport, PartitionLag
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent

WAIT_SECONDS = 60.0
QUERY, RUN = "8c57e1ec-94b5-4c99-b100-f694162df0b9", "4b97b1a3-6a55-4b1b-8d1b-0a6f0a1f3b8e"
KAFKA = {"bootstrap.servers": "localhost:1"}
OURS = {"start": None, "end": '{"$start": {"t": {"0": 0}}, "t": {"0": 23, "1": 5}}', "latest": '{"t":{"0":30,"1":5}}'}

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def progress(*sources: dict[str, Any], batch_id: int = 3, name: str | None = "q") -> QueryProgressEvent:
    """The event of a micro-batch."""
    rates = {"numInputRows": 0, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}
    return QueryProgressEvent.fromJson(
        {
            "progress": {
                "id": QUERY,
                "runId": RUN,
                "name": name,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "batchId": batch_id,
                "batchDuration": 1,
                "stateOperators": [],
                "sources": [
                    {
                        "description": source.get("description", "PythonMicroBatchStream@1"),
                        "startOffset": source.get("start"),
                        "endOffset": source.get("end"),
                        "latestOffset": source.get("latest"),
                        **rates,
                    }
                    for source in sources
                ],
                "sink": {"description": "noop", "numOutputRows": -1},
                **rates,
            }
        }
    )


def upto(offset: int) -> QueryProgressEvent:
    """The event of a batch that ended at `offset` of t-0."""
    return progress({"end": json.dumps({"t": {"0": offset}})})


def terminated() -> QueryTerminatedEvent:
    return QueryTerminatedEvent.fromJson({"id": QUERY, "runId": RUN, "exception": None, "errorClassOnException": None})


def reports_of(*events: QueryProgressEvent) -> list[LagReport]:
    told: list[LagReport] = []
    listener = LagListener(told.append)
    for event in events:
        listener.onQueryProgress(event)
    assert listener.failures == {}
    return told


class Coordinator:
    """Stands in for the core: keeps commits, and fails or waits as it is told."""

    def __init__(self) -> None:
        self.commits: list[tuple[str, dict[TopicPartition, int]]] = []
        self.outcomes: list[Exception | dict[TopicPartition, str | None]] = []
        self.asked = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()
        self.closed = threading.Event()
        self.settings: list[tuple[str, str]] = []

    def __call__(self, settings: list[tuple[str, str]]) -> "Coordinator":
        self.settings = settings
        return self

    def commit_group_offsets(
        self, group_id: str, offsets: list[tuple[TopicPartition, int]], timeout: float
    ) -> dict[TopicPartition, str | None]:
        assert timeout > 0
        self.asked.release()
        assert self.open.wait(WAIT_SECONDS)
        if self.closed.is_set():
            raise monedula.errors.ClosedError("the consumer is closed")
        outcome = self.outcomes.pop(0) if self.outcomes else {}
        if isinstance(outcome, Exception):
            raise outcome
        self.commits.append((group_id, dict(offsets)))
        return {partition: outcome.get(partition) for partition, _ in offsets}

    def close(self, timeout: float) -> None:
        assert timeout >= 0
        self.closed.set()
        self.open.set()


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    stand_in = Coordinator()
    monkeypatch.setattr(commits, "ConsumerCore", stand_in)
    monkeypatch.setattr(commits, "_RETRY_SECONDS", 0.0)
    return stand_in


@pytest.fixture
def committing(coordinator: Coordinator) -> Iterator[Callable[..., LagListener]]:
    """Makes listeners that commit to `coordinator`."""
    made: list[LagListener] = []

    def make(group_id: Any = "g", **how: Any) -> LagListener:
        made.append(LagListener(commit_to=KAFKA, group_id=group_id, **{"flush_timeout": WAIT_SECONDS, **how}))
        return made[-1]

    yield make
    coordinator.open.set()
    for listener in made:
        listener.close(WAIT_SECONDS)


def test_the_lag_of_each_partition_is_reported() -> None:
    [report] = reports_of(progress(OURS))
    assert (report.query_id, report.run_id, report.name, report.batch_id) == (QUERY, RUN, "q", 3)
    assert report.partitions == {T0: PartitionLag(23, 30), T1: PartitionLag(5, 5)}
    assert {partition: at.lag for partition, at in report.partitions.items()} == {T0: 7, T1: 0}
    assert report.lag == 7
    assert report.end_offsets == {T0: 23, T1: 5}


def test_a_batch_without_rows_is_told_too() -> None:
    same = '{"t":{"0":5}}'
    [report] = reports_of(progress({"start": same, "end": same, "latest": same}, name=None))
    assert (report.name, report.lag) == (None, 0)


def test_other_sources_are_passed_over() -> None:
    others: list[dict[str, Any]] = [
        {"end": "7", "latest": "7", "description": "RateStreamV2[rowsPerSecond=1]"},
        {"end": '{"logOffset":0}', "latest": '{"logOffset":3}', "description": "FileStreamSource[file:/tmp/in]"},
        {"end": '{"sourceVersion":1,"reservoirId":"a","index":{"x":1}}'},
        {"end": "no JSON at all"},
        {"end": '["t"]'},
        {"end": '{"shard": {"0": "495"}}'},
        {"end": None},
    ]
    assert reports_of(progress(*others)) == []
    [report] = reports_of(progress(*others, OURS))
    assert set(report.partitions) == {T0, T1}


def test_sparks_own_kafka_source_is_reported() -> None:
    jvm = {"end": {"t": {"1": 5, "0": 23}}, "latest": {"t": {"1": 6, "0": 23}}, "description": "KafkaV2[Subscribe[t]]"}
    [report] = reports_of(progress(jvm))
    assert report.lag == 1


def test_without_the_ends_of_the_logs_the_lag_is_not_known() -> None:
    [report] = reports_of(progress({"end": '{"t":{"0":23,"1":5}}', "latest": '{"t":{"1":5}}'}))
    assert report.partitions == {T0: PartitionLag(23, None), T1: PartitionLag(5, 5)}
    assert (report.partitions[T0].lag, report.lag) == (None, None)


def test_an_end_before_what_was_read_is_no_negative_lag() -> None:
    assert PartitionLag(23, 20).lag == 0


def test_a_partition_that_is_read_twice_counts_as_the_slower() -> None:
    behind = {"end": '{"t":{"0":10}}', "latest": '{"t":{"0":30}}'}
    for sources in ((OURS, behind), (behind, OURS)):
        [report] = reports_of(progress(*sources))
        assert report.partitions == {T0: PartitionLag(10, 30), T1: PartitionLag(5, 5)}


def test_the_text_of_a_dict_is_understood() -> None:
    event = progress({"end": "{'t': {'0': 23}}", "latest": "{'t': {'0': 30}}"})
    assert [report.lag for report in reports_of(event)] == [7]


def test_a_function_that_fails_is_logged_once_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []

    def fail(report: LagReport) -> None:
        called.append(report.batch_id)
        raise ValueError("no")

    listener = LagListener(fail)
    with caplog.at_level(logging.WARNING, "monedula.spark"):
        for batch_id in range(3):
            listener.onQueryProgress(progress(OURS, batch_id=batch_id))
    assert called == [0, 1, 2]
    assert listener.failures == {"on_lag: ValueError": 3}
    assert [record.name for record in caplog.records] == ["monedula.spark"]


def test_a_progress_that_nobody_understands_harms_nothing() -> None:
    listener = LagListener()
    listener.onQueryProgress(object())
    assert listener.failures == {"progress: AttributeError": 1}


def test_finished_offsets_are_committed(coordinator: Coordinator, committing: Callable[..., LagListener]) -> None:
    listener = committing()
    listener.onQueryProgress(progress(OURS))
    assert listener.flush()
    assert coordinator.commits == [("g", {T0: 23, T1: 5})]
    assert dict(coordinator.settings)["bootstrap.servers"] == "localhost:1"


def test_a_slow_coordinator_gets_the_newest_offsets_only(
    coordinator: Coordinator, committing: Callable[..., LagListener]
) -> None:
    listener = committing()
    coordinator.open.clear()
    listener.onQueryProgress(upto(1))
    assert coordinator.asked.acquire(timeout=WAIT_SECONDS)
    # The callback returns to Spark's thread each time, although the first commit is still in flight.
    for offset in range(2, 100):
        listener.onQueryProgress(upto(offset))
    coordinator.open.set()
    assert listener.flush()
    assert coordinator.commits == [("g", {T0: 1}), ("g", {T0: 99})]


def test_the_end_of_a_query_waits_for_its_last_offsets(
    coordinator: Coordinator, committing: Callable[..., LagListener]
) -> None:
    listener = committing()
    for offset in range(100):
        listener.onQueryProgress(upto(offset))
    listener.onQueryTerminated(terminated())
    assert coordinator.commits[-1] == ("g", {T0: 99})
    assert listener.failures == {}


def test_the_end_of_a_query_does_not_wait_for_ever(
    coordinator: Coordinator, committing: Callable[..., LagListener]
) -> None:
    listener = committing(flush_timeout=0.01)
    coordinator.open.clear()
    listener.onQueryProgress(upto(1))
    listener.onQueryTerminated(terminated())
    assert listener.failures == {"flush: timed out": 1}
    coordinator.open.set()
    assert listener.flush(WAIT_SECONDS)
    assert coordinator.commits == [("g", {T0: 1})]


def test_what_may_succeed_later_is_tried_again(
    coordinator: Coordinator, committing: Callable[..., LagListener]
) -> None:
    listener = committing()
    coordinator.outcomes = [monedula.KafkaTimeoutError("too slow", retriable=True)] * 3
    listener.onQueryProgress(upto(1))
    assert listener.flush()
    assert coordinator.commits == [("g", {T0: 1})]
    assert listener.failures == {"commit: KafkaTimeoutError": 3}


def test_what_cannot_succeed_is_given_up_until_the_next_batch(
    coordinator: Coordinator, committing: Callable[..., LagListener], caplog: pytest.LogCaptureFixture
) -> None:
    listener = committing()
    refused = [monedula.errors.GroupInUseError("g is in use by running consumers", code="UNKNOWN_MEMBER_ID")] * 2
    coordinator.outcomes = [*refused]
    with caplog.at_level(logging.WARNING, "monedula.spark"):
        for offset in (1, 2, 3):
            listener.onQueryProgress(upto(offset))
            assert listener.flush()
    assert coordinator.commits == [("g", {T0: 3})]
    assert listener.failures == {"commit: UNKNOWN_MEMBER_ID": 2}
    [record] = caplog.records
    assert "in use by running consumers" in record.getMessage()


def test_a_partition_that_is_refused_is_counted(
    coordinator: Coordinator, committing: Callable[..., LagListener]
) -> None:
    listener = committing()
    coordinator.outcomes = [{T1: "TOPIC_AUTHORIZATION_FAILED"}]
    listener.onQueryProgress(progress(OURS))
    assert listener.flush()
    assert listener.failures == {"commit: TOPIC_AUTHORIZATION_FAILED": 1}


def test_a_function_names_the_group_of_each_query(
    coordinator: Coordinator, committing: Callable[..., LagListener]
) -> None:
    listener = committing(lambda report: report.name and f"spark-{report.name}")
    for name in ("a", None, "b"):
        listener.onQueryProgress(progress(OURS, name=name))
        assert listener.flush()
    assert [group for group, _ in coordinator.commits] == ["spark-a", "spark-b"]


def test_a_function_that_names_no_group_spares_the_report(committing: Callable[..., LagListener]) -> None:
    told: list[LagReport] = []
    listener = committing(lambda report: {}[report.batch_id], on_lag=told.append)
    listener.onQueryProgress(progress(OURS))
    assert listener.failures == {"group_id: KeyError": 1}
    assert len(told) == 1


def test_closing_commits_what_is_left_and_nothing_after(
    coordinator: Coordinator, committing: Callable[..., LagListener]
) -> None:
    listener = committing()
    listener.onQueryProgress(upto(1))
    listener.close()
    listener.close()
    listener.onQueryProgress(upto(2))
    assert listener.flush()
    assert coordinator.commits == [("g", {T0: 1})]
    assert coordinator.closed.is_set()


def test_closing_ends_a_commit_under_way(coordinator: Coordinator, committing: Callable[..., LagListener]) -> None:
    listener = committing()
    coordinator.open.clear()
    listener.onQueryProgress(upto(1))
    assert coordinator.asked.acquire(timeout=WAIT_SECONDS)
    listener.close(0.01)
    assert not [thread for thread in threading.enumerate() if thread.name == "monedula-commits"]
    assert listener.failures == {}


@pytest.mark.parametrize(
    "settings",
    [
        {"kafka.bootstrap.servers": "a:1", "kafka.request.timeout.ms": 9000},
        {"bootstrap_servers": ["a:1"], "request.timeout.ms": "9000"},
        {"kafka.bootstrap.servers": "a:1", "request.timeout.ms": 9000, "kafka.max.poll.records": "500"},
    ],
)
def test_settings_come_with_and_without_their_prefix(coordinator: Coordinator, settings: dict[str, Any]) -> None:
    listener = LagListener(commit_to=settings, group_id="g", flush_timeout=WAIT_SECONDS)
    listener.onQueryProgress(upto(1))
    listener.close()
    given = dict(coordinator.settings)
    assert (given["bootstrap.servers"], given["request.timeout.ms"]) == ("a:1", "9000")
    assert given["client.id"] == "monedula-lag-listener"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"commit_to": KAFKA}, "belong together"),
        ({"group_id": "g"}, "belong together"),
        ({"commit_to": KAFKA, "group_id": ""}, "must not be empty"),
        ({"commit_to": {}, "group_id": "g"}, "bootstrap.servers"),
        ({"commit_to": {**KAFKA, "group.id": "g"}, "group_id": "g"}, "group_id="),
        ({"commit_to": {**KAFKA, "kafka.group_id": "g"}, "group_id": "g"}, "group_id="),
        ({"commit_to": {**KAFKA, "no.such.setting": "1"}, "group_id": "g"}, "no.such.setting"),
    ],
)
def test_wrong_arguments_are_refused_at_once(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LagListener(**how)


def test_it_is_found_where_the_source_is() -> None:
    assert monedula.spark.LagListener is LagListener
    with pytest.raises(AttributeError, match="NoSuchListener"):
        _ = monedula.spark.NoSuchListener


def lag_of(listener: LagListener, detail: Any) -> dict[tuple[str, ...], float]:
    """What Prometheus sees of a listener: by the name of the metric and the values of its labels."""
    prometheus_client = pytest.importorskip("prometheus_client")
    from monedula.prometheus import watch

    registry = prometheus_client.CollectorRegistry()
    watch(listener, registry=registry, detail=detail)
    return {
        (sample.name.removeprefix("monedula_consumer_"), *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_the_lag_of_queries_is_shown_to_prometheus() -> None:
    listener = LagListener()
    assert lag_of(listener, "topic") == {}
    listener.onQueryProgress(progress(OURS))
    assert lag_of(listener, "topic") == {("lag_records", "spark", "q", "", "t"): 7.0}
    assert lag_of(listener, "client") == {("lag_records", "spark", "q", ""): 7.0}
    assert lag_of(listener, "partition") == {
        ("lag_records", "spark", "q", "", "t", "0"): 7.0,
        ("lag_records", "spark", "q", "", "t", "1"): 0.0,
        ("position", "spark", "q", "", "t", "0"): 23.0,
        ("position", "spark", "q", "", "t", "1"): 5.0,
        ("log_end_offset", "spark", "q", "", "t", "0"): 30.0,
        ("log_end_offset", "spark", "q", "", "t", "1"): 5.0,
    }


def test_a_query_without_a_name_is_shown_by_its_id_until_it_ends() -> None:
    listener = LagListener()
    listener.onQueryProgress(progress({"end": '{"t": {"0": 4}}', "latest": '{"t": {"0": 9}}'}, name=None))
    listener.onQueryProgress(progress({"end": '{"t": {"0": 6}}', "latest": '{"t": {"0": 9}}'}, name=None))
    assert lag_of(listener, "topic") == {("lag_records", "spark", QUERY, "", "t"): 3.0}
    assert [report.batch_id for report in listener.reports.values()] == [3]
    listener.onQueryTerminated(terminated())
    assert (lag_of(listener, "topic"), listener.reports) == ({}, {})


def test_a_lag_that_is_not_known_is_not_shown() -> None:
    listener = LagListener()
    listener.onQueryProgress(upto(5))
    assert lag_of(listener, "topic") == {}


def test_a_listener_that_is_gone_is_not_shown() -> None:
    prometheus_client = pytest.importorskip("prometheus_client")
    from monedula.prometheus import watch

    registry = prometheus_client.CollectorRegistry()
    listener = LagListener()
    listener.onQueryProgress(progress(OURS))
    watch(listener, registry=registry)
    del listener
    gc.collect()
    assert [sample for family in registry.collect() for sample in family.samples] == []
