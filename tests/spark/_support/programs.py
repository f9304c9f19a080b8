"""What runs in a driver of its own; see `driver`. Each is told what to do and tells what happened."""

import contextlib
import io
import json
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from monedula.spark import register
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark._support.paced import paced_numbers
from tests.spark._support.sink import Sink
from tests.spark._support.sinks import write


class Tell(Protocol):
    """Sends an event to the test."""

    def __call__(self, event: str, **fields: Any) -> None: ...


def read_batch(spark: SparkSession, tell: Tell, source: str, options: Mapping[str, str]) -> dict[str, int]:
    """Count a topic's records, and sum their offsets and the lengths of their values."""
    tell("started")
    frame = spark.read.format(source).options(**options).load()
    count, total, length = frame.selectExpr("count(*)", "sum(offset)", "sum(length(value))").collect()[0]
    return {"count": count, "sum": total, "length": length}


def read_and_write(
    spark: SparkSession, tell: Tell, reading: Mapping[str, str], writing: Mapping[str, str], registers: bool
) -> dict[str, Any]:
    """Copy a topic, as a batch and as a stream, with the format registered or not; returns what fails, by kind."""
    tell("started")
    if registers:
        register(spark)
    failed = {}
    with tempfile.TemporaryDirectory() as checkpoint:

        def stream() -> None:
            frame = spark.readStream.format("monedula").options(**reading).load().select("value")
            writer = frame.writeStream.format("monedula").options(**writing).option("checkpointLocation", checkpoint)
            writer.trigger(availableNow=True).start().awaitTermination()

        def batch() -> None:
            frame = spark.read.format("monedula").options(**reading).load().select("value")
            write(frame, "monedula", writing)

        for kind, run in (("batch", batch), ("stream", stream)):
            try:
                run()
            except Exception as error:
                failed[kind] = str(error)
    return {"failed": failed, "executors": _executors(spark)}


def read_typed(
    spark: SparkSession, tell: Tell, source: str, options: Mapping[str, str], schema: str, sums: list[str]
) -> dict[str, Any]:
    """Sum expressions over typed columns; returns them, and how many executors there were."""
    tell("started")
    frame = spark.read.format(source).options(**options).schema(schema).load()
    row = frame.selectExpr(*sums).collect()[0]
    return {"sums": [None if value is None else str(value) for value in row], "executors": _executors(spark)}


def stream(
    spark: SparkSession,
    tell: Tell,
    source: str,
    options: Mapping[str, str],
    checkpoint: str,
    sink: str,
    hold_at: int | None = None,
    wait_at: int | None = None,
) -> dict[str, Any]:
    """Stream a topic into a `Sink` with AvailableNow; returns how many executors there were.

    Batch `hold_at` is written and never finished: `holding`. Batch `wait_at` is planned, and read when there is a file
    `go` in the sink's directory: `waiting`, and then `reading` when its tasks are under way.
    """
    into = Sink(Path(sink))

    def write(batch: DataFrame, batch_id: int) -> None:
        if batch_id == wait_at:
            tell("waiting")
            _until((Path(sink) / "go").exists)
            threading.Thread(target=_tell_active, args=(spark, tell, "reading"), daemon=True).start()
        into.write(batch, batch_id)
        if batch_id == hold_at:
            tell("holding")
            threading.Event().wait()

    frame = spark.readStream.format(source).options(**options).load()
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    return {"executors": _executors(spark)}


def batch_and_stream(
    spark: SparkSession, tell: Tell, batch: Mapping[str, Any], streamed: Mapping[str, Any]
) -> dict[str, Any]:
    """`read_batch`, and then `stream`: a session is slow to start."""
    return {**read_batch(spark, tell, **batch), **stream(spark, tell, **streamed)}


def stream_numbers(
    spark: SparkSession, tell: Tell, sink: str, options: Mapping[str, str], checkpoint: str, rows_per_batch: int
) -> None:
    """Stream numbers from 0 on into a sink, until killed."""
    tell("started")
    stream_of_numbers(spark, rows_per_batch, sink, options, checkpoint).awaitTermination()


def stream_of_numbers(
    spark: SparkSession, rows_per_batch: int, sink: str, options: Mapping[str, str], checkpoint: str
) -> StreamingQuery:
    """A query that writes numbers from 0 on; restarted, it goes on from its checkpoint."""
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_per_batch).load()
    writer = numbers.selectExpr("CAST(value AS STRING) AS value").writeStream.format(sink).options(**options)
    return writer.option("checkpointLocation", checkpoint).start()


