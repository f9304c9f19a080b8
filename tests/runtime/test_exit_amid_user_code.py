"""The interpreter ends while a thread runs the program's own code, called by the core."""

import sys

import pytest

from tests.runtime.interpreters import interpreters
from tests.runtime.script import ended

OPEN = """
from monedula.testing import Broker

asked = threading.Event()

class Lasting:
    # The end of the interpreter lets other threads run: they come back to it.
    def __init__(self):
        self.sleep = time.sleep

    def __del__(self):
        self.sleep(0.05)

lasting = Lasting()

def last(*_):
    asked.set()
    while True:
        time.sleep(0.0005)

def spin(*_):
    asked.set()
    while True:
        pass

async def last_in_loop(*_):
    asked.set()
    while True:
        await asyncio.sleep(0.0005)

def close(client):
    try:
        client.close(timeout=0.01)
    except monedula.KafkaError:
        pass

broker = Broker(security="SASL_SSL", users={"anna": "x"}, topics={"orders": 1})
login = broker.client_settings("anna", mechanism="OAUTHBEARER")
plain = Broker(topics={"orders": 1})
here = {"bootstrap.servers": plain.bootstrap_servers}
"""

HANDLER = """
import logging

class Handler(logging.Handler):
    def handle(self, record):  # without the handler's lock, for which logging.shutdown() waits
        {emit}

logging.getLogger("monedula").addHandler(Handler())
logging.getLogger("monedula").setLevel("DEBUG")
"""

TOKEN = """
consumer = monedula.Consumer({{**login, "oauth_cb": {provider}}})
consumer.assign({{("orders", 0): 0}})
consumer.poll(timeout=0.01)
asked.wait()
"""
CALLBACK = """
producer = monedula.Producer(here)
future = producer.send("orders", b"x"{argument})
{after}
asked.wait()
close(producer)
"""
ASYNC_CALLBACK = """
async def main():
    global producer
    producer = monedula.AsyncProducer(here)
    producer.send("orders", b"x", on_delivery=last)
    while not asked.is_set():
        await asyncio.sleep(0.001)
    {close}

asyncio.run(main())
"""
LAST_REFERENCE = """
class Kept:
    def __call__(self, *_):
        pass

    def __del__(self):
        last()
"""
IN_THREAD = """
threading.Thread(target={call}, args=({arguments}), daemon=True).start()
asked.wait()
"""

