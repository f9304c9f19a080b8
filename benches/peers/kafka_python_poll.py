"""kafka-python: `poll()`, counting records and looking into none. Slow enough to be given fewer records."""

import kafka

from benches import measure

IDLE_MS = 30_000


def read(job: measure.Job) -> None:
    """Count records up to the wanted number."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=job.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=job.setting("max_poll_records", 10_000),
        max_partition_fetch_bytes=job.setting("max_partition_fetch_bytes", 1_048_576),
    )
    phase = measure.Phase()
    consumer.assign([kafka.TopicPartition(job.topic, partition) for partition in range(job.partitions)])
    while phase.records < job.records:
        records = consumer.poll(timeout_ms=IDLE_MS)
        if not records:
            break
        phase.add(sum(len(batch) for batch in records.values()))
    result = phase.end()
    consumer.close()
    measure.report(result, "kafka-python")


if __name__ == "__main__":
    measure.run(read)
