"""kafkarrow: the other client that hands out Arrow batches (rust-rdkafka underneath)."""

import time

import kafkarrow

from benches import measure

IDLE_SECONDS = 30.0


def read(job: measure.Job) -> None:
    """Count rows of the batches that `poll` returns up to the wanted number."""
    checks = measure.Checks() if job.verify else None
    config = {
        "bootstrap.servers": job.bootstrap,
        "group.id": "benches",
        "enable.auto.commit": "false",
        "queued.min.messages": "1000000",
        "queued.max.messages.kbytes": "262144",
        "fetch.message.max.bytes": "8388608",
        "fetch.queue.backoff.ms": "10",
        **job.settings,
    }
    # It merges partitions by timestamp and pauses those that are ahead; smaller batches make that three times slower.
    batch_size = int(config.pop("batch_size", "1000000"))
    phase = measure.Phase()
    manager = kafkarrow.ConsumerManager(
        config=config, topics=[kafkarrow.SourceTopic.from_earliest(job.topic)], batch_size=batch_size
    )
    idle_since = time.monotonic()
    while phase.records < job.records and time.monotonic() - idle_since < IDLE_SECONDS:
        batch = manager.poll(timeout_ms=1000)
        if batch.num_rows > 0:
            idle_since = time.monotonic()
            if checks is not None:
                checks.add(batch)
            phase.add(batch.num_rows)
    measure.report(phase.end(), "kafkarrow", checks)


if __name__ == "__main__":
    measure.run(read)
