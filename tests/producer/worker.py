"""A process of its own: reads, transforms and writes in transactions, until it is killed in the phase asked for.

`python worker.py PHASE BOOTSTRAP SOURCE TARGET GROUP NAME=VALUE...`
"""

import sys

import monedula


def main(wanted: str, bootstrap: str, source: str, target: str, group: str, *settings: str) -> None:
    """Work; tell of the phase in the second transaction, and wait there."""
    timing = dict(setting.split("=") for setting in settings)
    # As a static member, its successor need not wait until it is missed.
    own = {
        "group.id": group,
        "group.instance.id": "worker",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    producer = monedula.Producer({"bootstrap.servers": bootstrap, "transactional.id": group})
    producer.init_transactions(90)
    consumer = monedula.Consumer({"bootstrap.servers": bootstrap, **timing, **own}, source)
    number = 0

    def reached(phase: str) -> None:
        if number == 2 and phase == wanted:
            print(phase, flush=True)
            sys.stdin.read()

    while True:
        batch = consumer.poll(timeout=1, max_rows=7)
        if not batch.num_rows:
            continue
        number += 1
        producer.begin_transaction()
        reached("begun")
        for record in batch.records():
            producer.send(target, record.value)
        producer.flush()
        reached("sent")
        producer.send_offsets(consumer)
        reached("offsets")
        producer.commit_transaction(90)
        reached("committed")


if __name__ == "__main__":
    main(*sys.argv[1:])
