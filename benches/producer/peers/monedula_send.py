"""monedula: `send()` for each record, its future kept."""

from typing import Any

import monedula

from benches import measure
from benches.producer import workload


def send(job: measure.Job) -> None:
    """Send, wait until everything is acknowledged."""
    pool = workload.pool()
    with monedula.Producer({"bootstrap.servers": job.bootstrap, "acks": "all", **job.settings}) as producer:
        producer.partitions_for(job.topic)
        phase = measure.Phase()
        futures: list[Any] = []
        for count in pool.passes(job.records):
            futures += [producer.send(job.topic, pool.values[index], pool.keys[index]) for index in range(count)]
            phase.add(count)
        producer.flush()
        result = phase.end()
        for future in futures:
            future.result(0)
    measure.report(result, "monedula")


if __name__ == "__main__":
    measure.run(send)
