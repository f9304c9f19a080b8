"""Messages of a command that runs until Ctrl-C, while no broker answers: "no answer for 12 s"."""

from time import monotonic
from typing import Any

from monedula.cli.running import say

_FIRST = 12.0
_AGAIN = 30.0


class Silence:
    """Says on standard error that brokers do not answer: after 12 s, every 30 s, and when they answer again."""

    def __init__(self) -> None:
        self._next = _FIRST
        self._began: float | None = None

    def answered(self) -> None:
        """Brokers answer."""
        if self._began is not None and self._next > _FIRST:
            say(f"brokers answer again, after {monotonic() - self._began:.0f} s")
        self._next, self._began = _FIRST, None

    def look(self, health: dict[str, Any]) -> None:
        """Say what there is to say about a consumer, by its `health()`."""
        seconds = health["failing_for"]
        if seconds is None:
            self.answered()
            return
        self._began = monotonic() - seconds
        if seconds >= self._next:
            self._next = seconds + _AGAIN
            say(no_answer(seconds, health["last_error"]))


def no_answer(seconds: float, last_error: object) -> str:
    """The sentence for so many seconds, with what failed last."""
    return f"no answer for {seconds:.0f} s: {last_error}"
