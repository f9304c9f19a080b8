"""Executors in JVMs of their own (`local-cluster`): what must be pickled, found and run away from the driver."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import monedula._monedula
import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.spark._support import processes
from tests.spark._support.driver import Driver
from tests.spark._support.sink import Sink
from tests.spark._support.sources import OURS, options_for
from tests.spark._support.streams import committed_batches, logged_offsets
from tests.spark.test_failures import everything
from tests.spark.test_stream import fill

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

TWO_EXECUTORS = "local-cluster[2,1,1024]"
EXTENSION_BYTES = Path(monedula._monedula.__file__).stat().st_size
WORKER_MEMORY = f"{485 + (EXTENSION_BYTES >> 20)}m"
"""The guide's 512m with the extension of a release build, which maps 27 MB of them; a debug build's maps more."""
_CORRUPT = "max(value._corrupt_record)"


@pytest.mark.thorough
def test_a_worker_that_is_killed_while_it_reads_is_replaced(
    driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    """Its tasks run again, and the query goes on. A batch and a stream are read before."""
    name = topic(4)
    fill(kafka, name, dict.fromkeys(range(4), 60))
    options = options_for(kafka, subscribe=name, startingOffsets="earliest")
    sink = Sink(checkpoint / "sink")
    streamed = {"options": {**options, "maxOffsetsPerTrigger": "80"}, "checkpoint": str(checkpoint / "query")}
    other = driver(
        "batch_and_stream",
        {
            "batch": {"source": OURS, "options": options},
            "streamed": {"source": OURS, **streamed, "sink": str(checkpoint / "sink"), "wait_at": 1},
        },
        master=TWO_EXECUTORS,
    )
    other.wait_for("waiting")
    # Tasks that read from a frozen broker wait until it goes on.
    kafka.pause(1)
    try:
        (checkpoint / "sink" / "go").touch()
        other.wait_for("reading")
        killed = processes.workers(other.pid)
        processes.kill(killed)
    finally:
        kafka.resume(1)
    returned = other.finish()
    assert killed
    assert (returned["count"], returned["sum"], returned["executors"]) == (240, 4 * 59 * 30, 2)
    assert sink.positions() == everything(name, dict.fromkeys(range(4), 60))


def _stream(
    driver: Callable[..., Driver], kafka: KafkaCluster, name: str, checkpoint: Path, **programmed: int
) -> Driver:
    options = options_for(kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=40)
    places = {"checkpoint": str(checkpoint / "query"), "sink": str(checkpoint / "sink")}
    return driver("stream", {"source": OURS, "options": options, **places, **programmed}, master=TWO_EXECUTORS)


DRIVER_ONLY = """#!/bin/sh
case "$PWD" in */work/app-*) echo "this Python is on the driver alone" >&2; exit 127;; esac
exec {python} "$@"
"""
NOT_AN_INTERPRETER = "#!/bin/sh\necho 'this is a notebook' >&2; exit 1\n"


@pytest.mark.parametrize(
    "registers", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["registered", "found"]
)
def test_executors_have_a_python_of_their_own_if_the_format_is_registered(
    driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path, registers: bool
) -> None:
    source, target = topic(2), topic(2)
    fill(kafka, source, {0: 20, 1: 20})
    python = tmp_path / "driver-python"
    python.write_text(DRIVER_ONLY.format(python=sys.executable))
    python.chmod(0o755)
    options = {
        "reading": options_for(kafka, subscribe=source, startingOffsets="earliest"),
        "writing": options_for(kafka, topic=target),
        "registers": registers,
    }
    other = driver("read_and_write", options, master=TWO_EXECUTORS, driver_python=str(python))
    told = other.finish()
    warned = "Call monedula.spark.register(spark) before it is used" in other.log_path.read_text(errors="replace")
    if registers:
        assert told == {"failed": {}, "executors": 2}
        assert sum(end for _, end in kafka.helper.offsets(target).values()) == 80
        assert not warned
    else:
        assert set(told["failed"]) == {"batch", "stream"}
        assert warned


@pytest.mark.thorough
def test_a_notebook_in_place_of_the_drivers_python_needs_the_format_registered(
    driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    source, target = topic(2), topic(2)
    fill(kafka, source, {0: 20, 1: 20})
    notebook = tmp_path / "jupyter"
    notebook.write_text(NOT_AN_INTERPRETER)
    notebook.chmod(0o755)
    options = {
        "reading": options_for(kafka, subscribe=source, startingOffsets="earliest"),
        "writing": options_for(kafka, topic=target),
        "registers": True,
    }
    assert driver("read_and_write", options, driver_python=str(notebook)).finish()["failed"] == {}


@pytest.mark.slow  # test_failures.py has it on executors of the driver's own process
def test_a_broker_that_restarts_between_plan_and_read(
    driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name = topic(2)
    fill(kafka, name, {0: 60, 1: 60})
    other = _stream(driver, kafka, name, checkpoint, wait_at=1)
    other.wait_for("waiting")
    kafka.restart(1)
    (checkpoint / "sink" / "go").touch()
    assert other.finish() == {"executors": 2}
    assert Sink(checkpoint / "sink").positions() == everything(name, {0: 60, 1: 60})


@pytest.mark.slow  # test_failures.py has it on executors of the driver's own process
def test_a_leader_that_moves_and_one_that_dies_between_plan_and_read(
    driver: Callable[..., Driver], kafka3: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name = topic(cluster=kafka3, assignment={0: [1, 2, 3], 1: [2, 3, 1]})
    fill(kafka3, name, {0: 60, 1: 60})
    other = _stream(driver, kafka3, name, checkpoint, wait_at=1)
    other.wait_for("waiting")
    kafka3.helper.move_leader(name, 0, 3)
    kafka3.kill(2)
    try:
        (checkpoint / "sink" / "go").touch()
        other.finish()
    finally:
        kafka3.start(2)
    assert Sink(checkpoint / "sink").positions() == everything(name, {0: 60, 1: 60})


@pytest.mark.slow  # test_failures.py has it on executors of the driver's own process
def test_a_driver_killed_between_offset_log_and_commit_log(
    driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    name = topic(2)
    fill(kafka, name, {0: 60, 1: 60})
    other = _stream(driver, kafka, name, checkpoint, hold_at=1)
    other.wait_for("holding")
    other.kill()
    assert (max(logged_offsets(checkpoint / "query")), committed_batches(checkpoint / "query")) == (1, [0])
    before = Sink(checkpoint / "sink").batches()
    fill(kafka, name, {0: 10})
    _stream(driver, kafka, name, checkpoint).finish()
    after = Sink(checkpoint / "sink")
    assert {number: after.batches()[number] for number in before} == before
    found = after.positions()
    assert found == everything(name, {0: 70, 1: 60})
    assert (len(found), sum(offset for _, _, offset in found)) == (130, 69 * 35 + 59 * 30)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_workers_read_within_their_memory_limit(
    driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """`spark.executor.pyspark.memory` limits a worker's address space: what it maps, used or not."""
    name = topic(2)
    values: list[Any] = [{"value": bytes([n % 251]) * 20_000, "partition": n % 2} for n in range(2000)]
    for codec in ("none", "zstd"):
        kafka.helper.produce(name, values, codec=codec)
    other = driver(
        "read_batch",
        {"source": OURS, "options": options_for(kafka, subscribe=name)},
        master=TWO_EXECUTORS,
        conf={"spark.executor.pyspark.memory": WORKER_MEMORY},
    )
    assert other.finish() == {"count": 4000, "sum": 2 * 1999 * 1000, "length": 80_000_000}


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_executors_decode_typed_columns_as_the_driver_was_told(
    driver: Callable[..., Driver], kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """The schema, the options and the zone of the session travel with the tasks; columns larger than their text fit."""
    name = topic(2)
    # Of 2,000 bytes of text become 8,000 bytes of columns.
    many = "[" + ",".join(["1"] * 1000) + "]"
    values: list[Any] = [
        {"value": f'{{"id":{n},"at":"2026-01-01T12:00:00","many":{many}}}', "partition": n % 2} for n in range(4000)
    ]
    kafka.helper.produce(name, [*values, {"value": "no json", "partition": 0}], codec="zstd")
    options = {**options_for(kafka, subscribe=name), "value.format": "json"}
    fields = "id bigint, at timestamp, many array<bigint>, _corrupt_record string"
    other = driver(
        "read_typed",
        {
            "source": OURS,
            "options": options,
            "schema": f"value struct<{fields}>, offset bigint",
            "sums": ["count(*)", "sum(value.id)", "sum(size(value.many))", "max(unix_seconds(value.at))", _CORRUPT],
        },
        master=TWO_EXECUTORS,
        conf={"spark.executor.pyspark.memory": WORKER_MEMORY, "spark.sql.session.timeZone": "Asia/Tokyo"},
    )
    at_tokyo = datetime(2026, 1, 1, 3, tzinfo=UTC).timestamp()
    told = other.finish()
    assert told["sums"] == ["4001", str(3999 * 2000), "4000000", str(int(at_tokyo)), "no json"]
    assert told["executors"] == 2
