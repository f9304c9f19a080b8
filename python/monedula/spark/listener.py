"""`LagListener`: reports the lag of streaming queries to a function, and commits their offsets to a consumer group."""

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from monedula.config import raw_settings
from monedula.errors import ArgumentError, ConfigError
from monedula.spark.commits import Failures, GroupCommitter
from monedula.spark.offsets import PartitionOffsets, StreamOffset
from monedula.spark.options.kafka_settings import PREFIX, kafka_settings
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
    )

CLIENT_ID = "monedula-lag-listener"


@dataclass(frozen=True)
class PartitionLag:
    """The progress of a query in one partition."""

    end_offset: int
    """The offset of the next record to process: the query has processed all records before it."""
    latest_offset: int | None
    """The end of the log when the batch was planned; `None` if the source does not report it."""

    @property
    def lag(self) -> int | None:
        """The number of offsets up to the end of the log; with compaction or transactions there are fewer rows."""
        return None if self.latest_offset is None else max(0, self.latest_offset - self.end_offset)


@dataclass(frozen=True)
class LagReport:
    """The progress of a query after a micro-batch, which may have had no rows."""

    query_id: str
    """The query's id, which stays the same when the query is restarted from its checkpoint."""
    run_id: str
    """The id of this run of the query, new for each start."""
    name: str | None
    """The name set with `queryName`."""
    batch_id: int
    partitions: Mapping[TopicPartition, PartitionLag]

    @property
    def lag(self) -> int | None:
        """The sum of the lag of all partitions; `None` if that of a partition is unknown."""
        lags = [partition.lag for partition in self.partitions.values()]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None

    @property
    def end_offsets(self) -> PartitionOffsets:
        """The offset of the next record to process, by partition."""
        return {partition: at.end_offset for partition, at in self.partitions.items()}


