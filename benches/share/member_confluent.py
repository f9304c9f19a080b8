"""A member of a share group on confluent-kafka's preview: `poll`, and `acknowledge` for each message."""

from confluent_kafka import AcknowledgeType, Messages, ShareConsumer

from benches import measure

POLL_SECONDS = 1.0


def read(job: measure.Job) -> None:
    """Read until every record is accepted or rejected; the clock starts with the first poll that brought any."""
    is_masked = job.settings.pop("decisions") == "mask"
    mode = "explicit" if is_masked else "implicit"
    consumer = ShareConsumer({"bootstrap.servers": job.bootstrap, "share.acknowledgement.mode": mode, **job.settings})
    consumer.subscribe([job.topic])
    phase, settled = None, 0
    while settled < job.records:
        messages = consumer.poll(POLL_SECONDS)
        if not len(messages):
            continue
        if phase is None:
            phase = measure.Phase()
        else:
            phase.add(len(messages))
        settled += len(messages) - (_decide(consumer, messages) if is_masked else 0)
    outcomes = consumer.commit_sync()
    phase = phase or measure.Phase()
    result = {**phase.end(), "settled": settled}
    if any(outcomes.values()):
        raise RuntimeError(f"not acknowledged: {outcomes}")
    consumer.close()
    measure.report(result, "confluent-kafka")


def _decide(consumer: ShareConsumer, messages: Messages) -> int:
    """Reject a message in a hundred, release one at its first delivery. Returns the number of released messages."""
    released = 0
    for message in messages:
        remainder = (message.offset() or 0) % 100
        if remainder == 0:
            consumer.acknowledge(message, AcknowledgeType.REJECT)
        elif remainder == 50 and message.delivery_count() == 1:
            consumer.acknowledge(message, AcknowledgeType.RELEASE)
            released += 1
        else:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
    return released


if __name__ == "__main__":
    measure.run(read)
