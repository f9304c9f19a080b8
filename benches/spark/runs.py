"""Running the arms: batch queries and micro-batches, with wall time and CPU of each."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from benches.spark import arms, cpu, memory, typed
from benches.spark.arms import Place

QUERIES: dict[str, Callable[[DataFrame], Any]] = {
    "noop": lambda frame: frame.write.format("noop").mode("overwrite").save(),
    "sum": lambda frame: frame.selectExpr("sum(length(value))").collect(),
}
CHECKS = ("count(*)", "sum(length(value))", "sum(crc32(value))")
STREAM_TIMEOUT_SECONDS = 600
_Name = TypeVar("_Name")


@dataclass
class Run:
    """One measured run of one arm.

    Attributes:
        query: `noop`, `sum`, `typed`, `typed_avro`, `write` and a codec, `stream` or `small` (micro-batches of few
            records).
        round: from 1.
        jvm_peak_bytes: the most that Spark's JVM had in memory.
        python_peak_bytes: the same of the largest Python process.
        durations_ms: for streams, of each micro-batch with data, as Spark's progress tells them.
    """

    query: str
    arm: str
    round: int
    records: int
    seconds: float
    jvm_cpu_seconds: float
    python_cpu_seconds: float
    broker_cpu_seconds: float
    jvm_peak_bytes: int
    python_peak_bytes: int
    durations_ms: list[dict[str, int]] = field(default_factory=list)


@dataclass
class Bench:
    """What runs need: a session, the processes to watch, and Spark's own list of V1 sources."""

    spark: SparkSession
    jvm_pid: int
    broker_pid: int
    v1_sources: str
    topic: Callable[[str, int], AbstractContextManager[None]]
    """Makes a topic with so many partitions, and deletes it when the block ends."""

    def check(self, place: Place, names: Sequence[str]) -> list[str]:
        """Whether every arm reads the same: the arms that do not, in words. Warms them as well."""
        return _differing(place, {name: self._frame(name, place).selectExpr(*CHECKS).first() for name in names})

    def typed_columns(self, query: str, place: Place, names: Sequence[str], rounds: int) -> Iterator[Run]:
        """Every arm's typed columns into a `noop` sink. `place` names the folder with the ready-made ones.

        Raises:
            RuntimeError: an arm has other columns than the first.
        """
        frames = {name: typed.frame(self.spark, query, name, place, self.v1_sources) for name in names}
        wrong = _differing(place, {name: frame.selectExpr(*typed.CHECKS).first() for name, frame in frames.items()})
        if wrong:
            raise RuntimeError("; ".join(wrong))
        for number in range(rounds + 1):
            for name in _abba(names, number):
                read = partial(QUERIES["noop"], typed.frame(self.spark, query, name, place, self.v1_sources))
                run = self._measured(query, name, number, place.dataset.records, read)
                if number > 0:
                    yield run

    def batches(self, place: Place, names: Sequence[str], queries: Sequence[str], rounds: int) -> Iterator[Run]:
        """Every arm with every query; one round before the first is not measured."""
        for number in range(rounds + 1):
            for query in queries:
                for name in _abba(names, number):
                    frame = self._frame(name, place)
                    read = partial(QUERIES[query], frame)
                    run = self._measured(query, name, number, place.dataset.records, read)
                    if number > 0:
                        yield run

    def streams(
        self, query: str, place: Place, names: Sequence[str], rounds: int, triggers: int, directory: Path
    ) -> Iterator[Run]:
        """Every arm once through the topic with AvailableNow, in `triggers` limited micro-batches."""
        limit = -(-place.dataset.records // triggers)
        for number in range(rounds + 1):
            for name in _abba(names, number):
                frame = arms.stream_frame(self.spark, arms.STREAM[name], place, limit)
                checkpoint = directory / f"{query}-{name}-{number}"
                progress: list[Any] = []

                def read(frame: DataFrame = frame, checkpoint: Path = checkpoint, into: list[Any] = progress) -> None:
                    into += _stream(frame, checkpoint)

                run = self._measured(query, name, number, place.dataset.records, read)
                read_records = sum(each["numInputRows"] for each in progress)
                if read_records != place.dataset.records:
                    raise RuntimeError(f"{name} streamed {read_records} of {place.dataset.records} records")
                run.durations_ms = [dict(each["durationMs"]) for each in progress if each["numInputRows"]]
                if number > 0:
                    yield run

    def writes(self, place: Place, names: Sequence[str], codecs: Sequence[str], rounds: int) -> Iterator[Run]:
        """Every arm writes the records of the topic, which are in Spark's memory by then, into a topic of its own.

        Raises:
            RuntimeError: an arm's topic holds something else than the records.
        """
        frame = self._frame("monedula_value", place).selectExpr("value").cache()
        expected = frame.selectExpr(*CHECKS).first()
        try:
            for number in range(rounds + 1):
                for codec in codecs:
                    for name in _abba(names, number):
                        into = f"write-{name}-{codec}-{number}"
                        with self.topic(into, place.dataset.partitions):
                            options = arms.into(arms.WRITE[name], place, into, codec)
                            writer = frame.write.format(arms.WRITE[name].source).options(**options).mode("append")
                            run = self._measured(f"write {codec}", name, number, place.dataset.records, writer.save)
                            written = arms.read_back(self.spark, place, into).selectExpr(*CHECKS).first()
                        if written != expected:
                            raise RuntimeError(f"{name} wrote {written}, not {expected}")
                        if number > 0:
                            yield run
        finally:
            frame.unpersist(blocking=True)

    def _frame(self, name: str, place: Place) -> DataFrame:
        return arms.batch_frame(self.spark, arms.BATCH[name], place, self.v1_sources)

    def _measured(self, query: str, name: str, number: int, records: int, read: Callable[[], Any]) -> Run:
        # What one arm leaves behind must not be collected in the time of the next.
        self.spark.sparkContext._jvm.System.gc()
        memory.forget_peaks(self.jvm_pid)
        cpu_before = cpu.used(self.jvm_pid, self.broker_pid)
        started = time.perf_counter()
        read()
        seconds = time.perf_counter() - started
        used = cpu.used(self.jvm_pid, self.broker_pid).since(cpu_before)
        peaks = memory.peaks(self.jvm_pid)
        run = Run(query, name, number, records, seconds, used.jvm, used.python, used.broker, *peaks)
        of = f"round {number}" if number else "warming"
        print(f"{of} {query:10} {name:15} {seconds:6.2f} s {records / seconds:12,.0f}/s", file=sys.stderr)
        return run


def _differing(place: Place, sums: Mapping[str, Any]) -> list[str]:
    expected = next(iter(sums.values()))
    if expected is None or expected[0] != place.dataset.records:
        return [f"{next(iter(sums))} read {expected} of {place.dataset.records} records"]
    return [f"{name} read {seen}, not {expected}" for name, seen in sums.items() if seen != expected]


def _abba(names: Sequence[_Name], number: int) -> Sequence[_Name]:
    """Forth in one round and back in the next: whatever drifts meets every arm alike."""
    return names if number % 2 else names[::-1]


def _stream(frame: DataFrame, checkpoint: Path) -> list[Any]:
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(STREAM_TIMEOUT_SECONDS):
            raise RuntimeError(f"the stream is not through after {STREAM_TIMEOUT_SECONDS} s")
        return list(query.recentProgress)
    finally:
        query.stop()
