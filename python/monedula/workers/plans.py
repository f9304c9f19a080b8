"""`Plan`: the checked arguments of `run`."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from monedula._arguments import check_callable, seconds, topic_names, whole_number
from monedula.config import RawSettings, config_keys
from monedula.errors import ArgumentError
from monedula.producer._dead_letters import LetterProducer, check_columns
from monedula.producer.aio import AsyncProducer
from monedula.producer.sync import Producer
from monedula.types.partitions import Until
from monedula.workers.failures import OnError, Retry, as_retry

Order = Literal["key", "partition", "none"]
"""Records handled in log order: those with the same key, all of a partition, or none."""

_ORDERS = ("key", "partition", "none")


class Plan(NamedTuple):
    """Arguments of `run`, which documents them."""

    handler: Callable[[Any], Any]
    concurrency: int
    order: Order
    batch_size: int | None
    retry: Retry
    dead_letter: str | None
    reply_topic: str | None
    producer: "LetterProducer | None"
    transaction: "LetterProducer | None"
    commit_interval: float
    on_error: OnError | None
    max_queued_records: int
    max_queued_bytes: int
    grace: float
    timeout: float | None
    until: Until | None

    def check_outputs(self, reads: Callable[[str], bool]) -> None:
        """Refuse replies and dead letters to a topic that the consumer reads."""
        for name, topic in ("reply_topic", self.reply_topic), ("dead_letter", self.dead_letter):
            if topic is not None and reads(topic):
                reason = "the consumer reads this topic, so what is written there would be handled again, for ever"
                raise ArgumentError.of(name, topic, reason, hint="name another topic, or exclude= it from the pattern")

    def check(self, columns: list[str], awaits: bool) -> "Plan":
        """Check this plan for a consumer with these columns; `awaits` if it awaits coroutine functions.

        Raises:
            ArgumentError: if an argument is invalid.
        """
        if not callable(self.handler):
            raise ArgumentError(f"handler={self.handler!r} cannot be called")
        check_callable("handler", self.handler, awaits)
        check_callable("on_error", self.on_error, awaits)
        if self.order not in _ORDERS:
            raise ArgumentError.of("order", self.order, f"expected one of {', '.join(map(repr, _ORDERS))}")
        if self.order == "key" and "key" not in columns:
            raise ArgumentError("order='key' needs the column key: name it in columns=[...]")
        for name in ("concurrency", "max_queued_records", "max_queued_bytes"):
            _check_count(name, getattr(self, name))
        if self.batch_size is not None:
            _check_count("batch_size", self.batch_size)
        if self.dead_letter is not None:
            topic_names([self.dead_letter], "dead_letter= takes the name of a topic")
            check_columns(columns)
        if self.reply_topic is not None:
            topic_names([self.reply_topic], "reply_topic= takes the name of a topic")
        self._check_producers(columns, awaits)
        timeout = None if self.timeout is None else seconds("timeout", self.timeout)
        interval = seconds("commit_interval", self.commit_interval)
        return self._replace(grace=seconds("grace", self.grace), timeout=timeout, commit_interval=interval)

    def _check_producers(self, columns: list[str], awaits: bool) -> None:
        kind = AsyncProducer if awaits else Producer
        for name, given in ("producer", self.producer), ("transaction", self.transaction):
            if given is None:
                continue
            if self.dead_letter is None and self.reply_topic is None:
                raise ArgumentError(
                    f"{name}= writes dead letters and replies: name their topic with dead_letter= or reply_topic="
                )
            if not isinstance(given, kind):
                raise ArgumentError(f"{name}={given!r}: expected a monedula.{kind.__name__}")
        if self.producer is not None and self.producer._is_transactional:
            raise ArgumentError(
                "the producer has a transactional.id, and so writes in transactions alone",
                argument="producer",
                hint="give it as transaction=, for exactly once, or a producer without that setting",
            )
        if self.transaction is None:
            return
        if self.producer is not None:
            raise ArgumentError("transaction= writes all dead letters and replies: leave out producer=")
        if not self.transaction._is_transactional:
            raise ArgumentError(
                "the producer has no transactional.id",
                argument="transaction",
                hint="set one that no other process uses at the same time, and that is the same after a restart",
            )
        if missing := [name for name in ("topic", "partition", "offset") if name not in columns]:
            raise ArgumentError(f"transaction= needs the columns {', '.join(missing)}: name them in columns=[...]")


def as_plan(**arguments: Any) -> Plan:
    """Make a plan of the arguments of `run`, not checked yet."""
    return Plan(retry=as_retry(arguments.pop("retries")), **arguments)


def group_of(settings: RawSettings, is_subscribed: bool, *, commits: bool = True) -> str:
    """Return the group of a consumer, which must be a member with automatic commits; without, if not `commits`."""
    group = _setting(settings, "group.id")
    if not group or not is_subscribed:
        raise ArgumentError("run() is for members of a group: set group.id, and subscribe() to topics first")
    is_automatic = (_setting(settings, "enable.auto.commit") or "true").strip().lower() != "false"
    if is_automatic and not commits:
        reason = "with transaction= offsets are committed in transactions alone"
        raise ArgumentError(f"enable.auto.commit is on, but {reason}: set it to false")
    if commits and not is_automatic:
        reason = "run() commits what its handler has finished, and nothing else"
        raise ArgumentError(f"enable.auto.commit is off, but {reason}: leave the setting out")
    return group


def _setting(settings: RawSettings, name: str) -> str | None:
    (known,) = (key for key in config_keys() if key.name == name)
    names = (known.name, *known.aliases)
    return next((value for key, value in settings if key.strip().replace("_", ".") in names), None)


def _check_count(name: str, value: object) -> None:
    number = whole_number(value)
    if number is None or number < 1:
        raise ArgumentError.of(name, value, "expected a whole number, 1 or more")
