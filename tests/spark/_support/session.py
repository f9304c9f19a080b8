"""A Spark session for tests and benches: quiet, on loopback, with Spark's own Kafka connector beside our source."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kafka import jars, prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[3]
LOG_NAME = "stderr.log"
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# To standard error, where Python workers write too, so that there is one log.
LOG4J = """
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
# Without these, each session warns of the host's name and of the missing native Hadoop library.
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
logger.hadoop.name = org.apache.hadoop.util.NativeCodeLoader
logger.hadoop.level = error
"""


@contextmanager
def running(
    directory: Path,
    *,
    master: str = "local[2]",
    conf: Mapping[str, object] | None = None,
    fast_start: bool = True,
    java_options: Sequence[str] | None = None,
    driver_python: str = sys.executable,
) -> "Iterator[SparkSession]":
    """A session in this process, and the JVM under it, until the block ends. One at a time.

    The JVM ends with this process, however that ends: it waits on a pipe from it.

    Args:
        directory: for everything that Spark writes; `stderr.log` in it has what the JVM and the Python workers say.
        master: where tasks run.
        conf: Spark's settings on top of our own.
        fast_start: start quicker and smaller, at the cost of peak speed. Benches turn it off.
        java_options: in place of those with which its JVM starts faster.
        driver_python: what `PYSPARK_DRIVER_PYTHON` names.

    Raises:
        KafkaUnavailable: no JDK, or the connector's jars cannot be had.
    """
    jars.java()
    if java_options is None:
        java_options = loaded_before() if fast_start else []
    settings = {"spark.master": master, **_settings(directory, fast_start, java_options), **(conf or {})}
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # The workers run the same Python as this process, with the same module path.
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable, driver_python
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    spark_conf = SparkConf().setAll([(key, str(value)) for key, value in settings.items()])
    with (directory / LOG_NAME).open("ab") as log, _ahead_of_others() if fast_start else nullcontext():
        gateway = launch_gateway(spark_conf, {"stdout": log, "stderr": log})
    try:
        spark = SparkSession(SparkContext(conf=spark_conf, gateway=gateway))
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=120)  # one that writes an archive of its classes takes its time
        SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _ahead_of_others() -> Iterator[None]:
    """Start processes with a higher priority, where that is allowed.

    Spark gives the Python process of a stream ten seconds to connect, which no setting changes (`PythonWorkerFactory`).
    Beside a load of eight, 45 tests of streams failed by that.
    """
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, usual - 10)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, usual)


def jvm_pid(spark: "SparkSession") -> int:
    """Of the driver's JVM, which in `local[n]` runs the tasks too."""
    return int(spark.sparkContext._gateway.proc.pid)


@cache
def loaded_before() -> list[str]:
    """Options of a JVM of a session, with which it starts faster."""
    from pyspark.find_spark_home import _find_spark_home

    jars.spark_connector()  # before the lock that `kept` holds
    return prepared.loaded_before("spark", f"{_find_spark_home()}/jars/*", _run_once)


def _run_once(java_options: list[str]) -> None:
    """What most tests do, so that the classes of it are known."""
    directory = Path(tempfile.mkdtemp(prefix="monedula-spark-"))
    try:
        with running(directory, java_options=java_options) as spark:
            rows = spark.createDataFrame([(1, "a")], "id long, name string").groupBy("name").sum("id").collect()
            assert [tuple(row) for row in rows] == [("a", 1)]
            if find_spec("pandas") is not None:  # which mapInArrow asks for
                spark.range(1).mapInArrow(lambda batches: batches, "id long").write.format("noop").mode("append").save()
            query = spark.readStream.format("rate").load().writeStream.format("noop").trigger(availableNow=True).start()
            query.awaitTermination(30)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _settings(directory: Path, fast_start: bool, java_options: Sequence[str]) -> dict[str, object]:
    directory.mkdir(parents=True, exist_ok=True)
    log4j = directory / "log4j2.properties"
    log4j.write_text(LOG4J)
    options = f"-Dlog4j2.configurationFile={log4j.as_uri()} -Dderby.system.home={directory} -XX:-UsePerfData"
    if fast_start:
        options += f" {FAST_START}"
    return {
        "spark.app.name": "monedula",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join([options, *java_options]),
        "spark.executor.extraJavaOptions": options,
        **_connector(),
        "spark.local.dir": directory / "local",
        "spark.sql.warehouse.dir": directory / "warehouse",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stopTimeout": "30s",  # a query that hangs fails its test in place of hanging it
    }


def _connector() -> dict[str, object]:
    """Spark's own Kafka source, if it is of this very Spark: others cannot load it."""
    import pyspark

    connector = jars.spark_connector()
    if not any(path.stem.endswith(f"-{pyspark.__version__}") for path in connector if "sql-kafka" in path.stem):
        return {}
    return {"spark.jars": ",".join(map(str, connector))}
