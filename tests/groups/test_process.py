"""Ctrl-C, fork and the interpreter's end, for members of groups."""

import pytest
from monedula.testing import Broker

from tests.runtime.script import run

JOINED = """
settings = {"bootstrap.servers": sys.argv[1], "group.id": "etl", "auto.offset.reset": "earliest"}
consumer = monedula.Consumer(settings, topics=["orders"])
batch = None
while not consumer.assignment():
    batch = consumer.poll(timeout=1)
"""

INTERRUPTED = (
    JOINED
    + """
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    consumer.poll(timeout=40)
except KeyboardInterrupt:
    print("interrupted")
consumer.close()
"""
)

INTERRUPTED_CALLBACK = (
    JOINED
    + """
consumer.unsubscribe()
called = []
def slow(partitions):
    called.append(partitions)
    if len(called) == 1:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
consumer.subscribe("orders", on_assigned=slow)
try:
    consumer.poll(timeout=40)
except KeyboardInterrupt:
    print("interrupted")
consumer.poll(timeout=0)  # calls again what did not end
assert len(called) == 2 and called[0] == called[1], called
consumer.close()
"""
)

FORKED = (
    JOINED
    + """
while not batch:
    batch = consumer.poll(timeout=10)
child = os.fork()
if child == 0:
    signal.alarm(120)
    calls = [
        consumer.poll, consumer.commit, consumer.keep_alive, consumer.committed, consumer.close, consumer.health,
        lambda: consumer.subscribe("orders"), lambda: consumer.commit(batch), lambda: consumer.rebalance_wanted,
    ]
    for call in calls:
        try:
            call()
        except monedula.errors.ForkError:
            continue
        os._exit(3)
    mine = monedula.Consumer({**settings, "group.id": "child"}, topics=["orders"])
    while not mine.poll(timeout=1):
        pass
    mine.close()
    sys.exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
print(consumer.commit(batch))
consumer.close()
"""
)

FORGOTTEN = (
    JOINED
    + """
class Own:
    name = "own"
    def assign(self, topics, members):
        return {members[0].member_id: [(topic, 0) for topic in topics]}
other = monedula.Consumer({**settings, "group.id": "own"}, topics=["orders"], assignors=[Own()])
while not other.assignment():
    other.poll(timeout=1)
thread = threading.Thread(target=consumer.poll, args=(60,), daemon=True)
thread.start()
print("ends without close()")
"""
)


@pytest.fixture
def orders(broker: Broker) -> Broker:
    broker.create_topic("orders")
    broker.append("orders", ["1"])
    return broker


@pytest.mark.parametrize("script", [INTERRUPTED, INTERRUPTED_CALLBACK])
def test_ctrl_c_ends_a_wait_and_the_consumer_leaves_in_order(orders: Broker, script: str) -> None:
    assert run(script, orders.bootstrap_servers) == "interrupted\n"
    assert orders.group("etl").members == ()


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(orders: Broker) -> None:
    assert run(FORKED, orders.bootstrap_servers) == "{TopicPartition(topic='orders', partition=0): 1}\n"


def test_a_program_that_ends_without_close_leaves_its_groups(orders: Broker) -> None:
    assert run(FORGOTTEN, orders.bootstrap_servers) == "ends without close()\n"
    assert (orders.group("etl").members, orders.group("own").members) == ((), ())
