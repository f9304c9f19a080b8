"""confluent-kafka: `consume()` in chunks, counting messages and looking into none."""

from benches import measure
from benches.peers import confluent_config


def read(job: measure.Job) -> None:
    """Count messages up to the wanted number."""
    consumer = confluent_config.consumer(job)
    phase = measure.Phase()
    consumer.assign(confluent_config.assignment(job))
    while phase.records < job.records:
        messages = consumer.consume(confluent_config.CHUNK, confluent_config.IDLE_SECONDS)
        if not messages:
            break
        phase.add(len(messages))
    result = phase.end()
    consumer.close()
    measure.report(result, "confluent-kafka")


if __name__ == "__main__":
    measure.run(read)
