"""confluent-kafka: `AvroSerializer` and `produce()` for each record, a dict, with a schema registry."""

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from monedula.testing.registry import Registry

from benches import measure
from benches.producer import workload

POLL_EVERY = 1000
FLUSH_SECONDS = 300.0


def send(job: measure.Job) -> None:
    """Send, wait until everything is acknowledged."""
    pool = workload.pool()
    rows = pool.rows()
    limits = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 65_536}
    producer = Producer({"bootstrap.servers": job.bootstrap, "acks": "all", **limits, **job.settings})
    producer.list_topics(job.topic, 30.0)
    with Registry() as registry:
        serializer = AvroSerializer(SchemaRegistryClient({"url": registry.url}), workload.SCHEMA)
        context = SerializationContext(job.topic, MessageField.VALUE)
        phase = measure.Phase()
        for count in pool.passes(job.records):
            for index in range(count):
                value = serializer(rows[index], context)
                while True:
                    try:
                        producer.produce(job.topic, value, pool.keys[index])
                        break
                    except BufferError:
                        producer.poll(0.01)
                if index % POLL_EVERY == 0:
                    producer.poll(0)
            phase.add(count)
        left = producer.flush(FLUSH_SECONDS)
        result = phase.end()
    if left:
        raise RuntimeError(f"{left} are left")
    measure.report(result, "confluent-kafka")


if __name__ == "__main__":
    measure.run(send)
