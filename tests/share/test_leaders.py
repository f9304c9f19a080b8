"""Leaders that move and die, on a real Kafka of three nodes: every record is accepted, by somebody."""

import time
from contextlib import suppress

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster, jars
from tests.share.reading import PATIENCE_SECONDS, one, values

pytestmark = pytest.mark.skipif(not jars.speaks("4.2"), reason="share groups are there from Kafka 4.2 on")


def reading_from_the_start(kafka: KafkaCluster, group: str) -> dict[str, str]:
    """Settings of a member of a new group that reads from the start."""
    with monedula.Admin(bootstrap_servers=kafka.bootstrap) as admin:
        settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000"}
        admin.alter_configs({("group", group): settings})
    return {"bootstrap.servers": kafka.bootstrap, "group.id": group}


def accept_all(consumer: monedula.ShareConsumer, wanted: set[int]) -> None:
    """Read until all of these were accepted, or may have been: an answer was lost."""
    until = time.monotonic() + 2 * PATIENCE_SECONDS
    errors: list[object] = []
    while wanted:
        assert time.monotonic() < until, (sorted(wanted), errors, consumer.health())
        batch = consumer.poll(timeout=1.0)
        failed = set[int | None]()
        try:
            consumer.commit()
        except monedula.errors.AcknowledgeError as error:
            errors.append(error.results)
            failed = {at.partition for at, result in error.results.items() if result.code not in (None, "UNKNOWN")}
        wanted -= {int(record.value or b"") for record in batch.records() if record.partition not in failed}


def test_rows_in_hand_of_a_partition_that_moves_go_to_others(kafka3: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(partitions=1, cluster=kafka3, replication=3)
    kafka3.helper.produce(name, [{"value": str(number)} for number in range(10)])
    settings = reading_from_the_start(kafka3, f"moves-{name}")
    with monedula.ShareConsumer(settings, [name]) as consumer:
        batch = one(consumer)
        before = kafka3.helper.describe_topic(name).partitions[0].leader
        kafka3.helper.move_leader(name, 0, before % 3 + 1)
        kafka3.wait_leader(name, 0, before % 3 + 1)
        consumer.accept(batch)
        with pytest.raises(monedula.errors.AcknowledgeError):
            consumer.commit()
        accept_all(consumer, set(range(10)))


def test_every_record_is_accepted_while_a_leader_dies(kafka3: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(partitions=3, cluster=kafka3, replication=3)
    kafka3.helper.produce(name, [{"value": str(number), "partition": number % 3} for number in range(300)])
    settings = reading_from_the_start(kafka3, f"dies-{name}")
    with monedula.ShareConsumer(settings, [name], max_poll_records=20) as consumer:
        seen = values(one(consumer))
        victim = kafka3.helper.describe_topic(name).partitions[0].leader
        kafka3.kill(victim)
        try:
            with suppress(monedula.errors.AcknowledgeError):  # the outcome of this batch is not that of the next
                consumer.commit()
            accept_all(consumer, set(range(300)) - set(seen))
        finally:
            kafka3.start(victim)
            kafka3.wait_ready()
