"""Partitions for records of `monedula produce` whose data name one that their topic does not have."""

from math import inf
from typing import Any

from monedula.cli.rendering import counted
from monedula.cli.running import say
from monedula.errors import KafkaError
from monedula.producer.sync import Producer


class Placing:
    """Partitions of data, as far as topics have them. Records of others go where their keys say.

    The data may come from a topic with more partitions. To refuse such a record would leave those before it in the
    topic, once more each time that the command is repeated.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._counts: dict[str, float] = {}
        self._told: set[str] = set()

    def placed(self, topic: str, partition: int) -> int | None:
        """The partition, or `None` if the topic does not have it."""
        if partition < self._counts.get(topic, 0) or partition < self._count(topic):
            return partition
        self._tell(topic)
        return None

    def column(self, batch: Any, topic: str | None) -> Any:
        """The column `partition` of a batch, with nulls for partitions that topics do not have."""
        import pyarrow
        import pyarrow.compute

        compute: Any = pyarrow.compute
        column = batch.column("partition")
        if not pyarrow.types.is_integer(column.type):
            return column
        named = batch.column("topic") if topic is None and "topic" in batch.schema.names else None
        topics = [topic] if named is None else compute.unique(named).to_pylist()
        for name in topics:
            if not isinstance(name, str):
                continue
            its = column if named is None else compute.if_else(compute.equal(named, name), column, None)
            most = compute.max(its).as_py()
            if most is not None and self.placed(name, most) is None:
                is_absent = compute.greater_equal(its, int(self._counts[name])).fill_null(False)
                column = compute.if_else(is_absent, None, column)
        return column

    def _count(self, topic: str) -> float:
        try:
            count: float = len(self._producer.partitions_for(topic))
        except KafkaError:
            count = inf  # the error comes when the record is sent
        self._counts[topic] = count
        return count

    def _tell(self, topic: str) -> None:
        if topic not in self._told:
            self._told.add(topic)
            partitions = counted(int(self._counts[topic]), "partition")
            say(f"{topic} has {partitions}: records of others go where their keys say")
