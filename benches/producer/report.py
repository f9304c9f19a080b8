"""The result tables: medians, spread, and what monedula's two ways to send make of each peer."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

OURS = ("monedula_batch", "monedula_send")
COLUMNS = (
    "peer",
    "version",
    "records/s",
    "spread",
    "CPU ns/record",
    "peak RSS MB",
    "records/batch",
    "stored MB/M records",
    "rate: batch / peer",
    "CPU: peer / batch",
    "rate: send / peer",
    "CPU: peer / send",
)


@dataclass
class Run:
    """One measured run of one peer, and what it left in its topic."""

    peer: str
    codec: str
    round: int
    records: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    first_seconds: float | None = None
    first_records: int | None = None
    peak_rss_bytes: int = 0
    batches: int = 0
    stored_bytes: int = 0
    version: str = ""
    error: str | None = None

    def in_words(self) -> str:
        """One line."""
        figures = (
            ""
            if not self.records
            else (f"{self.records / self.seconds:,.0f}/s, {self.cpu_seconds / self.records * 1e9:,.0f} ns CPU/record")
        )
        return f"round {self.round} {self.codec:5} {self.peer:22} {self.error or figures}"


def render(runs: Sequence[Run], on: dict[str, str], records: int, rounds: int) -> str:
    """The tables in Markdown, one for each codec."""
    lines = ["", ", ".join(f"{key} {value}" for key, value in on.items())]
    for codec in dict.fromkeys(run.codec for run in runs):
        of_codec = [run for run in runs if run.codec == codec]
        lines += ["", f"### {codec}: {records:,} records, acks=all; median of {rounds}", ""]
        lines += [f"| {' | '.join(COLUMNS)} |", "|---|---|" + "---:|" * (len(COLUMNS) - 2)]
        for name in dict.fromkeys(run.peer for run in of_codec):
            lines.append(_row(name, of_codec))
    return "\n".join(lines)


def _row(name: str, of_codec: Sequence[Run]) -> str:
    mine = [run for run in of_codec if run.peer == name]
    good = [run for run in mine if not run.error]
    if not good:
        return f"| {name} | | failed: {mine[0].error} |" + " |" * (len(COLUMNS) - 3)
    rates = [run.records / run.seconds for run in good]
    cells = [
        name,
        good[0].version,
        f"{_rate(good) / 1e6:.2f} M",
        f"{min(rates) / 1e6:.2f}-{max(rates) / 1e6:.2f} M",
        f"{_cpu_ns(good):,.0f}",
        f"{max(run.peak_rss_bytes for run in good) / 1e6:,.0f}",
        f"{good[0].records / good[0].batches:,.0f}",
        f"{good[0].stored_bytes / good[0].records:,.1f}",
    ]
    for our_name in OURS:
        ours = [run for run in of_codec if run.peer == our_name and not run.error]
        if ours and name != our_name:
            cells += [f"{_rate(ours) / _rate(good):.2f}", f"{_cpu_ns(good) / _cpu_ns(ours):.2f}"]
        else:
            cells += ["", ""]
    return f"| {' | '.join(cells)} |"


def _rate(runs: Sequence[Run]) -> float:
    return statistics.median(run.records / run.seconds for run in runs)


def _cpu_ns(runs: Sequence[Run]) -> float:
    return statistics.median(run.cpu_seconds / run.records for run in runs) * 1e9
