"""Batch queries: `spark.read.format("monedula")`."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from monedula._filters.conditions import COLUMNS, KEY, And, Unknown
from monedula._filters.records import record_filter
from monedula.errors import ConfigError
from monedula.spark.errors_first import errors_first
from monedula.spark.offsets import PartitionOffsets, partition_text
from monedula.spark.source.bounds import Earliest, Latest
from monedula.spark.source.cluster import Cluster
from monedula.spark.source.pushed import condition_of, is_settled, narrow, passed_for_default
from monedula.spark.source.source import KafkaInputPartition, Source
from monedula.spark.source.worker import read, report_data_loss

if TYPE_CHECKING:
    import pyarrow as pa


@errors_first
class BatchReader(DataSourceReader):
    """Plans and reads a batch query.

    The driver determines the start and end offsets once, so a task that is run again reads the same records.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start, self._end = source.options.batch_bounds()
        self._condition = And(())
        typed = {each.column for each in source.typed}
        # Spark compares what a key was decoded to.
        self._compared = COLUMNS if KEY in typed else (*COLUMNS, KEY)

    @property
    def pushFilters(self) -> Callable[..., Any]:  # noqa: N802 (Spark's name)
        """From Spark 4.1 on: takes the filters of the query, and returns those that Spark has to apply as well."""
        return passed_for_default(self._push, getattr(DataSourceReader, "pushFilters", self._push))

    def _push(self, filters: list[Any]) -> list[Any]:
        conditions = [condition_of(each, self._compared) for each in filters]
        self._condition = And(tuple(each for each in conditions if not isinstance(each, Unknown)))
        return [each for each, condition in zip(filters, conditions, strict=True) if not is_settled(condition)]

    def partitions(self) -> list[InputPartition]:
        """The tasks of the query.

        Raises:
            DataLossError: if a requested offset is outside of the log, and `failOnDataLoss` is true.
            ConfigError: if the start and end in the options do not fit the topics' partitions.
        """
        options = self._source.options
        cluster = Cluster(options)
        try:
            layout = cluster.layout()
            # The order matters: logs change between the requests, and a resolved offset must lie between the earliest
            # offset, which is requested before it, and the latest offset, which is requested after it.
            earliest = cluster.earliest(layout.leaders)
            start = dict(earliest) if self._start == Earliest() else cluster.resolve(self._start, True, layout)
            end = None if self._end == Latest() else cluster.resolve(self._end, False, layout)
            latest = cluster.latest(layout.leaders)
            end = dict(latest) if end is None else end
            self._check(start, end, earliest, latest)
            if self._condition.parts:
                narrow(self._condition, start, end, cluster, options.max_lateness_ms)
        finally:
            cluster.close()
        return self._source.plan(start, end, layout)

    def _check(
        self, start: PartitionOffsets, end: PartitionOffsets, earliest: PartitionOffsets, latest: PartitionOffsets
    ) -> None:
        """Check the ends that were asked for; without `failOnDataLoss`, cuts them to what the logs hold."""
        for partition in start:
            if start[partition] > end[partition]:
                raise ConfigError(
                    f"The resolved start offset {start[partition]} is greater than the resolved end offset "
                    f"{end[partition]} for topic {partition.topic} partition {partition.partition}. Start may be a "
                    "timestamp and end an offset, or the other way round, or the start is beyond the latest offset."
                )
            first, last = earliest[partition], latest[partition]
            asked = (start[partition], end[partition])
            held = (max(asked[0], first), min(asked[1], last))
            if held != asked and asked[0] < asked[1]:
                report_data_loss(
                    f"Partition {partition_text(partition)} holds offsets [{first}, {last}); [{asked[0]}, {asked[1]}) "
                    "was asked for.",
                    self._source.options.fail_on_data_loss,
                )
                start[partition], end[partition] = held

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of one task."""
        # For an empty plan Spark runs one task with a plain InputPartition.
        if not isinstance(partition, KafkaInputPartition):
            return iter(())
        return read(partition.value, replace(self._source.read_settings, kept=record_filter(self._condition)))
