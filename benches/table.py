"""The result table: medians, spread, and monedula's ratio to every peer."""

import datetime
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benches.data import Dataset
    from benches.harness import Run
    from benches.running import Run as Measured

OURS = "monedula"
FLOOR = "drain"
TLS_AIM = 1.3
COLUMNS = (
    "peer",
    "version",
    "records/s",
    "spread",
    "CPU ns/record",
    "broker's",
    "peak RSS MB",
    "rate: monedula / peer",
    "CPU: peer / monedula",
)


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": f"{os.cpu_count()} x {_cpu_model()}",
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def render(runs: "Sequence[Run]", datasets: "Sequence[Dataset]", on: dict[str, str], rounds: int) -> str:
    """The tables in Markdown, one for each codec."""
    lines = ["", ", ".join(f"{key} {value}" for key, value in on.items())]
    arms = [(dataset, security) for dataset in datasets for security in dict.fromkeys(run.security for run in runs)]
    for dataset, security in arms:
        of_arm = [run for run in runs if (run.codec, run.security) == (dataset.codec, security)]
        over = "" if security == "PLAINTEXT" else " over TLS"
        size = f"{dataset.records:,} records, {dataset.stored_bytes / 1e6:,.0f} MB in {dataset.batches:,} batches"
        lines += [
            "",
            f"### {dataset.codec}{over}: {size}, {dataset.partitions} partitions; median of {rounds}",
            "",
            *compared(of_arm),
        ]
    return "\n".join([*lines, *_cost_of_tls(runs, datasets)])


def compared(runs: "Sequence[Measured]") -> list[str]:
    """The table of one workload, with a row for each peer."""
    ours = [run for run in runs if run.peer == OURS and not run.error]
    rows = [
        _row(name, [run for run in runs if run.peer == name], ours) for name in dict.fromkeys(run.peer for run in runs)
    ]
    return [f"| {' | '.join(COLUMNS)} |", "|---|---|" + "---:|" * (len(COLUMNS) - 2), *rows]


def _cost_of_tls(runs: "Sequence[Run]", datasets: "Sequence[Dataset]") -> list[str]:
    """What reading costs with and without TLS, beside the floor's; nothing where one of the two was not measured."""
    lines = []
    for dataset in datasets:

        def cpu_ns(peer: str, security: str, codec: str = dataset.codec) -> float | None:
            chosen = [run for run in runs if (run.peer, run.security, run.codec) == (peer, security, codec)]
            good = [run for run in chosen if not run.error]
            return _cpu_ns(good) if good else None

        plain, over_tls, floor = cpu_ns(OURS, "PLAINTEXT"), cpu_ns(OURS, "SSL"), cpu_ns(FLOOR, "SSL")
        if plain is not None and over_tls is not None and floor is not None:
            aim = plain + TLS_AIM * floor
            lines.append(f"| {dataset.codec} | {plain:,.0f} | {over_tls:,.0f} | {floor:,.0f} | {aim:,.0f} |")
    if lines:
        head = f"| codec | CPU ns/record | over TLS | of the floor over TLS | aim: the first + {TLS_AIM} x the last |"
        lines = ["", "### monedula over TLS", "", head, "|---|---:|---:|---:|---:|", *lines]
    return lines


def _row(name: str, runs: "Sequence[Measured]", ours: "Sequence[Measured]") -> str:
    good = [run for run in runs if not run.error]
    if not good:
        return f"| {name} | | failed: {runs[0].error} | | | | | | |"
    rates = [run.records / run.seconds for run in good]
    cpu_ns = _cpu_ns(good)
    broker_cpu_ns = statistics.median(run.broker_cpu_seconds / run.records for run in good) * 1e9
    rss_mb = max(run.peak_rss_bytes for run in good) / 1e6
    ratio = cpu_ratio = ""
    if ours and name != OURS:
        ratio = f"{_rate(ours) / _rate(good):.2f}"
        cpu_ratio = f"{cpu_ns / _cpu_ns(ours):.2f}"
    one, unit, digits = (1e6, "M", 2) if max(rates) >= 1e5 else (1e3, "k", 1)
    median, least, most = (f"{rate / one:.{digits}f}" for rate in (_rate(good), min(rates), max(rates)))
    return (
        f"| {name} | {good[0].version} | {median} {unit} | {least}-{most} {unit} | {cpu_ns:,.0f} "
        f"| {broker_cpu_ns:,.0f} | {rss_mb:,.0f} | {ratio} | {cpu_ratio} |"
    )


def _rate(runs: "Sequence[Measured]") -> float:
    return statistics.median(run.records / run.seconds for run in runs)


def _cpu_ns(runs: "Sequence[Measured]") -> float:
    return statistics.median(run.cpu_seconds / run.records for run in runs) * 1e9


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
