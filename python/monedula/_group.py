"""The verbs of a group member that do not wait, for both consumers."""

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from monedula._monedula import Batch, ConsumerCore, MemberCore, PendingCallback
from monedula.config import Unpicklable
from monedula.errors import ArgumentError, ConfigError
from monedula.partitions import TopicPartition, seconds, topic_names

# Whoever uses neither should not wait for dataclasses, logging and threading to be imported.
if TYPE_CHECKING:
    from monedula.assignors import Strategy
    from monedula.events import GroupEvent

Topics = str | Iterable[str] | re.Pattern[str]
"""Topics to subscribe to: one, several, or a pattern that whole names match."""

Listener = Callable[[set[TopicPartition]], object]
"""A rebalance callback: it is given the partitions that change. For `AsyncConsumer` it may be a coroutine function."""

EventHook = Callable[["GroupEvent"], object]
"""What `on_event` takes; see `monedula.events`."""


_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


class Listeners(NamedTuple):
    """The rebalance callbacks of a subscription."""

    assigned: Listener | None = None
    revoked: Listener | None = None
    lost: Listener | None = None

    def kinds(self) -> tuple[bool, bool, bool]:
        """Which there are."""
        return self.assigned is not None, self.revoked is not None, self.lost is not None

    def of(self, pending: PendingCallback) -> Callable[[], object]:
        """The call that is due."""
        listener: Listener | None = getattr(self, pending.kind)
        if listener is None and pending.kind == "lost":
            listener = self.revoked  # as in Java: what is kept for a partition is cleared there
        partitions = {TopicPartition(*partition) for partition in pending.partitions}
        # The core asks only for callbacks that there are; a subscription that was changed meanwhile may have fewer.
        return (lambda: None) if listener is None else (lambda: listener(partitions))


class GroupMetadata(NamedTuple):
    """Who a consumer is to its group.

    Attributes:
        group_id: the group.
        generation: of which it is a member, or its epoch under `group.protocol=consumer`; -1 without a subscription.
        member_id: its id there, or empty.
        group_instance_id: `group.instance.id`, if it has one.
    """

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None


