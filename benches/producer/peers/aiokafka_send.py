"""aiokafka: `send()` for each record, its future kept."""

import asyncio
from typing import Any

import aiokafka

from benches import measure
from benches.producer import workload


async def produce(job: measure.Job) -> None:
    """Send, wait until everything is acknowledged."""
    pool = workload.pool()
    codec = job.settings.get("compression.type", "none")
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=job.bootstrap,
        acks="all",
        compression_type=None if codec == "none" else codec,
        max_batch_size=job.setting("max_batch_size", 131_072),
        linger_ms=job.setting("linger_ms", 5),
    )
    await producer.start()
    try:
        await producer.partitions_for(job.topic)
        phase = measure.Phase()
        futures: list[Any] = []
        for count in pool.passes(job.records):
            futures += [await producer.send(job.topic, pool.values[index], pool.keys[index]) for index in range(count)]
            phase.add(count)
        await producer.flush()
        result = phase.end()
    finally:
        await producer.stop()
    for future in futures:
        future.result()
    measure.report(result, "aiokafka")


def send(job: measure.Job) -> None:
    """Run it."""
    asyncio.run(produce(job))


if __name__ == "__main__":
    measure.run(send)
