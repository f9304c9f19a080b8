"""Streaming queries: `spark.readStream.format("monedula")`.

After a restart of the driver only Spark's offset log is left, so the offsets have everything that a replay needs: start
offsets that came from Kafka (those of the first batch, and of new partitions) are in the end offset of the batch that
reads from them, as `$start`.

Spark 4.0 and 4.1 have no admission control: they ask for the end of a batch without its start, and set no limit. The
start is then the end that was planned last; in a restarted query Spark first calls `partitions` with the last end of
the checkpoint.
"""

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from monedula.errors import ConfigError, DataLossError, KafkaError, UnknownTopicError
from monedula.spark.errors_first import errors_first
from monedula.spark.offsets import LATEST_OFFSET, PartitionOffsets, StreamOffset, partition_text, partitions_text
from monedula.spark.source.bounds import Earliest, Offsets
from monedula.spark.source.cluster import Cluster, Layout
from monedula.spark.source.limits import TriggerDelay, byte_limit, rate_limit
from monedula.spark.source.sampling import ByteEstimate
from monedula.spark.source.source import KafkaInputPartition, Source
from monedula.spark.source.worker import read, report_data_loss
from monedula.types.partitions import TopicPartition

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.0 and 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Replaces the class that this version of Spark lacks."""

    class ReadAllAvailable:  # type: ignore[no-redef]
        """Replaces the class that this version of Spark lacks."""


if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("monedula.spark")


@errors_first
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, in a Python process that runs as long as the query.

    Only the copy in that process sends requests to Kafka. The copies for the workers are pickled before it connects.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._options = source.options
        self._start_bound = source.options.stream_start()
        self._cluster = Cluster(source.options)
        self._delay = TriggerDelay()
        self._estimate = ByteEstimate(source.options)
        self._initial: StreamOffset | None = None
        self._start_error: KafkaError | None = None
        """Why the options give no start: `initialOffset` puts it off, because a replay does not need their start."""
        self._latest: PartitionOffsets | None = None
        self._frozen: PartitionOffsets | None = None
        self._layout: Layout | None = None
        self._topic_ids: dict[str, str] = {}
        self._is_available_now = False
        self._is_first_plan = True
        self._planned: dict[str, Any] | None = None
        self._has_warned = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (these names are Spark's)
        """The start of the query. Cached, because Spark calls this twice for the same batch.

        It is empty if the options do not fit the topics: then `latestOffset` raises the error of a new query, and
        `partitions` replays the first batch of a restarted one by the start in its checkpoint.

        Raises:
            UnknownTopicError: if a topic does not exist, and `failOnDataLoss` is true.
        """
        if self._initial is None:
            try:
                start = self._start_of_options()
            except ConfigError as error:
                start, self._start_error = {}, error
            except UnknownTopicError as error:
                if self._options.fail_on_data_loss:
                    raise
                start, self._start_error = {}, error
            self._initial = StreamOffset(start)
            _log.info("Initial offsets: %s", self._initial.to_dict())
        return self._initial.to_dict()

    def getDefaultReadLimit(self) -> "ReadLimit":  # noqa: N802
        """The limit of the options, as one limit for Spark. `latestOffset` applies all limits of the options."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Called for trigger AvailableNow: the query reads up to the ends of the logs at the first trigger only."""
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any] | None = None, limit: "ReadLimit | None" = None) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch: `start` itself if there are no new records, or not enough yet.

        Args:
            start: the end of the previous batch. Spark 4.0 and 4.1 leave it out, see the module's docstring.
            limit: Spark's limit. If Spark 4.0 or 4.1 leaves out `start`, the batch has everything that is available:
                the limits of the options are ignored, and a warning is logged once.

        Raises:
            ConfigError: if the query is new, and its start does not fit the topics.
            UnknownTopicError: if the query is new, and a topic does not exist.
            DataLossError: if a topic was recreated, or the first records of a new partition are gone, and
                `failOnDataLoss` is true.
        """
        if start is None:
            self._warn_of_limits()
            # For the first batch initialOffset() caches the start, which Spark asks for only after this call.
            start, limit = self._planned or self.initialOffset(), ReadAllAvailable()
        begun = StreamOffset.from_dict(start)
        is_first = self._is_start(begun)
        if is_first and self._start_error is not None:
            raise self._start_error
        latest = self._target(begun.offsets)
        resolved = dict(begun.offsets) if is_first else {}
        resolved |= self._new_starts(begun.offsets, latest)
        base = {**begun.offsets, **resolved}
        end = base if self._waits(base, latest, limit) else self._limited(base, latest, limit)
        # A recreated topic is read from its beginning, even if its log ends at the same offset as the old one.
        is_restarted = not is_first and not begun.offsets.keys().isdisjoint(resolved)
        is_still = end == begun.offsets or (end is base and set(latest) >= set(begun.offsets))
        is_idle = is_still and not is_restarted
        if is_restarted and begun == StreamOffset(end, resolved):
            # If the offset equals the previous one, Spark sees no new data, and would never read the new log.
            end = {**end, **resolved}
        if not is_idle or is_first:
            # A partition may be gone again whose start was just looked up.
            kept = {each: offset for each, offset in resolved.items() if each in end}
            start = StreamOffset(end, kept).to_dict()
        self._planned = start
        return start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the logs at the last trigger, for the query's progress."""
        return StreamOffset(self._latest).to_dict() if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a micro-batch. After a crash Spark calls it again with the same offsets: it plans the same rows.

        Raises:
            DataLossError: if partitions are gone or their logs became shorter, and `failOnDataLoss` is true.
        """
        begun, until = StreamOffset.from_dict(start), StreamOffset.from_dict(end)
        self._known_layout({partition.topic for partition in (*begun.offsets, *until.offsets)})
        # In a restarted query Spark first calls this with the checkpoint's last end as both start and end.
        planned, self._planned = self._planned, end
        is_replay = planned is None or StreamOffset.from_dict(planned) != until
        if is_replay:
            self._start_error = None
        starts = self._starts(begun, until, is_replay)
        new = set(until.offsets) - set(starts)
        if new:
            starts |= self._earliest_of(new, until.offsets)
        gone = [each for each in starts if each not in until.offsets]
        if gone:
            self._lost(
                f"Partitions {partitions_text(gone)} have been deleted. If they exist, the options no longer "
                "select them: a query that reads something else needs a checkpoint of its own."
            )
        for partition, offset in until.offsets.items():
            if offset < starts.get(partition, offset):
                self._lost(
                    f"Partition {partition_text(partition)} offset was changed from {starts[partition]} to {offset}. "
                    "This could either be a user error that the start offset is set too high and this is the first "
                    "batch, or the topic was deleted and created again."
                )
        ends = {each: offset for each, offset in until.offsets.items() if each in starts}
        ends = self._within_logs(starts, ends)
        return self._source.plan(starts, ends, self._known_layout())

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of one task, on a worker."""
        if not isinstance(partition, KafkaInputPartition):
            return iter(())
        return read(partition.value, self._source.read_settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the offsets are in Spark's checkpoint. `monedula.spark.LagListener` can commit them to Kafka."""

    def stop(self) -> None:
        """Close the driver's connections."""
        self._cluster.close()
        self._estimate.close()

    def _target(self, begun: PartitionOffsets) -> PartitionOffsets:
        if self._is_available_now:
            if self._frozen is None:
                self._frozen = self._look_up(begun)
            self._latest = self._frozen
        else:
            self._latest = self._look_up(begun)
        return self._latest

    def _look_up(self, begun: Mapping[TopicPartition, int]) -> PartitionOffsets:
        self._layout = self._cluster.layout({partition.topic for partition in begun})
        return self._cluster.latest(self._layout.leaders, begun)

    def _new_starts(self, begun: PartitionOffsets, latest: PartitionOffsets) -> PartitionOffsets:
        """The start offsets of new partitions and recreated topics: the smallest ones, so that no record is missed."""
        recreated = self._recreated(begun)
        fresh = [each for each in latest if each not in begun or each.topic in recreated]
        return self._earliest_of(fresh, latest) if fresh else {}

    def _recreated(self, begun: PartitionOffsets) -> set[str]:
        """The topics that were recreated (their topic id changed): the old offsets mean nothing in them."""
        seen = {partition.topic for partition in begun}
        ids = self._known_layout().topic_ids
        recreated = {each for each in seen if each in ids and self._topic_ids.get(each, ids[each]) != ids[each]}
        for topic in sorted(recreated):
            self._lost(f"Topic {topic} was deleted and created again; it is read from its beginning.")
        self._topic_ids = {**self._topic_ids, **ids}
        return recreated

    def _earliest_of(
        self, fresh: "set[TopicPartition] | list[TopicPartition]", until: PartitionOffsets
    ) -> PartitionOffsets:
        present = [each for each in fresh if each in self._known_layout().leaders]
        earliest = self._cluster.earliest(present)
        missing = sorted(set(fresh) - set(earliest))
        if missing:
            self._lost(
                f"Cannot find initial offsets for partitions {partitions_text(missing)}. They may have been deleted."
            )
        for partition, offset in sorted(earliest.items()):
            if offset > 0:
                self._lost(f"Added partition {partition_text(partition)} starts from {offset} instead of 0.")
        return {each: min(offset, until[each]) for each, offset in earliest.items()}

    def _waits(self, base: PartitionOffsets, latest: PartitionOffsets, limit: "ReadLimit | None") -> bool:
        wanted, delay_ms = self._options.min_offsets_per_trigger, self._options.max_trigger_delay_ms
        if wanted is None or isinstance(limit, ReadAllAvailable):
            return False
        now_ms = time.time_ns() // 1_000_000
        return bool(self._delay.should_wait(wanted, delay_ms, base, latest, now_ms))

    def _limited(self, base: PartitionOffsets, latest: PartitionOffsets, limit: "ReadLimit | None") -> PartitionOffsets:
        options = self._options
        if isinstance(limit, ReadAllAvailable):
            return latest
        end = latest
        if options.max_offsets_per_trigger is not None:
            end = rate_limit(options.max_offsets_per_trigger, base, latest, {})
        if options.max_bytes_per_trigger is not None:
            per_offset = self._estimate.bytes_per_offset(base, latest, self._known_layout())
            by_bytes = byte_limit(options.max_bytes_per_trigger, base, latest, per_offset)
            end = {each: min(offset, by_bytes[each]) for each, offset in end.items()}
        return end

    def _within_logs(self, starts: PartitionOffsets, ends: PartitionOffsets) -> PartitionOffsets:
        """Limit the ends of this process's first plan to the logs: it may replay a batch that was planned long ago."""
        if not self._is_first_plan:
            return ends
        self._is_first_plan = False
        layout = self._known_layout()
        latest = self._cluster.latest([each for each in ends if each in layout.leaders], ends)
        for partition, offset in ends.items():
            log_end = latest.get(partition)
            if log_end is None and starts[partition] < offset:
                self._lost(f"Partitions {partition_text(partition)} have been deleted.")
            elif log_end is not None and log_end < offset:
                self._lost(
                    f"Partition {partition_text(partition)} offset was changed from {offset} to {log_end}: the batch "
                    "was planned when the log was longer. The topic may have been deleted and created again."
                )
        return {each: min(offset, latest[each]) for each, offset in ends.items() if each in latest}

    def _start_of_options(self) -> PartitionOffsets:
        self._layout = self._cluster.layout()
        self._topic_ids = self._layout.topic_ids
        return self._cluster.resolve(self._start_bound, True, self._layout)

    def _is_start(self, begun: StreamOffset) -> bool:
        """Return true for the first batch of a query: its start `begun` is from the options, not from a log."""
        return self._initial is not None and begun == self._initial

    def _starts(self, begun: StreamOffset, until: StreamOffset, is_replay: bool) -> PartitionOffsets:
        """The starts of the partitions of a batch. The checkpoint goes before the options.

        Args:
            begun: the start that Spark passes.
            until: the end of the batch.
            is_replay: whether the end is from the checkpoint, where an earlier process wrote it.

        Raises:
            DataLossError: if the first batch was planned by another source, and its start cannot be known.
        """
        if not is_replay or not self._is_start(begun):
            return {**begun.offsets, **until.resolved_starts}
        # The options were resolved anew: the topics may have changed since the query began.
        if until.resolved_starts or not until.offsets:
            return dict(until.resolved_starts)
        return self._starts_of_other_source(begun, until)

    def _starts_of_other_source(self, begun: StreamOffset, until: StreamOffset) -> PartitionOffsets:
        """The start of a first batch that another source planned: the offset log does not have it.

        Earliest offsets and offsets in the options are the same in both sources; latest ones and times are not.
        """
        bound = self._start_bound
        if isinstance(bound, Earliest):
            return {each: offset for each, offset in begun.offsets.items() if each in until.offsets}
        given = bound.offsets if isinstance(bound, Offsets) else {}
        if given and LATEST_OFFSET not in given.values():
            wanted = {each: offset for each, offset in given.items() if each in until.offsets}
            return self._cluster.filled_in(wanted, self._known_layout())
        raise DataLossError(
            "The first batch of this checkpoint was planned by another Kafka source and never finished: where it "
            "starts stands only in that source's own file. Finish the batch with that source, or use a new "
            "checkpoint."
        )

    def _known_layout(self, topics: Collection[str] = ()) -> Layout:
        """The layout of the last trigger; in a new process it is requested, and `topics` may be missing from it."""
        if self._layout is None:
            self._layout = self._cluster.layout(topics)
            self._topic_ids = self._layout.topic_ids
        return self._layout

    def _lost(self, what: str) -> None:
        report_data_loss(what, self._options.fail_on_data_loss)

    def _warn_of_limits(self) -> None:
        options = self._options
        limits = (options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_bytes_per_trigger)
        if not self._has_warned and any(limit is not None for limit in limits):
            self._has_warned = True
            _log.warning(
                "maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger are ignored: data sources in Python "
                "have no admission control before Spark 4.2. Every micro-batch reads all that is available."
            )


@errors_first
class InvalidStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises its error in every method: raised in the constructor, it would become an UnboundLocalError in PySpark."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (these names are Spark's)
        """Raise the error, for a new query."""
        self._refuse()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Raise the error, for a restarted query."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Raise the error."""
        self._refuse()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: ARG002, N802
        """Raise the error."""
        self._refuse()

    def partitions(self, start: Any, end: Any) -> Any:  # noqa: ARG002
        """Raise the error."""
        self._refuse()

    def read(self, partition: Any) -> Any:  # noqa: ARG002
        """Never called: there are no partitions."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise self._error
