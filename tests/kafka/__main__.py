"""`python -m tests.kafka`: run a Kafka until Ctrl-C, and print its bootstrap servers."""

import argparse
import json
import signal
import sys
import time

from tests.kafka import KafkaCluster, KafkaError


def main() -> None:
    """Start, print, wait for SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3), help="how many KRaft nodes (default 1)")
    parser.add_argument("--heap", help="heap of each JVM, for example 512m")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a broker setting")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", help="create a topic")
    parser.add_argument("--secured", action="store_true", help="with TLS, SASL and ACLs; prints settings for clients")
    arguments = parser.parse_args()
    config = dict(setting.split("=", 1) for setting in arguments.config)
    over: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: over.append(number))
    try:
        with cluster(arguments.secured, arguments.nodes, arguments.heap, config) as kafka:
            for topic in arguments.topic:
                name, _, partitions = topic.partition(":")
                kafka.helper.create_topic(name, partitions=int(partitions or 1))
            print(kafka.bootstrap, flush=True)
            if arguments.secured:
                print_settings(kafka)
            while not over:
                time.sleep(0.1)
    except KafkaError as error:
        sys.exit(str(error))


def cluster(secured: bool, nodes: int, heap: str | None, config: dict[str, str]) -> KafkaCluster:
    """The cluster that the options ask for."""
    if not secured:
        return KafkaCluster(nodes, heap=heap, config=config)
    from tests.kafka.secured import SecuredKafka

    return SecuredKafka(nodes, heap=heap, config=config)


def print_settings(kafka: KafkaCluster) -> None:
    """Settings for each way to log in, a line of JSON each, by Java's names, which monedula takes too."""
    from tests.kafka.secured import LISTENERS, KdcUnavailable, SecuredKafka

    assert isinstance(kafka, SecuredKafka)
    for listener in LISTENERS.values():
        for mechanism in listener.mechanisms or (None,):
            try:
                settings = kafka.client_settings(listener.name, mechanism)
            except KdcUnavailable as error:
                print(f"{listener.name} {mechanism}: {error}", flush=True)
                continue
            print(f"{listener.name} {mechanism or ''}: {json.dumps(settings)}", flush=True)


if __name__ == "__main__":
    main()
