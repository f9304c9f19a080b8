"""aiokafka: `getmany()`, counting records and looking into none."""

import asyncio

import aiokafka

from benches import measure

IDLE_MS = 30_000


async def consume(job: measure.Job) -> None:
    """Count records up to the wanted number."""
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=job.setting("max_partition_fetch_bytes", 1_048_576),
    )
    await consumer.start()
    try:
        phase = measure.Phase()
        consumer.assign([aiokafka.TopicPartition(job.topic, partition) for partition in range(job.partitions)])
        while phase.records < job.records:
            records = await consumer.getmany(timeout_ms=IDLE_MS)
            if not records:
                break
            phase.add(sum(len(batch) for batch in records.values()))
        result = phase.end()
    finally:
        await consumer.stop()
    measure.report(result, "aiokafka")


def read(job: measure.Job) -> None:
    """Run it."""
    asyncio.run(consume(job))


if __name__ == "__main__":
    measure.run(read)
