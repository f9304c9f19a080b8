"""confluent-kafka into pyarrow, as a user writes it: `consume()`, a list for each column, a record batch."""

import gc
from typing import Any

import confluent_kafka
import pyarrow

from benches import measure
from benches.peers import confluent_config

FIELDS: list[tuple[str, Any]] = [
    ("key", pyarrow.binary()),
    ("value", pyarrow.binary()),
    ("topic", pyarrow.string()),
    ("partition", pyarrow.int32()),
    ("offset", pyarrow.int64()),
    ("timestamp", pyarrow.timestamp("ms", "UTC")),
]
SCHEMA = pyarrow.schema(FIELDS)


def to_arrow(messages: list[confluent_kafka.Message]) -> pyarrow.RecordBatch:
    """One record batch of a chunk."""
    columns: list[Any] = [
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [message.timestamp()[1] for message in messages],
    ]
    arrays = [pyarrow.array(column, kind.type) for column, kind in zip(columns, SCHEMA, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def read(job: measure.Job) -> None:
    """Count rows of record batches up to the wanted number."""
    checks = measure.Checks() if job.verify else None
    if job.settings.pop("gc", "on") == "off":
        gc.disable()  # hardly anybody does, but the collector walks every chunk of messages: a variant of its own
    to_arrow([])
    pyarrow.array([b""])  # the first array made of Python objects looks for pandas, which takes a second: not reading
    consumer = confluent_config.consumer(job)
    phase = measure.Phase()
    consumer.assign(confluent_config.assignment(job))
    while phase.records < job.records:
        messages = consumer.consume(confluent_config.CHUNK, confluent_config.IDLE_SECONDS)
        if not messages:
            break
        batch = to_arrow(messages)
        if checks is not None:
            checks.add(batch)
        phase.add(batch.num_rows)
    result = phase.end()
    consumer.close()
    measure.report(result, "confluent-kafka", checks)


if __name__ == "__main__":
    measure.run(read)
