"""A member on monedula, as the README reads: `python -m benches.groups.member_monedula TOPIC KEY=VALUE...`."""

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import monedula
import pyarrow

from benches.groups import events


def main() -> None:
    """Read until standard input ends, then close."""
    topic, settings = events.arguments(sys.argv[1:])

    def saying(what: str) -> Callable[[set[monedula.TopicPartition]], None]:
        return lambda partitions: events.changed(what, [partition.partition for partition in partitions])

    events.wait_for_go()
    with monedula.Consumer(settings, columns=["partition", "value"]) as consumer:
        consumer.subscribe(
            [topic], on_assigned=saying("assigned"), on_revoked=saying("revoked"), on_lost=saying("lost")
        )
        threading.Thread(target=events.at_end_of_input, args=(consumer.wakeup,), daemon=True).start()
        for batch in consumer.batches(max_wait=0.0):
            partitions: Any = pyarrow.record_batch(batch).column("partition").to_pylist()
            events.records(Counter(partitions))
    events.closed()


if __name__ == "__main__":
    main()
