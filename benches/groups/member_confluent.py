"""A member on confluent-kafka: `python -m benches.groups.member_confluent TOPIC KEY=VALUE...`."""

import sys
import threading
from collections import Counter
from typing import Any

from confluent_kafka import Consumer

from benches.groups import events


def main() -> None:
    """Read until standard input ends, then close."""
    topic, settings = events.arguments(sys.argv[1:])
    over = threading.Event()

    def saying(what: str) -> Any:
        return lambda _, partitions: events.changed(what, [partition.partition for partition in partitions])

    events.wait_for_go()
    threading.Thread(target=events.at_end_of_input, args=(over.set,), daemon=True).start()
    consumer = Consumer(settings)
    consumer.subscribe([topic], on_assign=saying("assigned"), on_revoke=saying("revoked"), on_lost=saying("lost"))
    while not over.is_set():
        # One record at a time as it comes: consume(n) waits for n, and would be measured for its waiting.
        first = consumer.poll(0.2)
        if first is None or first.error():
            continue
        messages = [first, *consumer.consume(1000, 0)]
        events.records(Counter(message.partition() or 0 for message in messages if not message.error()))
    consumer.close()
    events.closed()


if __name__ == "__main__":
    main()
