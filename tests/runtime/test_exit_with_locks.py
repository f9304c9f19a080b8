"""The interpreter exits while a daemon thread is in a call, with a lock that a later exit function needs."""

import pytest

from tests.runtime.script import ended

# Exit functions run in the reverse order: this one after monedula's own.
BEFORE = """
import atexit, sys, threading

lock = threading.Lock()
inside = threading.Event()

def last():
    with lock:
        print("last", flush=True)

if "-later" in sys.argv:
    atexit.register(last)
"""
OPEN = """
from monedula.testing import Broker
import logging
logging.getLogger("monedula").addHandler(logging.NullHandler())

broker = Broker(topics={"orders": 1})
there = {"bootstrap.servers": broker.bootstrap_servers}
nowhere = {"bootstrap.servers": "127.0.0.1:1", "bootstrap.timeout.ms": 600_000}
small = {"buffer.memory": 100_000, "batch.size": 10_000, "max.request.size": 50_000}

def consumer(**settings):
    made = monedula.Consumer({**there, "auto.offset.reset": "earliest", "group.id": "etl", **settings})
    return made

def producer(**settings):
    return monedula.Producer({**there, **settings})

def hold(api):
    return broker.fault(api=api, hold=True)

def until_held(fault):
    fault.wait(1)
    inside.set()
"""
IN_CALL = """
def work():
    with lock:
        {call}

threading.Thread(target=work, daemon=True).start()
{until}
"""

