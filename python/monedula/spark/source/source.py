"""`Source`: the options and columns of a query that reads, from which both readers plan their tasks."""

from collections.abc import Mapping

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from monedula.errors import ConfigError
from monedula.spark.offsets import PartitionOffsets
from monedula.spark.options.kafka_settings import ClientSettings
from monedula.spark.process import show_warnings
from monedula.spark.source.cluster import Layout
from monedula.spark.source.options import SourceOptions
from monedula.spark.source.planning import OffsetRange, coalesce, split
from monedula.spark.source.schema import Projection, check_projection, source_schema
from monedula.spark.source.typed import TypedColumn
from monedula.spark.source.worker import ReadSettings, ReadTask

Pinned = tuple[TypedColumn, ...]
"""The columns that are decoded, with the readers' schemas, which a registry was asked for."""


class KafkaInputPartition(InputPartition):
    """The input of one Spark task: a `ReadTask`."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(task)


class Source:
    """The options and columns of one query, for both readers. It is pickled, so it opens no connections."""

    def __init__(
        self, options: Mapping[str, str], requested: StructType | None = None, pinned: Pinned | None = None
    ) -> None:
        show_warnings()
        self.options = SourceOptions.parse(options)
        chosen = self.options.column_names()
        if pinned is None:
            settings = ClientSettings.of(self.options.kafka)
            pinned = tuple(each.pinned(settings.here) for each in self.options.typed)
        self.pinned = typed = pinned
        if requested is None and (unnamed := [each for each in typed if each.reader is None]):
            name = unnamed[0].column
            example = "id bigint, user string" if unnamed[0].flatten else f"{name} struct<id: bigint, user: string>"
            raise ConfigError(
                f"{name}.format: name the fields before load(): .schema('{example}')", key=f"{name}.format"
            )
        projection = Projection(chosen) if requested is None else check_projection(requested, typed)
        self.columns, self.output, self.typed = projection.columns, projection.output, projection.typed
        if self.options.columns is not None and set(self.columns) != set(chosen):
            raise ConfigError(
                f"schema and the option columns contradict each other: {list(self.columns)} and {list(chosen)}; "
                "give one of them"
            )

    @property
    def schema(self) -> StructType:
        """The schema of `load()` if the user gives no schema."""
        return source_schema(self.options.column_names(), self.pinned)

    @property
    def read_settings(self) -> ReadSettings:
        """The settings of the client in a worker."""
        timeout = {"default.api.timeout.ms": str(self.options.poll_timeout_ms)}
        return ReadSettings(ClientSettings.of({**self.options.kafka, **timeout}), self.columns, self.output, self.typed)

    def plan(self, start: PartitionOffsets, end: PartitionOffsets, layout: Layout) -> list[InputPartition]:
        """The tasks that read from the offsets `start` to before the offsets `end`."""
        ranges = [OffsetRange(partition, start[partition], end[partition]) for partition in sorted(end)]
        ranges = split(ranges, self.options.min_partitions, self.options.max_records_per_partition)
        return [self._task(group, layout) for group in coalesce(ranges, self.options.max_partitions)]

    def _task(self, ranges: list[OffsetRange], layout: Layout) -> InputPartition:
        leaders = {
            each.partition: layout.leaders[each.partition] for each in ranges if each.partition in layout.leaders
        }
        nodes = {leader.node_id for leader in leaders.values()}
        task = ReadTask(
            ranges=tuple(ranges),
            brokers=tuple((node, *layout.brokers[node]) for node in sorted(nodes) if node in layout.brokers),
            leaders=tuple((partition, *leader) for partition, leader in leaders.items()),
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        return KafkaInputPartition(task)
