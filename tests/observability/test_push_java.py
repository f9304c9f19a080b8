"""Metrics that clients push (KIP-714), with Java: its client pushes to the embedded broker, ours to a real Kafka."""

import os
import subprocess
import zipfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import monedula
import pytest

from tests.conftest import give_up
from tests.interop import java
from tests.kafka import KafkaCluster, KafkaUnavailable, jars
from tests.observability.pushed import decoded, eventually, receiver, subscribe

SOURCE = Path(__file__).with_name("Receiver.java")
COMPILER_SECONDS = 120
CONSUMED = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"


class Received(NamedTuple):
    """A push, as the plug-in of a real Kafka got it."""

    client_id: str
    client_instance_id: str
    terminating: bool
    metrics: bytes


class Kafka(NamedTuple):
    """A real Kafka with a receiver of metrics."""

    settings: dict[str, str]
    file: Path

    def received(self) -> list[Received]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        parts = [line.split(" ") for line in lines if line.count(" ") == 3]
        return [Received(name, instance, last == "true", b64decode(metrics)) for name, instance, last, metrics in parts]


@pytest.fixture(scope="module")
def kafka_with_receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    folder = tmp_path_factory.mktemp("receiver")
    try:
        agent = f"-javaagent:{compiled(folder)}={folder / 'pushed'}"
        with KafkaCluster(config={"metric.reporters": "Receiver"}, java_options=[agent]) as cluster:
            cluster.helper.create_topic("orders")
            yield Kafka({"bootstrap.servers": cluster.bootstrap}, folder / "pushed")
    except KafkaUnavailable as error:
        give_up(error)


def compiled(folder: Path) -> Path:
    """The plug-in as the agent of a JVM."""
    libs = sorted(Path(jars.class_path()).parent.glob("*.jar"))
    classes = folder / "classes"
    compiler = [jars.java(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-d", str(classes)]
    command = [*compiler, "-cp", os.pathsep.join(map(str, libs)), str(SOURCE)]
    subprocess.run(command, check=True, timeout=COMPILER_SECONDS)
    with zipfile.ZipFile(folder / "receiver.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: Receiver\n")
        for file in classes.iterdir():
            jar.write(file, file.name)
    return folder / "receiver.jar"


@pytest.mark.jvm
def test_a_real_kafka_takes_what_is_pushed(kafka_with_receiver: Kafka) -> None:
    settings = kafka_with_receiver.settings
    subscribe(settings, "all", "*")
    with monedula.Producer({**settings, "client.id": "producer"}) as producer:
        for _ in range(5):
            producer.send("orders", b"value")
    reading = {**settings, "client.id": "consumer", "group.id": "etl", "auto.offset.reset": "earliest"}
    with monedula.Consumer(reading, topics="orders") as consumer:
        rows = 0
        while rows < 5:
            rows += len(consumer.poll(5.0))
        consumer.commit()

        def twice() -> bool:
            return len([push for push in kafka_with_receiver.received() if push.client_id == "consumer"]) >= 2

        eventually(twice, "two pushes of the consumer")
        known = consumer.health()["client_instance_id"]
    of_consumer = [push for push in kafka_with_receiver.received() if push.client_id == "consumer"]
    assert {push.client_instance_id for push in of_consumer} == {known}
    assert [push.terminating for push in of_consumer] == [False] * (len(of_consumer) - 1) + [True]
    assert sum(decoded(push.metrics).points[CONSUMED].value for push in of_consumer) == 5
    assert decoded(of_consumer[0].metrics).attributes == {"group_id": "etl"}
    of_producer = [push for push in kafka_with_receiver.received() if push.client_id == "producer"]
    assert of_producer[-1].terminating
    acknowledged = "monedula.producer.records.acknowledged.total"
    assert sum(decoded(push.metrics).points[acknowledged].value for push in of_producer) == 5


@pytest.mark.jvm
def test_a_real_kafka_takes_metrics_of_the_users(kafka_with_receiver: Kafka) -> None:
    settings = kafka_with_receiver.settings
    subscribe(settings, "all", "com.example.,org.apache.kafka.admin.client.request")
    with monedula.Admin({**settings, "client.id": "own"}) as admin:
        admin.register_metric("com.example.jobs.done", lambda: 4, kind="counter", unit="{job}", attributes={"a": "b"})
        admin.register_metric("com.other.jobs", lambda: 1)
        admin.list_topics()
        eventually(lambda: [push for push in kafka_with_receiver.received() if push.client_id == "own"], "a push")
    pushed = [decoded(push.metrics).points for push in kafka_with_receiver.received() if push.client_id == "own"]
    assert sum(points["com.example.jobs.done"].value for points in pushed) == 4, "a counter that stood still"
    done = pushed[0]["com.example.jobs.done"]
    assert (done.is_sum, done.is_delta, done.unit, done.attributes) == (True, True, "{job}", {"a": "b"})
    assert {name for points in pushed for name in points if not name.startswith("org.apache.kafka.admin.")} == {
        "com.example.jobs.done"
    }


@pytest.mark.jvm
def test_a_real_kafka_that_wants_other_metrics_is_told_others(kafka_with_receiver: Kafka) -> None:
    settings = kafka_with_receiver.settings
    subscribe(settings, "all", "org.apache.kafka.producer.connection")
    with monedula.Producer({**settings, "client.id": "chosen"}) as producer:
        producer.send("orders", b"value").result()
        eventually(lambda: [push for push in kafka_with_receiver.received() if push.client_id == "chosen"], "a push")
    for push in kafka_with_receiver.received():
        if push.client_id == "chosen":
            names = set(decoded(push.metrics).points)
            assert names
            assert all(name.startswith("org.apache.kafka.producer.connection") for name in names)


@pytest.mark.jvm
def test_javas_client_pushes_to_the_embedded_broker() -> None:
    with receiver() as (broker, settings):
        bounded = ("--topic", "orders", "--max-messages", "40", "--throughput", "20")
        java.tool(java.VERIFIABLE_PRODUCER, settings["bootstrap.servers"], *bounded)
        pushes = broker.client_metrics()
    assert pushes, "nothing was pushed"
    names = {name for push in pushes for name in decoded(push.metrics).points}
    assert "org.apache.kafka.producer.connection.creation.total" in names
    # What both clients push has the same kind.
    ours = ours_by_kind()
    java_points = {name: point for push in pushes for name, point in decoded(push.metrics).points.items()}
    shared = ours.keys() & java_points.keys()
    assert len(shared) > 10
    assert {name: java_points[name].is_sum for name in shared} == {name: ours[name] for name in shared}


@pytest.mark.jvm
def test_javas_consumer_pushes_to_the_embedded_broker_as_it_ends() -> None:
    """Java's producer skips this push if its thread does not poll again while it closes. Its consumer has to leave."""
    reading = ("--topic", "orders", "--group", "g", "--from-beginning", "--max-messages", "5", "--timeout-ms", "30000")
    with receiver() as (broker, settings):
        broker.append("orders", ["value"] * 5)
        java.tool(java.CONSOLE_CONSUMER, settings["bootstrap.servers"], *reading)
        pushes = broker.client_metrics()
    assert [push.terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert sum(decoded(push.metrics).points[CONSUMED].value for push in pushes) == 5


def ours_by_kind() -> dict[str, bool]:
    """The names that our producer pushes, and whether each is a sum."""
    with receiver() as (broker, settings):
        with monedula.Producer(settings) as producer:
            producer.send("orders", b"value").result()
            eventually(broker.client_metrics, "a push")
        return {
            name: point.is_sum
            for push in broker.client_metrics()
            for name, point in decoded(push.metrics).points.items()
        }
