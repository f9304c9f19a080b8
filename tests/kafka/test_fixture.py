"""The fixture itself, with confluent-kafka as the reader: other tests depend on it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from tests.conftest import TopicFactory, give_up
from tests.kafka import HelperError, KafkaCluster, KafkaUnavailable, NodeFailed, jars, prepared, wire
from tests.kafka.tools import CODECS, Codec, Record

READ_TIMEOUT_SECONDS = 30.0
ROOT = Path(__file__).parents[2]


def read(bootstrap: str, topic: str, partition: int, upto: int, **config: object) -> list[Message]:
    """Every message of one partition from the start until position `upto`."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "check.crcs": True,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
    )
    messages: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + READ_TIMEOUT_SECONDS
        while consumer.position([TopicPartition(topic, partition)])[0].offset < upto:
            assert time.monotonic() < deadline, f"read {len(messages)} messages of {topic}-{partition} in time"
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                messages.append(message)
            elif message is not None and config.get("isolation_level") == "read_committed":
                break  # at the last stable offset: nothing more can come
    finally:
        consumer.close()
    return messages


@pytest.mark.parametrize("codec", CODECS)
def test_java_producer_writes_every_codec(kafka: KafkaCluster, topic: TopicFactory, codec: Codec) -> None:
    name = topic()
    values = [f"value {i} ".encode() * 20 for i in range(200)]
    placed = kafka.helper.produce(
        name, [{"key": str(i), "value": value} for i, value in enumerate(values)], codec=codec
    )
    assert [p.offset for p in placed] == list(range(200))
    messages = read(kafka.bootstrap, name, 0, 200)
    assert [m.value() for m in messages] == values
    assert [m.key() for m in messages] == [str(i).encode() for i in range(200)]
    batches = segment_bytes(kafka, name)
    # The low three bits of the attributes, 21 bytes into a v2 batch, name the codec.
    assert batches[22] & 7 == CODECS.index(codec)


def segment_bytes(kafka: KafkaCluster, topic: str) -> bytes:
    """The first segment file of partition 0."""
    (directory,) = (kafka.nodes[1].directory / "data").glob(f"{topic}-0")
    return Path(directory / "00000000000000000000.log").read_bytes()


def test_records_keep_nulls_headers_timestamps_and_size(kafka: KafkaCluster, topic: TopicFactory) -> None:
    large = os.urandom(900_000)
    records: list[Record] = [
        {"key": None, "value": None, "timestamp": 1_600_000_000_123},
        {"key": "", "value": "", "headers": [("a", "1"), ("b", None), ("a", b"\xff\x00")]},
        {"key": b"\x00", "value": large},
    ]
    name = topic()
    kafka.helper.produce(name, records)
    null, headed, big = read(kafka.bootstrap, name, 0, 3)
    assert (null.key(), null.value(), null.timestamp()) == (None, None, (1, 1_600_000_000_123))
    assert headed.headers() == [("a", b"1"), ("b", None), ("a", b"\xff\x00")]
    assert big.value() == large


