import pytest
from monedula.testing import Broker

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.runtime.script import run

OPEN = """
bootstrap, topic = sys.argv[1:3]
settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
consumer = monedula.Consumer(settings)
consumer.assign(topic)
assert consumer.poll(timeout=20)
print("read")
"""


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    made = topic()
    kafka.helper.produce(made, [{"value": "x" * 10_000} for _ in range(50)])
    return made


@pytest.mark.parametrize(
    "left_open",
    [
        "pass",
        "batch = consumer.poll(timeout=20, max_rows=1)",
        "iterator = consumer.batches(); next(iterator)",
        "iterator = consumer.records(); next(iterator)",
        "stream = monedula.read(settings, topic, max_rows=1); next(stream)",
        "stream = monedula.read(settings, topic); capsule = stream.__arrow_c_stream__()",
        "threading.Thread(target=consumer.poll, args=(600,), daemon=True).start()",
        "threading.Thread(target=list, args=(consumer.batches(max_rows=1),), daemon=True).start()",
        "consumer.cycle = consumer",
        "nowhere = monedula.Consumer(bootstrap_servers='127.0.0.1:1'); nowhere.assign('orders')",
    ],
)
def test_the_interpreter_ends_with_a_consumer_left_open(kafka: KafkaCluster, name: str, left_open: str) -> None:
    code = OPEN + "consumer.seek_to_beginning()\n" + left_open
    assert run(code, kafka.bootstrap, name) == "read\n"


def test_the_interpreter_ends_with_an_asyncio_consumer_left_open(kafka: KafkaCluster, name: str) -> None:
    code = """
async def main():
    consumer = monedula.AsyncConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
    consumer.assign(sys.argv[2])
    waiting = asyncio.create_task(consumer.poll(timeout=600, max_rows=1000))
    assert await waiting
    asyncio.create_task(consumer.poll(timeout=600))
    await asyncio.sleep(0)
    print("read")

asyncio.run(main())
"""
    assert run(code, kafka.bootstrap, name) == "read\n"


FORGOTTEN = """
settings = {"bootstrap.servers": sys.argv[1], "auto.offset.reset": "earliest", "group.id": "forgotten"}
"""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    "forgets",
    [
        """
def main():
    consumer = monedula.Consumer(settings, "orders")
    assert consumer.poll(timeout=20)
main()
""",
        """
async def main():
    consumer = monedula.AsyncConsumer(settings, "orders")
    assert await consumer.poll(timeout=20)
asyncio.run(main())
""",
        """
def main():
    consumer = monedula.Consumer(settings, "orders")
    assert next(consumer.records(timeout=20))
    consumer.cycle = consumer
main()
collecting = threading.Thread(target=gc.collect)
collecting.start()
collecting.join()
""",
    ],
)
def test_a_member_that_is_forgotten_before_the_interpreter_ends_has_left_by_then(forgets: str, protocol: str) -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ["1"])
        run(FORGOTTEN + f"settings['group.protocol'] = {protocol!r}\n" + forgets, broker.bootstrap_servers)
        assert broker.group("forgotten").state == "Empty"


def test_importing_brings_in_neither_frames_nor_loops() -> None:
    heavy = """
import sys
import monedula
assert monedula.AsyncConsumer and monedula.read
print({"asyncio", "logging", "numpy", "pandas", "polars", "pyarrow"} & set(sys.modules))
"""
    assert run("", before=heavy) == "set()\n"


SLOW = """
import logging
class Slow(logging.Handler):
    def emit(self, record):
        time.sleep(0.05)
logging.getLogger("monedula").addHandler(Slow())
logging.getLogger("monedula").setLevel("DEBUG")
settings = {"bootstrap.servers": sys.argv[1], "group.id": "etl", "auto.offset.reset": "earliest"}
with monedula.Consumer(settings, topics="orders") as consumer:
    assert consumer.poll(timeout=20)
print("read")
"""


def test_a_slow_log_handler_does_not_crash_the_exit() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ["a"])
        # Once the interpreter was gone, the thread that passes log events on came back to it.
        assert run(SLOW, broker.bootstrap_servers) == "read\n"
