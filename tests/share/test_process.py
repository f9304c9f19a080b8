"""Ctrl-C, fork, threads, memory and the interpreter's end for share consumers: each in a process of its own."""

from collections.abc import Iterator

import monedula
import pytest
from monedula.testing import Broker

from tests.runtime.script import run
from tests.share.conftest import SETTINGS
from tests.share.running import undone, until

JOBS = 2000
GROUP = "workers"
ALL = list(range(JOBS))

OPENED = """
settings = {"bootstrap.servers": sys.argv[1], "group.id": "workers", "fetch.max.wait.ms": 100}
consumer = monedula.ShareConsumer(settings, topics=["jobs"])
"""

INTERRUPTED_POLL = """
assert consumer.poll(timeout=60, max_rows=100_000)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        consumer.poll(timeout=60)  # until all have come, and then in vain
except KeyboardInterrupt:
    print("interrupted")
consumer.close()
"""

# Nothing answers: neither the commit nor the end of it may wait for that.
INTERRUPTED_COMMIT = """
assert consumer.poll(timeout=60)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    consumer.commit(timeout=60)
except KeyboardInterrupt:
    print("interrupted")
began = time.monotonic()
consumer.close(timeout=1.0)
assert time.monotonic() - began < 20, time.monotonic() - began
"""

INTERRUPTED_RUN = """
done = []
def handle(record):
    number = int(record.value)
    if number == 500:
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.0005)
    done.append(number)
try:
    consumer.run(handle, concurrency=4)
except KeyboardInterrupt:
    consumer.close()
    print(sorted(done))
"""

FORKED = """
batch = consumer.poll(timeout=60)
record = next(batch.records())
child = os.fork()
if child == 0:
    signal.alarm(120)
    calls = [
        consumer.poll, consumer.commit, consumer.commit_async, consumer.close, consumer.health, consumer.metrics,
        consumer.unsubscribe, consumer.wakeup, lambda: consumer.subscribe("jobs"), lambda: next(consumer.batches()),
        lambda: next(consumer.records()), lambda: consumer.run(print), lambda: consumer.accept(batch, [0]),
        lambda: consumer.release(record), lambda: consumer.reject(record), lambda: consumer.renew(batch),
        lambda: consumer.commit(batch), lambda: batch.deadline,
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except monedula.errors.ForkError:
            continue
        os._exit(30 + number)
    repr(consumer)
    mine = monedula.ShareConsumer(settings, topics=["jobs"])
    while not mine.poll(timeout=1):
        pass
    assert mine.commit()
    mine.close()
    sys.exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
assert sum(consumer.commit(batch).values()) == len(batch)
consumer.close()
print("goes on")
"""

FORGOTTEN = """
assert consumer.poll(timeout=60)
thread = threading.Thread(target=consumer.poll, args=(60,), daemon=True)
thread.start()
print("ends without close()")
"""

# Each thread has two batches in hand, and releases a part of what comes first; all of it is accepted once.
THREADS = """
consumer.close()
consumer = monedula.ShareConsumer(
    settings, ["jobs"], columns=["topic", "partition", "offset", "value", "deliveryCount"], acknowledge="explicit",
    max_poll_records=50)
accepted, lock = [], threading.Lock()
def decide(batch):
    mine = []
    for record in batch.records():
        number = int(record.value)
        if number % 7 == 3 and record.delivery_count == 1:
            consumer.release(record)
        else:
            consumer.accept(record)
            mine.append(number)
    consumer.commit(batch)
    with lock:
        accepted.extend(mine)
failed = []
def work():
    try:
        before = None
        while len(accepted) < 2000:
            batch = consumer.poll(timeout=0.2, max_rows=20)
            if before:
                decide(before)
            before = batch
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
assert consumer.health()["unacknowledged_records"] == 0
consumer.close()
print(sorted(accepted))
"""


