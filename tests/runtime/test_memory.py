"""A process that may have no more memory: every call ends with an error, or goes on once memory is back."""

import sys
from collections.abc import Callable, Iterator
from typing import Literal

import monedula
import pytest
from monedula.testing import Broker

from tests.runtime.script import ended, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is held to on Linux only")

LIMIT = """
import resource
from pathlib import Path
def is_settled():
    tasks = [Path(f"/proc/self/task/{task}/stat") for task in os.listdir("/proc/self/task")]
    return sum(task.read_text().rsplit(")", 1)[1].split()[0] != "S" for task in tasks) == 1  # this thread
def limit(spare_bytes):
    while not is_settled():  # glibc ends a process that has no memory for the data of a thread that begins
        time.sleep(0.001)
    with open("/proc/self/statm") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + spare_bytes, resource.RLIM_INFINITY))
def fill():  # what was freed before, so that a large cell finds no place
    try:
        while True:
            filled.append(bytes(1 << 20))
    except MemoryError:
        pass
def lift():
    global ballast
    ballast = None
    filled.clear()
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ballast = bytes(1 << 16)  # for the interpreter's own objects in `lift`
filled = []
settings = {"bootstrap.servers": sys.argv[1], "auto.offset.reset": "earliest"}
"""
ROWS = 40
ROW_BYTES = 500_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("small")
        broker.append("small", [b"x"])
        broker.create_topic("large", partitions=4, config={"max.message.bytes": 4 << 20})
        for index in range(ROWS):
            broker.append("large", [bytes([index]) * ROW_BYTES], partition=index % 4)
        yield broker


READ = """
consumer = monedula.Consumer(settings | {"max.partition.fetch.bytes": 8 << 20, "request.timeout.ms": 5000})
consumer.assign("small")
assert consumer.poll(timeout=30)
limit(6 << 20)
consumer.assign("large")
# A connection that has no memory for a response is closed and counted; it does not stay open unread.
deadline = time.monotonic() + 30
while consumer.metrics()["connections_closed"] < 2:
    assert not consumer.poll(timeout=0.1)
    assert time.monotonic() < deadline, consumer.health()
ends = consumer.end_offsets([("large", partition) for partition in range(4)], timeout=30)
lift()
rows = 0
while rows < sum(ends.values()):
    batch = consumer.poll(timeout=30)
    assert batch, consumer.health()
    rows += len(batch)
consumer.close()
print(rows)
"""


def test_reading_goes_on_once_memory_is_back(broker: Broker) -> None:
    assert run(LIMIT + READ, broker.bootstrap_servers) == f"{ROWS}\n"


RECORDS = """
consumer = monedula.Consumer(settings | {"group.id": "records", "auto.commit.interval.ms": 1}, "rows")
rows = consumer.records(timeout=30)
assert next(rows).offset == 0
limit(1 << 20)
fill()
try:
    next(rows)
except MemoryError:
    print("no memory")
finally:
    lift()
print([len(record.value) for record in consumer.records(timeout=1)])
consumer.close()
"""


def test_a_record_without_memory_for_it_comes_again(broker: Broker) -> None:
    broker.create_topic("rows", config={"max.message.bytes": 16 << 20})
    settings = {"bootstrap.servers": broker.bootstrap_servers, "max.request.size": 16 << 20, "batch.size": 16 << 20}
    with monedula.Producer({**settings, "linger.ms": 60_000}) as producer:
        for value in (b"x", bytes(8 << 20), b"yz"):  # one batch: all of it is there when the first row is
            producer.send("rows", value)
    assert run(LIMIT + RECORDS, broker.bootstrap_servers) == f"no memory\n[{8 << 20}, 2]\n"


TYPED_RECORDS = """
form, value = eval(sys.argv[2]), {"auto.commit.interval.ms": 1, "group.id": sys.argv[3]}
consumer = monedula.Consumer(settings | value, sys.argv[3], value=form)
rows = consumer.records(timeout=30)
assert next(rows).offset == 0
limit(2 << 20)
fill()
try:
    next(rows)
except MemoryError:
    print("no memory")
finally:
    lift()
print([record.offset for record in consumer.records(timeout=1)])
consumer.close()
"""


