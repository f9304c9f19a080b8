"""The options of the Spark source, with the names, defaults and rules of Spark's JVM source for Kafka.

Parsing them sends no requests: what depends on the cluster is checked when the query is planned.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from monedula._arguments import is_name
from monedula.config import HiddenValues
from monedula.errors import ConfigError
from monedula.formats._typed import KAFKA_COLUMNS
from monedula.spark.offsets import parse_assign
from monedula.spark.options.kafka_settings import kafka_settings
from monedula.spark.options.names import check_names
from monedula.spark.options.values import (
    INT_MAX,
    LONG_MAX,
    bad_value,
    boolean,
    refused,
    size_bytes,
    time_ms,
    whole_number,
)
from monedula.spark.source import bounds
from monedula.spark.source.bounds import Bound, Latest
from monedula.spark.source.pattern import topic_pattern
from monedula.spark.source.typed import FROM_OPTIONS, TypedColumn, typed_columns
from monedula.spark.source.typed import OPTIONS as TYPED_OPTIONS
from monedula.types.partitions import TopicPartition

_LOGGER = logging.getLogger("monedula.spark")

COLUMNS = KAFKA_COLUMNS
"""All columns of the source, in the schema's order."""


@dataclass(frozen=True)
class Subscribe:
    """All partitions of these topics, including those that are added later."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class SubscribePattern:
    """All partitions of the topics that match a Java regular expression, including topics that are created later."""

    pattern: str


@dataclass(frozen=True)
class Assign:
    """Only these partitions."""

    partitions: tuple[TopicPartition, ...]


Selection = Subscribe | SubscribePattern | Assign

_STRATEGIES = ("subscribe", "subscribepattern", "assign")
_BATCH_IGNORES = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
_STREAM_REFUSES = {
    "endingOffsets": "ending offset not valid in streaming queries",
    "endingOffsetsByTimestamp": "ending timestamp not valid in streaming queries",
    "endingTimestamp": "ending timestamp not valid in streaming queries",
    "maxLateness": "Spark passes filters of batch queries on to the source, not those of streaming queries",
}
OPTIONS = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "columns",
    "maxLateness",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix",
    *TYPED_OPTIONS,
)
"""All options of the source, except those that begin with `kafka.`."""

# Ignored without a warning: Spark adds `path` for load("..."), and `topic` is the sink's, often in the same dict.
_PASSED_ALONG = ("path", "topic")


@dataclass(frozen=True)
class SourceOptions:
    """The parsed and checked options."""

    kafka: dict[str, str] = field(repr=False)
    """The settings of our client, by dotted name and without `kafka.`; they may contain passwords."""
    selection: Selection
    no_match: Literal["error", "latest"] = "error"
    """Start in a partition without a record at or after the time (startingOffsetsByTimestampStrategy)."""
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60 * 1000
    """Longest delay of a micro-batch by `min_offsets_per_trigger`."""
    max_bytes_per_trigger: int | None = None
    """The most bytes of a micro-batch, estimated (decoded key, value and headers); `None` for no limit."""
    min_partitions: int | None = None
    max_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    columns: tuple[str, ...] | None = None
    max_lateness_ms: int | None = None
    """By how much a record may be older than one before it: then a filter `timestamp < ...` ends the read early."""
    fetch_offset_num_retries: int = 3
    fetch_offset_retry_interval_ms: int = 1000
    poll_timeout_ms: int = 120_000
    group_id_prefix: str = "spark-kafka-source"
    """The `client.id` of this source, unless `kafka.client.id` is given."""
    typed: tuple[TypedColumn, ...] = ()
    raw: dict[str, str] = field(default_factory=dict, repr=False)
    """The given options, names in lower case."""

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> "SourceOptions":
        """Parse the options that batch and streaming queries share; warns of options that have no effect."""
        options = HiddenValues((name.lower(), str(value)) for name, value in raw.items())
        check_names(options, (*OPTIONS, *FROM_OPTIONS), _PASSED_ALONG)
        selection = _selection(options)
        numbers = _Numbers(options)
        group_id_prefix = options.get("groupidprefix", "spark-kafka-source")
        parsed = cls(
            selection=selection,
            min_partitions=numbers.positive("minPartitions", INT_MAX),
            max_records_per_partition=numbers.positive("maxRecordsPerPartition"),
            kafka=kafka_settings(options, group_id_prefix),
            no_match=_no_match(options),
            fail_on_data_loss=numbers.boolean("failOnDataLoss", True),
            max_offsets_per_trigger=numbers.positive("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=numbers.optional("minOffsetsPerTrigger", 0),
            max_trigger_delay_ms=time_ms("maxTriggerDelay", options.get("maxtriggerdelay", "15m")),
            max_bytes_per_trigger=numbers.size("maxBytesPerTrigger"),
            max_partitions=numbers.positive("maxPartitions", INT_MAX),
            include_headers=numbers.boolean("includeHeaders", False),
            columns=_columns(options),
            max_lateness_ms=time_ms("maxLateness", options["maxlateness"]) if "maxlateness" in options else None,
            fetch_offset_num_retries=numbers.optional("fetchOffset.numRetries", 1, INT_MAX) or 3,
            fetch_offset_retry_interval_ms=numbers.whole("fetchOffset.retryIntervalMs", 0, 1000),
            poll_timeout_ms=numbers.whole("kafkaConsumer.pollTimeoutMs", 1, 120_000),
            group_id_prefix=group_id_prefix,
            typed=typed_columns(options),
            raw=options,
        )
        parsed._check_contradictions()
        parsed._warn_of_registry()
        return parsed

    def batch_bounds(self) -> tuple[Bound, Bound]:
        """The start and end of a batch query; earliest and latest if not given."""
        start, end = bounds.batch_bounds(self.raw)
        for name in _BATCH_IGNORES:
            if name.lower() in self.raw:
                _LOGGER.warning("%s option ignored in batch queries", name)
        return start, end

    def stream_start(self) -> Bound:
        """The start of a new streaming query; latest if not given."""
        for name, message in _STREAM_REFUSES.items():
            if name.lower() in self.raw:
                raise ConfigError(f"{name}: {message}", key=name)
        return bounds.start_bound(self.raw, Latest())

    def column_names(self) -> tuple[str, ...]:
        """The columns of the rows, in the schema's order: those of `columns`, and headers with `includeHeaders`."""
        wanted = self.columns if self.columns is not None else COLUMNS[:-1]
        return tuple(name for name in COLUMNS if name in wanted or (name == "headers" and self.include_headers))

    def _warn_of_registry(self) -> None:
        """A registry is asked for Avro and Protobuf alone: a job that names one may have forgotten the format."""
        names = [f"kafka.{name}" for name in self.kafka if name.startswith("schema.registry.")]
        if names and not any(each.reader for each in self.typed):
            _LOGGER.warning(
                "no column is decoded from Avro or Protobuf, so these settings are not used: %s; the option "
                "value.format=avro or protobuf decodes values",
                ", ".join(sorted(names)),
            )

    def _check_contradictions(self) -> None:
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            message = f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."
            raise ConfigError(message, key="minOffsetsPerTrigger")
        least, most = self.min_partitions, self.max_partitions
        if least is not None and most is not None and least > most:
            raise ConfigError(f"minPartitions({least}) is higher than maxPartitions({most})", key="minPartitions")


