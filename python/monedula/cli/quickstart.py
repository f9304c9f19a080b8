"""`monedula quickstart`: starts a broker, writes and reads records, and prints commands to try next."""

import json
import sys
import time
from typing import Annotated

from typer import Option

import monedula
from monedula.cli.running import command, say
from monedula.cli.tables import show
from monedula.errors import BrokerStartError
from monedula.producer.sync import Producer
from monedula.testing import Broker

_RECORDS = 10

# Seconds between two calls of `Broker.log`, which pass the broker's log lines to `logging`.
_LOOK = 0.2


@command("quickstart")
def quickstart(
    port: Annotated[int, Option(help="Where the broker listens, on loopback. 0: any port.")] = 9092,
    topic: Annotated[str, Option(help="The topic to make.")] = "orders",
    once: Annotated[bool, Option("--once", help="End when all is shown; otherwise the broker runs on.")] = False,
) -> None:
    """Start a broker, write to it, read from it.

    And say what to try next. It needs no Kafka.

    Examples:
        monedula quickstart
        monedula quickstart --port 0 --once
    """
    broker = _start(port, topic)
    with broker:
        servers = broker.bootstrap_servers
        _step(f"A broker listens on {servers}, in memory; its topic {topic} has 3 partitions.")
        _write(servers, topic)
        _step(f"{_RECORDS} records are written with monedula.Producer.")
        print("Read with monedula.read, they are:", flush=True)
        _read(servers, topic)
        _suggest(servers, topic, once)
        while not once:
            broker.log()
            time.sleep(_LOOK)


def _start(port: int, topic: str) -> Broker:
    try:
        return Broker(topics={topic: 3}, port=port)
    except BrokerStartError as error:
        if not port:
            raise
        say(f"{error}; another port is taken")
        return Broker(topics={topic: 3})


def _write(servers: str, topic: str) -> None:
    with Producer({"bootstrap.servers": servers}) as producer:
        sent = [
            producer.send(topic, json.dumps({"order": number, "amount": 10 * number}), key=f"customer-{number % 4}")
            for number in range(_RECORDS)
        ]
        for future in sent:
            future.result()


def _read(servers: str, topic: str) -> None:
    rows = [
        (record.partition, record.offset, (record.key or b"").decode(), (record.value or b"").decode())
        for batch in monedula.read({"bootstrap.servers": servers}, topic)
        for record in batch.records()
    ]
    show(("partition", "offset", "key", "value"), sorted(rows))


def _suggest(servers: str, topic: str, once: bool) -> None:
    if once:
        _step("Without --once the broker runs on, and more can be tried.")
        return
    at = "" if servers == "localhost:9092" or servers == "127.0.0.1:9092" else f" -b {servers}"
    _step(
        f"""The broker runs until Ctrl-C. Try in another terminal:

  monedula consume {topic} --follow{at}
  echo 'hello' | monedula produce {topic}{at}
  monedula topics describe {topic}{at}
  monedula consume {topic} --group etl --timeout 5{at}
  monedula groups lag etl --watch{at}

or in Python:

  import monedula, polars
  print(polars.DataFrame(monedula.read({{"bootstrap.servers": "{servers}"}}, "{topic}")))
"""
    )


def _step(text: str) -> None:
    print(f"{text}\n", flush=True)
    sys.stdout.flush()
