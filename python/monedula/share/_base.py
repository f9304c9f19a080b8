"""`ShareConsumerBase`, which `ShareConsumer` and `AsyncShareConsumer` share: the methods that do not wait."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from monedula._arguments import check_callable, checked_batch, loses_values, topic_names, truth
from monedula._config.client_names import ClientNames, names_in
from monedula._health import patience, with_since
from monedula._monedula import Batch, MetricRegistry, Record, Schema, ShareConsumerCore
from monedula._registered_metrics import RegisteredMetrics
from monedula._reprs import counted, of_client, some
from monedula.config import RawSettings, Settings, Unpicklable, raw_columns, raw_settings
from monedula.consumer._commits import CommitFuture
from monedula.consumer._group import EventHook
from monedula.errors import (
    AcknowledgeError,
    AcknowledgeResult,
    ArgumentError,
    ClosedError,
    ConfigError,
    CorruptRecordError,
    DecodeError,
    ForkError,
    PartitionError,
)
from monedula.formats._typed import Typed, check_columns, pinned, spec_of
from monedula.producer._dead_letters import LetterProducer
from monedula.types.json_dict import JsonDict
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    from monedula.workers.runs import Run

MAX_ROWS = 100_000
MAX_BYTES = 32 << 20

Rows = Any
"""Rows of a batch: a mask (booleans of Arrow, numpy, polars, pandas or a list, one for each row), row numbers, a slice;
all rows if it is `None`."""

RawOutcomes = list[tuple[str, int, int, tuple[str, str] | None]]
"""The core's outcomes of acknowledgements: topic, partition, number of rows, and an error's name and reason."""

UNREADABLE = (DecodeError, CorruptRecordError)
"""Errors about records that were released or rejected for it."""

_DELIVERY_COUNT = "deliveryCount"
_SLICE_SECONDS = 0.2
_MODE = "share.acknowledgement.mode"
_NOT_COMMITTED = (
    "cannot be committed: expected a batch, or nothing. A share group has no offsets of members: accept(record) "
    "decides, and commit() tells the brokers"
)


class ShareConsumerBase(Unpicklable, RegisteredMetrics):
    """Base of `ShareConsumer` and `AsyncShareConsumer`: the methods that do not wait."""

    _names = ClientNames()

    def __init__(
        self,
        config: Settings | None = None,
        /,
        topics: str | Iterable[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        key: Typed | None = None,
        value: Typed | None = None,
        acknowledge: Literal["implicit", "explicit"] | None = None,
        on_event: EventHook | None = None,
        **settings: Any,
    ) -> None:
        check_callable("on_event", on_event, awaits=False)
        self._commits: list[CommitFuture] = []
        self._last_run: Run | None = None
        self._on_event = on_event
        self._events: deque[tuple[float, str, dict[str, Any]]] = deque()
        try:
            raw = raw_settings(config, settings, in_place_of_text="topics go into topics=[...]", client="ShareConsumer")
        finally:
            del config, settings  # no traceback shows passwords as locals
        if acknowledge is not None:
            raw = _with_mode(raw, acknowledge)
        self._settings = raw  # its repr shows no value
        self._names = names_in(raw)
        key, value = pinned(raw, key, "key", topics), pinned(raw, value, "value", topics)
        for name, form in (("key", key), ("value", value)):
            if form is not None and form.dead_letter is not None:
                reason = "a share group has dead letters of its own (errors.deadletterqueue.topic.name)"
                raise ArgumentError(f"dead_letter= of {name}: {reason}; leave it out", argument=name)
        self._decodes = key is not None or value is not None
        columns = raw_columns(columns)
        check_columns(columns and [name for name in columns if name != _DELIVERY_COUNT], key, value)
        self._core = ShareConsumerCore(
            raw, columns, truth("headers", headers), spec_of("key", key), spec_of("value", value)
        )
        self._topics: set[str] = set()
        if on_event is not None:
            self._core.keep_events()
        if topics is not None:
            self.subscribe(topics)

    def __repr__(self) -> str:
        """Brokers, group, topics, and how far the consumer is, without a request."""
        facts = [] if self._names.group is None else [f"share group {self._names.group}"]
        try:
            if self._topics:
                facts.append(f"topics {some(self._topics)}")
            facts.append(f"{counted(dict(self._core.metrics())['records_delivered'], 'record')} delivered")
            if self._core.is_closed():
                facts.append("closed")
        except (AttributeError, ForkError):
            pass  # its constructor has failed, or it belongs to the parent process
        return of_client(self, self._names.servers, facts)

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Subscribe to topics as a member of the share group `group.id`, in place of the previous subscription.

        Returns at once: the consumer joins the group in the background. The group hands out the records of all
        partitions among its members, each record to one of them at a time.

        Args:
            topics: one name or several, whether they exist yet or not. Share groups have no patterns.

        Raises:
            ArgumentError: on a name that no topic can have, or none at all.
            ClosedError: if the consumer is closed.
        """
        several = isinstance(topics, Iterable) and not isinstance(topics, (str, bytes))
        instead = "share groups subscribe to names, such as subscribe(['jobs', 'mails'])"
        if loses_values(topics):
            begin = "share.auto.offset.reset of the group says where they begin"
            raise ArgumentError(f"topics={topics!r}: {instead}; {begin}")
        names = topic_names(topics if several else [topics], instead, instead_of_pattern=instead)
        self._core.subscribe(names)
        self._topics = set(names)

    def unsubscribe(self) -> None:
        """Leave the group in the background. Rows in hand can still be acknowledged.

        Raises:
            ClosedError: if the consumer is closed.
        """
        self._core.unsubscribe()
        self._topics = set()

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        return set(self._topics)

    @property
    def schema(self) -> Schema:
        """The Arrow schema of every batch, as `Consumer.schema`.

        With `"deliveryCount"` among `columns` the last column is `deliveryCount` (int16): how often the record was
        delivered, this time included.
        """
        return self._core.schema

    def accept(self, what: Batch | Record, rows: Rows = None) -> None:
        """Decide that rows are done: the group hands them out no more.

        The decision is told to the broker with the next request for records, by `commit()`, and before the lock ends.

        Args:
            what: a batch or a record of this consumer.
            rows: the rows of the batch: a mask with one boolean for each row (of Arrow, numpy, polars or pandas, or a
                list), row numbers, or a slice; all if left out.

        Raises:
            ArgumentError: if something else was decided of one of the rows before (nothing is changed then), if `rows`
                is none of these or has null values, or if `what` is not in hand.
        """
        self._core.decide(what, rows, "accept")

    def release(self, what: Batch | Record, rows: Rows = None) -> None:
        """Decide that rows are to be delivered again, to any member, at once: there is no delay.

        Once a record was delivered `share.delivery.count.limit` times, the broker does not deliver it any more.
        Arguments and errors as `accept`.
        """
        self._core.decide(what, rows, "release")

    def reject(self, what: Batch | Record, rows: Rows = None) -> None:
        """Decide that rows cannot be processed: they are not delivered again, and go to the group's dead letters.

        Arguments and errors as `accept`. Dead letters need Kafka 4.4, `errors.deadletterqueue.topic.name` of the group,
        and a topic of that name, which begins with `dlq.`, with `errors.deadletterqueue.group.enable=true`. Otherwise
        the rows are gone, and only the broker's log says so. `errors.deadletterqueue.copy.record.enable=true` of the
        group keeps key and value.
        """
        self._core.decide(what, rows, "reject")

    def wakeup(self) -> None:
        """End the current wait of another thread or task, or else the next wait, with `WakeupError`.

        Loops over `batches()` and `records()` end without an error.
        """
        self._core.wakeup()

    def metrics(self) -> dict[str, float]:
        """Counters since the consumer was created: connections, requests, bytes, records and so on.

        `records_acknowledged` counts those whose decision the brokers have confirmed. Once `run` was called also those
        of the runs, whose names begin with `run_`, as `Consumer.metrics`, with `run_released` and `run_rejected`.
        """
        run = self._last_run
        return {**dict(self._core.metrics()), **({} if run is None else run.metrics())}

    def _metrics_registry(self) -> MetricRegistry:
        return self._core.metric_registry()

    def health(self) -> JsonDict[str, Any]:
        """The state of the client and of its membership.

        `"ok"`, `"failing_for"`, `"failing_since"` and `"last_error"` as `Consumer.health`. `"rows_in_hand"` are those
        of which nothing was decided; `"unacknowledged_records"` those whose decision took no effect, or may not have:
        they may be delivered again. `"group"` has the membership: state, coordinator, epoch, topics, those
        that do not exist (`unknown_topics`), assigned partitions, errors. `"client_instance_id"` as `Consumer.health`.
        """
        return with_since(self._core.health())

    @staticmethod
    def _open_producer(settings: RawSettings) -> LetterProducer:
        """The producer of dead letters and replies of a run."""
        raise NotImplementedError

    def _pass_unreadable(self, error: PartitionError) -> None:
        """A run goes on without records that it cannot read: released, they would end those of other members, too."""
        from monedula._logging import warn

        warn("workers", f"run() goes on without what it cannot read: {error}")

    def _check_drained(self, timeout: float | None, _bound: object, /) -> None:
        """Raise if a run ends after `timeout` without a record because brokers do not answer."""
        if timeout is not None:
            self._check_failing(timeout, is_end=True)

    def _tell(self) -> None:
        # Must not be called between taking a batch and returning it: the batch would be lost if a callback raises.
        for future in [future for future in self._commits if future.done()]:
            future.run_callbacks()
            self._commits.remove(future)
        if self._on_event is not None:
            from monedula.events import event_of

            self._events.extend(self._core.take_events())
            while self._events:
                self._on_event(event_of(*self._events.popleft()))

    def _slice(self, left: float | None) -> float | None:
        """How long a wait may last before `_tell` has to be called again."""
        if self._on_event is None and not self._commits:
            return left
        return _SLICE_SECONDS if left is None else min(left, _SLICE_SECONDS)

    def _is_subscribed_to(self, topic: str) -> bool:
        return topic in self._topics

    def _check_subscribed(self) -> None:
        if not self._topics and not self._core.is_closed():
            raise ArgumentError("this consumer is not subscribed: subscribe() to topics first")

    def _check_failing(self, timeout: float, is_end: bool) -> None:
        self._core.check_failing(patience(timeout, is_end))