class _Numbers:
    """Parses options with numbers, sizes and booleans; takes names as users write them, for the error messages."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def optional(self, name: str, minimum: int, maximum: int = LONG_MAX) -> int | None:
        text = self._options.get(name.lower())
        return None if text is None else whole_number(name, text, minimum, maximum)

    def whole(self, name: str, minimum: int, default: int) -> int:
        number = self.optional(name, minimum)
        return default if number is None else number

    def positive(self, name: str, maximum: int = LONG_MAX) -> int | None:
        number = self.optional(name, -maximum, maximum)
        if number is not None and number <= 0:
            raise ConfigError(f"{name} must be positive", key=name)
        return number

    def size(self, name: str) -> int | None:
        text = self._options.get(name.lower())
        return None if text is None else size_bytes(name, text)

    def boolean(self, name: str, default: bool) -> bool:
        text = self._options.get(name.lower())
        return default if text is None else boolean(name, text)


_TABLE = (
    "there are no options: Spark passes those of a table, CREATE TABLE ... OPTIONS (...), to no source in Python. Make "
    "a view, CREATE TEMPORARY VIEW name USING monedula OPTIONS (...), or give them where the table is read: "
    "SELECT ... FROM name WITH (...)"
)


def _selection(options: Mapping[str, str]) -> Selection:
    given = [name for name in _STRATEGIES if name in options]
    if len(given) != 1:
        rule = "Only one of the following options can be" if given else "One of the following options must be"
        message = f"{rule} specified for Kafka source: {', '.join(_STRATEGIES)}. See the docs for more details."
        if not options:
            message = _TABLE
        elif not given and "topic" in options:
            message += f" topic is an option of the sink: to read it, use option('subscribe', {options['topic']!r})."
        elif "path" in options:
            message += " load() has no use for a path: name topics by the option subscribe."
        raise ConfigError(message, key="subscribe")
    name, text = given[0], options[given[0]]
    if name == "subscribe":
        topics = dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip())
        if not topics:
            message = f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'"
            raise ConfigError(message, key="subscribe")
        for topic in topics:
            if not is_name(topic):
                raise refused(
                    "subscribe",
                    f"is '{text}': '{topic}' is no topic's name; names are separated by commas, as in "
                    "option('subscribe', 'orders,returns'), and a pattern is given as the option subscribePattern",
                )
        return Subscribe(tuple(topics))
    if name == "assign":
        partitions = parse_assign(text) if text.strip().startswith("{") else ()
        if not partitions:
            message = f"No topicpartitions to assign as specified value for option 'assign' is '{text}'"
            raise ConfigError(message, key="assign")
        return Assign(partitions)
    if not text.strip():
        message = f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'"
        raise ConfigError(message, key="subscribePattern")
    topic_pattern(text.strip())
    return SubscribePattern(text.strip())


def _no_match(options: Mapping[str, str]) -> Literal["error", "latest"]:
    name = "startingOffsetsByTimestampStrategy"
    match options.get(name.lower(), "error").strip().lower():
        case "error":
            return "error"
        case "latest":
            return "latest"
        case text:
            raise bad_value(name, text, "error or latest")


def _columns(options: Mapping[str, str]) -> tuple[str, ...] | None:
    text = options.get("columns")
    if text is None:
        return None
    canonical = {column.lower(): column for column in COLUMNS}
    wanted = set()
    for name in (part.strip() for part in text.split(",")):
        if name.lower() not in canonical:
            raise refused("columns", f"is '{text}': there is no column '{name}'; expected some of {', '.join(COLUMNS)}")
        wanted.add(canonical[name.lower()])
    return tuple(column for column in COLUMNS if column in wanted)
