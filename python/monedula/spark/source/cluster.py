"""The driver's requests to Kafka: the selected partitions, their leaders, and their offsets."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from monedula._monedula import ConsumerCore
from monedula._reprs import counted
from monedula.config import RawSettings, config_keys
from monedula.errors import AuthenticationError, AuthorizationError, ConfigError, KafkaError, UnknownTopicError
from monedula.spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, PartitionOffsets, partition_text, partitions_text
from monedula.spark.options.kafka_settings import ClientSettings
from monedula.spark.source.bounds import Bound, Earliest, Latest, Offsets, Timestamps
from monedula.spark.source.options import Assign, SourceOptions, Subscribe
from monedula.spark.source.pattern import topic_pattern
from monedula.types.partitions import TopicPartition

_log = logging.getLogger("monedula.spark")
_T = TypeVar("_T")

_LARGEST = -3
"""The value in place of a time in ListOffsets for the record with the largest timestamp (KIP-734)."""


class Leader(NamedTuple):
    """The leader of a partition."""

    topic_id: str
    node_id: int
    """The broker id of the leader; -1 while there is none."""
    epoch: int


@dataclass(frozen=True)
class Layout:
    """The partitions that a query reads, with their leaders, as of one Metadata request."""

    brokers: Mapping[int, tuple[str, int]]
    leaders: Mapping[TopicPartition, Leader]

    @property
    def topic_ids(self) -> dict[str, str]:
        """The topic id of each topic: if it changes, the topic was recreated."""
        return {partition.topic: leader.topic_id for partition, leader in self.leaders.items()}


class Cluster:
    """The driver's client. Connects at the first request; every request is tried `fetchOffset.numRetries` times.

    Only the first contact is not: it is tried for all of `bootstrap.timeout.ms` already, and its error names the
    addresses. Once brokers have answered, they may be away for a while.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._has_answered = False
        self._core: ConsumerCore | None = None
        self._gone: set[str] = set()

    def layout(self, read_before: Collection[str] = ()) -> Layout:
        """The partitions that the options select.

        Args:
            read_before: the topics that the query has read: these may be missing. If `failOnDataLoss` is false and
                this is not empty, all missing topics are left out; for a new query a missing topic is an error, for its
                name is probably wrong.
        """
        any_may_be_gone = bool(read_before) and not self._options.fail_on_data_loss

        def ask() -> Layout:
            layout, missing = self._describe()
            for topic, error in missing.items():
                if topic not in self._gone:
                    raise error
            self._gone &= set(missing)
            return layout

        def settle() -> Layout | None:
            # Called after all attempts found topics missing: they are missing indeed.
            layout, missing = self._describe()
            if not any_may_be_gone and not set(missing) <= set(read_before):
                return None
            for topic in set(missing) - self._gone:
                _log.warning("%s. The query goes on without it", missing[topic])
            self._gone = set(missing)
            return layout

        return self._retried(ask, settle)

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        """The log start offset of each partition."""
        return self._listed("beginning", partitions)

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] = {}
    ) -> PartitionOffsets:
        """The end of each log; under read_committed, its last stable offset.

        A broker that has just become the leader may return an end before the offsets that were read already (`known`).
        Then the request is repeated, up to `fetchOffset.numRetries` times; the last result counts.
        """
        wanted = list(partitions)
        for attempt in range(1, self._options.fetch_offset_num_retries + 1):
            offsets = self._listed("end", wanted)
            backward = {each: offset for each, offset in offsets.items() if offset < known.get(each, 0)}
            if not backward or attempt == self._options.fetch_offset_num_retries:
                break
            _log.warning("The ends of some logs came before what was read of them; asking again: %s", backward)
            self._pause()
        return offsets

    def by_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of the first record at or after each time (ms since 1970); `None` if there is no such record."""
        if not times_ms:
            return {}
        asked: list[tuple[tuple[str, int], int]] = [(partition, time_ms) for partition, time_ms in times_ms.items()]
        found = self._retried(lambda: self._client().offsets_for_times(asked, None).outcome())
        return {TopicPartition(*each): None if record is None else record[0] for each, record in found.items()}

    def largest_timestamps(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int] | None]:
        """The offset and timestamp (ms since 1970) of the record with the largest timestamp; `None` without records."""
        asked: list[tuple[tuple[str, int], int]] = [(partition, _LARGEST) for partition in partitions]
        found = self._retried(lambda: self._client().offsets_for_times(asked, None).outcome())
        return {TopicPartition(*each): record for each, record in found.items()}

    def resolve(self, bound: Bound, is_start: bool, layout: Layout) -> PartitionOffsets:
        """The offset of `bound` in each partition of the layout."""
        partitions = list(layout.leaders)
        which = "start" if is_start else "end"
        if isinstance(bound, Earliest):
            return self.earliest(partitions)
        if isinstance(bound, Latest):
            return self.latest(partitions)
        if isinstance(bound, Offsets):
            _check_partitions(bound.offsets, layout, f"Kafka {which} offsets")
            return self.filled_in(bound.offsets, layout)
        if isinstance(bound, Timestamps):
            _check_partitions(bound.timestamps, layout, f"Kafka timestamp based {which} offsets")
            times_ms = bound.timestamps
        else:
            times_ms = dict.fromkeys(partitions, bound.timestamp_ms)
        found = self.by_time(times_ms)
        if is_start and self._options.no_match == "error":
            for partition, offset in found.items():
                if offset is None:
                    raise ConfigError(
                        f"No offset matched from request of topic-partition {partition_text(partition)} and "
                        f"timestamp {times_ms[partition]}. With startingOffsetsByTimestampStrategy=latest the query "
                        "starts at the end of such partitions."
                    )
        return self.filled_in({each: LATEST_OFFSET if at is None else at for each, at in found.items()}, layout)

    def filled_in(self, offsets: PartitionOffsets, layout: Layout) -> PartitionOffsets:
        """The offsets, with the earliest and the latest one looked up where -2 and -1 stand for them.

        Partitions that the layout lacks are left out if their offset would have to be looked up.
        """
        known = {each: offset for each, offset in offsets.items() if offset >= 0}
        earliest = self.earliest([each for each in layout.leaders if offsets.get(each) == EARLIEST_OFFSET])
        latest = self.latest([each for each in layout.leaders if offsets.get(each) == LATEST_OFFSET])
        return {**known, **earliest, **latest}

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        core, self._core = self._core, None
        if core is not None:
            core.close(1.0)

    def _client(self) -> ConsumerCore:
        if self._core is None:
            settings = ClientSettings.of(self._options.kafka).here()
            core = ConsumerCore(settings, None, False)
            try:
                # A request without topics, with a short timeout: reports soon if the cluster cannot be reached at all.
                core.describe([], _first_contact_seconds(settings))
            except KafkaError:
                core.close(1.0)
                raise
            self._core, self._has_answered = core, True
        return self._core

    def _describe(self) -> tuple[Layout, dict[str, UnknownTopicError]]:
        """The selected partitions that exist, and by topic the error of a selected topic or partition that does not."""
        brokers, topics = self._client().describe(self._named_topics(), None)
        leaders: dict[TopicPartition, Leader] = {}
        missing: dict[str, UnknownTopicError] = {}
        for name, (topic_id, is_internal, error, partitions) in topics.items():
            if not self._selects(name, is_internal):
                continue
            if error == "UNKNOWN_TOPIC_OR_PARTITION":
                text = f"{name}: the cluster does not know this topic; check its name, or create it"
                missing[name] = UnknownTopicError(text, code=error, topic=name)
            elif error == "TOPIC_AUTHORIZATION_FAILED":
                raise AuthorizationError(f"{name}: reading the topic is not allowed ({error})", code=error, topic=name)
            elif error is not None:
                raise KafkaError(f"{name}: the broker answered {error}", code=error)
            leaders |= {TopicPartition(name, index): Leader(topic_id, *known) for index, known in partitions.items()}
        selection = self._options.selection
        if isinstance(selection, Assign):
            for partition in set(selection.partitions) - set(leaders):
                count = len(topics[partition.topic][3]) if partition.topic in topics else 0
                text = (
                    f"assign: {partition_text(partition)} does not exist; the topic has {counted(count, 'partition')}"
                )
                missing.setdefault(
                    partition.topic, UnknownTopicError(text, topic=partition.topic, partition=partition.partition)
                )
            leaders = {each: leaders[each] for each in selection.partitions if each in leaders}
        return Layout(brokers, leaders), missing

    def _named_topics(self) -> list[str] | None:
        selection = self._options.selection
        if isinstance(selection, Subscribe):
            return list(selection.topics)
        if isinstance(selection, Assign):
            return sorted({partition.topic for partition in selection.partitions})
        return None

    def _selects(self, name: str, is_internal: bool) -> bool:
        """Return true if the options select a topic: as in Spark, no internal one; a pattern may match a part."""
        selection = self._options.selection
        if is_internal:
            return False
        return isinstance(selection, (Subscribe, Assign)) or topic_pattern(selection.pattern).search(name) is not None

    def _listed(self, kind: Literal["beginning", "end"], partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        wanted: list[tuple[str, int]] = list(partitions)
        if not wanted:
            return {}
        found = self._retried(lambda: self._client().list_offsets(kind, wanted, None).outcome())
        return {TopicPartition(*each): offset for each, offset in found.items() if offset is not None}

    def _retried(self, ask: Callable[[], _T], give_up: Callable[[], _T | None] = lambda: None) -> _T:
        for attempt in range(1, self._options.fetch_offset_num_retries + 1):
            try:
                return ask()
            except (ConfigError, AuthenticationError, AuthorizationError):
                raise
            except KafkaError as error:
                if not self._has_answered or attempt == self._options.fetch_offset_num_retries:
                    settled = give_up() if isinstance(error, UnknownTopicError) else None
                    if settled is not None:
                        return settled
                    raise
                _log.warning("Attempt %d to ask Kafka for topics and offsets failed: %s", attempt, error)
                if not isinstance(error, UnknownTopicError):
                    self.close()
                self._pause()
        raise AssertionError("fetchOffset.numRetries is at least 1")

    def _pause(self) -> None:
        time.sleep(self._options.fetch_offset_retry_interval_ms / 1000)


def _check_partitions(given: Collection[TopicPartition], layout: Layout, what: str) -> None:
    if set(given) != set(layout.leaders):
        raise ConfigError(
            f"Partitions specified for {what} don't match what are assigned. Maybe topic partitions are created or "
            "deleted while the query is running, or you didn't specify all the partitions. Use -1 for latest, -2 for "
            "earliest. "
            f"Specified: {partitions_text(given)} Assigned: {partitions_text(layout.leaders)}"
        )


def _first_contact_seconds(settings: RawSettings) -> float:
    default = next(key.default for key in config_keys() if key.name == "bootstrap.timeout.ms")
    return int(dict(settings).get("bootstrap.timeout.ms", default or "")) / 1000
