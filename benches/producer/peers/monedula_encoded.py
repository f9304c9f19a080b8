"""monedula: `send()` of a dict for each record, which the producer encodes as Avro of a schema registry."""

from typing import Any

import monedula
from monedula.testing.registry import Registry

from benches import measure
from benches.producer import workload


def send(job: measure.Job) -> None:
    """Send, wait until everything is acknowledged."""
    pool = workload.pool()
    rows = pool.rows()
    with Registry() as registry:
        settings = {"bootstrap.servers": job.bootstrap, "acks": "all", "schema.registry.url": registry.url}
        with monedula.Producer({**settings, **job.settings}, value=monedula.Avro(workload.SCHEMA)) as producer:
            producer.partitions_for(job.topic)
            phase = measure.Phase()
            futures: list[Any] = []
            for count in pool.passes(job.records):
                futures += [producer.send(job.topic, rows[index], pool.keys[index]) for index in range(count)]
                phase.add(count)
            producer.flush()
            result = phase.end()
            for future in futures:
                future.result(0)
    measure.report(result, "monedula")


if __name__ == "__main__":
    measure.run(send)
