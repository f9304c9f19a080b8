"""Streams of our source side by side with those of Spark's own: the same batches, the same offsets logged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record
from tests.spark._support.sources import JVM, OURS, SOURCES, options_for
from tests.spark._support.streams import MicroBatch, forget_commits, logged_offsets, run_stream, streaming


@pytest.fixture
def uneven(kafka: KafkaCluster, topic: TopicFactory) -> str:
    """A topic of three partitions with 90, 10 and 0 records."""
    name = topic(3)
    fill(kafka, name, {0: 90, 1: 10})
    return name


def fill(kafka: KafkaCluster, topic: str, counts: dict[int, int], **how: Any) -> None:
    """Add records to partitions."""
    records: list[Record] = [
        {"value": str(n), "partition": partition} for partition, count in counts.items() for n in range(count)
    ]
    kafka.helper.produce(topic, records, **how)


def stream(spark: SparkSession, source: str, kafka: KafkaCluster, **options: Any) -> DataFrame:
    options = {"startingOffsets": "earliest", **options}
    return spark.readStream.format(source).options(**options_for(kafka, **options)).load()


def counts(batches: list[MicroBatch]) -> list[tuple[int, dict[int, int]]]:
    """Id of each batch and how many rows of each partition it has."""
    return [
        (
            batch.batch_id,
            {p: sum(row.partition == p for row in batch.rows) for p in {row.partition for row in batch.rows}},
        )
        for batch in batches
    ]


def both(
    spark: SparkSession, kafka: KafkaCluster, checkpoint: Path, **options: Any
) -> list[tuple[list[MicroBatch], dict[int, Any]]]:
    """Batches and offset log of either source, run with AvailableNow."""
    found = []
    for source in SOURCES:
        batches = run_stream(stream(spark, source, kafka, **options), checkpoint / source)
        found.append((batches, logged_offsets(checkpoint / source)))
    return found


def positions(rows: Any) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in rows)


def plain(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset without what ours adds: where starts that were looked up lie."""
    return {name: value for name, value in offset.items() if name != "$start"}


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"maxOffsetsPerTrigger": 30},
        pytest.param({"maxOffsetsPerTrigger": 7}, marks=pytest.mark.thorough),
        pytest.param({"maxOffsetsPerTrigger": 1}, marks=pytest.mark.thorough),
        pytest.param(
            {"maxOffsetsPerTrigger": 40, "minPartitions": 5, "maxRecordsPerPartition": 9}, marks=pytest.mark.thorough
        ),
        {"minOffsetsPerTrigger": 50, "maxTriggerDelay": "1h"},
    ],
    ids=str,
)
def test_micro_batches_are_cut_equally(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path, limits: dict[str, Any]
) -> None:
    if limits == {"maxOffsetsPerTrigger": 1}:  # a batch for each of a hundred records would take a minute
        kafka.helper.delete_records(uneven, {0: 86, 1: 9})
    (jvm, jvm_log), (ours, our_log) = both(spark, kafka, checkpoint, subscribe=uneven, **limits)
    assert counts(ours) == counts(jvm)
    assert [positions(batch.rows) for batch in ours] == [positions(batch.rows) for batch in jvm]
    assert {number: plain(offset) for number, offset in our_log.items()} == jvm_log


