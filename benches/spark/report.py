"""Tables in Markdown: medians, spread, and ratios to Spark's own source and to the ceiling."""

import statistics
from collections.abc import Callable, Sequence

from benches.spark.runs import Run

BASELINE = "jvm"
CEILING = "ceiling"
TITLES = {
    "noop": "Batch, every column into a `noop` sink",
    "sum": "Batch, `sum(length(value))`",
    "typed": "Batch, five typed columns of JSON values into a `noop` sink",
    "typed_avro": "Batch, five typed columns of Avro values into a `noop` sink",
    "write": "Batch, rows from Spark's memory into a topic",
    "stream": "Streaming, AvailableNow in limited micro-batches into a `noop` sink",
    "small": "The same with small micro-batches: what a micro-batch costs by itself",
}
RATE_COLUMNS = (
    "arm",
    "records/s",
    "spread",
    "to jvm",
    "to ceiling",
    "seconds",
    "JVM CPU s/M",
    "Python CPU s/M",
    "broker CPU s/M",
)


def render(runs: Sequence[Run]) -> str:
    """All tables."""
    lines: list[str] = []
    for query in dict.fromkeys(run.query for run in runs):
        chosen = [run for run in runs if run.query == query]
        rounds = max(run.round for run in chosen)
        kind, *codec = query.split()
        title = ", ".join([TITLES[kind], *codec])
        lines += ["", f"#### {title}: {chosen[0].records:,} records; median of {rounds}", ""]
        lines += _rates(chosen)
        if kind == "write":
            lines += ["", "Spark's own processes together, and the most that each had in memory:", "", *_client(chosen)]
        if any(run.durations_ms for run in chosen):
            lines += ["", f"`durationMs` of a micro-batch, medians over all {rounds} rounds:", "", *_durations(chosen)]
    return "\n".join(lines)


def _rates(runs: Sequence[Run]) -> list[str]:
    lines = _head(RATE_COLUMNS)
    baseline, ceiling = _of(runs, BASELINE), _of(runs, CEILING)
    for name in _names(runs):
        mine = _of(runs, name)
        rates = [run.records / run.seconds for run in mine]
        cells = [
            name,
            f"{statistics.median(rates) / 1e6:.2f} M",
            f"{min(rates) / 1e6:.2f}-{max(rates) / 1e6:.2f} M",
            _ratio(mine, baseline),
            _ratio(mine, ceiling),
            f"{statistics.median(run.seconds for run in mine):.2f}",
            _cpu(mine, lambda run: run.jvm_cpu_seconds),
            _cpu(mine, lambda run: run.python_cpu_seconds),
            _cpu(mine, lambda run: run.broker_cpu_seconds),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _client(runs: Sequence[Run]) -> list[str]:
    lines = _head(("arm", "client CPU s/M", "JVM peak MB", "Python peak MB"))
    for name in _names(runs):
        mine = _of(runs, name)
        cpu = _cpu(mine, lambda run: run.jvm_cpu_seconds + run.python_cpu_seconds)
        peaks = (max(run.jvm_peak_bytes for run in mine), max(run.python_peak_bytes for run in mine))
        lines.append(f"| {name} | {cpu} | {' | '.join(f'{peak / 1e6:,.0f}' for peak in peaks)} |")
    return lines


def _durations(runs: Sequence[Run]) -> list[str]:
    phases = sorted({phase for run in runs for each in run.durations_ms for phase in each})
    lines = _head(("arm", "micro-batches", *phases, "trigger to jvm"))
    trigger = "triggerExecution"
    baseline = _phase(_of(runs, BASELINE), trigger)
    for name in _names(runs):
        mine = _of(runs, name)
        medians = [_phase(mine, phase) for phase in phases]
        ratio = f"{_phase(mine, trigger) / baseline:.2f}" if baseline else ""
        counted = sum(len(run.durations_ms) for run in mine)
        lines.append(f"| {name} | {counted} | {' | '.join(f'{value:.0f}' for value in medians)} | {ratio} |")
    return lines


def _head(columns: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]


def _names(runs: Sequence[Run]) -> list[str]:
    return sorted({run.arm for run in runs}, key=[run.arm for run in sorted(runs, key=_order)].index)


def _order(run: Run) -> tuple[int, int]:
    # Odd rounds run forth: the first of them has the arms in their own order.
    return (run.round, 0)


def _of(runs: Sequence[Run], name: str) -> list[Run]:
    return [run for run in runs if run.arm == name]


def _phase(runs: Sequence[Run], phase: str) -> float:
    # The first micro-batch of a query compiles its plan and starts its processes: that is in the total, not in here.
    values = [each.get(phase, 0) for run in runs for each in run.durations_ms[1:]]
    return statistics.median(values) if values else 0.0


def _ratio(mine: Sequence[Run], other: Sequence[Run]) -> str:
    if not other:
        return ""
    return f"{statistics.median(r.seconds for r in other) / statistics.median(r.seconds for r in mine):.2f}"


def _cpu(runs: Sequence[Run], part: Callable[[Run], float]) -> str:
    return f"{statistics.median(part(run) / run.records for run in runs) * 1e6:.2f}"
