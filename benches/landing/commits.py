"""Milliseconds of a commit of one small file and the positions of many partitions, without a broker.

`python -m benches.landing.commits FORMAT PARTITIONS PATH` prints the median as JSON.
"""

import json
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from monedula.landing.commits import PendingCommit
from monedula.types.partitions import TopicPartition

from benches.landing.orders import target

COMMITS = 30
TOPIC = "events"
ORIGIN = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


def main() -> None:
    """Commit again and again."""
    form, partitions, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    origin = {"topic": TOPIC, "partition": 0, "offset": 0, "timestamp": datetime.now(UTC)}
    rows = pa.RecordBatch.from_pylist(
        [{"id": 1, "_kafka": origin}], pa.schema([("id", pa.int64()), ("_kafka", ORIGIN)])
    )
    table: Any = target(form, path)._table("bench")
    table.topic_ids({TOPIC: ("id", partitions)})
    table.prepare(rows.schema)
    known: dict[TopicPartition, int | None] = {TopicPartition(TOPIC, number): None for number in range(partitions)}
    table.positions(known)
    took = []
    for number in range(COMMITS):
        files = table.files(64 << 20)
        table.write(files, rows)
        moves = {partition: (at, number) for partition, at in known.items()}
        began = time.perf_counter()
        assert table.commit(PendingCommit(files.finish(), moves))
        took.append((time.perf_counter() - began) * 1000)
        known = dict.fromkeys(known, number)
    stored = sum(file.stat().st_size for file in path.rglob("*.json"))
    print(
        json.dumps(
            {
                "partitions": partitions,
                "median_ms": statistics.median(took),
                "max_ms": max(took),
                "log_bytes": stored // COMMITS,
            }
        )
    )


if __name__ == "__main__":
    main()