def test_offsets_are_written_as_the_jvm_writes_them(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    names = [topic(11), topic(1)]
    for name in names:
        fill(kafka, name, {0: 2})
    batches = run_stream(stream(spark, OURS, kafka, subscribe=",".join(names), maxOffsetsPerTrigger=2), checkpoint)
    assert len(batches) > 1
    # The second batch has nothing that was looked up: what it logs is the JVM's text, partitions in numeric order.
    text = (checkpoint / "offsets" / "1").read_text().splitlines()[2]
    assert text.replace(" ", "") == json.dumps(
        {name: {str(p): end for p, (_, end) in sorted(kafka.helper.offsets(name).items())} for name in sorted(names)},
        separators=(",", ":"),
    )


@pytest.mark.parametrize("source", SOURCES)
def test_what_comes_later_is_not_part_of_available_now(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path, source: str
) -> None:
    seen: list[int] = []

    def add(batch: DataFrame, batch_id: int) -> None:
        seen.append(batch.count())
        if batch_id == 0:
            fill(kafka, uneven, {0: 50})

    frame = stream(spark, source, kafka, subscribe=uneven, maxOffsetsPerTrigger=40)
    writer = frame.writeStream.foreachBatch(add).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert sum(seen) == 100


def test_a_running_query_follows_the_topic(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path
) -> None:
    with streaming(stream(spark, OURS, kafka, subscribe=uneven), checkpoint, processingTime="100 milliseconds") as run:
        run.query.processAllAvailable()
        assert len(run.rows) == 100
        for turn in range(1, 4):
            fill(kafka, uneven, {0: 1, 2: 2})
            run.query.processAllAvailable()
            assert len(run.rows) == 100 + 3 * turn
    assert positions(run.rows) == [(0, n) for n in range(93)] + [(1, n) for n in range(10)] + [(2, n) for n in range(6)]


def test_a_new_query_starts_at_the_end(spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path) -> None:
    frame = stream(spark, OURS, kafka, subscribe=uneven, startingOffsets="latest")
    with streaming(frame, checkpoint) as run:
        run.query.processAllAvailable()
        fill(kafka, uneven, {1: 3})
        run.query.processAllAvailable()
    assert positions(run.rows) == [(1, 10), (1, 11), (1, 12)]


def test_progress_tells_the_latest_offsets(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path
) -> None:
    latest = {uneven: {"0": 90, "1": 10, "2": 0}}
    frame = stream(spark, OURS, kafka, subscribe=uneven, maxOffsetsPerTrigger=50)
    with streaming(frame, checkpoint, availableNow=True) as run:
        assert run.query.awaitTermination(60)
        told = [p["sources"][0] for p in run.query.recentProgress if p["numInputRows"]]
    assert [_parsed(each["latestOffset"]) for each in told] == [latest, latest]
    assert _parsed(told[-1]["endOffset"]) == latest
    assert [each["numInputRows"] for each in told] == [50, 50]


def _parsed(offset: Any) -> Any:
    return json.loads(offset) if isinstance(offset, str) else offset


def test_too_little_waits_until_the_delay_is_over(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path
) -> None:
    options = {"subscribe": uneven, "minOffsetsPerTrigger": 50}
    with streaming(stream(spark, OURS, kafka, **options, maxTriggerDelay="1h"), checkpoint) as run:
        run.query.processAllAvailable()
        assert len(run.rows) == 100
        fill(kafka, uneven, {0: 20})
        run.query.processAllAvailable()
        assert len(run.rows) == 100, "20 are too few"
        fill(kafka, uneven, {1: 30})
        run.query.processAllAvailable()
        assert len(run.rows) == 150
    fill(kafka, uneven, {2: 1})
    with streaming(stream(spark, OURS, kafka, **options, maxTriggerDelay="1ms"), checkpoint) as run:
        while not run.rows:
            run.query.processAllAvailable()
        assert positions(run.rows) == [(2, 0)]


def test_bytes_limit_a_micro_batch(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name = topic(2)
    for partition in (0, 1):
        kafka.helper.produce(name, [{"value": bytes(1000), "partition": partition} for _ in range(300)])
    frame = stream(spark, OURS, kafka, subscribe=name, maxBytesPerTrigger="100k")
    batches = run_stream(frame, checkpoint)
    assert positions(row for batch in batches for row in batch.rows) == [(p, n) for p in (0, 1) for n in range(300)]
    # 600 kB in the log: an estimate may be wrong by a little, not by half.
    assert 5 <= len(batches) <= 10
    assert max(len(batch.rows) for batch in batches) < 150


@pytest.mark.parametrize("source", SOURCES)
def test_new_partitions_start_at_their_first_record(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path, source: str
) -> None:
    frame = stream(spark, source, kafka, subscribe=uneven, startingOffsets="latest")
    with streaming(frame, checkpoint) as run:
        run.query.processAllAvailable()
        kafka.helper.add_partitions(uneven, 5)
        fill(kafka, uneven, {0: 1, 3: 2, 4: 3})
        while len(run.rows) < 6:  # until the source's own metadata know of them
            run.query.processAllAvailable()
    assert positions(run.rows) == [(0, 90), (3, 0), (3, 1), (4, 0), (4, 1), (4, 2)]


def test_new_topics_that_match_are_read_from_their_first_record(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    first = topic(1)
    stem = first.rsplit("-", 1)[0]
    frame = stream(spark, OURS, kafka, subscribePattern=f"{stem}-.*", startingOffsets="latest")
    with streaming(frame, checkpoint) as run:
        run.query.processAllAvailable()
        second = topic(1)
        fill(kafka, second, {0: 2})
        while len(run.rows) < 2:
            run.query.processAllAvailable()
    assert [(row.topic, row.offset) for row in run.rows] == [(second, 0), (second, 1)]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_an_open_transaction_ends_a_committed_stream(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, isolation: str
) -> None:
    name = topic(1)
    fill(kafka, name, {0: 3})
    fill(kafka, name, {0: 3}, transaction="abort")
    fill(kafka, name, {0: 2}, transaction="open", transactional_id=name)
    (jvm, jvm_log), (ours, our_log) = both(spark, kafka, checkpoint, subscribe=name, kafka_isolation_level=isolation)
    assert [positions(batch.rows) for batch in ours] == [positions(batch.rows) for batch in jvm]
    assert {number: plain(offset) for number, offset in our_log.items()} == jvm_log
    kafka.helper.end_transaction(name, "commit")
    frame = stream(spark, OURS, kafka, subscribe=name, kafka_isolation_level=isolation)
    more = run_stream(frame, checkpoint / OURS)
    rows = [row for batch in ours + more for row in batch.rows]
    expected = [0, 1, 2, 7, 8] if isolation == "read_committed" else [0, 1, 2, 3, 4, 5, 7, 8]
    assert [offset for _, offset in positions(rows)] == expected


def test_a_checkpoint_of_the_jvm_source_is_continued(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path
) -> None:
    options = {"subscribe": uneven, "maxOffsetsPerTrigger": 40}
    before = run_stream(stream(spark, JVM, kafka, **options), checkpoint)
    fill(kafka, uneven, {0: 20, 2: 5})
    after = run_stream(stream(spark, OURS, kafka, **options), checkpoint)
    assert [batch.batch_id for batch in before + after] == [0, 1, 2, 3]
    rows = [row for batch in before + after for row in batch.rows]
    assert positions(rows) == [(0, n) for n in range(110)] + [(1, n) for n in range(10)] + [(2, n) for n in range(5)]
    # And back again: the JVM source reads the offsets that ours logs.
    fill(kafka, uneven, {1: 1})
    (last,) = run_stream(stream(spark, JVM, kafka, **options), checkpoint)
    assert (last.batch_id, positions(last.rows)) == (4, [(1, 10)])


def test_a_planned_batch_of_the_jvm_source_is_replayed(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path
) -> None:
    options = {"subscribe": uneven, "maxOffsetsPerTrigger": 40}
    before = run_stream(stream(spark, JVM, kafka, **options), checkpoint)
    forget_commits(checkpoint, 2)
    again, *more = run_stream(stream(spark, OURS, kafka, **options), checkpoint)
    assert (again.batch_id, positions(again.rows)) == (2, positions(before[2].rows))
    # Ours writes the same offsets as another text than the JVM source did, so Spark may plan one empty batch.
    assert [batch.rows for batch in more] in ([], [[]])


def test_the_first_batch_of_the_jvm_source_is_refused_where_its_start_cannot_be_known(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path
) -> None:
    frame = stream(spark, JVM, kafka, subscribe=uneven, startingOffsets="latest")
    with streaming(frame, checkpoint) as run:
        run.query.processAllAvailable()
        fill(kafka, uneven, {0: 3})
        run.query.processAllAvailable()
    forget_commits(checkpoint, 0)
    ours = stream(spark, OURS, kafka, subscribe=uneven, startingOffsets="latest")
    with pytest.raises(Exception, match="planned by another Kafka source"):
        run_stream(ours, checkpoint)


GROWN_STARTS: dict[str, Callable[[str], dict[str, str]]] = {
    "earliest": lambda _: {"startingOffsets": "earliest"},
    "latest": lambda _: {"startingOffsets": "latest"},
    "offsets": lambda name: {"startingOffsets": json.dumps({name: {"0": 1, "1": -2}})},
    "times": lambda name: {"startingOffsetsByTimestamp": json.dumps({name: {"0": 1000, "1": 1000}})},
    "a time": lambda _: {"startingTimestamp": "1000"},
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "start",
    [
        "offsets",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("earliest", "latest", "times", "a time")),
    ],
)
def test_a_first_batch_that_never_finished_is_read_after_the_topic_grew(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, source: str, start: str
) -> None:
    name = topic(2)
    fill(kafka, name, {0: 5, 1: 3})
    options = {"subscribe": name, **GROWN_STARTS[start](name)}
    with streaming(stream(spark, source, kafka, **options), checkpoint) as run:
        run.query.processAllAvailable()
        fill(kafka, name, {0: 2})
        run.query.processAllAvailable()
    forget_commits(checkpoint, 0)
    kafka.helper.add_partitions(name, 3)
    fill(kafka, name, {2: 4})
    batches = run_stream(stream(spark, source, kafka, **options), checkpoint)
    assert batches[0].batch_id == 0
    assert positions(batches[0].rows) == positions(run.batches[0].rows)
    first = {"latest": 5, "offsets": 1}.get(start, 0)
    others = [] if start == "latest" else [(1, n) for n in range(3)]
    expected = [*((0, n) for n in range(first, 7)), *others, *((2, n) for n in range(4))]
    assert positions(row for batch in batches for row in batch.rows) == expected


def test_a_first_batch_that_never_finished_is_read_without_a_topic_that_is_gone(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    kept, gone = topic(1), topic(1)
    for name in (kept, gone):
        fill(kafka, name, {0: 3})
    starts = json.dumps({kept: {"0": 1}, gone: {"0": 0}})
    options = {"subscribe": f"{kept},{gone}", "startingOffsets": starts, "failOnDataLoss": "false"}
    run_stream(stream(spark, OURS, kafka, **options), checkpoint)
    forget_commits(checkpoint, 0)
    kafka.helper.delete_topic(gone)
    options["fetchOffset_numRetries"] = "1"
    batches = run_stream(stream(spark, OURS, kafka, **options), checkpoint)
    assert [(row.topic, row.offset) for batch in batches for row in batch.rows] == [(kept, 1), (kept, 2)]


def test_other_source_options_do_not_move_a_checkpoint(
    spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path
) -> None:
    run_stream(stream(spark, OURS, kafka, subscribe=uneven), checkpoint)
    fill(kafka, uneven, {1: 2})
    again = run_stream(stream(spark, OURS, kafka, subscribe=uneven, startingOffsets="earliest"), checkpoint)
    assert [positions(batch.rows) for batch in again] == [[(1, 10), (1, 11)]]


def test_a_stream_projects(spark: SparkSession, kafka: KafkaCluster, uneven: str, checkpoint: Path) -> None:
    reader = spark.readStream.format(OURS).options(**options_for(kafka, subscribe=uneven, startingOffsets="earliest"))
    frame = reader.schema("value binary").load()
    (batch,) = run_stream(frame, checkpoint, columns=("value",))
    assert sorted(bytes(row.value) for row in batch.rows) == sorted(
        str(n).encode() for count in (90, 10) for n in range(count)
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"endingOffsetsByTimestamp": "{}"}, "ending timestamp not valid in streaming queries"),
        ({"maxOffsetsPerTrigger": 5, "minOffsetsPerTrigger": 6}, "minOffsetPerTrigger(6) is higher than"),
        ({"startingOffsets": "x"}, 'Expected e.g. {"topicA":{"0":23,"1":-1}'),
        ({"startingTimestamp": 9_999_999_999_999}, "No offset matched from request of topic-partition"),
    ],
    ids=lambda value: "" if isinstance(value, str) else ",".join(value),
)
@pytest.mark.parametrize("source", SOURCES)
def test_streams_are_refused_with_the_same_words(
    spark: SparkSession,
    kafka: KafkaCluster,
    uneven: str,
    checkpoint: Path,
    source: str,
    options: dict[str, Any],
    words: str,
) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the words are judged below; Spark's types vary)
        run_stream(stream(spark, source, kafka, subscribe=uneven, **options), checkpoint)
    assert words in " ".join(str(caught.value).split())
