"""Our Spark source and sink, and Spark's own, over one topic, in one session on `local[2]`.

`python -m benches.spark` measures everything, as benches/spark/README.md says; `make bench` has a short form, which
asserts that all arms read the same and never a time. Exit code 1: an arm read something else.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from benches import data, table
from benches.spark import arms, ceiling, report, typed
from benches.spark.arms import Place
from benches.spark.runs import QUERIES, Bench, Run
from tests.kafka import KafkaCluster, KafkaUnavailable, jars
from tests.spark._support import session

RECORDS = 3_000_000
SMALL_RECORDS = 10_000
WRITE_CODECS = ("none", "lz4")


def main() -> int:
    """Fill, start, check, measure, print, write."""
    options = _options()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="monedula-spark-bench-") as directory,
            data.serve([options.codec], options.records, fresh=options.fresh) as (kafka, datasets),
        ):
            on = table.machine()
            small = data.ready(kafka, options.codec, SMALL_RECORDS) if "small" in options.queries else None
            runs, wrong = _run(options, kafka, datasets[options.codec], small, Path(directory))
    except KafkaUnavailable as error:
        raise SystemExit(str(error)) from error
    used = ", ".join(path.name for path in jars.spark_connector())
    print(", ".join(f"{key} {value}" for key, value in on.items()))
    print(f"Spark's connector: {used}; driver memory {options.driver_memory}, codec {options.codec}")
    print(report.render(runs))
    if options.json:
        results = {"machine": on, "connector": used, "options": vars(options), "runs": [asdict(run) for run in runs]}
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    for line in wrong:
        print(f"WRONG: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _run(
    options: argparse.Namespace, kafka: KafkaCluster, big: data.Dataset, small: data.Dataset | None, directory: Path
) -> tuple[list[Run], list[str]]:
    ready_made = directory / "ceiling"
    ceiling.prepare(ready_made, kafka.bootstrap, big.topic, big.partitions)
    place = _place(kafka, big, ready_made)
    broker_pid = next(node.pid for node in kafka.nodes.values() if node.pid)
    conf = {"spark.driver.memory": options.driver_memory}
    runs: list[Run] = []
    with session.running(directory / "spark", conf=conf, fast_start=False) as spark:
        spark.dataSource.register(ceiling.Ceiling)
        topics = partial(_topic, kafka)
        bench = Bench(spark, session.jvm_pid(spark), broker_pid, spark.conf.get(arms.V1_SOURCES), topics)
        batch = [name for name in arms.BATCH if name in options.arms]
        wrong = bench.check(place, batch) if batch else []
        runs += bench.batches(place, batch, [name for name in options.queries if name in QUERIES], options.rounds)
        decoded = [name for name in typed.ARMS if name in options.arms]
        if decoded and {"typed", "typed_avro"} & set(options.queries):
            typed.prepare(directory / "typed", kafka.bootstrap, big.topic, big.partitions)
            with_typed = replace(place, ceiling_path=str(directory / "typed"))
            if "typed" in options.queries:
                runs += bench.typed_columns("typed", with_typed, decoded, options.rounds)
            if "typed_avro" in options.queries:
                with _topic(kafka, typed.AVRO_TOPIC, big.partitions):
                    in_avro = typed.as_avro(with_typed, big.partitions)
                    runs += bench.typed_columns("typed_avro", in_avro, decoded, options.rounds)
        written = [name for name in arms.WRITE if name in options.arms]
        if "write" in options.queries and written:
            runs += bench.writes(place, written, WRITE_CODECS, options.rounds)
        streamed = [name for name in arms.STREAM if name in options.arms]
        for name, topic in (("stream", big), ("small", small)):
            if name in options.queries and topic is not None and streamed:
                where = _place(kafka, topic, ready_made)
                runs += bench.streams(name, where, streamed, options.rounds, options.triggers, directory)
    return runs, wrong


@contextmanager
def _topic(kafka: KafkaCluster, name: str, partitions: int) -> Iterator[None]:
    kafka.helper.create_topic(name, partitions=partitions)
    try:
        yield
    finally:
        kafka.helper.delete_topic(name)


def _place(kafka: KafkaCluster, dataset: data.Dataset, ready_made: Path) -> Place:
    ends = {number: end for number, (_, end) in kafka.helper.offsets(dataset.topic).items()}
    return Place(kafka.bootstrap, dataset, ends, str(ready_made))


def _options() -> argparse.Namespace:
    queries = [*QUERIES, "typed", "typed_avro", "write", "stream", "small"]
    names = list(dict.fromkeys([*arms.BATCH, *typed.ARMS]))
    parser = argparse.ArgumentParser(
        prog="python -m benches.spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=RECORDS, help="in the topic (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="measured ones; one more warms (default %(default)s)")
    parser.add_argument("--codec", default="lz4", choices=data.CODECS, help="default %(default)s")
    parser.add_argument("--arms", type=_names(names), default=names, help=f"of {', '.join(names)}")
    parser.add_argument("--queries", type=_names(queries), default=queries, help=f"of {', '.join(queries)}")
    parser.add_argument("--triggers", type=int, default=10, help="micro-batches of a stream (default %(default)s)")
    parser.add_argument("--driver-memory", default="4g", help="heap of Spark's JVM (default %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="fill a temporary Kafka and keep nothing")
    parser.add_argument("--json", help="write every run to this file")
    return parser.parse_args()


def _names(known: Iterable[str]) -> Callable[[str], list[str]]:
    choices = list(known)

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in choices]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(choices)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())
