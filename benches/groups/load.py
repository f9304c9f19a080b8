"""A steady load: `python -m benches.groups.load BOOTSTRAP TOPIC PARTITIONS RECORDS_PER_SECOND`.

It goes on until standard input ends.
Every partition gets its record in turn, so that each sees one every PARTITIONS / RECORDS_PER_SECOND seconds.
"""

import sys
import threading
import time

from confluent_kafka import Producer

from benches.groups import events

VALUE = b"x" * 100
TICK_SECONDS = 0.005


def main() -> None:
    """Produce at the pace that was asked for."""
    bootstrap, topic, partitions, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    over = threading.Event()
    threading.Thread(target=events.at_end_of_input, args=(over.set,), daemon=True).start()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "1"})
    started, sent = time.monotonic(), 0
    while not over.is_set():
        due = int((time.monotonic() - started) * rate)
        for number in range(sent, due):
            producer.produce(topic, VALUE, partition=number % partitions)
        sent = due
        producer.poll(0)
        over.wait(TICK_SECONDS)
    producer.flush(10)


if __name__ == "__main__":
    main()
