from pathlib import Path

from confluent_kafka import Producer
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.secured import Certificates
from tests.runtime.script import run

COUNTING = """
bootstrap, topic = sys.argv[1:]
counted = 0

def count():
    global counted
    while True:
        counted += 1
        # The sleep releases the GIL, so this thread never has to be interrupted.
        time.sleep(0.0001)

# With such an interval another thread runs during a call only if the call releases the GIL, however long it takes.
sys.setswitchinterval(1000)
threading.Thread(target=count, daemon=True).start()

def counted_during(work):
    before = counted
    result = work()
    return result, counted - before
"""


def test_the_gil_is_free_while_waiting(kafka: KafkaCluster, topic: TopicFactory) -> None:
    code = """
with monedula.Consumer(bootstrap_servers=bootstrap) as consumer:
    consumer.assign(topic)
    # More often than the wait has slices: the GIL is free all the time, not only between two slices.
    batch, ran = counted_during(lambda: consumer.poll(timeout=1.0))
    assert not batch, batch
    assert ran > 50, f"another thread ran {ran} times"
"""
    run(COUNTING + code, kafka.bootstrap, topic())


def test_the_gil_is_free_while_certificates_and_keys_are_read(tmp_path: Path) -> None:
    client = Certificates(tmp_path).client("anna")
    key = serialization.load_pem_private_key(client.key_pem.encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    # So many rounds make the decryption slow.
    slow = serialization.PrivateFormat.PKCS12.encryption_builder().kdf_rounds(500_000).build(b"secret")
    chain = x509.load_pem_x509_certificate(client.chain_pem.encode())
    store = tmp_path / "slow.p12"
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"anna", key, chain, None, slow))
    code = """
settings = {"bootstrap.servers": bootstrap, "security.protocol": "SSL", "enable.ssl.certificate.verification": False}
settings |= {"ssl.keystore.location": topic, "ssl.keystore.password": "secret"}
admin, ran = counted_during(lambda: monedula.Admin(settings))
assert ran > 100, f"another thread ran {ran} times"
admin.close()
"""
    run(COUNTING + code, "localhost:1", store)


def test_the_gil_is_free_while_decoding(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, count = topic(), 150_000
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": "zstd", "linger.ms": 100})
    for n in range(count):
        producer.produce(name, (b"%d" % n) * 150)
        if n % 10_000 == 0:
            producer.flush()
    producer.flush()
    # Nothing is decoded ahead, and all records are fetched: the poll does nothing but decode, for long.
    code = """
settings = {"auto.offset.reset": "earliest", "decode.threads": 0, "queued.max.bytes": 1 << 30}
with monedula.Consumer({"bootstrap.servers": bootstrap, **settings}) as consumer:
    consumer.assign([(topic, 0)])
    total = next(iter(consumer.end_offsets().values()))

    def queue_all():
        while consumer.health()["partitions"][topic, 0]["queued_records"] < total:
            time.sleep(0.01)

    queue_all()
    # On a busy machine the other thread may get no turn while one batch is decoded.
    for attempt in range(20):
        batch, ran = counted_during(lambda: consumer.poll(max_rows=1 << 30, max_bytes=1 << 30))
        assert len(batch) == total, (len(batch), total)
        if ran:
            break
        consumer.seek((topic, 0), 0)
        queue_all()
    assert ran, "no other thread ran while batches were decoded"
"""
    run(COUNTING + code, kafka.bootstrap, name)