class LagListener(StreamingQueryListener):
    """Reports the lag of each streaming query, and can commit the query's offsets to a consumer group.

        listener = LagListener(
            on_lag=lambda report: print(report.name, report.lag),
            commit_to={"bootstrap.servers": "localhost:9092"},
            group_id="orders-pipeline",
        )
        spark.streams.addListener(listener)

    It covers every query of the session that reads `format("monedula")` or Spark's own `format("kafka")`; sources of
    other kinds are ignored. `monedula.prometheus.watch(listener)` shows the lag as gauges. A failure in the listener
    never affects a query: the logger `monedula.spark` logs the first one of each kind, and `failures` counts them.

    The group is for lag tools (`kafka-consumer-groups --describe`, exporters): queries continue from their checkpoints,
    not from the committed offsets. The group must not have members. With Spark Connect the listener runs and commits on
    the client's machine.

    Args:
        on_lag: called after each micro-batch. Spark delivers no other event until it returns, so it should be fast.
        commit_to: settings of the Kafka client that commits, by names such as `bootstrap.servers` or
            `kafka.bootstrap.servers`. If left out, nothing is committed.
        group_id: the group to commit to, or a function that returns the group for each report, or `None` for no commit.
            Queries that read the same partitions need different groups; a function can distinguish them by
            `report.name` or `report.query_id`.
        flush_timeout: seconds that the end of a query waits for the commit of its last offsets.

    Raises:
        ConfigError: if a setting is unknown or invalid.
        ArgumentError: if only one of `commit_to` and `group_id` is given, or `group_id` is empty.
    """

    def __init__(
        self,
        on_lag: Callable[[LagReport], object] | None = None,
        *,
        commit_to: Mapping[str, Any] | None = None,
        group_id: str | Callable[[LagReport], str | None] | None = None,
        flush_timeout: float = 5.0,
    ) -> None:
        if (commit_to is None) != (group_id is None):
            raise ArgumentError("commit_to and group_id belong together: give both, or none")
        if group_id == "":
            raise ArgumentError("the group_id must not be empty")
        self._on_lag = on_lag
        self._group_id = group_id
        self._flush_timeout_seconds = flush_timeout
        self._failures = Failures()
        self._reports: dict[str, LagReport] = {}
        self._committer = None if commit_to is None else GroupCommitter(_settings(commit_to), self._failures)

    @property
    def failures(self) -> dict[str, int]:
        """The number of failures by kind, such as `on_lag: ValueError` or `commit: UNKNOWN_MEMBER_ID`."""
        return self._failures.snapshot()

    @property
    def reports(self) -> dict[str, LagReport]:
        """The last report of each query that runs, by its id."""
        return self._reports.copy()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the offsets of all finished micro-batches are committed.

        Args:
            timeout: seconds to wait; `flush_timeout` by default.

        Returns:
            Whether no offsets are left to commit. Offsets whose commit was refused (see `failures`) do not count.
        """
        timeout_seconds = self._flush_timeout_seconds if timeout is None else timeout
        return self._committer is None or self._committer.flush(timeout_seconds)

    def close(self, timeout: float | None = None) -> None:
        """Commit the remaining offsets, then end the thread and close its connections. Later offsets are not committed.

        Spark does not call it. A program need not call it before it ends if its queries have ended.

        Args:
            timeout: seconds to wait for the commit; `flush_timeout` by default.
        """
        if self._committer is not None:
            self._committer.close(self._flush_timeout_seconds if timeout is None else timeout)

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802 (these names are Spark's)
        """Called by Spark; does nothing, for there is no progress yet."""

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802
        """Called by Spark; does nothing, for there is no new progress."""

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802
        """Called by Spark after each micro-batch: commits the offsets, and calls `on_lag`."""
        try:
            report = _report(event)
        except Exception as error:
            self._failures.count(
                f"progress: {type(error).__name__}", f"a query's progress is not understood: {error!r}"
            )
            return
        if not report.partitions:
            return
        self._reports[report.query_id] = report
        try:
            self._commit(report)
        except Exception as error:
            kind = f"group_id: {type(error).__name__}"
            self._failures.count(kind, "the function that names the group failed", error)
        try:
            if self._on_lag is not None:
                self._on_lag(report)
        except Exception as error:
            self._failures.count(f"on_lag: {type(error).__name__}", "the function on_lag failed", error)

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        """Called by Spark at the end of a query: waits up to `flush_timeout` for the commit of its last offsets."""
        self._reports.pop(str(event.id), None)
        if not self.flush():
            kind = "flush: timed out"
            self._failures.count(kind, f"offsets were not committed within {self._flush_timeout_seconds} s of the end")

    def _commit(self, report: LagReport) -> None:
        if self._committer is None:
            return
        group_id = self._group_id(report) if callable(self._group_id) else self._group_id
        if group_id:
            self._committer.put(group_id, report.end_offsets)


def _settings(commit_to: Mapping[str, Any]) -> list[tuple[str, str]]:
    given = {name.removeprefix(PREFIX).replace("_", "."): value for name, value in raw_settings(commit_to, {})}
    if "group.id" in given:
        raise ConfigError("give the group as group_id=, not as the setting group.id", key="group.id")
    return list(kafka_settings({PREFIX + name: value for name, value in given.items()}, CLIENT_ID).items())


def _report(event: "QueryProgressEvent") -> LagReport:
    progress = event.progress
    partitions: dict[TopicPartition, PartitionLag] = {}
    for source in progress.sources:
        for partition, at in _lags(source).items():
            # A query may read a partition with two sources; the lower offset counts.
            other = partitions.get(partition, at)
            partitions[partition] = min(at, other, key=lambda lag: lag.end_offset)
    return LagReport(str(progress.id), str(progress.runId), progress.name, progress.batchId, partitions)


def _lags(source: "SourceProgress") -> dict[TopicPartition, PartitionLag]:
    end = _offsets(source.endOffset)
    if end is None:
        return {}
    latest = _offsets(source.latestOffset) or {}
    return {partition: PartitionLag(offset, latest.get(partition)) for partition, offset in end.items()}


def _offsets(text: str | None) -> PartitionOffsets | None:
    """The offsets in a source's progress; `None` if there are none, or they are not those of a Kafka source."""
    if not text:
        return None
    try:
        try:
            data = json.loads(text)
        except ValueError:
            # Older versions of Spark Connect have the repr of a Python dict here, not JSON.
            data = ast.literal_eval(text)
        return StreamOffset.from_dict(data).offsets
    except (ConfigError, SyntaxError, ValueError, RecursionError):
        return None
