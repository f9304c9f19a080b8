"""From a record's timestamp to the commit that has its row, at a steady rate, in a process of its own.

`python -m benches.landing.freshness FORMAT BOOTSTRAP TOPIC EVERY SECONDS PATH` prints the percentiles as JSON.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import monedula
import pyarrow as pa
import pyarrow.compute as pc
from monedula.landing import LandingJob

from benches.landing.orders import target

RECORDS_PER_SECOND = 1000
TICK_SECONDS = 0.02


def main() -> None:
    """Produce and land for so many seconds."""
    form, bootstrap, topic, every, seconds, path = sys.argv[1:]
    settings = {"bootstrap.servers": bootstrap}
    commits: list[tuple[float, Any]] = []
    table = target(form, Path(path))
    schema = "id bigint, amount double"
    job = LandingJob(
        settings,
        topic,
        table,
        value=monedula.Json(schema),
        every=float(every),
        on_commit=lambda commit: commits.append((time.time() * 1000, commit.positions)),
    )
    job.start()
    produce(settings, topic, float(seconds))
    job.stop()
    job.wait()
    print(json.dumps({"every": float(every), "commits": len(commits), **_percentiles(settings, topic, commits)}))


def produce(settings: dict[str, str], topic: str, seconds: float) -> None:
    """Send small records at a steady rate."""
    began, sent = time.monotonic(), 0
    with monedula.Producer({**settings, "linger.ms": "5"}) as producer:
        while (passed := time.monotonic() - began) < seconds:
            for number in range(sent, int(passed * RECORDS_PER_SECOND)):
                producer.send(topic, json.dumps({"id": number, "amount": number / 2}))
                sent += 1
            time.sleep(TICK_SECONDS)


def _percentiles(settings: dict[str, str], topic: str, commits: list[tuple[float, Any]]) -> dict[str, float]:
    """Of the milliseconds from the timestamp of each record to the first commit whose position is behind it."""
    with monedula.read(settings, topic, columns=["partition", "offset", "timestamp"]) as stream:
        records = pa.Table.from_batches([pa.record_batch(batch) for batch in stream])
    ages: list[float] = []
    for number in pc.unique(records["partition"]).to_pylist():
        rows: Any = records.filter(pc.equal(records["partition"], pa.scalar(number, pa.int32())))
        times: list[int] = rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        ends = [(at, positions[topic, number]) for at, positions in commits if (topic, number) in positions]
        for offset, sent_at in zip(rows["offset"].to_pylist(), times, strict=True):
            while ends and ends[0][1] <= offset:
                ends.pop(0)
            # What came while the job was stopped is in no commit.
            if ends:
                ages.append(ends[0][0] - sent_at)
    ages.sort()
    return {"records": len(ages), "p50_ms": ages[len(ages) // 2], "p99_ms": ages[len(ages) * 99 // 100]}


if __name__ == "__main__":
    main()
