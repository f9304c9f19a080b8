"""How far streaming queries are behind Kafka, told to a function, and to a consumer group for ordinary lag tools."""

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from monedula.config import raw_settings
from monedula.errors import ArgumentError, ConfigError
from monedula.partitions import TopicPartition
from monedula.spark.commits import Failures, GroupCommitter
from monedula.spark.kafka_settings import PREFIX, kafka_settings
from monedula.spark.offsets import PartitionOffsets, StreamOffset

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
    """How far a query is in one partition."""

    end_offset: int
    """The offset of the next record to process: everything before it is finished."""
    latest_offset: int | None
    """The log's end when the batch was planned; `None` where the source did not tell."""

    @property
    def lag(self) -> int | None:
        """Offsets behind the log's end: an upper bound of the rows where logs are compacted or have transactions."""
        return None if self.latest_offset is None else max(0, self.latest_offset - self.end_offset)


@dataclass(frozen=True)
class LagReport:
    """How far a query is after one micro-batch, a batch without rows included."""

    query_id: str
    """Stays over restarts from the checkpoint."""
    run_id: str
    """Another for each start."""
    name: str | None
    """What `queryName` gave it."""
    batch_id: int
    partitions: Mapping[TopicPartition, PartitionLag]

    @property
    def lag(self) -> int | None:
        """All partitions added up; `None` if one of them is not known."""
        lags = [partition.lag for partition in self.partitions.values()]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None

    @property
    def end_offsets(self) -> PartitionOffsets:
        """The offset of the next record to process, by partition."""
        return {partition: at.end_offset for partition, at in self.partitions.items()}


class LagListener(StreamingQueryListener):
    """Tells how far each streaming query is behind Kafka, and commits its offsets to a consumer group if asked to.

        listener = LagListener(
            on_lag=lambda report: print(report.name, report.lag),
            commit_to={"bootstrap.servers": "localhost:9092"},
            group_id="orders-pipeline",
        )
        spark.streams.addListener(listener)

    It hears of every query of the session that reads `format("monedula")` or Spark's own `format("kafka")`; sources of
    other kinds are passed over. What goes wrong in it never harms a query: it is logged once for each kind, by
    `monedula.spark`, and counted in `failures`.

    The group is for lag tools to look at (`kafka-consumer-groups --describe`, exporters): queries go on from their
    checkpoints, whatever is committed. It must have no running consumers. With Spark Connect the listener runs, and
    commits, on the client's machine.

    Args:
        on_lag: called after each micro-batch. Spark delivers no other event meanwhile, so it should be quick.
        commit_to: where to commit: Kafka settings, by names such as `bootstrap.servers` or `kafka.bootstrap.servers`.
            Default: nothing is committed.
        group_id: the group to commit to, or a function that names one for each report, `None` for none. Queries that
            read the same partitions need groups of their own; with a function, `report.name` or `report.query_id` tells
            them apart.
        flush_timeout: seconds that the end of a query waits for its last offsets to be committed.

    Raises:
        ConfigError: if a setting is wrong.
        ArgumentError: if only one of `commit_to` and `group_id` is given.
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
        self._committer = None if commit_to is None else GroupCommitter(_settings(commit_to), self._failures)

    @property
    def failures(self) -> dict[str, int]:
        """How often something went wrong, by kind, such as `on_lag: ValueError` or `commit: UNKNOWN_MEMBER_ID`."""
        return self._failures.snapshot()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait for the commit of what was finished so far.

        Args:
            timeout: seconds; `flush_timeout` by default.

        Returns:
            Whether nothing is left to commit. What was refused (see `failures`) is not left.
        """
        timeout_seconds = self._flush_timeout_seconds if timeout is None else timeout
        return self._committer is None or self._committer.flush(timeout_seconds)

    def close(self, timeout: float | None = None) -> None:
        """Commit what is left, and end the thread and its connections. Nothing is committed after that.

        Spark does not call it; a program that ends need not either, once its queries have ended.

        Args:
            timeout: seconds that it may take; `flush_timeout` by default.
        """
        if self._committer is not None:
            self._committer.close(self._flush_timeout_seconds if timeout is None else timeout)

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802 (these names are Spark's)
        """Spark calls it; nothing to tell yet."""

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802
        """Spark calls it; nothing has changed."""

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802
        """Spark calls it after each micro-batch."""
        try:
            report = _report(event)
        except Exception as error:
            self._failures.count(
                f"progress: {type(error).__name__}", f"a query's progress is not understood: {error!r}"
            )
            return
        if not report.partitions:
            return
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

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: ARG002, N802
        """Spark calls it at the end of a query: its last offsets are committed, if that goes quickly."""
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
            # A query may read a partition twice; it is as far as the slower of them.
            other = partitions.get(partition, at)
            partitions[partition] = min(at, other, key=lambda lag: lag.end_offset)
    return LagReport(str(progress.id), str(progress.runId), progress.name, progress.batchId, partitions)


def _lags(source: "SourceProgress") -> dict[TopicPartition, PartitionLag]:
    """The partitions of a Kafka source; of other sources, none."""
    end = _offsets(source.endOffset)
    if end is None:
        return {}
    latest = _offsets(source.latestOffset) or {}
    return {partition: PartitionLag(offset, latest.get(partition)) for partition, offset in end.items()}


def _offsets(text: str | None) -> PartitionOffsets | None:
    """The offsets in a progress, or `None` where it has none, or another source's."""
    if not text:
        return None
    try:
        try:
            data = json.loads(text)
        except ValueError:
            # Older versions of Spark Connect give the text of a dict.
            data = ast.literal_eval(text)
        return StreamOffset.from_dict(data).offsets
    except (ConfigError, SyntaxError, ValueError, RecursionError):
        return None
