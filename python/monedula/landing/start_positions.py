"""`StartPositions`: where a landing job begins to read the partitions that it is assigned."""

import logging
from collections.abc import Collection, Mapping

from monedula._arguments import raw_partition, raw_position, whole_number
from monedula.errors import ArgumentError, DataLossError, LandingError, plain_hint
from monedula.landing.commits import PendingCommit
from monedula.landing.job_consumer import JobConsumer
from monedula.landing.table import LandingTable
from monedula.types.partitions import Position, TopicPartition

_log = logging.getLogger("monedula.landing")

Start = Position | Mapping[tuple[str, int], Position]
"""A position for all partitions, or for each."""

_EARLIEST = ("earliest", "smallest", "beginning")
_LATEST = ("latest", "largest", "end")
_NONE = ("none", "error")
_OF_TABLE = "the table is"
_ATTEMPTS = 10


class StartPositions:
    """The positions of a table, compared with the log; where the table has none, those that the job begins at.

    Args:
        consumer: answers what the log has.
        table: the table.
        topics: the job's topics.
        name: table and job, for errors.
        start: where partitions begin of which the table knows nothing.
        fails_on_loss: whether a position that the log has deleted is an error.
    """

    def __init__(
        self,
        consumer: JobConsumer,
        table: LandingTable,
        topics: list[str],
        name: str,
        start: Start,
        fails_on_loss: bool,
    ) -> None:
        self._consumer = consumer
        self._table = table
        self._topics = topics
        self._name = name
        self._start = start
        self._fails_on_loss = fails_on_loss

    def of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The positions at which to read on. Where the table had none, it has these when this returns.

        Raises:
            LandingError: if the positions are not those of this topic and this table.
            DataLossError: if the log has deleted what comes next.
        """
        self._table.topic_ids(self._consumer.topic_ids(self._topics, None))
        while True:
            known = self._table.positions(partitions)
            for _ in range(_ATTEMPTS):
                new = [each for each, position in known.items() if position is None]
                if not new:
                    break
                known |= self._written_down(new)
            else:
                raise LandingError(
                    f"{self._name}: the table forgets positions as soon as they are written",
                    hint="is the clock of this machine, or of another worker, behind by days?",
                )
            positions = {each: position for each, position in known.items() if position is not None}
            skipped = self._beyond_loss(positions, _OF_TABLE)
            if not skipped:
                return positions
            # Of two workers that skip the same records one is first, and both look again.
            self._table.commit(PendingCommit([], skipped))

    def _written_down(self, new: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Write down where partitions begin; with the first one of a topic all of its partitions.

        A partition that a topic gets later so begins at its first record, even if others began at their ends.
        """
        begun = {topic for topic in self._topics if self._table.has_begun(topic)}
        firsts = [
            each for topic in {each.topic for each in new} - begun for each in self._consumer.partitions_of(topic)
        ]
        grown = [each for each in new if each.topic in begun]
        for partition in new:
            self._check_without_rows(partition)
        starts = {**self.beginnings(firsts), **self.beginnings(grown, "earliest")}
        pending = PendingCommit([], {each: (None, at) for each, at in starts.items()})
        self._table.commit(pending)
        return self._table.positions(new)

    def _check_without_rows(self, partition: TopicPartition) -> None:
        is_told = isinstance(self._start, Mapping) and partition in self._start
        if is_told or not self._table.holds_rows(partition):
            return
        name = f"{partition.topic}-{partition.partition}"
        hint = (
            "if a job of another name wrote them, its name as `job` goes on behind them. Else say where each partition "
            "begins, by `start={('orders', 0): 42}`: what the table has from there on is repeated"
        )
        raise LandingError(
            f"{self._name}: the table has rows of {name}, but no position: they could be repeated",
            topic=partition.topic,
            partition=partition.partition,
            hint=hint,
        )

    def beginnings(
        self, partitions: list[TopicPartition], default: Position | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets at which partitions begin that the table does not know.

        Args:
            partitions: the partitions.
            default: in place of `start`, where that is not a dict with the partition.
        """
        first = self._consumer.beginning_offsets(partitions) if partitions else {}
        last = self._consumer.end_offsets(partitions) if partitions else {}
        given: Mapping[tuple[str, int], Position] = {}
        rest: Position = default or "earliest"
        if isinstance(self._start, Mapping):
            given = self._start
        elif default is None:
            rest = self._start
        for topic, number in given:
            has = [each.partition for each in partitions if each.topic == topic]
            if default is None and has and number not in has:
                raise ArgumentError.of("start", given, f"the topic {topic} has no partition {number}")
        found: dict[TopicPartition, int] = {}
        for each in partitions:
            start: Position = given.get(each, rest)
            offset = whole_number(start)
            if offset is not None:
                found[each] = offset
            elif start in _EARLIEST or start in _LATEST:
                found[each] = (first if start in _EARLIEST else last)[each]
            elif start == "committed" and (committed := self._consumer.committed([each])[each]) is not None:
                found[each] = committed.offset
            elif start in (*_NONE, "committed"):
                hint = "give another `start`, or auto.offset.reset"
                raise LandingError(
                    f"{self._name}: the table has no position of {each.topic}-{each.partition}, and it is to begin at "
                    f"{start!r}",
                    hint=hint,
                )
            else:
                at = self._consumer.offsets_for_times({each: start})[each]
                found[each] = last[each] if at is None else at.offset
        # Looked at before they are in the table: there they would be the job's for good.
        outside = {each: at for each, at in found.items() if not first[each] <= at <= last[each]}
        skipped = self._beyond_loss(outside, "the job would begin") if outside else {}
        return {**found, **{each: to for each, (_, to) in skipped.items()}}

    def _beyond_loss(
        self, positions: Mapping[TopicPartition, int], what: str
    ) -> dict[TopicPartition, tuple[int | None, int]]:
        """Refuse positions outside of the log; those that the log has deleted and that may be skipped are returned."""
        first = self._consumer.beginning_offsets(positions)
        last = self._consumer.end_offsets(positions)
        skipped: dict[TopicPartition, tuple[int | None, int]] = {}
        for partition, position in positions.items():
            name = f"{partition.topic}-{partition.partition}"
            if position > last[partition]:
                raise LandingError(
                    f"{self._name}: {what} at offset {position} of {name}, and the log ends at {last[partition]}",
                    topic=partition.topic,
                    partition=partition.partition,
                    hint="is it another cluster, or was the topic created again? Land it as another `job`"
                    if what == _OF_TABLE
                    else "give a `start` within the log",
                )
            if position < first[partition]:
                told = f"{name}: {what} at offset {position}, and the log begins at {first[partition]}"
                if self._fails_on_loss:
                    hint = "retention removed what is between; `fail_on_data_loss=False` goes on without it"
                    raise DataLossError(
                        f"{told}; {plain_hint(hint, None)}",
                        topic=partition.topic,
                        partition=partition.partition,
                        offset=position,
                        log_start_offset=first[partition],
                        hint=hint,
                    )
                _log.warning("landing: %s: %s: what is between is lost", self._name, told)
                skipped[partition] = (position, first[partition])
        return skipped


def check_start(start: Start, topics: list[str]) -> None:
    """Refuse what is no position, and positions of what is not read.

    Raises:
        ArgumentError: if it is none, or one of the dict is none, or of a partition of another topic.
    """
    for partition in start if isinstance(start, Mapping) else ():
        topic, _ = raw_partition(partition)
        if topic not in topics:
            raise ArgumentError.of("start", start, f"the topics are {', '.join(topics)}, and not {topic}")
    for position in start.values() if isinstance(start, Mapping) else [start]:
        if position not in (*_EARLIEST, *_LATEST, *_NONE):
            raw_position(position)
