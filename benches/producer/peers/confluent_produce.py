"""confluent-kafka: `produce()` for each record; `callbacks=on` has each record's outcome told, as a future does."""

from typing import Any

from confluent_kafka import Producer

from benches import measure
from benches.producer import workload

POLL_EVERY = 1000
FLUSH_SECONDS = 300.0


def send(job: measure.Job) -> None:
    """Send, wait until everything is acknowledged."""
    settings = dict(job.settings)
    failed: list[str] = []
    delivered = 0

    def on_delivery(error: object, _: Any) -> None:
        nonlocal delivered
        delivered += 1
        if error is not None:
            failed.append(str(error))

    told = on_delivery if settings.pop("callbacks", "off") == "on" else None
    pool = workload.pool()
    producer = Producer(
        {
            "bootstrap.servers": job.bootstrap,
            "acks": "all",
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 65_536,
            **settings,
        }
    )
    producer.list_topics(job.topic, 30.0)
    phase = measure.Phase()
    for count in pool.passes(job.records):
        for index in range(count):
            while True:
                try:
                    producer.produce(job.topic, pool.values[index], pool.keys[index], on_delivery=told)
                    break
                except BufferError:
                    producer.poll(0.01)
            if index % POLL_EVERY == 0:
                producer.poll(0)
        phase.add(count)
    left = producer.flush(FLUSH_SECONDS)
    result = phase.end()
    if left or failed or (told is not None and delivered != job.records):
        raise RuntimeError(f"{left} are left, {len(failed)} failed: {failed[:3]}")
    measure.report(result, "confluent-kafka")


if __name__ == "__main__":
    measure.run(send)
