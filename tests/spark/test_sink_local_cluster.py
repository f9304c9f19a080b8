"""The sink in executors that are JVMs of their own (`local-cluster`): there Spark runs a task again that has failed."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.spark._support import paced, processes
from tests.spark._support.driver import Driver
from tests.spark._support.sinks import to
from tests.spark._support.sources import OURS
from tests.spark.test_local_cluster import TWO_EXECUTORS
from tests.spark.test_sink_failures import numbers_in, wait_for_rows

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

TASKS = 3
ROWS_PER_TASK = 10_000
WORKER_MEMORY = "768m"
"""As the guide says; pyspark loads pandas too, if it is there, when it takes the task's message."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_that_are_killed_while_they_write_are_replaced(
    driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    """Their tasks run again from the first row: what they had written is there twice, and nothing is missing."""
    name = topic(4)
    go = checkpoint / "go"
    arguments = {"sink": OURS, "options": to(kafka, name), "go": str(go), "tasks": TASKS}
    other = driver(
        "write_numbers", {**arguments, "rows_per_task": ROWS_PER_TASK}, master=TWO_EXECUTORS, conf=paced.CONF
    )
    wait_for_rows(kafka, name, 1)
    # No task ends by itself, so each task that is killed still has rows to write.
    killed = processes.workers(other.pid)
    processes.kill(killed)
    go.touch()
    assert other.finish() == {"executors": 2}
    assert killed
    times = Counter(numbers_in(kafka, name))
    assert times.keys() == set(range(TASKS * ROWS_PER_TASK))
    assert max(times.values()) > 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_write_within_their_memory_limit(
    driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """`spark.executor.pyspark.memory` limits a worker's address space: what it maps, used or not."""
    name = topic(4)
    arguments = {"sink": OURS, "options": to(kafka, name), "tasks": 2, "rows": 15_000, "value_bytes": 20_000}
    # With Spark's default, an Arrow batch would have 200 MB of these rows, and Spark copies it several times.
    conf = {"spark.executor.pyspark.memory": WORKER_MEMORY, "spark.sql.execution.arrow.maxRecordsPerBatch": 500}
    other = driver("write_large", arguments, master=TWO_EXECUTORS, conf=conf)
    assert other.finish(200.0) == {"executors": 2}
    assert numbers_in(kafka, name) == list(range(15_000))
