"""`GroupVerbs`: the methods of a group member that do not wait, for both consumers; and their rebalance callbacks."""

import re
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from monedula._arguments import as_text, check_callable, checked_batch, loses_values, seconds, topic_names
from monedula._monedula import Batch, ColumnSpec, ConsumerCore, MemberCore, PendingCallback
from monedula.config import Unpicklable
from monedula.errors import ArgumentError, ConfigError
from monedula.types.partitions import TopicPartition

# Both import dataclasses, and assignors also logging and threading: programs that use neither should not wait for that.
if TYPE_CHECKING:
    from monedula.assignors import Strategy
    from monedula.consumer._member_reading import MemberReading
    from monedula.events import GroupEvent

Topics = str | Iterable[str] | re.Pattern[str]
"""Topics to subscribe to: one name, several names, or a pattern that has to match the whole name."""

Listener = Callable[[set[TopicPartition]], object]
"""A rebalance callback; its argument is the partitions that change. `AsyncConsumer` also takes coroutine functions."""

EventHook = Callable[["GroupEvent"], object]


_NO_BATCH = "is no batch of this consumer; commit({(topic, partition): offset}) commits up to a single record"

_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


class Listeners(NamedTuple):
    """The rebalance callbacks of a subscription."""

    assigned: Listener | None = None
    revoked: Listener | None = None
    lost: Listener | None = None

    def kinds(self) -> tuple[bool, bool, bool]:
        return self.assigned is not None, self.revoked is not None, self.lost is not None

    def of(self, pending: PendingCallback) -> Callable[[], object]:
        listener: Listener | None = getattr(self, pending.kind)
        if listener is None and pending.kind == "lost":
            listener = self.revoked  # as onPartitionsLost in Java, which calls onPartitionsRevoked by default
        partitions = {TopicPartition(*partition) for partition in pending.partitions}
        # The core requests only callbacks that were given, but a later subscribe() may have replaced them by fewer.
        return (lambda: None) if listener is None else (lambda: listener(partitions))


class GroupMetadata(NamedTuple):
    """The identity of a consumer in its group, as a transactional producer sends it (KIP-447).

    Attributes:
        group_id: the group.
        generation: the generation; under `group.protocol=consumer` the member epoch; -1 without a subscription.
        member_id: the member id, or empty.
        group_instance_id: `group.instance.id`, or `None`.
    """

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None


