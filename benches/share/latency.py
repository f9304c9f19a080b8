"""Time from produce to the member of a share group that has the record: `python -m benches.share.latency`.

The readers take turns, as those of benches/latency.py, each as the only member of a new group.
"""

import queue
import subprocess
import sys
import threading
import time
import uuid

from benches.latency import STAMP, Arrivals, Reader, take_turns, values_of
from benches.share import arms


def read_monedula_batches(bootstrap: str, topic: str, _offset: int) -> Arrivals:
    """`monedula.ShareConsumer.batches`."""
    import monedula

    with monedula.ShareConsumer(_settings(bootstrap), topics=[topic], columns=["value"]) as consumer:
        for batch in consumer.batches():
            yield time.monotonic_ns(), values_of(batch)


def read_monedula_run(bootstrap: str, topic: str, _offset: int) -> Arrivals:
    """`monedula.ShareConsumer.run`, to the start of the handler."""
    import monedula

    arrived: queue.SimpleQueue[tuple[int, list[bytes]]] = queue.SimpleQueue()
    with monedula.ShareConsumer(_settings(bootstrap), topics=[topic]) as consumer:

        def handle(record: monedula.Record) -> None:
            arrived.put((time.monotonic_ns(), [record.value or b""]))

        reading = threading.Thread(target=consumer.run, args=(handle,))
        reading.start()
        try:
            while True:
                yield arrived.get()
        finally:
            consumer.wakeup()
            reading.join()


def read_confluent(bootstrap: str, topic: str, _offset: int) -> Arrivals:
    """confluent-kafka's `ShareConsumer.poll`."""
    from confluent_kafka import ShareConsumer

    consumer = ShareConsumer(_settings(bootstrap))
    consumer.subscribe([topic])
    while True:
        messages = consumer.poll(1.0)
        now = time.monotonic_ns()
        if len(messages):
            yield now, [message.value() or b"" for message in messages]


def read_java(bootstrap: str, topic: str, _offset: int) -> Arrivals:
    """Java's `KafkaShareConsumer.poll`, with the clock of its JVM: the same, CLOCK_MONOTONIC."""
    command = arms.java("stamps", topic, 0, _settings(bootstrap))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                now, *stamps = map(int, line.split())
                yield now, [STAMP.pack(stamp) for stamp in stamps]
        finally:
            process.kill()


READERS: dict[str, Reader] = {
    "monedula_batches": read_monedula_batches,
    "monedula_run": read_monedula_run,
    "java_poll": read_java,
    "confluent_poll": read_confluent,
}


def _settings(bootstrap: str) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap, "group.id": f"stamps-{uuid.uuid4()}"}


if __name__ == "__main__":
    take_turns([sys.executable, "-m", "benches.share.latency"], READERS, about=__doc__, config=arms.BROKER)
