"""kafka-python: `send()` for each record, its future kept."""

from typing import Any

import kafka

from benches import measure
from benches.producer import workload

FLUSH_SECONDS = 300.0


def send(job: measure.Job) -> None:
    """Send, wait until everything is acknowledged."""
    pool = workload.pool()
    codec = job.settings.get("compression.type", "none")
    producer = kafka.KafkaProducer(
        bootstrap_servers=job.bootstrap,
        acks="all",
        compression_type=None if codec == "none" else codec,
        batch_size=job.setting("batch_size", 131_072),
        linger_ms=job.setting("linger_ms", 5),
    )
    producer.partitions_for(job.topic)
    phase = measure.Phase()
    futures: list[Any] = []
    for count in pool.passes(job.records):
        futures += [producer.send(job.topic, pool.values[index], pool.keys[index]) for index in range(count)]
        phase.add(count)
    producer.flush(FLUSH_SECONDS)
    result = phase.end()
    for future in futures:
        future.get(0)
    producer.close()
    measure.report(result, "kafka-python")


if __name__ == "__main__":
    measure.run(send)
