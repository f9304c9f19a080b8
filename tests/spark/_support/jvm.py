"""Spark's own classes, called in the JVM of a session: what the pure parts of our source are judged by."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from monedula import TopicPartition
from monedula.spark.source.planning import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkJvm:
    """The JVM source's helpers; what is private to Scala is open here."""

    def __init__(self, spark: "SparkSession") -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._kafka = self._jvm.org.apache.spark.sql.kafka010

    def read_offsets(self, text: str) -> Any:
        """Its map of offsets out of JSON, or `None` if it refuses that."""
        return self._attempt(self._kafka.JsonUtils.partitionOffsets, text)

    def read_timestamps(self, text: str) -> Any:
        """Likewise of timestamps."""
        return self._attempt(self._kafka.JsonUtils.partitionTimestamps, text)

    def read_assign(self, text: str) -> "set[TopicPartition] | None":
        """Likewise the partitions of `assign`."""
        partitions = self._attempt(self._kafka.JsonUtils.partitions, text)
        return None if partitions is None else {TopicPartition(each.topic(), each.partition()) for each in partitions}

    def write_offsets(self, offsets: Any) -> str:
        """Its JSON of a map of offsets."""
        return str(self._kafka.JsonUtils.partitionOffsets(offsets))

    def split(
        self, ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
    ) -> list[OffsetRange]:
        """What its KafkaOffsetRangeCalculator makes of `ranges`."""
        options = {"minPartitions": min_partitions, "maxRecordsPerPartition": max_records}
        calculator = self._kafka.KafkaOffsetRangeCalculator.apply(
            self._options({name: str(number) for name, number in options.items() if number is not None})
        )
        given = self._jvm.java.util.ArrayList()
        for (topic, partition), start, end in ranges:
            topic_partition = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
            none = self._jvm.scala.Option.empty()
            given.add(self._kafka.KafkaOffsetRange(topic_partition, start, end, none))
        seq = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq
        made = calculator.getRanges(seq(given), seq(self._jvm.java.util.ArrayList())).mkString("\n")
        # Each is written as KafkaOffsetRange(topic-3,0,5,None).
        rows = [line.removeprefix("KafkaOffsetRange(").split(",") for line in made.splitlines()]
        return [
            OffsetRange(TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])), int(start), int(end))
            for name, start, end, _ in rows
        ]

    def micro_batch_stream(self) -> Any:
        """A stream without a cluster, with a clock that only tests move."""
        options = self._options({"_mockSystemTime": "", "minOffsetsPerTrigger": "1"})
        return self._kafka.KafkaMicroBatchStream(None, self._jvm.java.util.HashMap(), options, "", None, True)

    def set_clock(self, now_ms: int) -> None:
        """The time of every stream made by `micro_batch_stream`."""
        clock = self._kafka.MockedSystemClock
        clock.reset()
        clock.advanceCurrentSystemTime(now_ms)

    def call_private(self, target: Any, name: str, arguments: Sequence[Any]) -> Any:
        """Calls the one method of `target` that has this name."""
        methods = [method for method in target.getClass().getDeclaredMethods() if method.getName() == name]
        (method,) = methods
        method.setAccessible(True)
        array = self._gateway.new_array(self._jvm.java.lang.Object, len(arguments))
        for index, argument in enumerate(arguments):
            array[index] = argument
        return method.invoke(target, array)

    def long(self, number: int) -> Any:
        """A boxed long; a small number would go over as an Integer."""
        return self._jvm.scala.runtime.BoxesRunTime.boxToLong(number)

    def time_ms(self, text: str) -> Any:
        """Spark's reading of a time, or `None` if it refuses that."""
        return self._attempt(self._jvm.org.apache.spark.network.util.JavaUtils.timeStringAsMs, text)

    def size_bytes(self, text: str) -> Any:
        """Likewise of a size."""
        return self._attempt(self._jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes, text)

    def topics_of_pattern(self, pattern: str, bootstrap: str) -> set[str]:
        """The topics that its `subscribePattern` subscribes to."""
        strategy = self._kafka.SubscribePatternStrategy(pattern)
        settings = self._jvm.java.util.HashMap()
        settings.put("bootstrap.servers", bootstrap)
        admin = strategy.createAdmin(settings)
        try:
            partitions = strategy.assignedTopicPartitions(admin).mkString("\n")
        finally:
            admin.close()
        return {name.rpartition("-")[0] for name in partitions.splitlines()}

    def matches(self, pattern: str, names: Sequence[str]) -> tuple[set[str], set[str]] | None:
        """Which of `names` Java matches whole, and in which it finds a match; `None` if it cannot read `pattern`."""
        compiled = self._attempt(self._jvm.java.util.regex.Pattern.compile, pattern)
        if compiled is None:
            return None
        given = self._jvm.java.util.ArrayList()
        for name in names:
            given.add(name)
        joining = self._jvm.java.util.stream.Collectors.joining
        whole = given.stream().filter(compiled.asMatchPredicate()).collect(joining("\n"))
        found = given.stream().filter(compiled.asPredicate()).collect(joining("\n"))
        return set(whole.splitlines()), set(found.splitlines())

    def _options(self, options: dict[str, str]) -> Any:
        values = self._jvm.java.util.HashMap()
        for name, value in options.items():
            values.put(name, value)
        return self._jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(values)

    @staticmethod
    def _attempt(call: Any, text: str) -> Any:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            return call(text)
        except (Py4JJavaError, PySparkException):
            return None
