"""Kafka as a source and a sink of Spark: `format("monedula")`, to read and to write, in batches and in streams.

With `pip install "monedula[spark]"` the format is known to every Spark session by itself; `register` is for those that
do not look for data sources, such as a Spark Connect server with an isolated environment. Options, schema and semantics
are those of Spark's own, format `kafka`; `help(pyspark_monedula.DefaultSource)` names the options, and
`docs/spark.md` is the guide. `LagListener` tells how far queries are behind.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

    from monedula.spark.listener import LagListener

__all__ = ["LagListener", "register"]


def __getattr__(name: str) -> object:
    # Importing this must not import pyspark: workers and tests of the pure parts do without.
    if name == "LagListener":
        _default_source()
        from monedula.spark.listener import LagListener

        return LagListener
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: "SparkSession") -> None:
    """Make `format("monedula")` known to this session.

    Args:
        spark: a classic or a Spark Connect session, Spark 4.0 or newer. Spark Connect needs monedula here, and where
            the server and its executors run.

    Raises:
        ImportError: if PySpark is not installed, or older than 4.0.
    """
    source = _default_source()
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 refuses what it has found by itself.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _default_source() -> "type[DataSource]":
    # Its module says what to install where Spark is missing.
    from pyspark_monedula import DefaultSource

    return DefaultSource
