"""`wakeup()` in a signal handler: the record or batch in hand is the last one. Each in a process of its own."""

import pytest
from monedula.testing import Broker

from tests.runtime.script import run

SETUP = """
settings = {"bootstrap.servers": sys.argv[1], "group.id": "etl", "auto.offset.reset": "earliest"}
seen, signalled_at = [], []

def on_signal(consumer):
    def handler(*_):
        signalled_at.append(len(seen))
        consumer.wakeup()
    return handler

def step(number):
    seen.append(number)
    if len(seen) == 5:
        os.kill(os.getpid(), signal.SIGTERM)

def report():
    print(len(seen) - signalled_at[0])
"""

RECORDS = """
with monedula.Consumer(settings, topics=["orders"]) as consumer:
    signal.signal(signal.SIGTERM, on_signal(consumer))
    for record in consumer.records():
        step(record.offset)
    report()
"""

BATCHES = """
with monedula.Consumer(settings, topics=["orders"]) as consumer:
    signal.signal(signal.SIGTERM, on_signal(consumer))
    for batch in consumer.batches(max_rows=10):
        step(batch)
    report()
"""

ASYNC_RECORDS = """
async def main():
    async with monedula.AsyncConsumer(settings, topics=["orders"]) as consumer:
        INSTALL
        async for record in consumer.records():
            step(record.offset)
            await asyncio.sleep(0)
        report()
asyncio.run(main())
"""

ASYNC_BATCHES = """
async def main():
    async with monedula.AsyncConsumer(settings, topics=["orders"]) as consumer:
        INSTALL
        async for batch in consumer.batches(max_rows=10):
            step(batch)
            await asyncio.sleep(0)
        report()
asyncio.run(main())
"""

IN_PYTHON = "signal.signal(signal.SIGTERM, on_signal(consumer))"
IN_LOOP = "asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, on_signal(consumer))"

# From outside, at any moment of the loop.
FROM_OUTSIDE = """
def kill():
    while len(seen) < 2000:
        time.sleep(0.0001)
    os.kill(os.getpid(), signal.SIGTERM)

with monedula.Consumer(settings, topics=["orders"]) as consumer:
    signal.signal(signal.SIGTERM, on_signal(consumer))
    threading.Thread(target=kill).start()
    for record in consumer.records():
        seen.append(record.offset)
    more = len(seen) - signalled_at[0]
    assert more in (0, 1), more  # one may have been taken already, and not be in the list yet
    print(consumer.commit() and "ended", seen == list(range(len(seen))))
"""

WHILE_IT_WAITS = """
with monedula.Consumer(settings, topics=["orders"]) as consumer:
    signal.signal(signal.SIGTERM, on_signal(consumer))
    for record in consumer.records():
        seen.append(record.offset)
        if len(seen) == 10_000:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    report()
"""

RUN = """
with monedula.Consumer(settings, topics=["orders"]) as consumer:
    signal.signal(signal.SIGTERM, on_signal(consumer))
    lock = threading.Lock()
    def handle(record):
        with lock:
            seen.append(record.offset)
            if len(seen) == 500:
                os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.001)
    consumer.run(handle, order="none", concurrency=8)
    assert sorted(seen) == list(range(len(seen))), "no gap: nothing is handled twice"
    assert len(seen) < 10_000
    print([at.offset for at in consumer.committed().values()] == [len(seen)])
"""


@pytest.fixture
def orders(broker: Broker) -> Broker:
    broker.create_topic("orders")
    broker.append("orders", [str(number) for number in range(10_000)])
    return broker


@pytest.mark.parametrize(
    "script",
    [
        RECORDS,
        BATCHES,
        *(script.replace("INSTALL", how) for script in (ASYNC_RECORDS, ASYNC_BATCHES) for how in (IN_PYTHON, IN_LOOP)),
    ],
)
def test_the_one_in_hand_is_the_last(orders: Broker, script: str) -> None:
    assert run(SETUP + script, orders.bootstrap_servers) == "0\n"


def test_a_signal_at_any_moment_ends_a_loop(orders: Broker) -> None:
    assert run(SETUP + FROM_OUTSIDE, orders.bootstrap_servers) == "ended True\n"


def test_a_signal_ends_a_loop_that_waits(orders: Broker) -> None:
    assert run(SETUP + WHILE_IT_WAITS, orders.bootstrap_servers) == "0\n"


def test_a_signal_ends_a_run_without_a_gap(orders: Broker) -> None:
    assert run(SETUP + RUN, orders.bootstrap_servers) == "True\n"
    assert orders.group("etl").members == ()


INTERRUPTED = """
with monedula.Consumer(settings, topics=["orders"]) as consumer:
    def handle(record):
        seen.append(record.offset)
        if record.offset == 100:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)
    try:
        consumer.run(handle, order="none", concurrency=4)
    except KeyboardInterrupt:
        print("interrupted", len(seen) < 10_000)
    committed = [at.offset for at in consumer.committed().values()][0]
    assert set(range(committed)) <= set(seen), committed
"""

WOKEN_TWICE = """
with monedula.Consumer(settings, topics=["orders"]) as consumer:
    signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())
    go_on, busy = threading.Event(), threading.Event()
    def handle(record):
        seen.append(record.offset)
        if record.offset == 0:
            busy.set()
            go_on.wait(30)
        elif record.offset == 9_000:
            # Behind all others of its key: whatever is before it is still to be handled.
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.0005)
    def again():
        while len(seen) < 9_000:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)
        go_on.set()
    threading.Thread(target=again).start()
    consumer.run(handle, order="none", concurrency=4)
    print("ended", [at.offset for at in consumer.committed().values()][0] <= len(seen))
"""


@pytest.mark.parametrize(("script", "said"), [(INTERRUPTED, "interrupted True\n"), (WOKEN_TWICE, "ended True\n")])
def test_a_run_ends_at_once(orders: Broker, script: str, said: str) -> None:
    assert run(SETUP + script, orders.bootstrap_servers) == said
    assert orders.group("etl").members == ()
