"""Kafka as a source of Spark: `spark.read.format("monedula")` and `spark.readStream.format("monedula")`.

With `pip install monedula pyspark` the format is known to every Spark session by itself; `register` is for those that
do not look for data sources, such as a Spark Connect server with an isolated environment. Options, schema and semantics
are those of Spark's own Kafka source, format `kafka`; `DESIGN.md` lists where they differ.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from monedula.spark.listener import LagListener

__all__ = ["LagListener", "register"]


def __getattr__(name: str) -> object:
    # Importing this must not import pyspark: workers and tests of the pure parts do without.
    if name == "LagListener":
        from monedula.spark.listener import LagListener

        return LagListener
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: "SparkSession") -> None:
    """Make `format("monedula")` known to this session.

    Args:
        spark: a classic or a Spark Connect session, Spark 4.0 or newer.
    """
    from pyspark_monedula import DefaultSource

    spark.dataSource.register(DefaultSource)