class GroupVerbs(Unpicklable):
    """The verbs of a group member that do not wait."""

    _core: ConsumerCore
    _member: MemberCore
    _listeners = Listeners()
    _on_event: EventHook | None = None
    _named: set[str] | None = set()  # noqa: RUF012 - replaced, never changed
    _awaits = False
    """Whether listeners may be coroutine functions."""

    def _open(
        self,
        settings: list[tuple[str, str]],
        columns: list[str] | None,
        headers: bool,
        assignors: "Strategy | None",
        on_event: EventHook | None,
    ) -> None:
        check_callable("on_event", on_event, awaits=False)
        if assignors is None:
            self._core = ConsumerCore(settings, columns, headers)
        else:
            if any(key.replace("_", ".") == "partition.assignment.strategy" for key, _ in settings):
                message = "assignors and partition.assignment.strategy say the same; give one of them"
                raise ConfigError(message, key="partition.assignment.strategy")
            from monedula.assignors import serve, split_strategy

            names, own = split_strategy(assignors)
            self._core = ConsumerCore(settings, columns, headers, names)
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
        """Read topics as a member of the group `group.id`, in place of what was subscribed to before.

        Returns at once: the consumer joins in the background, and its partitions come and go from then on. Callbacks
        are called in the thread that waits in `poll`, `batches`, `records`, `unsubscribe` or `close`, with the
        partitions that change, and what they raise is raised there. They may seek, pause and commit, and must not poll.

        Args:
            topics: one topic or several, whether they exist yet or not; or a compiled pattern.
            pattern: in place of topics, a regular expression that whole names match. Topics that come to exist later
                are found within `metadata.max.age.ms`. Look-around and back-references are not supported.
            exclude: topics whose whole name matches this are left out of what `pattern` finds.
            server_pattern: in place of both, a pattern that the broker reads and matches, for whole names too, under
                `group.protocol=consumer` (`SubscriptionPattern` in Java). Its syntax is RE2's; it is sent as it is.
            on_assigned: called with partitions that were gained, before any record of them is handed out. If it raises,
                nothing of them is before a later call went well, which the next call that waits makes.
            on_revoked: called with partitions that are to be given up, while their offsets can still be committed.
            on_lost: called with partitions that others may own already, so that nothing of them can be committed.
                Without it `on_revoked` is called for them.

        Raises:
            ArgumentError: on other arguments, without `group.id`, or while partitions are assigned with `assign()`.
            ClosedError: if the consumer is closed.
        """
        if [topics, pattern, server_pattern].count(None) != 2:
            raise ArgumentError("subscribe() takes topics or a pattern or a server_pattern, one of them")
        if isinstance(topics, re.Pattern):
            topics, pattern = None, topics
        listeners = Listeners(on_assigned, on_revoked, on_lost)
        for name, listener in zip(("on_assigned", "on_revoked", "on_lost"), listeners, strict=True):
            check_callable(name, listener, self._awaits)
        before, self._listeners = self._listeners, listeners
        try:
            if server_pattern is not None and exclude is None:
                self._member.subscribe_server_pattern(_text_for_broker(server_pattern), listeners.kinds())
                self._named = None
            elif pattern is not None:
                left_out = None if exclude is None else regular_expression(exclude)
                self._member.subscribe_pattern(regular_expression(pattern), left_out, listeners.kinds())
                self._named = None
            elif exclude is not None:
                raise ArgumentError("exclude goes with pattern; leave topics out that are not wanted")
            else:
                names = _topic_names(topics)
                self._member.subscribe(names, listeners.kinds())
                self._named = set(names)
        except BaseException:
            self._listeners = before
            raise

    def subscription(self) -> set[str]:
        """The topics subscribed to: those named, or those that match the pattern as far as they are known."""
        if self._named is not None:
            return set(self._named)
        health = self._member.health()
        return set() if health is None else set(health["topics"])

    def rewind(self) -> None:
        """Read again what was handed out and is not committed, as after a transaction that was aborted.

        `Producer.transaction(consumer)` does it by itself.

        Raises:
            ArgumentError: without `group.id`.
            ClosedError: if the consumer is closed.
        """
        self._member.rewind()

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is to its group now (KIP-447).

        Raises:
            ArgumentError: without `group.id`.
            TransactionAbortedError: if it subscribes, and is no member now.
        """
        return GroupMetadata(*self._member.metadata())

    def finish(self, batch: Batch) -> None:
        """Say that a batch is finished, whoever was handed it: one that another thread works on, or a part of one.

        It is committed with everything else that is finished, if `enable.auto.commit` is on. What comes before it in
        its partitions and is not finished keeps the commit back. From any thread; what is finished already stays so.

        Args:
            batch: as `poll`, `batches` or `hand_over` returned it.

        Raises:
            ArgumentError: without `group.id`.
            ClosedError: if the consumer is closed.
        """
        self._member.finish(batch)

    def _split(self, batch: Batch, holder: int | None) -> list[Batch]:
        return self._member.hand_over(batch, holder)

    def keep_alive(self) -> None:
        """Say that a long batch is still being worked on, as `max.poll.interval.ms` asks. From any thread."""
        self._member.keep_alive()

    @property
    def rebalance_wanted(self) -> set[TopicPartition]:
        """Partitions that another member waits for, empty if there are none.

        They are given up as soon as what was handed out of them is finished. Whoever is in the middle of a long batch
        may commit what is done and ask for the next one.
        """
        return {TopicPartition(*partition) for partition in self._member.rebalance_wanted()}

    def enforce_rebalance(self, reason: str, after: float = 0.0) -> None:
        """Have the group assign anew, such as when an assignor of one's own would decide differently now.

        Ends what `deferred` and `incremental` left for later: nobody is waited for any more. Does nothing but log under
        `group.protocol=consumer`, where only the coordinator decides when.

        Args:
            reason: what brokers and members log of it.
            after: seconds to wait before.

        Raises:
            ArgumentError: if nothing is subscribed to.
        """
        if not isinstance(reason, str):
            raise ArgumentError(f"reason={reason!r} ({type(reason).__name__}): expected a text")
        self._member.enforce_rebalance(reason, seconds("after", after))

    def _tell_events(self) -> None:
        # Never between a batch's being taken and its being returned: a hook that raises must not cost a batch.
        if self._on_event is not None:
            from monedula.events import event_of

            self._events.extend(self._member.take_events())
            while self._events:
                self._on_event(event_of(*self._events.popleft()))


def check_callable(name: str, function: object, awaits: bool) -> None:
    """Refuse what cannot be called, and what would be called in vain.

    Raises:
        ArgumentError: if `function` is neither `None` nor a function, or one that must be awaited where nobody does.
    """
    if function is None:
        return
    if not callable(function):
        raise ArgumentError(f"{name}={function!r} cannot be called")
    if not awaits:
        from inspect import iscoroutinefunction

        # Of an object with `async def __call__` too: its coroutine would be dropped, and nothing of it run.
        if iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
            alternative = (
                "a plain function does" if name == "on_event" else "AsyncConsumer awaits it, or use a plain function"
            )
            raise ArgumentError(f"{name}={function!r} is a coroutine function, which nobody awaits here; {alternative}")


def regular_expression(pattern: object) -> str:
    """A pattern as the core takes it: flags become part of it.

    Raises:
        ArgumentError: if it is none, or one of bytes.
    """
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        flags = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
        return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern
    if isinstance(pattern, str):
        return pattern
    raise ArgumentError(f"{pattern!r} is no pattern: expected a regular expression as a text or compiled from one")


def _text_for_broker(pattern: object) -> str:
    if isinstance(pattern, str):
        return pattern
    raise ArgumentError(f"server_pattern={pattern!r}: expected a text in RE2's syntax, which the broker reads")


def _topic_names(topics: Any) -> list[str]:
    several = isinstance(topics, Iterable) and not isinstance(topics, (str, bytes))
    instead = "subscribe() takes whole topics, several in a list; assign() takes partitions"
    names = topic_names(topics if several else [topics], instead)
    if not names:
        raise ArgumentError("subscribe() was given no topic; unsubscribe() leaves the group")
    return names
