"""Thousands of partitions on one consumer stay inside of the byte budget."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.kafka import KafkaCluster
from tests.real.reading import consumer

BUDGET_BYTES = 64 << 20
SLACK_BYTES = 60 << 20
"""What the process may need besides: the figure of the benches."""
PER_TOPIC = 500
SMALL = {"segment.index.bytes": 1024, "segment.bytes": 1 << 20}
RECORDS = 10
TIMEOUT_SECONDS = 300.0
VALUE_BYTES = 2000


@pytest.fixture(scope="module")
def roomy() -> Iterator[KafkaCluster]:
    """A node that can hold many small logs."""
    config = {"log.index.size.max.bytes": 1024, "num.recovery.threads.per.data.dir": 2, "log.cleaner.enable": "false"}
    with KafkaCluster(config=config, heap="2g") as cluster:
        yield cluster


def resident_bytes() -> int:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("partitions", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_partitions_are_read_inside_of_the_budget(roomy: KafkaCluster, partitions: int) -> None:
    names = [f"many-{partitions}-{number}" for number in range(partitions // PER_TOPIC)]
    value = os.urandom(VALUE_BYTES)
    for name in names:
        roomy.helper.create_topic(name, partitions=PER_TOPIC, config=SMALL)
        # Not through the helper: its command line would hold all values as text.
        producer = confluent_kafka.Producer({"bootstrap.servers": roomy.bootstrap, "linger.ms": 200})
        for index in range(PER_TOPIC):
            for _ in range(RECORDS):
                producer.produce(name, value, partition=index)
        assert producer.flush(120) == 0
    before = resident_bytes()
    counts: dict[tuple[str | None, int | None], int] = {}
    most_used = most_resident = 0
    with consumer(roomy.bootstrap, queued_max_bytes=BUDGET_BYTES) as reader:
        reader.assign(names)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while sum(counts.values()) < partitions * RECORDS:
            assert time.monotonic() < deadline, f"{sum(counts.values())} of {partitions * RECORDS} records"
            for row in reader.poll(1.0, max_rows=10_000).records():
                counts[row.topic, row.partition] = counts.get((row.topic, row.partition), 0) + 1
            most_used = max(most_used, reader.health()["budget_used_bytes"])
            most_resident = max(most_resident, resident_bytes() - before)
        assert len(reader.assignment()) == partitions
    assert set(counts.values()) == {RECORDS}
    assert len(counts) == partitions
    assert most_used <= BUDGET_BYTES
    assert most_resident <= BUDGET_BYTES + SLACK_BYTES, f"{most_resident >> 20} MiB over {before >> 20} MiB"
