"""What a signal handler raises comes out of whichever call runs at that moment, whatever that call does just then."""

import pytest

from tests.runtime.script import run

SIGNALS = 100

# A thread sends the next signal when the loop goes on after the last one: each is to end the loop, and none gets lost.
SCRIPT = """
from monedula.testing import Broker

class Late(Exception):
    pass

fired = caught = 0

def handle(signum, frame):
    global fired
    fired += 1
    raise Late(fired)

signal.signal(signal.SIGUSR1, handle)
waits = threading.Event()

def send(count):
    for number in range(count):
        waits.wait()
        waits.clear()
        # At any moment of the loop, the first ones included.
        for _ in range(number % 7):
            time.sleep(0)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

def interrupted(count, call):
    "How many of so many signals ended the loop that calls `call`."
    global fired, caught
    fired = caught = 0
    sender = threading.Thread(target=send, args=(count,))
    sender.start()
    while caught < count:
        try:
            waits.set()
            while fired <= caught:
                call()
        except Late:
            caught += 1
        else:
            break
    kept = fired - caught
    while sender.is_alive():
        try:
            waits.set()
            sender.join(0.01)
        except Late:
            pass
    return caught, kept

broker = Broker(topics={"orders": 1})
broker.append("orders", [b"a"])
settings = {"bootstrap.servers": broker.bootstrap_servers}
"""


def lost(setup: str, call: str) -> str:
    body = f"{setup}\nprint(interrupted({SIGNALS}, lambda: {call}))\n"
    # The clients are left to the end of the process, in which no handler raises any more.
    return run(
        SCRIPT + body + "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\nos._exit(0) if sys.stdout.flush() else None\n"
    )


CONSUMER = """
consumer = monedula.Consumer({**settings, 'group.id': 'g', 'enable.auto.commit': False}, topics=['orders'])
while not consumer.assignment():
    consumer.poll(0.1)
"""
PRODUCER = "producer = monedula.Producer(settings)"


@pytest.mark.parametrize(
    ("setup", "call"),
    [
        (CONSUMER, "consumer.poll(0.0)"),
        (CONSUMER, "consumer.commit({('orders', 0): 1})"),
        (PRODUCER, "producer.send('orders', b'v').result()"),
        (PRODUCER, "producer.flush()"),
        ("", "monedula.Admin(settings)"),
        ("", "monedula.Consumer(settings)"),
        ("", "sum(map(len, monedula.read(settings, 'orders')))"),
        ("admin = monedula.Admin(settings)", "admin.list_topics()"),
    ],
)
def test_no_exception_of_a_signal_handler_is_lost_in_a_loop_of_calls(setup: str, call: str) -> None:
    assert lost(setup, call) == f"({SIGNALS}, 0)\n"


def test_rows_that_come_with_a_signal_are_handed_out_by_the_next_call() -> None:
    """Otherwise they would count as processed, and be committed, though the program has never seen them."""
    code = """
held = broker.fault(api="Fetch", hold=True)
consumer = monedula.Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"}, topics=["orders"])

def interrupt():
    held.wait()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
    held.release()

threading.Thread(target=interrupt).start()
try:
    while not consumer.poll(30):
        pass
    raise AssertionError("the exception was lost")
except Late:
    print(len(consumer.poll(30)))
consumer.close()
"""
    assert run(SCRIPT + code) == "1\n"


@pytest.mark.parametrize("level", ["DEBUG", "WARNING"])
def test_logging_keeps_none_either(level: str) -> None:
    """Handlers of `logging` take every `Exception` for one of their own."""
    setup = f"""
import io, logging
logging.basicConfig(stream=io.StringIO(), level="{level}")
{PRODUCER}
"""
    assert lost(setup, "producer.send('orders', b'v').result()") == f"({SIGNALS}, 0)\n"


def test_a_transaction_whose_begin_is_interrupted_is_aborted() -> None:
    setup = """
producer = monedula.Producer(settings, transactional_id="t")
def transact():
    with producer.transaction():
        producer.send("orders", b"v")
"""
    assert lost(setup, "transact()") == f"({SIGNALS}, 0)\n"


def test_what_a_handler_raises_while_a_library_reads_is_raised_once_more() -> None:
    code = """
import pyarrow
stream = monedula.read(settings, "orders", progress=lambda *_: signal.raise_signal(signal.SIGUSR1))
try:
    try:
        pyarrow.table(stream)
    except pyarrow.ArrowException as error:
        print(type(error).__name__)
    time.sleep(5)
    raise AssertionError("the exception was kept")
except Late:
    print("raised")
"""
    assert run(SCRIPT + code).endswith("raised\n")


def test_what_a_handler_raises_in_a_frame_that_exports_its_data_stays_what_it_is() -> None:
    code = """
class Frame:
    def __arrow_c_stream__(self, requested_schema=None):
        signal.raise_signal(signal.SIGUSR1)

with monedula.Producer(settings) as producer:
    try:
        producer.send_batch(Frame(), "orders")
    except Late:
        print("raised")
"""
    assert run(SCRIPT + code) == "raised\n"


def test_what_a_handler_raises_while_an_argument_is_described_is_raised() -> None:
    code = """
class Value:
    def __repr__(self):
        signal.raise_signal(signal.SIGUSR1)
        return "a value"

with monedula.Producer(settings) as producer:
    try:
        try:
            producer.send("orders", Value())
        except monedula.errors.ArgumentError:
            pass
        time.sleep(5)
        raise AssertionError("the exception was kept")
    except Late:
        print("raised")
"""
    assert run(SCRIPT + code) == "raised\n"


def test_what_a_handler_raises_ends_an_asynchronous_run() -> None:
    """The record's handler did not fail: nothing is retried."""
    code = """
calls = []

async def handle(record):
    calls.append(record)
    signal.raise_signal(signal.SIGUSR1)

async def main():
    group = {**settings, "group.id": "g", "auto.offset.reset": "earliest"}
    async with monedula.AsyncConsumer(group, topics=["orders"]) as consumer:
        await consumer.run(handle, retries=5)

try:
    asyncio.run(main())
except Late:
    print(len(calls))
"""
    assert run(SCRIPT + code) == "1\n"


def test_what_a_handler_raises_while_a_run_ends_is_raised() -> None:
    code = """
ends = threading.Event()

def handle(record):
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
    ends.wait(0.2)

consumer = monedula.Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"}, topics=["orders"])
try:
    consumer.run(handle, until="latest")
except Late:
    print("raised")
consumer.close()
"""
    assert run(SCRIPT + code) == "raised\n"
