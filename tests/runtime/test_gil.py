from confluent_kafka import Producer

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.runtime.script import run

COUNTING = """
bootstrap, topic = sys.argv[1:]
counted = 0

def count():
    global counted
    while True:
        counted += 1

threading.Thread(target=count, daemon=True).start()

def while_free(seconds):
    before = counted
    time.sleep(seconds)
    return (counted - before) / seconds

def share_of(work):
    rate = while_free(0.3)
    before, started = counted, time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    return result, seconds, (counted - before) / seconds / rate
"""


def test_the_gil_is_free_while_waiting(kafka: KafkaCluster, topic: TopicFactory) -> None:
    code = """
with monedula.Consumer(bootstrap_servers=bootstrap) as consumer:
    consumer.assign(topic)
    batch, seconds, share = share_of(lambda: consumer.poll(timeout=1.0))
    assert not batch and seconds > 0.9, (batch, seconds)
    assert share > 0.3, f"another thread ran at {share:.0%} of its speed"
"""
    run(COUNTING + code, kafka.bootstrap, topic())


def test_the_gil_is_free_while_decoding(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, count = topic(), 150_000
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": "zstd", "linger.ms": 100})
    for n in range(count):
        producer.produce(name, (b"%d" % n) * 150)
        if n % 10_000 == 0:
            producer.flush()
    producer.flush()
    # Nothing is decoded ahead, and nothing is to come: what remains is one long piece of decoding.
    code = """
settings = {"auto.offset.reset": "earliest", "decode.threads": 0, "queued.max.bytes": 1 << 30}
with monedula.Consumer({"bootstrap.servers": bootstrap, **settings}) as consumer:
    consumer.assign([(topic, 0)])
    total = next(iter(consumer.end_offsets().values()))
    while consumer.health()["partitions"][topic, 0]["queued_records"] < total:
        time.sleep(0.01)
    batch, seconds, share = share_of(lambda: consumer.poll(max_rows=1 << 30, max_bytes=1 << 30))
    assert len(batch) == total, (len(batch), total)
    assert seconds > 0.03, f"decoding took {seconds} s only: too little to tell"
    assert share > 0.2, f"another thread ran at {share:.0%} of its speed in {seconds:.3f} s of decoding"
"""
    run(COUNTING + code, kafka.bootstrap, name)
