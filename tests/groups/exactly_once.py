"""A worker in a process of its own: it answers each record in transactions, until it is killed.

`python -m tests.groups.exactly_once SOURCE TARGET TRANSACTIONAL_ID SETTING=VALUE...`
"""

import signal
import sys
import threading

import monedula


def main(source: str, target: str, transactional_id: str, *given: str) -> None:
    """Work; tell of each hundredth record, and wait there for a line."""
    settings = dict(setting.split("=", 1) for setting in given)
    own = {"bootstrap.servers": settings["bootstrap.servers"], "transactional.id": transactional_id}
    handled, lock = 0, threading.Lock()

    def handle(record: monedula.Record) -> bytes:
        nonlocal handled
        with lock:
            handled += 1
            if handled % 100 == 0:
                print(handled, flush=True)
                sys.stdin.readline()
        assert isinstance(record.value, bytes)
        return record.value

    with monedula.Producer(own) as producer, monedula.Consumer(settings, topics=source) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())
        consumer.run(handle, concurrency=8, reply_topic=target, transaction=producer, commit_interval=0.02)
    print("ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
