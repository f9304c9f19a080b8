"""The options of the Spark sink, with the names and rules of Spark's JVM sink for Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from monedula.config import HiddenValues
from monedula.spark.options.kafka_settings import producer_settings
from monedula.spark.options.names import check_names
from monedula.spark.options.values import boolean
from monedula.spark.sink.encoded_columns import OPTIONS as WRITTEN_OPTIONS
from monedula.spark.sink.encoded_columns import TO_OPTIONS, EncodedColumn, encoded_columns
from monedula.spark.source import options as source
from monedula.spark.source.typed import FROM_OPTIONS

OPTIONS = ("topic", "includeHeaders", *WRITTEN_OPTIONS)
"""All options of the sink, except those that begin with `kafka.`."""

# Ignored without a warning: Spark adds `path` and `checkpointLocation`, and the others are the source's, often in the
# same dict.
_PASSED_ALONG = {
    "path",
    "checkpointlocation",
    *(name.lower() for name in (*source.OPTIONS, *FROM_OPTIONS, *TO_OPTIONS)),
}


@dataclass(frozen=True)
class SinkOptions:
    """The parsed and checked options."""

    kafka: dict[str, str] = field(repr=False)
    """The settings of our producer, by dotted name and without `kafka.`; they may contain passwords."""
    topic: str | None = None
    written: tuple[EncodedColumn, ...] = ()

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> "SinkOptions":
        """Parse the options; warns of options that have no effect."""
        options = HiddenValues((name.lower(), str(value)) for name, value in raw.items())
        check_names(options, OPTIONS, _PASSED_ALONG)
        # Only checked: as in Spark's own sink it has no effect, a column of headers is always written.
        boolean("includeHeaders", options.get("includeheaders", "false"))
        return cls(kafka=producer_settings(options), topic=options.get("topic"), written=encoded_columns(options))
