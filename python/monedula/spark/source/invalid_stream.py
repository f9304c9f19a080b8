"""`InvalidStreamReader`: the reader of a stream with invalid options, which raises the error where it is shown."""

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from monedula.errors import KafkaError
from monedula.spark.errors_first import errors_first

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark 4.0 and 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Replaces the class that this version of Spark lacks."""


@errors_first
class InvalidStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises its error in every method: raised in the constructor, it would become an UnboundLocalError in PySpark."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (these names are Spark's)
        """Raise the error, for a new query."""
        self._refuse()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Raise the error, for a restarted query."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Raise the error."""
        self._refuse()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: ARG002, N802
        """Raise the error."""
        self._refuse()

    def partitions(self, start: Any, end: Any) -> Any:  # noqa: ARG002
        """Raise the error."""
        self._refuse()

    def read(self, partition: Any) -> Any:  # noqa: ARG002
        """Never called: there are no partitions."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise self._error