CASES = {
    "token": TOKEN.format(provider="last"),
    "token in a loop": TOKEN.format(provider="last_in_loop"),
    "token that computes": TOKEN.format(provider="spin"),
    "token of a constructor": "producer = monedula.Producer({**login, 'oauth_cb': last})",
    "token of a producer": "producer = monedula.Producer({**login, 'oauth_cb': last})\nthreading.Thread(target="
    "producer.partitions_for, args=('orders',), daemon=True).start()\nasked.wait()",
    "token and a thread of the program": "work = threading.Thread(target=asked.wait)\nwork.start()\n"
    + TOKEN.format(provider="last"),
    "callback": CALLBACK.format(argument=", on_delivery=last", after=""),
    "callback that computes": CALLBACK.format(argument=", on_delivery=spin", after=""),
    "callback that was added": CALLBACK.format(argument="", after="future.add_done_callback(last)"),
    "callback of a table": """
class Rows:
    def __arrow_c_stream__(self, requested_schema=None):
        return batch.__arrow_c_stream__()

consumer = monedula.Consumer({**here, "auto.offset.reset": "earliest"})
consumer.assign("orders")
plain.append("orders", ["1"])
batch = consumer.poll(timeout=20)
producer = monedula.Producer(here)
producer.send_batch(batch, "orders").add_done_callback(last)
asked.wait()
close(producer)
""",
    "callback of asyncio": ASYNC_CALLBACK.format(close="pass"),
    "callback of asyncio, closed": ASYNC_CALLBACK.format(
        close="closing = producer.close(timeout=0.01)\n    try: await closing\n    except monedula.KafkaError: pass"
    ),
    "text of an error": """
class Unclear(Exception):
    def __str__(self):
        last()

def refuse():
    raise Unclear
"""
    + TOKEN.format(provider="refuse"),
    "object of an error's frame": LAST_REFERENCE
    + "def refuse():\n    kept = Kept()\n    raise ValueError\n"
    + TOKEN.format(provider="refuse"),
    "object of a callback": LAST_REFERENCE
    + "producer = monedula.Producer(here)\nproducer.send('orders', b'x', on_delivery=Kept())\nasked.wait()\n",
    "headers": """
class Headers(list):
    def __iter__(self):
        last()

producer = monedula.Producer(here)
threading.Thread(target=producer.send, args=("orders", b"x"), kwargs={"headers": Headers("a")}, daemon=True).start()
asked.wait()
""",
    "log": HANDLER.format(emit="last()") + "admin = monedula.Admin(here)\nadmin.list_topics()\nasked.wait()",
    "log in a call": HANDLER.format(emit="threading.current_thread().daemon and last()")
    + "producer = monedula.Producer(here)\n"
    + "def work():\n    while True:\n        producer.partitions_for('orders')\n        producer.flush()\n"
    + "".join(IN_THREAD.format(call="work", arguments="") for _ in range(1)),
    "assignor": """
class Assignor:
    name = "own"

    def assign(self, topics, members):
        last()

consumer = monedula.Consumer(here, group_id="etl", topics=["orders"], assignors=[Assignor()])
while not asked.is_set():
    consumer.poll(timeout=0.01)
""",
    "export of a table": "class Table:\n    def __arrow_c_stream__(self, requested_schema=None):\n        last()\n"
    "producer = monedula.Producer(here)\n"
    + IN_THREAD.format(call="producer.send_batch", arguments="Table(), 'orders'"),
    "export of a schema": "class Schema:\n    def __arrow_c_schema__(self):\n        last()\n"
    "from monedula._monedula import decode_json\n" + IN_THREAD.format(call="decode_json", arguments="Schema(), []"),
    "partitioner": "producer = monedula.Producer(here, partitioner=last)\n"
    "threading.Thread(target=producer.send, args=('orders', b'x'), daemon=True).start()\nasked.wait()\n",
    "handler of run": """
plain.append("orders", ["1"])
consumer = monedula.Consumer(here, group_id="etl", topics=["orders"], auto_offset_reset="earliest")
threading.Thread(target=consumer.run, args=(last,), daemon=True).start()
asked.wait()
""",
}


QUICK = ("token", "callback", "log in a call")
"""With every interpreter, in each run of the tests; the others with one alone."""


@pytest.mark.parametrize(
    ("version", "case"),
    [
        pytest.param(version, case, marks=pytest.mark.thorough if index and case not in QUICK else ())
        for index, version in enumerate(interpreters())
        for case in CASES
    ],
)
def test_the_exit_code_is_the_programs(version: str, case: str) -> None:
    check(CASES[case], interpreters()[version])


def test_batches_of_a_generator_end_with_the_program() -> None:
    """Frames of pyarrow's own lie between; alone it aborts the process."""
    check("""
import pyarrow as pa

schema = pa.schema([("value", pa.string())])
producer = monedula.Producer(here)

def batches():
    yield pa.record_batch([["a"]], schema)
    last()

def work():
    producer.send_batch(pa.RecordBatchReader.from_batches(schema, batches()), "orders")

threading.Thread(target=work, daemon=True).start()
asked.wait()
""")


def check(case: str, executable: str = sys.executable) -> None:
    ran = ended(OPEN + case + "\nsys.exit(7)", executable=executable)
    assert ran.returncode == 7, f"exit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    assert "Fatal" not in ran.stderr
    assert "Traceback" not in ran.stderr, ran.stderr
