"""The options of the Spark sink, with the names and rules of Spark's JVM sink for Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from monedula.spark import options as source
from monedula.spark.names import check_names
from monedula.spark.producer_settings import producer_settings
from monedula.spark.values import boolean

OPTIONS = ("topic", "includeHeaders")
"""Every option there is, besides those that begin with `kafka.`."""

# Unknown here, and yet no mistake: Spark adds `path` and `checkpointLocation`, and a source takes the others from the
# same dict.
_PASSED_ALONG = {"path", "checkpointlocation", *(name.lower() for name in source.OPTIONS)}


@dataclass(frozen=True)
class SinkOptions:
    """The options, read and checked."""

    kafka: dict[str, str] = field(repr=False)
    """Settings for our producer, by dotted name and without `kafka.`; passwords may be among them."""
    topic: str | None = None
    """Where every row goes, whatever the column `topic` says."""

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> "SinkOptions":
        """Reads the options; warns of those that have no effect.

        Args:
            raw: options as Spark passes them, in any case.

        Raises:
            ConfigError: if one is missing, cannot be read, contradicts another, or looks like a misspelling.
        """
        options = {name.lower(): str(value) for name, value in raw.items()}
        check_names(options, OPTIONS, _PASSED_ALONG)
        # Of no effect in Spark's own sink either: a column of headers is written if there is one.
        boolean("includeHeaders", options.get("includeheaders", "false"))
        return cls(kafka=producer_settings(options), topic=options.get("topic"))
