import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.runtime.script import run

FORKING = """
bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}

def open_consumer():
    consumer = monedula.Consumer(settings)
    consumer.assign(topic)
    return consumer

def read_all(consumer):
    left = count
    while left:
        left -= len(consumer.poll(timeout=20))

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # a child that hangs dies of it, which the parent sees
        work()
        sys.exit(7)  # through the interpreter's own end, hooks and all
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, f"the child ended with {os.waitstatus_to_exitcode(status)}"
"""
COUNT = 20


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    made = topic(2)
    kafka.helper.produce(made, [{"value": f"{n}" * 3000, "partition": n % 2} for n in range(COUNT)])
    return made


@pytest.mark.parametrize(
    "use",
    [
        "consumer.poll(timeout=30)",
        "next(consumer.batches())",
        "consumer.assign(topic)",
        "consumer.seek((topic, 0), 0)",
        "consumer.end_offsets()",
        "consumer.position((topic, 0))",
        "consumer.health()",
        "consumer.metrics()",
        "consumer.schema",
        "consumer.wakeup()",
        "consumer.close()",
        "next(stream)",
        "stream.progress",
        "stream.__arrow_c_stream__()",
        "stream.close()",
    ],
)
def test_a_forked_child_cannot_use_what_the_parent_opened(kafka: KafkaCluster, name: str, use: str) -> None:
    code = """
consumer, stream = open_consumer(), monedula.read(settings, topic, max_rows=1)
batch = consumer.poll(timeout=20, max_rows=1)

def work():
    try:
        exec(sys.argv[4])
    except monedula.errors.ForkError as error:
        assert "Make a new one in the child" in str(error)
    else:
        raise AssertionError("no error")

in_child(work)
left = count - len(batch)
while left:
    left -= len(consumer.poll(timeout=20))
assert sum(map(len, stream)) == count
"""
    run(FORKING + code, kafka.bootstrap, name, COUNT, use)


def test_a_forked_child_gets_no_records_that_the_parent_read_ahead(kafka: KafkaCluster, name: str) -> None:
    code = """
consumer = open_consumer()
records = consumer.records(timeout=20)
next(records)

def work():
    try:
        next(records)
    except monedula.errors.ForkError:
        return
    raise AssertionError("no error")

in_child(work)
assert len(list(zip(range(count - 1), records))) == count - 1
"""
    run(FORKING + code, kafka.bootstrap, name, COUNT)


def test_a_forked_child_can_drop_what_the_parent_opened_and_open_its_own(kafka: KafkaCluster, name: str) -> None:
    code = """
consumer, stream = open_consumer(), monedula.read(settings, topic, max_rows=1)
batch, rows = consumer.poll(timeout=20, max_rows=1), consumer.poll(timeout=20, max_rows=1).records()

def work():
    global consumer, stream, batch, rows
    del consumer, stream, batch, rows
    gc.collect()
    with open_consumer() as own:
        read_all(own)

in_child(work)
in_child(work)
with open_consumer() as other:
    read_all(other)
"""
    run(FORKING + code, kafka.bootstrap, name, COUNT)


def test_a_forked_child_may_read_the_batches_that_it_inherited(kafka: KafkaCluster, name: str) -> None:
    code = """
consumer = open_consumer()
batch = consumer.poll(timeout=20)
values = [record.value for record in batch.records()]

def work():
    assert [record.value for record in batch.records()] == values

in_child(work)
"""
    run(FORKING + code, kafka.bootstrap, name, COUNT)


def test_forks_amid_a_busy_reader_never_hang(kafka: KafkaCluster, name: str) -> None:
    code = """
consumer = open_consumer()
over = threading.Event()

def keep_reading():
    while not over.is_set():
        read_all(consumer)
        consumer.seek_to_beginning()

thread = threading.Thread(target=keep_reading)
thread.start()
other = open_consumer()
for _ in range(30):
    batch = other.poll(timeout=20, max_rows=1)
    other.seek_to_beginning()

    def work():
        global batch, other, consumer
        del batch, other, consumer
        gc.collect()

    in_child(work)
over.set()
thread.join()
"""
    run(FORKING + code, kafka.bootstrap, name, COUNT)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_of_multiprocessing_read_on_their_own(kafka: KafkaCluster, name: str, method: str) -> None:
    code = """
import multiprocessing

consumer = open_consumer()
read_all(consumer)
with multiprocessing.get_context(sys.argv[4]).Pool(2) as pool:
    streams = pool.starmap(rows, [(settings, [(topic, p)]) for p in (0, 1)])
assert sum(streams) == count, streams
"""
    before = "from tests.runtime.worker import rows\n"
    run(FORKING + code, kafka.bootstrap, name, COUNT, method, before=before)


@pytest.mark.parametrize("use", ["result()", "exception()", "done()", "add_done_callback(print)"])
def test_a_commit_that_was_under_way_at_the_fork_is_the_parents(use: str) -> None:
    """Nobody would ever end it in the child."""
    code = f"""
    from monedula.testing import Broker

    with Broker(topics=["orders"]) as broker:
        consumer = monedula.Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="etl")
        held = broker.fault(api="OffsetCommit", hold=True)
        future = consumer.commit_async({{("orders", 0): 0}})
        held.wait(1)
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            try:
                future.{use}
            except monedula.errors.ForkError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        held.remove()
        print(future.result(30))
        consumer.close()
    """
    assert run(code) == "{TopicPartition(topic='orders', partition=0): 0}\n"