class GroupVerbs(Unpicklable):
    """The methods of a group member that do not wait."""

    _core: ConsumerCore
    _member: MemberCore
    _listeners = Listeners()
    _on_event: EventHook | None = None
    _reading: "MemberReading | None" = None
    _named: set[str] | None = set()  # noqa: RUF012 - replaced, never changed
    _pattern: tuple[str, str | None] | None = None
    """The pattern of the subscription, and that of topics that are left out."""
    _of_topic: tuple[str, str, str] | None = None
    """The column, the kind of values and the topic of a schema that is of the topic's subject."""
    _awaits = False
    """True if listeners may be coroutine functions."""

    def _open(
        self,
        settings: list[tuple[str, str]],
        columns: list[str] | None,
        headers: bool,
        assignors: "Strategy | None",
        on_event: EventHook | None,
        key: ColumnSpec | None,
        value: ColumnSpec | None,
        kept: object,
    ) -> None:
        check_callable("on_event", on_event, awaits=False)
        if assignors is None:
            self._core = ConsumerCore(settings, columns, headers, None, key, value, kept)
        else:
            if any(key.replace("_", ".") == "partition.assignment.strategy" for key, _ in settings):
                message = "assignors and partition.assignment.strategy say the same; give one of them"
                raise ConfigError(message, key="partition.assignment.strategy")
            from monedula.assignors import serve, split_strategy

            names, own = split_strategy(assignors)
            self._core = ConsumerCore(settings, columns, headers, names, key, value, kept)
            desk = self._core.assignor_desk()
            if own and desk is not None:
                serve(desk, own)
        self._member = self._core.member()
        self._events: deque[tuple[float, str, dict[str, object]]] = deque()
        if on_event is not None:
            self._on_event = on_event
            self._member.keep_events()

    def subscribe(
        self,
        topics: Topics | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        exclude: str | re.Pattern[str] | None = None,
        server_pattern: str | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Subscribe to topics as a member of the group `group.id`, in place of the previous subscription.

        Returns at once: the consumer joins the group in the background. Rebalance callbacks are called in the thread
        that waits in `poll`, `batches`, `records`, `unsubscribe` or `close`, with the partitions that change; that call
        raises their exceptions. A callback may seek, pause and commit, but must not poll.

        Args:
            topics: one topic or several, whether they exist yet or not; or a compiled pattern. One that does not exist
                is read as soon as it does; the log, `events.UnknownTopic` and `health()` tell of it.
            pattern: in place of topics, a regular expression that has to match the whole name. Topics that are created
                later are found within `metadata.max.age.ms`. Look-around and back-references are not supported.
            exclude: topics whose whole name matches this are left out of those that match `pattern`.
            server_pattern: in place of both, a pattern that the broker matches, also with the whole name; needs
                `group.protocol=consumer` (`SubscriptionPattern` in Java). It is in RE2's syntax and sent unchanged.
            on_assigned: called with newly assigned partitions, before any record of them is returned. If it raises,
                none is returned until a repeated call succeeds; the next call that waits repeats it.
            on_revoked: called with partitions that are revoked, while their offsets can still be committed.
            on_lost: called with partitions that other members may own already: their offsets cannot be committed any
                more. If it is left out, `on_revoked` is called for them.

        Raises:
            ArgumentError: on invalid arguments, such as a name that no topic can have; without `group.id`, while
                partitions are assigned with `assign()`, or if values are read with the schema of another topic's
                subject (`Avro()` and `Protobuf()` without a schema).
            ClosedError: if the consumer is closed.
        """
        if sum(given is not None for given in (topics, pattern, server_pattern)) != 1:
            raise ArgumentError("subscribe() takes topics or a pattern or a server_pattern, one of them")
        if isinstance(topics, re.Pattern):
            topics, pattern = None, topics
        listeners = Listeners(on_assigned, on_revoked, on_lost)
        for name, listener in zip(("on_assigned", "on_revoked", "on_lost"), listeners, strict=True):
            check_callable(name, listener, self._awaits)
        before, self._listeners = self._listeners, listeners
        try:
            if server_pattern is not None and exclude is None:
                self._check_schema(None)
                self._member.subscribe_server_pattern(text := _text_for_broker(server_pattern), listeners.kinds())
                self._named, self._pattern = None, (text, None)
            elif pattern is not None:
                self._check_schema(None)
                left_out = None if exclude is None else regular_expression(exclude, "exclude")
                self._member.subscribe_pattern(text := regular_expression(pattern), left_out, listeners.kinds())
                self._named, self._pattern = None, (text, left_out)
            elif exclude is not None:
                raise ArgumentError("exclude goes with pattern; leave topics out that are not wanted")
            else:
                names = _topic_names(topics)
                self._check_schema(names)
                self._member.subscribe(names, listeners.kinds())
                self._named = set(names)
        except BaseException:
            self._listeners = before
            raise
        self._reading = self._begin_reading()

    def _begin_reading(self) -> "MemberReading":
        raise NotImplementedError

    def _in_order(self, seek: Callable[[], None], *, to_committed: bool = False) -> bool:
        """Seek now, or once the transaction has ended that a `run` commits; returns false if it waits."""
        raise NotImplementedError

    def _check_schema(self, topics: Iterable[str] | None) -> None:
        """Refuse topics, or a pattern if `None`, that would be read with the schema of another one's subject."""
        if self._of_topic is None:
            return
        column, kind, topic = self._of_topic
        others = None if topics is None else sorted(set(topics) - {topic})
        if others == []:
            return
        what = "a pattern" if others is None else repr(others[0])
        raise ArgumentError(
            f"{kind}() without a schema has that of the topic's subject, here of {topic!r}, and not of {what}",
            argument=column,
            hint="make a consumer for each topic, or give the schema or subject=",
        )

    def subscription(self) -> set[str]:
        """The subscribed topics: the given names, or the known topics that match the pattern."""
        if self._named is not None:
            return set(self._named)
        health = self._member.health()
        return set() if health is None else set(health["topics"])

    def _is_subscribed_to(self, topic: str) -> bool:
        """Return true if the subscription includes the topic, whether it exists yet or not."""
        is_known = topic in self.subscription()
        if is_known or self._named is not None or self._pattern is None:
            return is_known
        pattern, left_out = self._pattern
        # The syntax of the core and of brokers is Python's, but for rare parts: then only known topics tell.
        with suppress(re.error):
            return bool(re.fullmatch(pattern, topic)) and not (left_out and re.fullmatch(left_out, topic))
        return False

    def rewind(self) -> None:
        """Go back to the committed offsets, to read uncommitted records again, such as after an aborted transaction.

        `Producer.transaction(consumer)` calls it by itself. While a `run` commits a transaction, this waits for its
        end, in the background.

        Raises:
            ArgumentError: without `group.id`.
            ClosedError: if the consumer is closed.
        """
        self._in_order(self._member.rewind, to_committed=True)

    def group_metadata(self) -> GroupMetadata:
        """The current identity of this consumer in its group (KIP-447).

        Raises:
            ArgumentError: without `group.id`.
            TransactionAbortedError: if the consumer has a subscription but is not a member of the group now.
        """
        return GroupMetadata(*self._member.metadata())

    def finish(self, batch: Batch) -> None:
        """Mark a batch, or a part from `hand_over`, as finished, also one that another thread holds.

        With `enable.auto.commit` its offsets are committed together with all other finished offsets, but not before
        all earlier records of its partitions are finished. May be called from any thread, and again for the same batch.

        Args:
            batch: as `poll`, `batches` or `hand_over` returned it.

        Raises:
            ArgumentError: without `group.id`, or if another consumer, or `read`, returned the batch.
            ClosedError: if the consumer is closed.
        """
        self._member.finish(checked_batch(batch, _NO_BATCH))

    def _split(self, batch: Batch, holder: int | None) -> list[Batch]:
        return self._member.hand_over(checked_batch(batch, _NO_BATCH), holder)

    def keep_alive(self) -> None:
        """Restart the time of `max.poll.interval.ms` during a long batch. May be called from any thread."""
        self._member.keep_alive()

    @property
    def rebalance_wanted(self) -> set[TopicPartition]:
        """The partitions that a rebalance revokes once their records are finished; empty if there are none.

        Another member may wait for them. In the middle of a long batch you may commit the offsets of what is done and
        take the next batch, to end the wait.
        """
        return {TopicPartition(*partition) for partition in self._member.rebalance_wanted()}

    def enforce_rebalance(self, reason: str, after: float = 0.0) -> None:
        """Start a rebalance, such as when your own assignor would assign differently now.

        With the assignors `deferred` and `incremental` it also ends their delays: partitions that are reserved for
        lost members, or wait for a later round, are assigned at once. Under `group.protocol=consumer` it only logs,
        for there the coordinator alone decides when to assign.

        Args:
            reason: the reason that brokers and members log.
            after: seconds to wait before the rebalance.

        Raises:
            ArgumentError: if there is no subscription.
        """
        if not isinstance(reason, str):
            raise ArgumentError(f"reason={reason!r} ({type(reason).__name__}): expected a text")
        self._member.enforce_rebalance(as_text("reason", reason), seconds("after", after))

    def _is_calling_back(self) -> bool:
        raise NotImplementedError

    def _refuse_in_callback(self, name: str) -> None:
        if self._is_calling_back():
            self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        raise ArgumentError(f"{name}() cannot be called inside of a rebalance callback: return from it first")

    def _tell_events(self) -> None:
        # Must not be called between taking a batch and returning it: the batch would be lost if the hook raises.
        if self._on_event is not None:
            from monedula.events import event_of

            self._events.extend(self._member.take_events())
            while self._events:
                self._on_event(event_of(*self._events.popleft()))


def regular_expression(pattern: object, name: str = "pattern") -> str:
    """The text of a pattern for the core; flags of a compiled pattern become a prefix such as `(?i)`."""
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        flags = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
        pattern = f"(?{flags}){pattern.pattern}" if flags else pattern.pattern
    if isinstance(pattern, str):
        return as_text(name, pattern)
    raise ArgumentError(f"{pattern!r} is no pattern: expected a regular expression as a text or compiled from one")


def _text_for_broker(pattern: object) -> str:
    if isinstance(pattern, str):
        return as_text("server_pattern", pattern)
    raise ArgumentError.of("server_pattern", pattern, "expected a text in RE2's syntax, which the broker reads")


def _topic_names(topics: Any) -> list[str]:
    if loses_values(topics):
        raise ArgumentError(
            f"topics={topics!r}: subscribe() takes names alone, and a group begins where it has committed, or where "
            f"auto.offset.reset says; assign({{('orders', 0): 2}}) takes positions"
        )
    several = isinstance(topics, Iterable) and not isinstance(topics, (str, bytes))
    instead = "subscribe() takes whole topics, several in a list; assign() takes partitions"
    names = topic_names(topics if several else [topics], instead)
    if not names:
        raise ArgumentError("subscribe() was given no topic; unsubscribe() leaves the group")
    return names
