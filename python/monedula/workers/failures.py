"""Treatment of records whose handler raised: another attempt, a dead letter, or the end of the run."""

from collections.abc import Callable
from dataclasses import dataclass
from random import uniform
from typing import Any, Literal

from monedula._arguments import whole_number
from monedula._monedula import LaneWorker
from monedula.errors import ArgumentError

Verdict = Literal["retry", "dead_letter", "skip", "stop", "release", "reject"]
"""Retry; write a dead letter and continue; continue without; end the run with the handler's exception. In a share group
also: have the broker deliver the records again; have it give them up."""

OnError = Callable[[Any, Exception, int], Any]
"""Callback with the handler's argument, its exception, and the number of attempts; returns a `Verdict` or `None`."""

_VERDICTS = ("retry", "dead_letter", "skip", "stop")
_VERDICTS_OF_SHARE_GROUPS = (*_VERDICTS, "release", "reject")


@dataclass(frozen=True, slots=True)
class Retry:
    """Number of attempts for records whose handler raised, and the waits between them.

    The waits grow from `backoff` by `factor` up to `max_backoff` seconds, each varied at random by the fraction
    `jitter`. Records with the same key wait meanwhile; all others continue.

    Attributes:
        retries: attempts after the first one; `None` for no limit.
        backoff: seconds before the second attempt.
        factor: the growth of each further wait.
        max_backoff: the longest wait in seconds.
        jitter: the random part of a wait, as a fraction.
        on: the exceptions that are retried. Records with other exceptions are given up at once.

    Raises:
        ArgumentError: if a number is negative or no number, the waits shrink, or `on` names no exceptions.
    """

    retries: int | None = 3
    backoff: float = 0.5
    factor: float = 2.0
    max_backoff: float = 30.0
    jitter: float = 0.2
    on: type[Exception] | tuple[type[Exception], ...] = Exception

    def __post_init__(self) -> None:
        if self.retries is not None and (whole_number(self.retries) is None or self.retries < 0):
            raise ArgumentError.of("retries", self.retries, "expected a number of retries, 0 or more, or None")
        for name, least in (("backoff", 0.0), ("factor", 1.0), ("max_backoff", 0.0), ("jitter", 0.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
                raise ArgumentError(f"Retry({name}={value!r}): expected a number, {least:g} or more")
        if self.jitter > 1:
            raise ArgumentError(f"Retry(jitter={self.jitter!r}): expected a part of the wait, 0 to 1")
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise ArgumentError(f"Retry(on={self.on!r}): expected exception classes, such as on=TimeoutError")

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait before the next attempt.

        Args:
            attempt: the number of attempts so far, 1 or more.
        """
        # Bound the exponent: a float overflows at 2 ** 1024.
        wait = min(self.backoff * self.factor ** min(attempt - 1, 64), self.max_backoff)
        return wait * uniform(1 - self.jitter, 1 + self.jitter)


def as_retry(retries: "int | Retry | None") -> Retry:
    """Check the argument `retries`."""
    if isinstance(retries, Retry):
        return retries
    if isinstance(retries, bool) or not isinstance(retries, (int, type(None))):
        raise ArgumentError.of("retries", retries, "expected a number of retries, or monedula.Retry(...)")
    return Retry(retries or 0)


class Failures:
    """Decides about records whose handler raised."""

    def __init__(self, retry: Retry, *, has_dead_letters: bool, releases: bool) -> None:
        self.retry = retry
        self._has_dead_letters = has_dead_letters
        self._verdicts = _VERDICTS_OF_SHARE_GROUPS if releases else _VERDICTS
        given_up: Verdict = "release" if releases else "stop"
        self._given_up: Verdict = "dead_letter" if has_dead_letters else given_up

    def verdict(self, attempts: int, error: Exception, said: object) -> Verdict:
        """Decide; `said` is the result of `on_error`."""
        if said is not None:
            expected = f"expected None or one of {self._verdicts}; 'dead_letter' needs dead_letter="
            if said not in self._verdicts or (said == "dead_letter" and not self._has_dead_letters):
                raise ArgumentError(f"on_error returned {said!r}: {expected}")
            return said  # type: ignore[return-value]
        retry = self.retry
        if isinstance(error, retry.on) and (retry.retries is None or attempts <= retry.retries):
            return "retry"
        return self._given_up


def annotate(error: BaseException, worker: LaneWorker, offset: int | None) -> None:
    """Add a note to an exception that names the records of a worker's task, the first of which has this offset."""
    topic, partition = worker.partition or ("", -1)
    place = f"{topic}-{partition}" + ("" if offset is None else f" at offset {offset}")
    count, attempts = worker.row_count, worker.attempts
    more = f" and {count - 1} more records" if count > 1 else ""
    tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    error.add_note(f"monedula: raised while handling {place}{more}, after {tried}")