def _with_mode(raw: RawSettings, acknowledge: object) -> RawSettings:
    if acknowledge not in ("implicit", "explicit"):
        raise ArgumentError.of("acknowledge", acknowledge, "expected 'implicit' or 'explicit'")
    if any(name.replace("_", ".") == _MODE for name, _ in raw):
        raise ConfigError(f"acknowledge and {_MODE} say the same; give one of them", key=_MODE)
    raw.append((_MODE, str(acknowledge)))
    return raw


def batch_to_commit(what: object) -> Batch | None:
    """The argument of `commit`, checked."""
    return None if what is None else checked_batch(what, _NOT_COMMITTED)


def acknowledged(
    outcomes: RawOutcomes, failure: str = "acknowledged, and may be delivered again"
) -> dict[TopicPartition, int]:
    """The number of rows that were acknowledged, by partition. `failure`: what those were not of which an error tells.

    Raises:
        AcknowledgeError: if some were not.
    """
    results: dict[TopicPartition, AcknowledgeResult] = {}
    for topic, partition, rows, wrong in outcomes:
        at = TopicPartition(topic, partition)
        before = results.get(at, AcknowledgeResult(0, 0, None, None))
        if wrong is None:
            results[at] = before._replace(rows=before.rows + rows)
        elif rows:
            results[at] = AcknowledgeResult(before.rows, before.failed + rows, *wrong)
    failed = {at: result for at, result in results.items() if result.failed}
    if not failed:
        return {at: result.rows for at, result in results.items() if result.rows}
    at, first = next(iter(failed.items()))
    rest = f" (and of {counted(len(failed) - 1, 'more partition')}, see .results)" if len(failed) > 1 else ""
    what = f"{counted(first.failed, 'row')} of {at.topic}-{at.partition} {'was' if first.failed == 1 else 'were'}"
    message = f"{what} not {failure}: {first.reason}{rest}"
    code = first.code if len({result.code for result in failed.values()}) == 1 else None
    raise AcknowledgeError(message, results=results, code=code)


def renewed(outcome: tuple[float | None, RawOutcomes]) -> float | None:
    """The deadline after a renewal.

    Raises:
        AcknowledgeError: if locks were not renewed.
    """
    deadline, outcomes = outcome
    acknowledged(outcomes, "renewed")
    return deadline


class UnreadRows:
    """The rows of a batch that a loop over records yields: each is accepted when the next one is asked for.

    What was not yielded when the loop is left is released. Rows whose locks are over are not yielded.
    """

    def __init__(self, core: ShareConsumerCore, batch: Batch, is_implicit: bool) -> None:
        self._core = core
        self._batch = batch
        self._records: Iterator[Record] = batch.records()
        self._is_implicit = is_implicit
        self._taken = 0

    def take(self) -> Record | None:
        while True:
            record = next(self._records, None)
            is_locked = self._core.read(self._batch, self._taken, self._is_implicit)
            if record is None:
                return None
            self._taken += 1
            if is_locked:
                return record

    def release(self) -> None:
        with suppress(ClosedError, ForkError):  # the broker releases them
            self._core.decide_undecided(self._batch, self._taken, len(self._batch), "release")
