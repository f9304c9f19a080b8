"""`python -m tests.kafka`: run a Kafka until Ctrl-C, and print its bootstrap servers."""

import argparse
import signal
import sys
import threading

from tests.kafka import KafkaCluster, KafkaError


def main() -> None:
    """Start, print, wait for SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3), help="how many KRaft nodes (default 1)")
    parser.add_argument("--heap", help="heap of each JVM, for example 512m")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a broker setting")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", help="create a topic")
    arguments = parser.parse_args()
    config = dict(setting.split("=", 1) for setting in arguments.config)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    try:
        with KafkaCluster(arguments.nodes, heap=arguments.heap, config=config) as kafka:
            for topic in arguments.topic:
                name, _, partitions = topic.partition(":")
                kafka.helper.create_topic(name, partitions=int(partitions or 1))
            print(kafka.bootstrap, flush=True)
            over.wait()
    except KafkaError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
