"""Kafka as a Spark source and sink: `format("monedula")`, for batch and streaming queries.

With `pip install "monedula[spark]"` every Spark session knows the format; `register` is for sessions that do not look
for data sources, such as a Spark Connect server with an isolated environment. Options, schema and semantics are those
of Spark's own format `kafka`; `help(pyspark_monedula.DefaultSource)` lists the options, and `docs/spark.md` is the
guide. `LagListener` reports the lag of streaming queries.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

    from monedula.spark.listener import LagListener

__all__ = ["LagListener", "register"]


def __getattr__(name: str) -> object:
    # Imported on first use: workers, and tests of the modules that do not need Spark, must not import pyspark.
    if name == "LagListener":
        _registered_source()
        from monedula.spark.listener import LagListener

        return LagListener
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: "SparkSession") -> None:
    """Make `format("monedula")` known to this session.

    Spark then runs it with the Python of other Python code: `PYSPARK_PYTHON`, or `spark.pyspark.python`. A format that
    it found by itself runs with `PYSPARK_DRIVER_PYTHON`, on executors too.

    Args:
        spark: a classic or a Spark Connect session, Spark 4.0 or newer. With Spark Connect, monedula must be installed
            on the client, the server and its executors.

    Raises:
        ImportError: if PySpark is not installed, or older than 4.0.
    """
    source = _registered_source()
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 refuses to register a data source that it has found by itself.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _registered_source() -> "type[DataSource]":
    # If Spark is missing, the import raises an ImportError that says what to install.
    from pyspark_monedula import RegisteredSource

    return RegisteredSource
