"""A streaming query whose options are wrong: it says so where the user sees it."""

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from monedula.errors import ConfigError

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark 4.0 and 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in where Spark has no such thing."""


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises at the first question. What is raised while a reader is made ends as an UnboundLocalError of PySpark's."""

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (these names are Spark's)
        """Says what is wrong, to a new query."""
        self._refuse()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Says what is wrong, to a restarted query."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Says what is wrong."""
        self._refuse()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: ARG002, N802
        """Says what is wrong."""
        self._refuse()

    def partitions(self, start: Any, end: Any) -> Any:  # noqa: ARG002
        """Says what is wrong."""
        self._refuse()

    def read(self, partition: Any) -> Any:  # noqa: ARG002
        """Never called: there are no partitions."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise self._error
