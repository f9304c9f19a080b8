"""Landing a topic of JSON in Delta and Iceberg, beside Spark, confluent-kafka with polars, and the floor.

`python -m benches.landing` measures everything, as benches/landing/README.md says; `make bench` has a short form, which
asserts that all arms land each record and never a time. Exit code 1: an arm failed, or its table has other rows.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benches import data, running, table
from benches.landing import memory
from benches.landing.arms import ARMS, OF_FORMAT
from tests.kafka import KafkaUnavailable

PARTS = ("throughput", "freshness", "commits", "memory")
OURS, FLOOR = "monedula", "floor"


def main() -> int:
    """Fill, measure, print, write."""
    options = _options()
    runs: list[dict[str, Any]] = []
    try:
        with data.serve(["lz4"], options.records, fresh=options.fresh) as (kafka, datasets):
            machine = table.machine()
            for part in options.parts:
                runs += _MEASURED[part](options, kafka, datasets["lz4"].topic)
    except KafkaUnavailable as error:
        raise SystemExit(str(error)) from error
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(_render(runs))
    if options.json:
        results = {"machine": machine, "options": vars(options), "runs": runs}
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    wrong = [run for run in runs if run.get("error")]
    for run in wrong:
        print(f"WRONG: {run}", file=sys.stderr)
    return 1 if wrong else 0


def _throughput(options: argparse.Namespace, kafka: data.BenchKafka, topic: str) -> Iterator[dict[str, Any]]:
    for number in range(options.rounds):
        for form in options.formats:
            names = [name for name in OF_FORMAT[form] if name in options.arms]
            # Forth in one round and back in the next: whatever drifts meets every arm alike.
            for name in names if number % 2 else names[::-1]:
                arguments = [name, form, kafka.bootstrap, topic, str(options.records)]
                run = _run("throughput", "benches.landing.arms", arguments, arm=name, format=form)
                if not run.get("error") and run["rows"] != options.records:
                    run["error"] = f"the table has {run['rows']:,} rows in place of {options.records:,}"
                yield run


def _freshness(options: argparse.Namespace, kafka: data.BenchKafka, topic: str) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    for form in options.formats:
        for every in options.every:
            seconds = max(3 * every, 20)
            with _topic(kafka, f"freshness-{form}-{every}") as made:
                arguments = [form, kafka.bootstrap, made, str(every), str(seconds)]
                yield _run("freshness", "benches.landing.freshness", arguments, format=form)


def _commits(options: argparse.Namespace, kafka: data.BenchKafka, topic: str) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    for form in options.formats:
        for partitions in (12, 100, 1000):
            yield _run("commits", "benches.landing.commits", [form, str(partitions)], format=form)


def _memory(options: argparse.Namespace, kafka: data.BenchKafka, topic: str) -> Iterator[dict[str, Any]]:
    with _topic(kafka, "memory") as made:
        memory.fill({"bootstrap.servers": kafka.bootstrap}, topic, made)
        for form in options.formats:
            run = _run("memory", "benches.landing.memory", [form, kafka.bootstrap, made], format=form)
            if not run.get("error") and run["rows"] != options.records:
                run["error"] = f"{run['rows']:,} rows in place of {options.records:,}"
            yield run


_MEASURED = {"throughput": _throughput, "freshness": _freshness, "commits": _commits, "memory": _memory}


@contextmanager
def _topic(kafka: data.BenchKafka, name: str) -> Iterator[str]:
    topic = f"{name}-{os.getpid()}"  # a run that was interrupted has left its own
    kafka.helper.create_topic(topic, partitions=data.PARTITIONS)
    try:
        yield topic
    finally:
        kafka.helper.delete_topic(topic)


def _run(part: str, module: str, arguments: Sequence[str], **facts: str) -> dict[str, Any]:
    """Run a process that ends with a folder for its table, which is removed after it."""
    folder = Path(tempfile.mkdtemp(prefix="monedula-landing-bench-"))
    try:
        ended = running.run([sys.executable, "-m", module, *arguments, str(folder / "table")])
    finally:
        shutil.rmtree(folder)
    run = {
        "part": part,
        **facts,
        **ended.said,
        "cpu_seconds": ended.cpu_seconds,
        "peak_rss_bytes": ended.peak_rss_bytes,
    }
    if ended.error:
        run["error"] = ended.error
    print(json.dumps(run), file=sys.stderr)
    return run


def _render(runs: Sequence[Mapping[str, Any]]) -> str:
    """Tables in Markdown."""
    lines: list[str] = []
    done = [run for run in runs if not run.get("error")]
    for form in dict.fromkeys(run["format"] for run in done if run["part"] == "throughput"):
        mine = [run for run in done if (run["part"], run["format"]) == ("throughput", form)]
        lines += [f"\n#### {form}: {mine[0]['rows']:,} records", "", *_rates(mine)]
    for part, columns in _COLUMNS.items():
        told = [run for run in done if run["part"] == part]
        if told:
            lines += ["", f"#### {part}", "", *_head(columns)]
            lines += [f"| {' | '.join(_cell(name, run[name]) for name in columns)} |" for run in told]
    return "\n".join(lines)


_COLUMNS = {
    "freshness": ("format", "every", "records", "commits", "p50_ms", "p99_ms"),
    "commits": ("format", "partitions", "median_ms", "max_ms", "log_bytes"),
    "memory": (
        "format",
        "rows",
        "files",
        "open_files",
        "budget_bytes",
        "over_baseline_bytes",
        "baseline_bytes",
        "row_groups",
        "largest_row_group_bytes",
        "mean_row_group_bytes",
    ),
}


def _rates(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from _head(("arm", "rows/s", "spread", "monedula / it", "of the floor", "peak RSS MB"))
    names = list(dict.fromkeys(run["arm"] for run in sorted(runs, key=lambda run: list(ARMS).index(run["arm"]))))
    rates = {name: [run["rows"] / run["seconds"] for run in runs if run["arm"] == name] for name in names}
    median = {name: statistics.median(each) for name, each in rates.items()}
    for name in names:
        ratio = f"{median[OURS] / median[name]:.2f}" if OURS in median else ""
        floor = f"{median[name] / median[FLOOR]:.0%}" if FLOOR in median else ""
        peak = max(run["peak_rss_bytes"] for run in runs if run["arm"] == name) / 1e6
        spread = f"{min(rates[name]) / 1e6:.2f}-{max(rates[name]) / 1e6:.2f} M"
        yield f"| {name} | {median[name] / 1e6:.2f} M | {spread} | {ratio} | {floor} | {peak:,.0f} |"


def _head(columns: Iterable[str]) -> list[str]:
    named = [column.removesuffix("_bytes") + " MB" if column.endswith("_bytes") else column for column in columns]
    return [f"| {' | '.join(named)} |", "|---|" + "---:|" * (len(named) - 1)]


def _cell(name: str, value: Any) -> str:
    if name.endswith("_bytes"):
        return f"{value / 1e6:,.3f}"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.landing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=data.RECORDS, help="in the topic (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of the throughput (default %(default)s)")
    parser.add_argument("--formats", type=_list, default=list(OF_FORMAT), help=f"default {','.join(OF_FORMAT)}")
    parser.add_argument("--arms", type=_list, default=list(ARMS), help=f"default {','.join(ARMS)}")
    parser.add_argument("--parts", type=_list, default=list(PARTS), help=f"default {','.join(PARTS)}")
    parser.add_argument("--every", type=lambda text: [int(each) for each in text.split(",")], default=[1, 10, 60])
    parser.add_argument("--fresh", action="store_true", help="fill a temporary Kafka and keep nothing")
    parser.add_argument("--json", help="write every run to this file")
    return parser.parse_args()


def _list(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
