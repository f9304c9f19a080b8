"""Records that are gone before a stream read them: an error, or a warning and what is left, as failOnDataLoss says."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.spark._support.sources import OURS, SOURCES
from tests.spark._support.streams import run_stream, streaming
from tests.spark.test_stream import counts, fill, positions, stream

LOSS = r"[Ss]ome data may have been lost"


@pytest.mark.parametrize("source", SOURCES)
def test_records_that_aged_out(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, source: str
) -> None:
    name = topic(1)
    fill(kafka, name, {0: 10})
    run_stream(stream(spark, source, kafka, subscribe=name), checkpoint)
    fill(kafka, name, {0: 10})
    kafka.helper.delete_records(name, {0: 15})
    with pytest.raises(Exception, match=LOSS):
        run_stream(stream(spark, source, kafka, subscribe=name), checkpoint)
    batches = run_stream(stream(spark, source, kafka, subscribe=name, failOnDataLoss="false"), checkpoint)
    assert [positions(batch.rows) for batch in batches] == [[(0, n) for n in range(15, 20)]]


def test_what_was_lost_is_reported(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, spark_log: Callable[[], str]
) -> None:
    name = topic(1)
    fill(kafka, name, {0: 10})
    kafka.helper.delete_records(name, {0: 5})
    options = {"subscribe": name, "startingOffsets": f'{{"{name}":{{"0":2}}}}', "failOnDataLoss": "false"}
    (batch,) = run_stream(stream(spark, OURS, kafka, **options), checkpoint)
    assert len(batch.rows) == 5
    deadline = time.monotonic() + 20
    while not re.search(rf"(?s)data may have been lost.*\[2, 5\).*{name}-0", spark_log()):
        assert time.monotonic() < deadline, spark_log()


def test_everything_that_was_to_be_read_aged_out(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name = topic(1)
    fill(kafka, name, {0: 10})
    run_stream(stream(spark, OURS, kafka, subscribe=name), checkpoint)
    fill(kafka, name, {0: 10})
    kafka.helper.delete_records(name, {0: 20})
    batches = run_stream(stream(spark, OURS, kafka, subscribe=name, failOnDataLoss="false"), checkpoint)
    assert [row for batch in batches for row in batch.rows] == []
    fill(kafka, name, {0: 1})
    (batch,) = run_stream(stream(spark, OURS, kafka, subscribe=name), checkpoint)
    assert positions(batch.rows) == [(0, 20)]


def test_a_topic_that_was_deleted(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    kept, deleted = topic(1), topic(1)
    for name in (kept, deleted):
        fill(kafka, name, {0: 3})
    options = {"subscribe": f"{kept},{deleted}", "fetchOffset_numRetries": 1}
    run_stream(stream(spark, OURS, kafka, **options), checkpoint)
    kafka.helper.delete_topic(deleted)
    fill(kafka, kept, {0: 2})
    with pytest.raises(Exception, match=LOSS):
        run_stream(stream(spark, OURS, kafka, **options), checkpoint)
    batches = run_stream(stream(spark, OURS, kafka, **options, failOnDataLoss="false"), checkpoint)
    assert positions(row for batch in batches for row in batch.rows) == [(0, 3), (0, 4)]


@pytest.mark.parametrize("records", [3, 5, 8], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_that_was_created_again_while_a_query_runs(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, records: int, fails: str
) -> None:
    """By its id: a log that grew as long as the old one was is no less another log."""
    name = topic(1)
    fill(kafka, name, {0: 5})
    options = {"subscribe": name, "fetchOffset_numRetries": 1, "failOnDataLoss": fails}
    with streaming(stream(spark, OURS, kafka, **options), checkpoint) as run:
        run.query.processAllAvailable()
        kafka.helper.delete_topic(name)
        kafka.helper.create_topic(name)
        fill(kafka, name, {0: records})
        if fails == "true":
            with pytest.raises(Exception, match=LOSS):
                assert run.query.awaitTermination(30), "the query goes on"
            return
        deadline = time.monotonic() + 90
        while len(run.rows) < 5 + records:
            run.query.processAllAvailable()
            assert time.monotonic() < deadline, counts(run.batches)
    assert positions(run.rows) == sorted([(0, n) for n in range(5)] + [(0, n) for n in range(records)])


def test_a_topic_that_was_created_again_between_runs_and_is_shorter(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name = topic(1)
    fill(kafka, name, {0: 5})
    options = {"subscribe": name, "fetchOffset_numRetries": 1}
    run_stream(stream(spark, OURS, kafka, **options), checkpoint)
    kafka.helper.delete_topic(name)
    kafka.helper.create_topic(name)
    fill(kafka, name, {0: 3})
    with pytest.raises(Exception, match=LOSS):
        run_stream(stream(spark, OURS, kafka, **options), checkpoint)
