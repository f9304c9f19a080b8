"""The bound of a reader's memory with typed columns, whose bytes may be many times those of the JSON."""

import sys

import pytest
from monedula.consumer._base import MAX_BYTES
from monedula.testing import Broker

from tests.runtime.script import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is of Linux")

PARTITIONS = 9
ROWS = 24_000
BUDGET_BYTES = 4 << 20
SHAPES = {
    "list": ("a array<decimal(38, 0)>", b'{"a":[' + b",".join([b"7"] * 48) + b"]}"),
    "wide": (", ".join(f"f{n} bigint" for n in range(110)), b'{"f0":1,"skipped":"' + b"x" * 80 + b'"}'),
}
"""Schemas and values of about a hundred bytes, which are eight hundred as columns."""

READ = """
def peak_bytes():  # not ru_maxrss, which counts from before the process was this program
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
partitions, rows, budget_bytes, schema, group = *map(int, sys.argv[2:5]), *sys.argv[5:]
settings = {"bootstrap.servers": sys.argv[1], "auto.offset.reset": "earliest", "queued.max.bytes": budget_bytes}
if group:
    settings["group.id"] = group
bad = {"dead_letter": "letters"} if group else {"mode": "drop"}
consumer = monedula.Consumer(settings, value=monedula.Json(schema, **bad))
consumer.assign("small")
assert consumer.poll(timeout=30)
before = peak_bytes()
consumer.assign("large")
left, largest = partitions * rows, 0
while left > 0:
    batch = consumer.poll(timeout=60, max_rows=100_000)
    assert batch, consumer.health()
    left -= len(batch)
    largest = max(largest, batch.nbytes)
    # A slow reader: what is fetched meanwhile fills the budget.
    for _, record in zip(range(500), batch.records()):
        assert record.value
    del batch
consumer.close()
print(peak_bytes() - before, largest)
"""


@pytest.mark.parametrize("group", ["", "etl"], ids=["assigned", "group"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("nodes", [1, 3, 9])
def test_a_reader_keeps_to_its_budget_whatever_its_columns_take(nodes: int, shape: str, group: str) -> None:
    schema, value = SHAPES[shape]
    with Broker(nodes=nodes, topics={"small": 1, "letters": 1, "large": PARTITIONS}) as broker:
        broker.append("small", [value])
        for partition in range(PARTITIONS):
            for _ in range(ROWS // 1_000):
                broker.append("large", [value] * 1_000, partition=partition, compression="zstd")
        arguments = (broker.bootstrap_servers, PARTITIONS, ROWS, BUDGET_BYTES, schema, group)
        grown, largest = map(int, run(READ, *arguments).split())
    print(grown, largest)
    # A batch ends by the bytes of its columns, whose buffers may be a third empty.
    assert BUDGET_BYTES < largest < MAX_BYTES * 3 // 2
    assert grown < BUDGET_BYTES + 60_000_000 + largest
