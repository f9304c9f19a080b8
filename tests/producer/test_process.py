"""The process around a producer: signals, forks, exit, threads, forgetting. Each test in a Python of its own."""

import pytest

from tests.groups.ground import Ground
from tests.producer.conftest import stored
from tests.runtime.script import ended, run

OPEN = """
from pathlib import Path
from monedula.testing import Broker

bootstrap, topic = sys.argv[1:3]

def open_producer(**settings):
    return monedula.Producer(bootstrap_servers=bootstrap, **settings)

def threads():
    return sorted(path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm"))

def sockets():
    found = []
    for path in Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(path))
        except FileNotFoundError:
            pass
    return sum(link.startswith("socket:") for link in found)

def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, (threads(), sockets())
        time.sleep(0.01)

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # a child that hangs dies of it, which the parent sees
        work()
        sys.exit(7)  # through the interpreter's own end, hooks and all
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, f"the child ended with {os.waitstatus_to_exitcode(status)}"
"""


def values(ground: Ground, topic: str) -> list[bytes | None]:
    return [record.value for record in stored(ground.bootstrap, topic)]


@pytest.mark.parametrize("settings", ["", "linger_ms=2000", "partitioner=lambda *_: 0"])
def test_what_was_sent_before_the_end_is_delivered(ground: Ground, settings: str) -> None:
    topic = ground.topic()
    code = f"""
producer = open_producer({settings})
producer.partitions_for(topic)
for number in range(1000):
    producer.send(topic, str(number))
print("sent")
"""
    assert run(OPEN + code, ground.bootstrap, topic) == "sent\n"
    assert values(ground, topic) == [b"%d" % number for number in range(1000)]


LOST = {
    "unreachable": "lost = open_producer(bootstrap_servers='127.0.0.1:1')\nfor _ in range(3): lost.send(topic, 'x')",
    "mistyped": "mistyped = open_producer()\nfor _ in range(3): mistyped.send('nowhere', 'x')",
    "unanswered": "for _ in range(3): held.send('orders', 'x')",
    # Nobody has it any more; its tasks deliver what they can.
    "dropped": "for _ in range(3): held.send('orders', 'x')\ndel held",
    "in line": "chooser = open_chooser()\nfor _ in range(3): chooser.send('nowhere', 'x')",
}
LOGGED = """
import logging
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s: %(message)s")
"""
UNHEARD = "sys.stderr = sys.stdout\n"
UNDELIVERED = "3 records were not delivered before the producer ended"


