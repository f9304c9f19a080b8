import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.runtime.script import run

# Ctrl-C has to end any wait within 100 ms; the rest is for a machine that is busy with other tests.
SLACK_SECONDS = 0.9

SCRIPT = """
bootstrap, topic, slack = sys.argv[1:]
sent = []

def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

settings = {"bootstrap.servers": bootstrap, "bootstrap.timeout.ms": 60_000}
consumer = monedula.Consumer(settings)
consumer.assign(topic)
async def read_for_ever():
    async with monedula.AsyncConsumer(settings) as consumer:
        consumer.assign(topic)
        async for batch in consumer.batches():
            pass

threading.Timer(0.7, interrupt).start()
try:
    WAIT
except KeyboardInterrupt:
    late = time.monotonic() - sent[0]
    assert late < 0.1 + float(slack), f"{late} s after Ctrl-C"
else:
    raise AssertionError("the wait ended by itself")
consumer.close()
print("interrupted")
"""


@pytest.mark.parametrize(
    "wait",
    [
        "consumer.poll(timeout=40)",
        "next(consumer.batches())",
        "next(consumer.records())",
        "list(consumer.batches(timeout=40))",
    ],
)
def test_ctrl_c_ends_a_wait_for_records(kafka: KafkaCluster, topic: TopicFactory, wait: str) -> None:
    assert interrupt(wait, kafka.bootstrap, topic()) == "interrupted\n"


@pytest.mark.parametrize(
    "wait",
    [
        "consumer.poll(timeout=40)",
        "consumer.end_offsets([(topic, 0)])",
        "consumer.beginning_offsets()",
        "consumer.offsets_for_times({(topic, 0): 1})",
        "consumer.partitions_of(topic)",
        "monedula.read(settings, topic)",
    ],
)
def test_ctrl_c_ends_a_wait_for_a_cluster_that_is_not_there(wait: str) -> None:
    assert interrupt(wait, "127.0.0.1:1", "orders") == "interrupted\n"


def test_ctrl_c_ends_an_event_loop_that_waits(kafka: KafkaCluster, topic: TopicFactory) -> None:
    wait = "asyncio.run(read_for_ever())"
    assert interrupt(wait, kafka.bootstrap, topic()) == "interrupted\n"


def interrupt(wait: str, bootstrap: str, topic: str) -> str:
    # Written into the script, because CPython ends with SIGINT once a KeyboardInterrupt has come out of an exec().
    return run(SCRIPT.replace("WAIT", wait), bootstrap, topic, SLACK_SECONDS)


STREAM = """
import polars, pyarrow
broker = Broker(topics={"orders": 1, "copies": 1})
broker.append("orders", [b"a"])
settings = {"bootstrap.servers": broker.bootstrap_servers}
producer = monedula.Producer(settings)
# Called in the middle of the read, by the thread that reads.
stream = monedula.read(settings, "orders", progress=lambda *_: signal.raise_signal(signal.SIGINT))
try:
    try:
        READ
    except Exception as error:
        print(type(error).__name__)
    time.sleep(5)
    raise AssertionError("Ctrl-C was kept")
except KeyboardInterrupt:
    print("interrupted")
producer.close()
"""


@pytest.mark.parametrize(
    "reader",
    ["pyarrow.table(stream)", "polars.DataFrame(stream)", "producer.send_batch(stream, 'copies')"],
)
def test_ctrl_c_while_a_library_reads_a_stream_is_raised(reader: str) -> None:
    """The library has an error of its own for what a stream raises, which `except Exception` takes."""
    printed = run("from monedula.testing import Broker\n" + STREAM.replace("READ", reader))
    assert printed.endswith("interrupted\n")


GENERATED = """
import pyarrow
schema = pyarrow.schema([("value", pyarrow.string())])

def batches():
    yield pyarrow.record_batch([pyarrow.array(["a"])], schema=schema)
    signal.raise_signal(signal.SIGINT)
    yield pyarrow.record_batch([pyarrow.array(["b"])], schema=schema)

with Broker(topics={"orders": 1}) as broker:
    producer = monedula.Producer({"bootstrap.servers": broker.bootstrap_servers})
    try:
        producer.send_batch(pyarrow.RecordBatchReader.from_batches(schema, batches()), "orders")
    except KeyboardInterrupt:
        print("interrupted")
    producer.close()
"""


def test_ctrl_c_while_batches_that_are_sent_are_generated_is_raised() -> None:
    assert run("from monedula.testing import Broker\n" + GENERATED) == "interrupted\n"


def test_ctrl_c_in_the_last_moment_of_a_wait_is_not_lost() -> None:
    """It is then raised in Python that the core calls to log, and what fails in logging breaks nothing."""
    code = """
broker = Broker(topics={"orders": 1})
with monedula.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
    producer.send("orders", b"first").result(60)
    held = broker.fault(api="Produce", hold=True)
    future = producer.send("orders", b"a value")

    is_ready = threading.Event()

    def interrupt():
        is_ready.wait()
        held.wait()
        os.kill(os.getpid(), signal.SIGINT)
        held.release()

    threading.Thread(target=interrupt).start()
    try:
        is_ready.set()
        future.result(60)
        time.sleep(5)
        raise AssertionError("Ctrl-C was lost")
    except KeyboardInterrupt:
        print("interrupted")
"""
    assert run("from monedula.testing import Broker\n" + code) == "interrupted\n"
