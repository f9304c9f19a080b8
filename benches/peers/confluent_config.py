"""The settings of both confluent-kafka peers: what was fastest on this workload, see benches/README.md."""

from confluent_kafka import Consumer, TopicPartition

from benches import measure

CHUNK = 10_000
IDLE_SECONDS = 30.0


def consumer(job: measure.Job) -> Consumer:
    """A consumer that reads ahead as far as it can, and commits nothing."""
    return Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": "benches",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 262_144,
            "fetch.message.max.bytes": 8_388_608,
            # A full queue is looked at again after this; the default of a second starves the reader for most of it.
            "fetch.queue.backoff.ms": 10,
            **job.settings,
        }
    )


def assignment(job: measure.Job) -> list[TopicPartition]:
    """Every partition from offset 0, which spares the question where the beginning is."""
    return [TopicPartition(job.topic, partition, 0) for partition in range(job.partitions)]