@pytest.mark.parametrize(
    ("left", "log", "told"),
    [
        ("unreachable", UNHEARD, f"monedula: {UNDELIVERED}; the last error: 127.0.0.1:1: "),
        (
            "mistyped",
            UNHEARD,
            f"monedula: {UNDELIVERED}; the last error: the topic nowhere is not known to the brokers ",
        ),
        ("unanswered", UNHEARD, f"monedula: {UNDELIVERED}; the last error: 127.0.0.1:"),
        ("dropped", LOGGED, f"WARNING monedula.producer.end: {UNDELIVERED}; the last error: 127.0.0.1:"),
        pytest.param(
            "in line",
            UNHEARD,
            "monedula: 3 records were not delivered before the end: they still waited for room or for their topic; the "
            "last error: 127.0.0.1:",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_could_not_be_delivered_before_the_end_is_reported(ground: Ground, left: str, log: str, told: str) -> None:
    code = """
other = Broker(topics=["orders"])
held = monedula.Producer(bootstrap_servers=other.bootstrap_servers)
held.send("orders", "x").result(20)
other.fault(api="Produce", hold=True)

def open_chooser():
    other.fault(api="Metadata", hold=True)
    return monedula.Producer(bootstrap_servers=other.bootstrap_servers, partitioner=lambda *_: 0)
"""
    opening = OPEN.replace("bootstrap_servers=bootstrap, **settings", "**{'bootstrap_servers': bootstrap, **settings}")
    printed = run(opening + log + code + LOST[left], ground.bootstrap, ground.topic())
    assert [line.startswith(told) for line in printed.splitlines() if "not delivered" in line] == [True], printed


UNSEEN = (
    "monedula: 3 records were not delivered, and nobody asked for the outcome; the first error: the topic nowhere does"
)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("mistyped = open_producer()\nsend(mistyped)", 1),
        ("mistyped = open_producer()\nsend(mistyped)\ndel mistyped", 1),
        ("mistyped = open_producer()\nsend(mistyped)\nmistyped.close()", 1),
        ("mistyped = open_producer()\nprint([future.exception() for future in send(mistyped)])", 0),
        (
            "try:\n with open_producer() as mistyped: send(mistyped)\nexcept monedula.KafkaError: pass",
            0,
        ),
        ("futures = send(open_producer())\nprint([future.exception() for future in futures])", 0),
    ],
)
def test_failures_that_nobody_has_seen_are_told_at_the_end(ground: Ground, sent: str, told: int) -> None:
    code = """
def send(producer):
    return [producer.send("nowhere", "x") for _ in range(3)]

"""
    # The failure itself is wanted, within the time that the end of a process gives to records.
    opening = OPEN.replace("=bootstrap, **", "=bootstrap, topic_metadata_propagation_max_ms=1000, **")
    printed = run(opening + UNHEARD + code + sent, ground.bootstrap, ground.topic())
    assert sum(line.startswith(UNSEEN) for line in printed.splitlines()) == told, printed
    assert ("monedula:" in printed) == bool(told)


def test_callbacks_are_called_before_the_end(ground: Ground) -> None:
    topic = ground.topic()
    code = """
producer = open_producer(linger_ms=100)
for number in range(5):
    producer.send(topic, "x", on_delivery=lambda future: print(future.result().offset))
"""
    assert run(OPEN + code, ground.bootstrap, topic) == "0\n1\n2\n3\n4\n"


@pytest.mark.parametrize(
    "left_open",
    [
        "nowhere = monedula.Producer(bootstrap_servers='127.0.0.1:1'); nowhere.send('orders', 'x')",
        pytest.param("producer.itself = producer", marks=pytest.mark.thorough),
        "threading.Thread(target=future.result, args=(600,), daemon=True).start()",
        pytest.param("threading.Thread(target=held.flush, daemon=True).start()", marks=pytest.mark.thorough),
        pytest.param("threading.Thread(target=held.close, daemon=True).start()", marks=pytest.mark.thorough),
        "full.start()",
        pytest.param("held_future.add_done_callback(print)", marks=pytest.mark.thorough),
        "async_producer = monedula.AsyncProducer(bootstrap_servers=bootstrap); async_producer.send(topic, 'x')",
    ],
)
def test_the_interpreter_ends_with_a_producer_left_open(ground: Ground, left_open: str) -> None:
    code = """
producer = open_producer()
future = producer.send(topic, "x")
future.result(20)
other = Broker(topics=["orders"])
other.fault(api="Produce", hold=True)
held = monedula.Producer(bootstrap_servers=other.bootstrap_servers, buffer_memory=100_000, batch_size=10_000,
                         max_request_size=50_000)
held_future = held.send("orders", "x")

def fill():
    while True:
        held.send("orders", "x" * 1000)

full = threading.Thread(target=fill, daemon=True)
print("sent")
"""
    topic = ground.topic()
    script = OPEN + "import logging\nlogging.disable(logging.CRITICAL)\n" + code + left_open
    printed = run(script, ground.bootstrap, topic)
    assert printed.startswith("sent\n")


def test_a_loop_that_ends_with_futures_under_way(ground: Ground) -> None:
    topic = ground.topic()
    code = """
async def main():
    producer = monedula.AsyncProducer(bootstrap_servers=bootstrap, linger_ms=1000)
    waiting = asyncio.create_task(wait(producer.send(topic, "x")))
    await asyncio.sleep(0)
    assert not waiting.done()
    print("sent")

async def wait(future):
    await future

asyncio.run(main())
"""
    assert run(OPEN + code, ground.bootstrap, topic, before="") == "sent\n"
    assert values(ground, topic) == [b"x"]


def test_what_close_loses_is_told_where_nobody_logs() -> None:
    code = """
broker = Broker()
producer = monedula.Producer({"bootstrap.servers": broker.bootstrap_servers})
producer.send("ordres", "x")
producer.close(0.5)
"""
    ran = ended(f"from monedula.testing import Broker\n{code}")
    assert "a record was not delivered before the producer ended; the last error: the topic ordres" in ran.stderr
    assert ran.stderr.count("\n") == 1


FORKED_USES = [
    "producer.send(topic, 'y')",
    "producer.send(topic, 'y', on_delivery=print)",
    "producer.send_batch(table, topic)",
    "producer.flush()",
    "producer.partitions_for(topic)",
    "producer.metrics()",
    "producer.health()",
    "producer.close()",
    "chooser.send(topic, 'y')",
    "future.result()",
    "future.done()",
    "future.add_done_callback(print)",
    "asyncio.run(wait(future))",
    "rows.result()",
]


def test_a_forked_child_cannot_use_what_the_parent_opened(ground: Ground) -> None:
    topic = ground.topic()
    code = """
import pyarrow

async def wait(future):
    await future

producer, chooser = open_producer(linger_ms=200), open_producer(partitioner=lambda *_: 0)
table = pyarrow.table({"value": ["x"]})
future, rows = producer.send(topic, "x"), producer.send_batch(table, topic)

def work():
    for use in sys.argv[3:]:
        try:
            exec(use)
        except monedula.errors.ForkError as error:
            assert "Make a new one in the child" in str(error)
        else:
            raise AssertionError(use)

in_child(work)
assert future.result(20).offset == 0
assert rows.result(20).acknowledged == 1
producer.send(topic, "y").result(20)
"""
    run(OPEN + code, ground.bootstrap, topic, *FORKED_USES)
    assert values(ground, topic) == [b"x", b"x", b"y"]


def test_a_forked_child_drops_what_the_parent_opened_and_opens_its_own(ground: Ground) -> None:
    topic = ground.topic()
    code = """
producer = open_producer()
futures = [producer.send(topic, "parent", on_delivery=lambda _: None) for _ in range(1000)]

def work():
    global producer, futures
    del producer, futures
    gc.collect()
    with open_producer() as own:
        own.send(topic, "child", on_delivery=lambda _: None)

for _ in range(5):
    in_child(work)
producer.send(topic, "parent").result(20)
"""
    run(OPEN + code, ground.bootstrap, topic)
    found = values(ground, topic)
    assert (found.count(b"parent"), found.count(b"child")) == (1001, 5)


@pytest.mark.parametrize(
    "wait",
    [
        "future.result()",
        "producer.flush()",
        "producer.close()",
        "rows.result()",
        "send_for_ever()",
        "producer.send_batch(large, 'orders')",
        "nowhere.partitions_for('orders')",
        "asyncio.run(wait(future))",
    ],
)
def test_ctrl_c_ends_any_wait(wait: str) -> None:
    # Ctrl-C has to end any wait within 100 ms; the rest is for a machine that is busy with other tests.
    code = f"""
import pyarrow

broker = Broker(topics=["orders"])
broker.fault(api="Produce", hold=True)
settings = dict(buffer_memory=100_000, batch_size=10_000, max_request_size=50_000)
producer = monedula.Producer(bootstrap_servers=broker.bootstrap_servers, **settings)
nowhere = monedula.Producer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=60_000)
rows = producer.send_batch(pyarrow.table({{"value": ["x"]}}), "orders")
large = pyarrow.table({{"value": ["x" * 1000] * 1000}})
future = producer.send("orders", "x")
sent = []

def send_for_ever():
    while True:
        producer.send("orders", b"x" * 1000)

async def wait(future):
    await future

def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

threading.Timer(0.5, interrupt).start()
try:
    {wait}
except KeyboardInterrupt:
    late = time.monotonic() - sent[0]
    assert late < 1.0, f"{{late}} s after Ctrl-C"
else:
    raise AssertionError("the wait ended by itself")
broker.stop()
producer.close(timeout=0.1)
print("interrupted")
"""
    prelude = "from monedula.testing import Broker\nimport logging\nlogging.disable(logging.CRITICAL)\n"
    assert run(prelude + code) == "interrupted\n"


def test_a_forgotten_producer_delivers_and_leaves_neither_threads_nor_sockets(ground: Ground) -> None:
    topic = ground.topic()
    code = """
def use(number):
    producer = open_producer(linger_ms=20)
    for _ in range(10):
        producer.send(topic, str(number), on_delivery=lambda _: None)

use(0)
gc.collect()
wait_until(lambda: sockets() == 0)
before = len(threads())
for number in range(1, 20):
    use(number)
gc.collect()
# The runtime's own blocking threads are reused and end when idle; one or two may still be there.
wait_until(lambda: sockets() == 0 and len(threads()) <= before + 2)
"""
    run(OPEN + code, ground.bootstrap, topic)
    assert sorted(int(value or b"") for value in values(ground, topic)) == sorted(list(range(20)) * 10)


def test_the_gil_is_free_while_waiting(ground: Ground) -> None:
    topic = ground.topic()
    code = """
counted = 0

def count():
    global counted
    while True:
        counted += 1
        # It lets go by itself: nobody is made to.
        time.sleep(0.0001)

# Another thread runs during the wait if that lets go of the GIL, and else not at all.
sys.setswitchinterval(1000)
threading.Thread(target=count, daemon=True).start()
producer = open_producer(linger_ms=1000)
future = producer.send(topic, "x")
before = counted
future.result(20)
ran = counted - before
assert ran > 50, f"another thread ran {ran} times"
"""
    run(OPEN + code, ground.bootstrap, topic)


def test_threads_send_at_once_and_nothing_is_lost(ground: Ground) -> None:
    topic = ground.topic(3)
    code = """
producer = open_producer()
called = []

def send(thread):
    for number in range(2000):
        producer.send(topic, f"{thread} {number}", key=str(thread), on_delivery=called.append)

sending = [threading.Thread(target=send, args=(thread,)) for thread in range(8)]
for thread in sending:
    thread.start()
for thread in sending:
    thread.join()
producer.flush(30)
assert len(called) == 16_000
assert all(future.exception() is None for future in called)
"""
    run(OPEN + code, ground.bootstrap, topic)
    found: dict[int, list[int]] = {}
    for value in values(ground, topic):
        thread, number = map(int, (value or b"").split())
        found.setdefault(thread, []).append(number)
    assert found == {thread: list(range(2000)) for thread in range(8)}