def _avro(count: int) -> bytes:
    """Bytes or a text of Avro: its length as a varint, and so many letters."""
    length, number = b"", 2 * count
    while number > 127:
        length, number = length + bytes([number & 127 | 128]), number >> 7
    return length + bytes([number]) + b"x" * count


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("monedula.Json('a string')", lambda count: b'{"a":"' + b"x" * count + b'"}'),
        ("monedula.Json('a array<string>')", lambda count: b'{"a":["' + b"x" * count + b'"]}'),
        ("""monedula.Avro('"string"')""", _avro),
        (
            "monedula.Avro({'type': 'record', 'name': 'r', 'fields': [{'name': 'a', 'type': 'bytes'}]})",
            _avro,
        ),
    ],
    ids=["text", "list", "value", "bytes"],
)
def test_a_typed_record_without_memory_for_it_comes_again(
    broker: Broker, request: pytest.FixtureRequest, form: str, value: Callable[[int], bytes]
) -> None:
    topic = f"typed-{request.node.callspec.id}"
    broker.create_topic(topic, config={"max.message.bytes": 16 << 20})
    settings = {"bootstrap.servers": broker.bootstrap_servers, "max.request.size": 16 << 20, "batch.size": 16 << 20}
    with monedula.Producer({**settings, "linger.ms": 60_000}) as producer:
        for count in (1, 8 << 20, 2):
            producer.send(topic, value(count))
    assert run(LIMIT + TYPED_RECORDS, broker.bootstrap_servers, form, topic) == "no memory\n[1, 2]\n"


SEND = """
producer = monedula.Producer(settings | {
    "compression.type": sys.argv[2], "linger.ms": 60_000, "batch.size": 4 << 20, "max.request.size": 8 << 20,
    "delivery.timeout.ms": 90_000, "request.timeout.ms": 5000,
})
value = os.urandom(900_000)
topic = sys.argv[3]
producer.send(topic, value)
producer.flush(30)
limit(7 << 20)
futures, refused = [], 0
for _ in range(60):
    try:
        futures.append(producer.send(topic, value, partition=len(futures) % 4))
    except MemoryError:
        refused += 1
        break
assert refused, "the limit was not felt"
producer.flush(60)
done = [future.exception(0) for future in futures]
lift()
after = [producer.send(topic, value) for _ in range(4)]
producer.flush(60)
assert [future.exception(0) for future in after] == [None] * 4
producer.close()
print(len(futures) > 0, set(done))
"""


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_sending_ends_with_an_error_and_goes_on_once_memory_is_back(broker: Broker, codec: str) -> None:
    topic = f"sent-{codec}"
    broker.create_topic(topic, partitions=4, config={"max.message.bytes": 16 << 20})
    assert run(LIMIT + SEND, broker.bootstrap_servers, codec, topic) == "True {None}\n"


USE = """
# A host name: the system resolves it in a thread of its own, which it may refuse to start.
settings["bootstrap.servers"] = "localhost:" + sys.argv[1].rsplit(":", 1)[1]
settings["bootstrap.timeout.ms"] = 1000
opened = []
def use():
    opened.append(client := make())
    call(client)
make = {
    "admin": lambda: monedula.Admin(settings),
    "consumer": lambda: monedula.Consumer(settings),
    "producer": lambda: monedula.Producer(settings),
}[sys.argv[2]]
call = {
    "admin": lambda client: client.list_topics(timeout=2),
    "consumer": lambda client: client.end_offsets([("small", 0)], timeout=2),
    "producer": lambda client: client.send("small", b"y").result(2),
}[sys.argv[2]]
use()
errors = (monedula.KafkaError, MemoryError)  # made here: the interpreter has no memory either
limit(int(sys.argv[3]))
while True:
    try:
        use()
    except errors:
        break
lift()
for client in opened:
    client.close()
opened.clear()
use()
print("used")
"""


@pytest.mark.parametrize("spare_bytes", [0, 16 << 10, 1 << 20])
@pytest.mark.parametrize("client", ["admin", "consumer", "producer"])
def test_clients_without_memory_end_with_an_error(broker: Broker, client: str, spare_bytes: int) -> None:
    assert run(LIMIT + USE, broker.bootstrap_servers, client, spare_bytes) == "used\n"


COMPRESSED = """
consumer = monedula.Consumer(settings)
consumer.assign("small")
assert consumer.poll(timeout=30)
limit(int(sys.argv[3]))
lacks = MemoryError, monedula.errors.ClosedError, monedula.errors.NoThreadError
for _ in range(5):
    try:
        consumer.assign(sys.argv[2])
        consumer.poll(timeout=0.5)
    except lacks:
        pass
lift()
with monedula.Consumer(settings) as consumer:
    consumer.assign(sys.argv[2])
    rows = 0
    while rows < 20:
        rows += len(consumer.poll(timeout=30))
print(rows)
"""


