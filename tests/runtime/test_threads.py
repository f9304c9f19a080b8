import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.runtime.script import run

OPEN = """
from pathlib import Path

bootstrap, topic = sys.argv[1:3]
settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}

def open_consumer():
    consumer = monedula.Consumer(settings)
    consumer.assign(topic)
    return consumer

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
"""


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    made = topic()
    kafka.helper.produce(made, [{"value": "x" * 1000} for _ in range(50)], codec="zstd")
    return made


@pytest.mark.parametrize("verb", ["poll", "batches", "records", "end_offsets"])
def test_closing_ends_the_wait_of_another_thread(kafka: KafkaCluster, name: str, verb: str) -> None:
    code = """
waits = {
    "poll": lambda: consumer.poll(timeout=40),
    "batches": lambda: list(consumer.batches()),
    "records": lambda: list(consumer.records()),
    "end_offsets": lambda: consumer.end_offsets([("orders", 0)]),
}
nowhere = sys.argv[3] == "end_offsets"
if nowhere:
    settings |= {"bootstrap.servers": "127.0.0.1:1", "bootstrap.timeout.ms": 60_000}
consumer = monedula.Consumer(settings)
consumer.assign(topic)
raised = []

def wait():
    if not nowhere:
        assert consumer.poll(timeout=20)
        waiting.set()
    waiting.set()
    try:
        waits[sys.argv[3]]()
    except Exception as error:
        raised.append(error)

waiting = threading.Event()
thread = threading.Thread(target=wait)
thread.start()
waiting.wait()
# It is in a method of monedula's, so the next thing that it does is to wait.
wait_until(lambda: "/monedula/" in sys._current_frames()[thread.ident].f_code.co_filename)
consumer.close()
thread.join(10)
assert not thread.is_alive(), "still waiting"
assert [type(error) for error in raised] == [monedula.errors.ClosedError], raised
"""
    run(OPEN + code, kafka.bootstrap, name, verb)


def test_a_forgotten_consumer_leaves_neither_threads_nor_sockets(kafka: KafkaCluster, name: str) -> None:
    code = """
own = threads()
with open_consumer() as consumer:
    assert consumer.poll(timeout=20)
del consumer
ours = ("monedula-io", "monedula-log")
wait_until(lambda: sockets() == 0 and [thread for thread in threads() if thread not in ours] == own)
before = threads()
consumer = open_consumer()
assert consumer.poll(timeout=20)
assert sockets() > 0 and threads() != before
del consumer
gc.collect()
wait_until(lambda: sockets() == 0 and threads() == before)
"""
    run(OPEN + code, kafka.bootstrap, name)


@pytest.mark.parametrize("kind", ["consumer", "read", "unread", "asyncio"])
def test_many_opened_and_closed_leak_neither_threads_nor_descriptors(kafka: KafkaCluster, name: str, kind: str) -> None:
    code = """
def consumer():
    with open_consumer() as consumer:
        assert consumer.poll(timeout=20)

def read():
    assert sum(map(len, monedula.read(settings, topic))) == 50

def unread():
    monedula.read(settings, topic, max_rows=1)

def asyncio_consumer():
    async def main():
        async with monedula.AsyncConsumer(settings) as consumer:
            consumer.assign(topic)
            assert await consumer.poll(timeout=20)

    asyncio.run(main())

use = {"consumer": consumer, "read": read, "unread": unread, "asyncio": asyncio_consumer}[sys.argv[3]]

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def settle():
    gc.collect()
    wait_until(lambda: sockets() == 0)

use()
settle()
before = len(threads()), descriptors()
for _ in range(25):
    use()
settle()
# The runtime's own blocking threads are reused and end when idle; one or two may still be there.
wait_until(lambda: len(threads()) <= before[0] + 2 and descriptors() <= before[1])
"""
    run(OPEN + code, kafka.bootstrap, name, kind)


def test_threads_share_a_consumer_without_losing_or_repeating_a_record(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(4)
    kafka.helper.produce(name, [{"value": str(n), "partition": n % 4} for n in range(2000)])
    code = """
consumer = open_consumer()
seen, lock = [], threading.Lock()

def read():
    for batch in consumer.batches(max_rows=7, timeout=2):
        with lock:
            seen.extend(record.value for record in batch.records())

readers = [threading.Thread(target=read) for _ in range(4)]
for reader in readers:
    reader.start()
for reader in readers:
    reader.join()
assert sorted(map(int, seen)) == list(range(2000)), len(seen)
"""
    run(OPEN + code, kafka.bootstrap, name)