def test_log_append_time(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(config={"message.timestamp.type": "LogAppendTime"})
    before_ms = time.time_ns() // 1_000_000
    kafka.helper.produce(name, [{"value": "x", "timestamp": 1_000}])
    kind, timestamp = read(kafka.bootstrap, name, 0, 1)[0].timestamp()
    assert kind == 2
    assert before_ms <= timestamp <= time.time_ns() // 1_000_000


def test_transactions(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    helper = kafka.helper
    helper.produce(name, [{"value": "committed"}], transaction="commit")
    helper.produce(name, [{"value": "aborted"}], transaction="abort")
    helper.produce(name, [{"value": "plain"}])
    helper.produce(name, [{"value": "open"}], transaction="open", transactional_id=name)
    (end,) = (end for _, end in helper.offsets(name).values())
    stable = [m.value() for m in read(kafka.bootstrap, name, 0, end, isolation_level="read_committed")]
    assert stable == [b"committed", b"plain"]
    every = [m.value() for m in read(kafka.bootstrap, name, 0, end, isolation_level="read_uncommitted")]
    assert every == [b"committed", b"aborted", b"plain", b"open"]
    helper.end_transaction(name, "commit")
    stable = [m.value() for m in read(kafka.bootstrap, name, 0, end + 1, isolation_level="read_committed")]
    assert stable == [b"committed", b"plain", b"open"]


def test_topics_grow_shrink_and_go(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(partitions=2)
    helper = kafka.helper
    first = helper.describe_topic(name)
    assert len(helper.add_partitions(name, 3).partitions) == 3
    helper.produce(name, [{"value": str(i), "partition": 2} for i in range(10)])
    helper.delete_records(name, {2: 4})
    assert helper.offsets(name) == {0: (0, 0), 1: (0, 0), 2: (4, 10)}
    with pytest.raises(HelperError, match="TopicExistsException"):
        helper.create_topic(name)
    helper.delete_topic(name)
    assert helper.create_topic(name).topic_id != first.topic_id


def test_restart_keeps_the_data(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "before"}])
    before = kafka.nodes[1].pid
    kafka.restart(1)
    assert kafka.nodes[1].pid != before
    kafka.wait_leader(name, 0, 1)
    kafka.helper.produce(name, [{"value": "after"}])
    assert [m.value() for m in read(kafka.bootstrap, name, 0, 2)] == [b"before", b"after"]


def test_leader_moves_and_survives_a_kill(kafka3: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(cluster=kafka3, assignment={0: [2, 1, 3]})
    helper = kafka3.helper
    assert helper.describe_topic(name).partitions[0].leader == 2
    helper.produce(name, [{"value": "led by 2"}], config={"acks": "all"})
    assert helper.move_leader(name, 0, 1).partitions[0].replicas[0] == 1
    kafka3.wait_leader(name, 0, 1)
    helper.produce(name, [{"value": "led by 1"}], config={"acks": "all"})
    # It hosts the helper, which has a JVM of its own meanwhile.
    assert helper.pid == kafka3.nodes[1].pid
    kafka3.kill(1)
    helper.produce(name, [{"value": "1 is gone"}], config={"acks": "all"})
    assert helper.describe_topic(name).partitions[0].leader in (2, 3)
    meanwhile = helper.pid
    kafka3.start(1)
    assert not _alive(meanwhile)
    assert helper.pid == kafka3.nodes[1].pid
    kafka3.wait_in_sync(name)
    values = [m.value() for m in read(kafka3.bootstrap, name, 0, 3)]
    assert values == [b"led by 2", b"led by 1", b"1 is gone"]


def test_a_host_that_stands_still_is_left(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, host = topic(), kafka.nodes[1].pid
    helper = kafka.helper
    helper.produce(name, [{"value": "x"}])
    kafka.pause(1)
    try:
        meanwhile = helper.pid
        assert meanwhile != host
    finally:
        kafka.resume(1)
    assert helper.offsets(name) == {0: (0, 1)}
    assert helper.pid == host
    assert not _alive(meanwhile)


def test_a_reader_in_a_rack_is_sent_to_its_replica(kafka3: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(cluster=kafka3, assignment={0: [1, 2, 3]})
    kafka3.helper.produce(name, [{"value": "x"}], config={"acks": "all"})
    fetched_from: list[int] = []

    def note(statistics: str) -> None:
        partition = json.loads(statistics)["topics"].get(name, {}).get("partitions", {}).get("0", {})
        fetched_from.append(partition.get("broker", -1))

    consumer = Consumer(
        {
            "bootstrap.servers": kafka3.bootstrap,
            "group.id": "unused",
            "client.rack": kafka3.nodes[3].rack,
            "statistics.interval.ms": 100,
            "stats_cb": note,
        }
    )
    try:
        consumer.assign([TopicPartition(name, 0, 0)])
        deadline = time.monotonic() + READ_TIMEOUT_SECONDS
        while 3 not in fetched_from:
            assert time.monotonic() < deadline, f"fetched from {set(fetched_from)}"
            consumer.poll(0.2)
    finally:
        consumer.close()


def test_a_frozen_node_answers_nothing(kafka: KafkaCluster) -> None:
    node = kafka.nodes[1]
    kafka.pause(1)
    try:
        with pytest.raises(TimeoutError):
            wire.metadata("127.0.0.1", node.port, timeout_seconds=0.5)
    finally:
        kafka.resume(1)
    kafka.wait_ready()


@pytest.mark.jvm
def test_the_command_runs_until_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kafka", "--topic", "demo:3"]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    with process.stdout:
        host, port = process.stdout.readline().strip().split(":")
    assert set(wire.metadata(host, int(port)).topics["demo"]) == {0, 1, 2}
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0, (tmp_path / "errors").read_text()
    with pytest.raises(OSError, match="refused"):
        wire.metadata(host, int(port))


@pytest.mark.parametrize(("missing", "said"), [("java", "no `java`"), ("mvn", "no `mvn`")])
def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str, said: str) -> None:
    (tmp_path / "bin").mkdir()
    for tool in {"java", "mvn"} - {missing}:
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / "bin" / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(jars.CACHE_VARIABLE, str(tmp_path / "cache"))
    jars.java.cache_clear()
    jars.class_path.cache_clear()
    prepared.class_path.cache_clear()
    try:
        with pytest.raises(KafkaUnavailable, match=said):
            KafkaCluster().__enter__()
    finally:
        jars.java.cache_clear()
        jars.class_path.cache_clear()
        prepared.class_path.cache_clear()


def test_without_kafka_ci_fails_and_others_skip_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no JDK"):
        give_up(KafkaUnavailable("no JDK"))
    monkeypatch.delenv("CI")
    with pytest.warns(UserWarning, match="SKIPPED"), pytest.raises(pytest.skip.Exception, match="no JDK"):
        give_up(KafkaUnavailable("no JDK"))


@pytest.mark.jvm
def test_a_bad_setting_fails_with_the_log() -> None:
    with (
        pytest.warns(UserWarning, match="logs are kept") as warned,
        pytest.raises(NodeFailed, match=r"num\.network\.threads"),
        KafkaCluster(config={"num.network.threads": "none"}),
    ):
        pass
    kept = Path(str(warned[0].message).removeprefix("Kafka's logs are kept in "))
    assert "num.network.threads" in (kept / "node-1.log").read_text()
    shutil.rmtree(kept)


@pytest.mark.jvm
def test_nothing_outlives_a_killed_session() -> None:
    script = (
        "import os, signal, sys\n"
        "from tests.kafka import KafkaCluster\n"
        "kafka = KafkaCluster().__enter__()\n"
        "print(kafka.nodes[1].pid, kafka.directory, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    pid, directory = ran.stdout.split()
    deadline = time.monotonic() + 20
    while Path(directory).exists() or _alive(int(pid)):
        assert time.monotonic() < deadline, f"{pid} or {directory} is still there: {ran.stderr}"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Orphaned to an init that may be slow to wait for it.
    status = Path(f"/proc/{pid}/status")
    return not (status.exists() and "\nState:\tZ" in status.read_text())


def test_a_cluster_id_never_begins_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    dashed, plain = uuid.UUID(bytes=b"\xf8" + bytes(15)), uuid.UUID(bytes=bytes(16))
    made = iter([dashed, plain])
    monkeypatch.setattr("tests.kafka.prepared.uuid.uuid4", lambda: next(made))
    assert prepared.random_id() == "A" * 22