CALLS = {
    "poll": (
        "client = consumer(); client.assign('orders'); client.poll(timeout=0.01)",
        "inside.set(); client.poll(timeout=600)",
    ),
    "poll of a member": ("client = consumer(); client.subscribe(['orders'])", "inside.set(); client.poll(timeout=600)"),
    "batches": ("client = consumer(); client.assign('orders')", "inside.set(); list(client.batches())"),
    "records": ("client = consumer(); client.assign('orders')", "inside.set(); list(client.records())"),
    "run": ("client = consumer(); client.subscribe(['orders'])", "inside.set(); client.run(print)"),
    "commit": (
        "client = consumer(); held = hold('OffsetCommit')",
        "client.commit({('orders', 0): 0})",
        "until_held(held)",
    ),
    "committed": (
        "client = consumer(); held = hold('OffsetFetch')",
        "client.committed([('orders', 0)])",
        "until_held(held)",
    ),
    "end_offsets": (
        "client = consumer(); client.assign('orders'); held = hold('ListOffsets')",
        "client.end_offsets()",
        "until_held(held)",
    ),
    "future of a commit": (
        "client = consumer(); held = hold('OffsetCommit'); future = client.commit_async({('orders', 0): 0})",
        "future.result()",
        "until_held(held)",
    ),
    "send": (
        "client = producer(**small); client.send('orders', 'x').result(20); held = hold('Produce')",
        "while True: client.send('orders', 'x' * 1000)",
        "until_held(held)",
    ),
    "send without metadata": (
        "client = monedula.Producer({**nowhere, 'max.block.ms': 600_000})",
        "inside.set(); client.send('orders', 'x').result()",
    ),
    "result": (
        "client = producer(); held = hold('Produce')",
        "client.send('orders', 'x').result()",
        "until_held(held)",
    ),
    "flush": (
        "client = producer(); held = hold('Produce'); future = client.send('orders', 'x')",
        "client.flush()",
        "until_held(held)",
    ),
    "close": (
        "client = producer(); held = hold('Produce'); future = client.send('orders', 'x')",
        "client.close()",
        "until_held(held)",
    ),
    "partitions_for": ("client = monedula.Producer(nowhere)", "inside.set(); client.partitions_for('orders')"),
    "transaction": (
        "client = producer(transactional_id='t'); client.init_transactions(); held = hold('EndTxn')",
        "with client.transaction(): client.send('orders', 'x')",
        "until_held(held)",
    ),
    "init_transactions": (
        "client = producer(transactional_id='t'); held = hold('InitProducerId')",
        "client.init_transactions()",
        "until_held(held)",
    ),
    "admin": ("client = monedula.Admin(there); held = hold('Metadata')", "client.list_topics()", "until_held(held)"),
    "admin without brokers": ("client = monedula.Admin(nowhere)", "inside.set(); client.list_topics()"),
    "read": (
        "held = hold('Fetch'); broker.append('orders', ['1'])",
        "list(monedula.read(there, 'orders'))",
        "until_held(held)",
    ),
    "asyncio": (
        (
            "async def main():\n    client = monedula.AsyncConsumer(there)\n    client.assign('orders')\n"
            "    inside.set()\n    await client.poll(timeout=600)"
        ),
        "asyncio.run(main())",
    ),
    "admin in asyncio": (
        (
            "held = hold('Metadata')\nasync def main():\n    async with monedula.AsyncAdmin(there) as client:\n"
            "        await client.list_topics()"
        ),
        "asyncio.run(main())",
        "until_held(held)",
    ),
    "producer in asyncio": (
        (
            "held = hold('Produce')\nasync def main():\n    client = monedula.AsyncProducer(there)\n"
            "    await client.send('orders', 'x')"
        ),
        "asyncio.run(main())",
        "until_held(held)",
    ),
    "registry": (
        (
            "import socket\nsilent = socket.create_server(('127.0.0.1', 0))\n"
            "client = monedula.SchemaRegistry({'schema.registry.url': 'http://127.0.0.1:%d' % silent.getsockname()[1],"
            " 'schema.registry.request.timeout.ms': 600_000})"
        ),
        "client.subjects()",
        "connection = silent.accept()",
    ),
    "fault": ("held = hold('Produce')", "inside.set(); held.wait(1)"),
    "loop that catches": (
        "client = consumer(); client.assign('orders')",
        (
            "\n        while True:\n            inside.set()\n            try: client.poll(timeout=600)\n"
            "            except monedula.errors.ClosedError: break"
        ),
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_exit_function_gets_the_lock_of_a_thread_that_was_in_a_call(call: str) -> None:
    opening, does, until = (*CALLS[call], "inside.wait()")[:3]
    ran = ended(OPEN + opening + IN_CALL.format(call=does, until=until), "-later", before=BEFORE)
    assert (ran.returncode, ran.stdout) == (0, "last\n"), f"exit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    assert "Traceback" not in ran.stderr, ran.stderr


def test_a_thread_that_catches_errors_and_tries_again_does_not_keep_the_exit_busy() -> None:
    code = """
client = consumer()
client.assign("orders")
raised = 0

def work():
    global raised
    while True:
        try:
            inside.set()
            client.poll(timeout=600)
        except monedula.errors.ClosedError:
            raised += 1

threading.Thread(target=work, daemon=True).start()
inside.wait()
"""
    # It waits for as many errors as a loop without pauses raises in no time.
    before = BEFORE + (
        "import time\n"
        "def count():\n"
        "    time.sleep(0.2)\n"
        "    print(0 < __import__('__main__').raised < 100, flush=True)\n"
        "atexit.register(count)\n"
    )
    ran = ended(OPEN + code, before=before)
    assert (ran.returncode, ran.stdout) == (0, "True\n"), ran.stderr


HANDLER = """
import logging, logging.handlers, queue

class Handler(logging.Handler):
    def emit(self, record):
        try:
            inside.set()
            {emit}
        except monedula.KafkaError:
            pass

log = logging.getLogger("app")
log.setLevel("INFO")
"""
EMITS = {
    "send": ("client = producer(**small); held = hold('Produce')", "while True: client.send('logs', 'x' * 1000)"),
    "result": ("client = producer(); held = hold('Produce')", "client.send('logs', record.getMessage()).result()"),
    "flush": ("client = producer(); held = hold('Produce')", "client.send('logs', 'x'); client.flush()"),
    "unreachable": (
        "client = monedula.Producer({**nowhere, 'max.block.ms': 600_000})",
        "client.send('logs', 'x').result()",
    ),
}


@pytest.mark.parametrize("emits", EMITS)
@pytest.mark.parametrize("queued", [False, True])
def test_a_handler_that_sends_does_not_keep_logging_from_its_end(emits: str, queued: bool) -> None:
    opening, emit = EMITS[emits]
    code = OPEN + "broker.create_topic('logs')\n" + opening + HANDLER.format(emit=emit)
    if queued:
        code += """
waiting = queue.Queue()
log.addHandler(logging.handlers.QueueHandler(waiting))
listener = logging.handlers.QueueListener(waiting, Handler())
listener.start()
"""
    else:
        code += "log.addHandler(Handler())\n"
    code += "threading.Thread(target=log.info, args=('hello',), daemon=True).start()\ninside.wait()\nprint('ends')\n"
    # Its exit function runs after that of monedula, and waits for the handler.
    before = BEFORE + "import logging\n"
    ran = ended(code, before=before)
    assert (ran.returncode, ran.stdout) == (0, "ends\n"), f"exit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