@pytest.fixture
def jobs() -> Iterator[Broker]:
    """A broker with a topic, and a group that reads it from the start."""
    with Broker(settings=SETTINGS, topics=["jobs"]) as broker:
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_configs({("group", GROUP): {"share.auto.offset.reset": "earliest"}})
        for first in range(0, JOBS, 100):  # batches of their own: no member is given all at once
            broker.append("jobs", [str(number) for number in ALL[first : first + 100]])
        yield broker


def rest(broker: Broker) -> list[int]:
    """What the group has not done with: another member is given all of it, at once."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP}
    seen: list[int] = []
    with monedula.ShareConsumer(settings, ["jobs"]) as consumer:
        while undone(broker.bootstrap_servers, GROUP):
            seen += [int(record.value or b"") for record in consumer.poll(timeout=0.2).records()]
            consumer.commit()
    return sorted(seen)


def left(broker: Broker) -> None:
    assert broker.group(GROUP).members == ()


def test_ctrl_c_ends_a_wait_for_records(jobs: Broker) -> None:
    assert run(OPENED + INTERRUPTED_POLL, jobs.bootstrap_servers) == "interrupted\n"
    left(jobs)
    assert len(rest(jobs)) < JOBS, "what it had when it asked for more is accepted"


def test_ctrl_c_ends_a_commit_that_nobody_answers(jobs: Broker) -> None:
    jobs.fault(api="ShareAcknowledge", hold=True)
    assert run(OPENED + INTERRUPTED_COMMIT, jobs.bootstrap_servers) == "interrupted\n"


def test_ctrl_c_ends_a_run_and_nothing_is_lost(jobs: Broker) -> None:
    done = [int(word) for word in run(OPENED + INTERRUPTED_RUN, jobs.bootstrap_servers).strip("[]\n").split(",")]
    left(jobs)
    again = rest(jobs)
    assert 500 in done
    assert sorted(done + again) == ALL, (len(done), len(again))


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(jobs: Broker) -> None:
    assert run(OPENED + FORKED, jobs.bootstrap_servers) == "goes on\n"


def test_a_program_that_ends_without_close_leaves_its_group(jobs: Broker) -> None:
    assert run(OPENED + FORGOTTEN, jobs.bootstrap_servers) == "ends without close()\n"
    left(jobs)


def test_threads_with_several_batches_each_end_every_record_once(jobs: Broker) -> None:
    assert run(OPENED + THREADS, jobs.bootstrap_servers) == f"{ALL}\n"
    until(lambda: undone(jobs.bootstrap_servers, GROUP) == 0)


HUGE_BYTES = 4 << 20
HUGE_NODES = 12
HUGE = """
def peak_bytes():  # not ru_maxrss, which counts from before the process was this program
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
consumer.close()
consumer = monedula.ShareConsumer({**settings, "queued.max.bytes": 4 << 20}, ["jobs"])
assert consumer.poll(timeout=60)
before = peak_bytes()
consumer.subscribe("huge")
seen = set()
while len(seen) < int(sys.argv[2]):
    for record in consumer.poll(timeout=60, max_bytes=1).records():
        assert len(record.value) == int(sys.argv[3])
        seen.add((record.partition, record.offset))
consumer.close()
print(peak_bytes() - before)
"""


def test_huge_records_of_many_brokers_stay_within_the_budget() -> None:
    """Each broker sends one whole batch at least: all of these at once would be 48 MB."""
    with Broker(nodes=HUGE_NODES, settings=SETTINGS, topics=["jobs"]) as broker:
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_configs({("group", GROUP): {"share.auto.offset.reset": "earliest"}})
        broker.append("jobs", ["1"])
        broker.create_topic("huge", partitions=HUGE_NODES, config={"max.message.bytes": 16 << 20})
        for partition in range(HUGE_NODES):
            for _ in range(4):
                broker.append("huge", [bytes(HUGE_BYTES)], partition=partition)
        grown = int(run(OPENED + HUGE, broker.bootstrap_servers, 4 * HUGE_NODES, HUGE_BYTES))
    # The budget, a batch that is one of those, and the one in hand three times: as a response, as columns, in Python.
    assert grown < (4 << 20) + 6 * HUGE_BYTES
