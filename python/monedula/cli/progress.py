"""A progress bar on standard error, if that is a terminal."""

import sys
from time import monotonic
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task

# Redraws per second.
_FREQUENCY = 8


class Bar:
    """Shows a command's progress, its rate and the remaining time, if standard error is a terminal."""

    def __init__(self, what: str, total: int | None = None, *, wanted: bool = True) -> None:
        self.records = 0
        self.bytes = 0
        self._done = 0
        self._total = total
        self._next_draw = 0.0
        self._progress: Progress | None = None
        if wanted and sys.stderr.isatty():
            self._progress = _progress(self)
            self._task = self._progress.add_task(what, total=total)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.update(self._task, completed=self._done, total=self._total)
            self._progress.stop()

    def at(self, done: int, total: int | None = None) -> None:
        """Set the progress. May be called very often: it redraws at most 8 times per second."""
        self._done = done
        self._total = self._total if total is None else total
        if self._progress is not None and monotonic() >= self._next_draw:
            self._next_draw = monotonic() + 1 / _FREQUENCY
            self._progress.update(self._task, completed=done, total=self._total)

    def count(self, records: int, size: int) -> None:
        """Add records, and their size in bytes, for the rate."""
        self.records += records
        self.bytes += size


def amount(count: float) -> str:
    """A number with few digits and a unit prefix: 12.3 M."""
    for unit in ("", "k", "M", "G"):
        if abs(count) < 1000 or unit == "G":
            return f"{count:.0f}" if unit == "" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def _progress(bar: Bar) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        _rate(bar),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
        console=Console(stderr=True),
        refresh_per_second=_FREQUENCY,
    )


def _rate(bar: Bar) -> "ProgressColumn":
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: "Task") -> Text:
            seconds = task.elapsed or 0.0
            if not seconds:
                return Text("")
            rate = f"{amount(bar.records / seconds)} records/s, {amount(bar.bytes / seconds)}B/s"
            return Text(rate, style="progress.data.speed")

    return Rate()
