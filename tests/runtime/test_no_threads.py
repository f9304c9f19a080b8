"""Programs whose system grants no further thread: each call says so, and works once there are threads again."""

import sys

import pytest

from tests.runtime.script import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")

# The limit of threads does not hold for root: the process becomes nobody, except for files.
SCRIPT = """
import ctypes, resource
from monedula.testing import Broker

_, MOST = resource.getrlimit(resource.RLIMIT_NPROC)

def no_threads():
    if os.getuid() == 0:
        os.setresuid(65534, 65534, 0)
        ctypes.CDLL(None).setfsuid(0)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, MOST))
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        return
    raise AssertionError("the limit does not hold")

def threads():
    resource.setrlimit(resource.RLIMIT_NPROC, (MOST, MOST))

def refused(call):
    try:
        call()
    except monedula.errors.NoThreadError as error:
        assert error.retriable and "ulimit -u" in str(error), error
    else:
        raise AssertionError("there was a thread")

broker = Broker(topics={"orders": 2})
for _ in range(10):
    broker.append("orders", [b"a"])
settings = {"bootstrap.servers": broker.bootstrap_servers}
group = {**settings, "group.id": "g", "auto.offset.reset": "earliest"}
"""


@pytest.mark.parametrize(
    "make",
    [
        "monedula.Consumer(group)",
        "monedula.Producer(settings)",
        "monedula.Admin(settings)",
        "monedula.read(settings, 'orders')",
        "monedula.Consumer(group, assignors=[Mine()])",
    ],
)
def test_a_client_that_gets_no_threads_is_an_error_and_comes_with_the_next_attempt(make: str) -> None:
    code = f"""
class Mine:
    name = "mine"
    def assign(self, topics, members):
        return {{members[0].member_id: [("orders", 0), ("orders", 1)]}}

no_threads()
refused(lambda: {make})
refused(lambda: {make})
threads()
with {make}:
    print("made")
"""
    assert run(SCRIPT + code) == "made\n"


def test_clients_that_have_threads_do_without_others() -> None:
    """Names are looked up, batches compressed, and a leader assigns partitions."""
    code = """
settings["bootstrap.servers"] = settings["bootstrap.servers"].replace("127.0.0.1", "localhost")
group = {**group, **settings}
with monedula.Producer(settings, compression_type="lz4") as producer, monedula.Consumer(group) as consumer:
    no_threads()
    consumer.subscribe(["orders"])
    rows = 0
    while rows < 10:
        rows += len(consumer.poll(30))
    producer.send("orders", b"b").result()
    assert sum(map(len, monedula.read(settings, "orders"))) == 11
    consumer.commit()
    print(rows)
"""
    assert run(SCRIPT + code) == "10\n"


def test_typed_values_are_decoded_by_the_reader_without_threads_for_it() -> None:
    code = """
broker.create_topic("typed", 1)
broker.append("typed", ['{"id": %d}' % number for number in range(20_000)])
value = monedula.Json("id bigint")
with monedula.Producer(settings):
    no_threads()
    with monedula.read(settings, "typed", value=value) as stream:
        names = {open(f"/proc/self/task/{each}/comm").read() for each in os.listdir("/proc/self/task")}
        assert not any("inflate" in name for name in names), names
        found = [record.value["id"] for batch in stream for record in batch.records()]
    print(found == list(range(20_000)))
"""
    assert run(SCRIPT + code) == "True\n"


def test_a_callback_that_gets_no_thread_refuses_its_record_alone() -> None:
    code = """
heard = []
with monedula.Producer(settings) as producer:
    no_threads()
    refused(lambda: producer.send("orders", b"b", on_delivery=heard.append))
    producer.send("orders", b"c").result()
    threads()
    producer.send("orders", b"d", on_delivery=heard.append)
print(len(heard), sum(map(len, monedula.read(settings, "orders"))))
"""
    assert run(SCRIPT + code) == "1 12\n"


def test_a_record_for_which_a_partitioner_gets_no_thread_fails_alone() -> None:
    code = """
with monedula.Producer(settings, partitioner=lambda *_: 0) as producer:
    no_threads()
    refused(producer.send("orders", b"b").result)
    threads()
    producer.send("orders", b"c").result()
print(sum(map(len, monedula.read(settings, "orders"))))
"""
    assert run(SCRIPT + code) == "11\n"


def test_a_run_that_gets_no_threads_leaves_its_records_to_the_next() -> None:
    code = """
seen = []
with monedula.Consumer(group, topics=["orders"]) as consumer:
    no_threads()
    refused(lambda: consumer.run(seen.append, concurrency=4))
    assert not seen
    threads()
    consumer.run(seen.append, concurrency=4, until="latest")
print(len(seen))
"""
    assert run(SCRIPT + code) == "10\n"


def test_an_asynchronous_client_that_gets_no_thread_goes_on_with_those_it_has() -> None:
    code = """
async def main():
    async with monedula.AsyncConsumer(group, topics=["orders"]) as consumer:
        no_threads()
        rows = 0
        while rows < 10:
            rows += len(await consumer.poll(30))
        await consumer.commit()
    async with monedula.AsyncProducer(settings) as producer:
        await producer.send("orders", b"b")
    print(rows)

asyncio.run(main())
"""
    assert run(SCRIPT + code) == "10\n"


@pytest.mark.parametrize(
    "make", ["monedula.Consumer(group)", "monedula.Producer(settings)", "monedula.Admin(settings)"]
)
def test_memory_that_is_too_little_for_threads_is_an_error_without_a_backtrace(make: str) -> None:
    """Rust's own report of a panic takes memory for a backtrace where the environment asks for one."""
    code = f"""
def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

{make.partition("(")[0]}  # its modules are loaded first: they are some hundred kB, and import hashlib
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used() + (1 << 20), most))
refused(lambda: {make})
resource.setrlimit(resource.RLIMIT_AS, (most, most))
with {make}:
    print("made")
"""
    before = "import os\nos.environ['RUST_BACKTRACE'] = '1'\n"
    assert run(SCRIPT + code, before=before) == "made\n"