@pytest.mark.parametrize("spare_bytes", [0, 400_000, 1 << 20])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_without_memory_to_be_decompressed_is_read_later(
    broker: Broker, codec: Literal["gzip", "snappy", "lz4", "zstd"], spare_bytes: int
) -> None:
    topic = f"compressed-{codec}-{spare_bytes}"
    broker.create_topic(topic)
    broker.append(topic, [bytes([index]) * 21_000 for index in range(20)], compression=codec)
    assert run(LIMIT + COMPRESSED, broker.bootstrap_servers, topic, spare_bytes) == "20\n"


# glibc maps 64 MiB for the arena of each further thread: within them the limit is not felt.
ONE_ARENA = """import os, sys
if os.environ.get("MALLOC_ARENA_MAX") != "1":
    os.environ["MALLOC_ARENA_MAX"] = "1"
    os.execv(sys.executable, sys.orig_argv)
"""
LIST_MANY = """
admin = monedula.Admin(settings)
topic = sys.argv[2]
assert topic in admin.list_topics(timeout=30)
lacks = MemoryError, monedula.KafkaError
limit(int(sys.argv[3]))
for _ in range(5):
    try:
        admin.describe_topics(topic, timeout=2)
    except lacks:
        pass
lift()
print(len(admin.describe_topics(topic, timeout=30)[topic].partitions))
admin.close()
"""


@pytest.mark.parametrize("spare_bytes", [100_000, 400_000, 2 << 20])
def test_lists_without_memory_end_no_process(broker: Broker, spare_bytes: int) -> None:
    topic = f"many-{spare_bytes}"
    broker.create_topic(topic, partitions=5000)
    ran = ended(LIMIT + LIST_MANY, broker.bootstrap_servers, topic, spare_bytes, before=ONE_ARENA)
    assert (ran.returncode, ran.stdout) == (0, "5000\n"), ran.stderr
    # PyO3 prints the error of an object that Python has no memory for, which the call then raises.
    told = {line.strip() for line in ran.stderr.splitlines() if not line.startswith((" ", "Traceback"))}
    assert told <= {"MemoryError:"}, ran.stderr


ASYNC_POLL = """
async def main():
    consumer = monedula.AsyncConsumer(settings)
    consumer.assign("small")
    assert await consumer.poll(timeout=30)
    limit(0)
    began = time.monotonic()
    try:
        await consumer.poll(timeout=0.2)
    except (MemoryError, monedula.errors.NoThreadError):
        pass
    took = time.monotonic() - began
    lift()
    await consumer.close()
    print(took < 20)
asyncio.run(main())
"""


def test_a_poll_of_asyncio_ends_where_no_thread_can_wait_for_it(broker: Broker) -> None:
    assert run(LIMIT + ASYNC_POLL, broker.bootstrap_servers) == "True\n"


HUGE_BYTES = 8 << 20
HUGE_NODES = 24
READ_HUGE = """
def peak_bytes():  # not ru_maxrss, which counts from before the process was this program
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
nodes, row_bytes = int(sys.argv[2]), int(sys.argv[3])
consumer = monedula.Consumer(settings | {"queued.max.bytes": 4 << 20})
consumer.assign("small")
assert consumer.poll(timeout=30)
before = peak_bytes()
consumer.assign([("huge", partition) for partition in range(nodes)])
consumer.pause(("huge", 0))
seen = set()
def read():
    batch = consumer.poll(timeout=30)
    assert batch, consumer.health()
    for record in batch.records():
        assert len(record.value) == row_bytes
        seen.add((record.partition, record.offset))
while len(seen) < 2 * nodes - 2:
    read()
consumer.resume(("huge", 0))
while len(seen) < 2 * nodes:
    read()
consumer.close()
print(peak_bytes() - before)
"""


def test_a_huge_batch_of_every_broker_is_read_one_after_the_other() -> None:
    """Brokers send one whole batch, however little is asked for: all at once these would be 200 MB."""
    settings = {"max.message.bytes": 16 << 20}
    with Broker(nodes=HUGE_NODES) as broker:
        broker.create_topic("small")
        broker.append("small", [b"x"])
        broker.create_topic("huge", partitions=HUGE_NODES, config=settings)
        for partition in range(HUGE_NODES):
            for _ in range(2):
                broker.append("huge", [bytes(HUGE_BYTES)], partition=partition)
        grown = int(run(LIMIT + READ_HUGE, broker.bootstrap_servers, HUGE_NODES, HUGE_BYTES))
    print(grown)
    # The budget, 60 MB, and the batch in hand three times: as a response, as columns and as a Python object.
    assert grown < (4 << 20) + 60_000_000 + 3 * HUGE_BYTES