def write_numbers(
    spark: SparkSession, tell: Tell, sink: str, options: Mapping[str, str], go: str, tasks: int, rows_per_task: int
) -> dict[str, int]:
    """Write `paced_numbers`; returns how many executors there were."""
    tell("started")
    write(paced_numbers(spark, Path(go), tasks, rows_per_task), sink, options)
    return {"executors": _executors(spark)}


def write_large(
    spark: SparkSession, tell: Tell, sink: str, options: Mapping[str, str], tasks: int, rows: int, value_bytes: int
) -> dict[str, int]:
    """Write numbers from 0 on, padded with dots; returns how many executors there were."""
    tell("started")
    # Not rpad, which pads byte by byte: the task would wait for its rows.
    padded = f"concat(id, repeat('.', {value_bytes})) AS value"
    write(spark.range(0, rows, numPartitions=tasks).selectExpr(padded), sink, options)
    return {"executors": _executors(spark)}


def secured(spark: SparkSession, tell: Tell, job: str) -> dict[str, Any]:
    """Read, write and stream with the options that stand in a file, and show what Spark tells of the queries.

    The file has `options`, `source` and `target` (topics), `directory`, and `wrong`: options with which a query fails.
    """
    told = json.loads(Path(job).read_text())
    reading = {**told["options"], "subscribe": told["source"], "startingOffsets": "earliest"}
    writing = {**told["options"], "topic": told["target"]}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        frame = spark.read.format("monedula").options(**reading).load()
        for mode in ("extended", "formatted", "cost", "codegen"):
            frame.explain(mode=mode)
        count = frame.count()
        write(frame.select("key", "value"), "monedula", writing)
        streamed = spark.readStream.format("monedula").options(**reading).load().select("key", "value")
        writer = streamed.writeStream.format("monedula").options(**writing)
        checkpoint = str(Path(told["directory"]) / "checkpoint")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        query.explain(True)
        print(*(progress.json for progress in query.recentProgress))
        errors = [_error_of(spark, {**reading, **wrong}) for wrong in told["wrong"]]
        errors += [_error_of_sink(spark, {**writing, **wrong}) for wrong in told["wrong"]]
        print(*_pages_of_ui(spark))
    tell("streamed")
    return {"read": count, "executors": _executors(spark), "shown": shown.getvalue(), "errors": errors}


def _error_of(spark: SparkSession, options: Mapping[str, str]) -> str:
    try:
        spark.read.format("monedula").options(**options).load().count()
    except Exception as error:
        return str(error)
    return "none"


def _error_of_sink(spark: SparkSession, options: Mapping[str, str]) -> str:
    try:
        write(spark.range(1).selectExpr("CAST(id AS STRING) AS value"), "monedula", options)
    except Exception as error:
        return str(error)
    return "none"


def _pages_of_ui(spark: SparkSession) -> Iterator[str]:
    address, application = spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId
    of_api = f"/api/v1/applications/{application}"
    pages = ["/jobs/", "/stages/", "/environment/", "/SQL/", "/StreamingQuery/", f"{of_api}/environment"]
    for page in [*pages, f"{of_api}/sql?details=true&planDescription=true", f"{of_api}/jobs", f"{of_api}/stages"]:
        with urllib.request.urlopen(f"{address}{page}", timeout=30) as answer:
            yield answer.read().decode()


def serve_connect(spark: SparkSession, tell: Tell) -> None:
    """Serve Spark Connect where the session was told to, until killed."""
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    tell("serving", port=getattr(service, "MODULE$").localPort())
    threading.Event().wait()


def _executors(spark: SparkSession) -> int:
    # The list has the driver too.
    return len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1


def _tell_active(spark: SparkSession, tell: Tell, event: str) -> None:
    tracker = spark.sparkContext.statusTracker()

    def is_active() -> bool:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)

    _until(is_active)
    tell(event)


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)


def example(spark: SparkSession, tell: Tell, source: str) -> None:  # noqa: ARG001 - the program gets it by itself
    """A program of a page. In it `held(function)` is the function of micro-batches that never returns."""

    def held(function: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        def hold(batch: DataFrame, batch_id: int) -> None:
            function(batch, batch_id)
            tell("held", batch_id=batch_id)
            threading.Event().wait()

        return hold

    exec(compile(source, "the page", "exec"), {"held": held, "__name__": "__main__"})
