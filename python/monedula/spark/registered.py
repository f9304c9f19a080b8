"""`RegisteredSource`: the format as `monedula.spark.register` makes it known."""

from pyspark_monedula import DefaultSource


class RegisteredSource(DefaultSource):
    """Spark runs a registered source with the Python of other Python code, and one that it found with the driver's."""

    is_registered = True
