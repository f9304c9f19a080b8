"""A process that was stopped (SIGSTOP) could not hear its brokers: it does not take that for their silence."""

import os
import signal
import subprocess
import sys
import time

from monedula.testing import Broker

LONG_POLL = 2.0
"""Seconds: `fetch.max.wait.ms` of the child."""
STOPPED = LONG_POLL + 3.0
"""Longer than an answer to a fetch may take."""

READER = f"""
import sys
import monedula

settings = {{"bootstrap.servers": sys.argv[1], "fetch.max.wait.ms": {int(LONG_POLL * 1000)}}}
settings["request.timeout.ms"] = 4000
with monedula.Consumer(settings) as consumer:
    consumer.assign({{("orders", 0): "earliest"}})
    while True:
        rows = sum(len(batch) for batch in consumer.batches(timeout=1.0))
        if rows:
            print("read", flush=True)
        print("waited", flush=True)
"""

WRITER = """
import sys
import monedula

settings = {"bootstrap.servers": sys.argv[1], "delivery.timeout.ms": 4000, "request.timeout.ms": 3000, "linger.ms": 0}
with monedula.Producer(settings) as producer:
    producer.send("orders", b"first").result(timeout=60)
    future = producer.send("orders", b"second")
    print("sent", flush=True)
    print(future.result(timeout=60).offset, flush=True)
"""


def child(program: str, broker: Broker) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, broker.bootstrap_servers]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    told = process.stdout.readline().strip()
    assert told, process.stderr.read()
    return told


def stop_for_a_while(process: "subprocess.Popen[str]") -> None:
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(STOPPED)
    os.kill(process.pid, signal.SIGCONT)


def test_a_consumer_does_not_blame_its_brokers() -> None:
    with Broker(topics={"orders": 1}) as broker:
        reader = child(READER, broker)
        try:
            assert line(reader) == "waited"
            # No answer waits to be read when the process goes on.
            held = broker.fault(api="Fetch", hold=True)
            assert held.wait(1, timeout=60)
            stop_for_a_while(reader)
            held.remove()
            for _ in range(3):
                assert line(reader) == "waited"
            broker.append("orders", ["a"])
            while line(reader) != "read":
                pass
        finally:
            reader.kill()
            reader.communicate()


def test_a_producer_does_not_give_up_what_was_in_flight() -> None:
    with Broker(topics={"orders": 1}) as broker:
        held = broker.fault(api="Produce", hold=True, skip=1)
        writer = child(WRITER, broker)
        try:
            assert line(writer) == "sent"
            assert held.wait(1, timeout=60)
            stop_for_a_while(writer)
            held.remove()
            assert line(writer) == "1"
        finally:
            writer.kill()
            writer.communicate()
